//! File names with Slurm's replacement symbols: `train-%j.out`, `%x-%5A_%a.log`.

use crate::id::StepKind;
use std::fmt::Write as _;

/// Where a batch job's output goes when nobody says.
pub const DEFAULT_OUTPUT: &str = "slurm-%j.out";

/// The same for an element of a job array.
pub const DEFAULT_ARRAY_OUTPUT: &str = "slurm-%A_%a.out";

/// The widest padding that is honoured, as in Slurm.
const MAX_WIDTH: usize = 10;

/// What a task has in place of `%a` outside job arrays (`NO_VAL`).
const NO_INDEX: u32 = 0xffff_fffe;

/// What the symbols stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names<'a> {
    /// `%j`: the job's number.
    pub job: u32,
    /// `%A`, `%a` and `%b`: an array's number, the index in it, and its last digit; `None` outside arrays.
    pub array: Option<(u32, u32)>,
    /// `%s`, and the second half of `%J`.
    pub step: StepKind,
    /// `%t`: the task's number within its step.
    pub task: u32,
    /// `%n`: the node's number within the job.
    pub node: u32,
    /// `%N`: the node's name.
    pub host: &'a str,
    /// `%x`: the job's name.
    pub name: &'a str,
    /// `%u`: the user's name.
    pub user: &'a str,
}

/// Replaces the symbols. A backslash anywhere switches replacement off, and is itself dropped (`\\` leaves one). An unknown
/// symbol stays as it is.
pub fn expand(pattern: &str, names: &Names<'_>) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    write(pattern, names, &mut out);
    out
}

/// Adds the same.
pub fn write(pattern: &str, names: &Names<'_>, out: &mut String) {
    if pattern.contains('\\') {
        return out.push_str(&unescape(pattern));
    }
    let mut rest = pattern;
    while let Some((literal, symbol)) = rest.split_once('%') {
        out.push_str(literal);
        let (width, letter) = width_of(symbol);
        rest = letter;
        let mut letters = letter.chars();
        if letters
            .next()
            .is_some_and(|c| replace(c, width, names, out))
        {
            rest = letters.as_str();
        } else {
            out.push('%');
            out.push_str(&symbol[..symbol.len() - letter.len()]);
        }
    }
    out.push_str(rest);
}

/// Whether tasks or nodes have a file each.
pub fn per_task(pattern: &str) -> bool {
    let mut rest = pattern;
    if pattern.contains('\\') {
        return false;
    }
    while let Some((_, symbol)) = rest.split_once('%') {
        let (_, letter) = width_of(symbol);
        match letter.chars().next() {
            Some('t' | 'n' | 'N') => return true,
            Some('%') => rest = &letter[1..],
            Some(_) | None => rest = letter,
        }
    }
    false
}

/// The padding after a `%`, and what follows it.
fn width_of(symbol: &str) -> (usize, &str) {
    let end = symbol
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(symbol.len());
    let (digits, rest) = symbol.split_at(end);
    let width = if digits.is_empty() {
        0
    } else {
        digits.parse().unwrap_or(MAX_WIDTH)
    };
    (width.min(MAX_WIDTH), rest)
}

fn replace(symbol: char, width: usize, names: &Names<'_>, out: &mut String) -> bool {
    let (array, index) = names.array.unwrap_or((names.job, NO_INDEX));
    let number = match symbol {
        '%' => {
            out.push('%');
            return true;
        }
        'N' | 'x' | 'u' => {
            let text = match symbol {
                'N' => names.host,
                'x' => names.name,
                _ => names.user,
            };
            out.push_str(text);
            return true;
        }
        's' | 'J' => {
            if symbol == 'J' {
                push_number(out, names.job, width);
            }
            match (names.step, symbol) {
                (StepKind::Numbered(step), 's') => push_number(out, step, width),
                (StepKind::Numbered(step), _) => {
                    out.push('.');
                    push_number(out, step, width);
                }
                (StepKind::Batch, 's') => out.push_str("batch"),
                (StepKind::Batch, _) => {}
            }
            return true;
        }
        'j' => names.job,
        'A' => array,
        'a' => index,
        'b' => index % 10,
        't' => names.task,
        'n' => names.node,
        _ => return false,
    };
    push_number(out, number, width);
    true
}

fn push_number(out: &mut String, number: u32, width: usize) {
    write!(out, "{number:0width$}").expect("writing to a string cannot fail");
}

fn unescape(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if c == '\\' {
            out.extend(chars.next())
        } else {
            out.push(c)
        }
    }
    out
}

/// Where `srun` connects a stream (`-i`, `-o`, `-e`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Every task's, to or from `srun` itself (the default).
    All,
    /// Nowhere.
    None,
    /// Only this task's.
    Task(u32),
    /// A file, opened where the task runs if its name differs by task or node.
    File(String),
}

impl Target {
    /// Reads `all`, `none`, a task number below `tasks`, or a file name.
    pub fn parse(text: &str, tasks: u32) -> Self {
        let task = text
            .parse()
            .ok()
            .filter(|task| *task < tasks && text.bytes().all(|b| b.is_ascii_digit()));
        match (text, task) {
            (_, Some(task)) => Self::Task(task),
            ("" | "all", None) => Self::All,
            ("none", None) => Self::None,
            (file, None) => Self::File(file.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAMES: Names<'static> = Names {
        job: 128,
        array: None,
        step: StepKind::Numbered(7),
        task: 3,
        node: 1,
        host: "n2",
        name: "train",
        user: "alice",
    };

    #[test]
    fn symbols_are_replaced() {
        let array = Names {
            array: Some((126, 2)),
            ..NAMES
        };
        let batch = Names {
            step: StepKind::Batch,
            ..NAMES
        };
        for (pattern, names, name) in [
            ("slurm-%j.out", NAMES, "slurm-128.out"),
            ("%J", NAMES, "128.7"),
            ("%J-%s", batch, "128-batch"),
            ("%A_%a", array, "126_2"),
            ("%A_%a", NAMES, "128_4294967294"),
            (
                "%b-%2b",
                Names {
                    array: Some((126, 47)),
                    ..NAMES
                },
                "7-07",
            ),
            ("%4A_%3a", array, "0126_002"),
            ("%5j", NAMES, "00128"),
            ("%2j", NAMES, "128"),
            ("%99j", NAMES, "0000000128"),
            ("%x-%u-%N-%n-%t-%s", NAMES, "train-alice-n2-1-3-7"),
            ("100%%", NAMES, "100%"),
            ("%5q%z%", NAMES, "%5q%z%"),
            ("%", NAMES, "%"),
            ("%5", NAMES, "%5"),
            ("ü%jü", NAMES, "ü128ü"),
            ("%ü", NAMES, "%ü"),
            ("a\\%j", NAMES, "a%j"),
            ("%j\\\\x\\", NAMES, "%j\\x"),
            ("", NAMES, ""),
        ] {
            assert_eq!(expand(pattern, &names), name, "{pattern}");
        }
    }

    #[test]
    fn files_of_each_task_are_told_apart() {
        for (pattern, each) in [
            ("o-%t", true),
            ("o-%3t", true),
            ("%N", true),
            ("%n", true),
            ("%j", false),
            ("%%t", false),
            ("\\%t", false),
            ("t", false),
        ] {
            assert_eq!(per_task(pattern), each, "{pattern}");
        }
    }

    #[test]
    fn streams_of_srun_have_targets() {
        for (text, target) in [
            ("", Target::All),
            ("all", Target::All),
            ("none", Target::None),
            ("3", Target::Task(3)),
            ("4", Target::File("4".to_owned())),
            ("+3", Target::File("+3".to_owned())),
            ("out", Target::File("out".to_owned())),
        ] {
            assert_eq!(Target::parse(text, 4), target, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_pattern_expands(text in "\\PC*", near in "[%0-9jJAatnNxus\\\\]{0,12}") {
            for pattern in [text, near] {
                let _each = per_task(&pattern);
                let name = expand(&pattern, &NAMES);
                prop_assert!(pattern.contains('%') || pattern.contains('\\') || name == pattern);
            }
        }
    }
}
