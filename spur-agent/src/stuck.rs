//! Processes that do not go, so that a person can tell why: command, state, and where in the kernel they are.

use std::fmt::Write;
use std::path::Path;

/// Most processes that are named.
const NAMED_MAX: usize = 4;

/// Longest command line, in characters.
const COMMAND_MAX: usize = 60;

/// `1234 (python train.py) in state D at nvidia_close, 1235 (…) …`, from `/proc`.
pub fn describe(proc: &Path, pids: impl IntoIterator<Item = u32>) -> String {
    let mut text = String::new();
    let mut more = 0;
    for (count, pid) in pids.into_iter().enumerate() {
        if count >= NAMED_MAX {
            more += 1;
            continue;
        }
        let separator = if count == 0 { "" } else { ", " };
        // Writing to a string cannot fail.
        write!(text, "{separator}{}", one(proc, pid)).ok();
    }
    if more > 0 {
        write!(text, " and {more} more").ok();
    }
    text
}

fn one(proc: &Path, pid: u32) -> String {
    let dir = proc.join(pid.to_string());
    let read = |name: &str| std::fs::read(dir.join(name)).unwrap_or_default();
    let stat = String::from_utf8_lossy(&read("stat")).into_owned();
    // The command in parentheses may itself hold parentheses and blanks.
    let parts = stat.rsplit_once(')').and_then(|(head, tail)| {
        let state = tail.split_whitespace().next()?;
        Some((head.split_once('(')?.1.to_owned(), state.to_owned()))
    });
    let Some((short, state)) = parts else {
        return format!("{pid} (gone meanwhile)");
    };
    let command = command(&read("cmdline")).unwrap_or(short);
    let place = String::from_utf8_lossy(&read("wchan")).trim().to_owned();
    let place = match place.as_str() {
        "" | "0" => String::new(),
        place => format!(" at {place}"),
    };
    format!("{pid} ({command}) in state {state}{place}")
}

/// The command line as people type it, shortened, without what would upset a line of text; `None` for one that shows none.
fn command(bytes: &[u8]) -> Option<String> {
    let words = bytes
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    let words: Vec<String> = words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let plain = |c: char| if c.is_control() || c == ';' { '?' } else { c };
    let line: String = words.join(" ").chars().map(plain).collect();
    let short: String = line.chars().take(COMMAND_MAX).collect();
    (!short.is_empty()).then_some(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(proc: &Path, pid: u32, [stat, cmdline, wchan]: [&str; 3]) {
        let dir = proc.join(pid.to_string());
        std::fs::create_dir_all(&dir).unwrap();
        for (name, text) in [("stat", stat), ("cmdline", cmdline), ("wchan", wchan)] {
            std::fs::write(dir.join(name), text).unwrap();
        }
    }

    #[test]
    fn command_state_and_place_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let train = [
            "7 (python3) D 1 7 7 0 -1",
            "python3\0train.py\0",
            "nvidia_close",
        ];
        process(dir.path(), 7, train);
        process(dir.path(), 8, ["8 (a ) b) R 1 8", "", "0"]);
        process(dir.path(), 9, ["9 (x) S 1", "sh\0-c\0a;\nb\0", ""]);
        assert_eq!(
            describe(dir.path(), [7, 8, 9, 99]),
            "7 (python3 train.py) in state D at nvidia_close, 8 (a ) b) in state R, 9 (sh -c a??b) in state S, \
             99 (gone meanwhile)"
        );
        let many = describe(dir.path(), 100..110);
        assert!(many.ends_with("103 (gone meanwhile) and 6 more"), "{many}");
    }

    #[test]
    fn this_process_can_be_described() {
        let own = std::process::id();
        let text = describe(Path::new("/proc"), [own]);
        assert!(
            text.starts_with(&format!("{own} (")) && text.contains(") in state "),
            "{text}"
        );
    }
}
