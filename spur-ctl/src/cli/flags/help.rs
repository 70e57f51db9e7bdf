//! Help and usage texts, from the rows.

use super::{Command, Flag, Status, Value, rows};
use std::fmt::Write as _;

/// Column where the explanations begin.
const TEXT_COLUMN: usize = 34;

/// The text of `--usage`.
pub fn usage(command: Command) -> String {
    format!("Usage: {command} [OPTION...] {}", command.operands())
        .trim_end()
        .to_owned()
        + "\n"
}

/// The text of `--help`.
pub fn help(command: Command) -> String {
    let mut text = usage(command);
    writeln!(text, "\n{command} {}.", command.purpose()).expect("a string grows");
    text.push_str(command.about());
    text.push_str("\nOptions:\n");
    let mut sorted: Vec<&Flag> = rows(command).collect();
    sorted.sort_by_key(|flag| (flag.long.to_ascii_lowercase(), flag.long));
    for flag in sorted {
        line(&mut text, flag);
    }
    text
}

fn line(text: &mut String, flag: &Flag) {
    let short = flag
        .short
        .map_or_else(|| "    ".to_owned(), |short| format!("-{short}, "));
    let names = format!("  {short}{}", spelled(flag));
    let note = match flag.status {
        Status::Supported | Status::Implied(_) => "",
        Status::Ineffective { .. } => " (no effect)",
        Status::Refused(_) => " (not available)",
    };
    let gap = if names.len() + 2 > TEXT_COLUMN {
        "\n"
    } else {
        ""
    };
    let pad = if gap.is_empty() {
        TEXT_COLUMN - names.len()
    } else {
        TEXT_COLUMN
    };
    // Writing to a string cannot fail.
    writeln!(text, "{names}{gap}{:pad$}{}{note}", "", flag.help).expect("a string grows");
}

/// `--long=META`, as help and reference show it.
pub(super) fn spelled(flag: &Flag) -> String {
    match flag.value {
        Value::No => format!("--{}", flag.long),
        Value::Needed(meta) => format!("--{}={meta}", flag.long),
        Value::Maybe(meta) => format!("--{}[={meta}]", flag.long),
    }
}
