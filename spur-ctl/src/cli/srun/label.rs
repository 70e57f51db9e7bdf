//! `-l`: the task's number before each line. Pure.

use std::collections::BTreeMap;

/// The longest line that is held back for its end (64 KiB); longer ones are cut.
const LINE_MAX: usize = 64 << 10;

/// Puts labels before lines; what is not yet a line is held back.
#[derive(Clone, Debug)]
pub struct Labels {
    width: usize,
    held: BTreeMap<(u32, bool), Vec<u8>>,
}

impl Labels {
    /// Labels as wide as the highest task number.
    pub fn new(tasks: u32) -> Self {
        let width = tasks.saturating_sub(1).to_string().len();
        Self {
            width,
            held: BTreeMap::new(),
        }
    }

    /// Takes output of a task; gives the lines that are whole now.
    pub fn push(&mut self, task: u32, stderr: bool, data: &[u8]) -> Vec<u8> {
        let held = self.held.entry((task, stderr)).or_default();
        held.extend_from_slice(data);
        let mut out = Vec::new();
        let end = held
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let whole: Vec<u8> = held.drain(..end).collect();
        for line in whole.split_inclusive(|byte| *byte == b'\n') {
            label(&mut out, self.width, task, line);
        }
        if held.len() > LINE_MAX {
            let line = std::mem::take(held);
            label(&mut out, self.width, task, &line);
            out.push(b'\n');
        }
        out
    }

    /// The task ended: gives what is left, made a line.
    pub fn flush(&mut self, task: u32, stderr: bool) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(line) = self
            .held
            .remove(&(task, stderr))
            .filter(|line| !line.is_empty())
        {
            label(&mut out, self.width, task, &line);
            out.push(b'\n');
        }
        out
    }
}

fn label(out: &mut Vec<u8>, width: usize, task: u32, line: &[u8]) {
    out.extend_from_slice(format!("{task:width$}: ").as_bytes());
    out.extend_from_slice(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_are_labelled_and_rests_wait() {
        let mut labels = Labels::new(11);
        assert_eq!(labels.push(3, false, b"ab"), b"");
        assert_eq!(labels.push(3, true, b"err\n"), b" 3: err\n");
        assert_eq!(
            labels.push(3, false, b"c\nd\n\ne"),
            b" 3: abc\n 3: d\n 3: \n"
        );
        assert_eq!(labels.flush(3, false), b" 3: e\n");
        assert_eq!(labels.flush(3, false), b"");
        assert_eq!(Labels::new(1).push(0, false, b"x\n"), b"0: x\n");
    }
}
