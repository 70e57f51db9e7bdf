//! What the commands name jobs and nodes by: numbers, lists.

use super::super::failure::Failure;
use super::super::flags::getopt::Options;
use super::hosts;
use spur_core::id::NodeName;

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
