//! What the commands name jobs and nodes by: numbers, lists.

use super::super::failure::Failure;
use super::super::flags::getopt::Options;
use super::hosts;
use spur_core::id::{JobId, NodeName, StepKind};

/// A job as users name it: `12`, `12.3`, `12.batch`, `12_5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The job.
    pub job: JobId,
    /// A step of it.
    pub step: Option<StepKind>,
    /// Whether it names an element of a job array, of which there are none.
    pub array: bool,
}

/// Reads one name; `None` if it is none.
pub fn named(text: &str) -> Option<Named> {
    let (head, step) = text
        .split_once('.')
        .map_or((text, None), |(head, step)| (head, Some(step)));
    let (number, element) = head
        .split_once('_')
        .map_or((head, None), |(n, e)| (n, Some(e)));
    let legal = |c: char| c.is_ascii_digit() || "[],-%:*".contains(c);
    if element.is_some_and(|element| element.is_empty() || !element.chars().all(legal)) {
        return None;
    }
    let step = match step {
        None => None,
        Some("batch") => Some(StepKind::Batch),
        Some(step) => Some(StepKind::Numbered(whole(step)?)),
    };
    Some(Named {
        job: JobId(whole(number)?),
        step,
        array: element.is_some(),
    })
}

fn whole(text: &str) -> Option<u32> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

/// Elements of a comma list of jobs: a comma between brackets parts tasks.
pub fn names(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut found) = (0u32, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push(&text[from..]);
    found.retain(|name| !name.is_empty());
    found
}

/// Elements of a comma list.
pub fn list(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Node names of a list option.
pub fn nodes(options: &Options, long: &str) -> Result<Vec<NodeName>, Failure> {
    let names = hosts(options, long)?;
    let bad = |_| Failure::error(options.command, "Invalid node name specified");
    names
        .into_iter()
        .map(|name| NodeName::new(name).map_err(bad))
        .collect()
}
