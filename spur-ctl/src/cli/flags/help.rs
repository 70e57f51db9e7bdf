//! Help and usage texts, from the rows.

use super::getopt::Options;
use super::{Command, Flag, Status, Value, rows, verbs};
use std::fmt::Write as _;

/// Column where the explanations begin.
const TEXT_COLUMN: usize = 34;

/// Most bytes of a line of the summary.
const LINE_MAX: usize = 100;

/// What stands above a group of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Run,
    Constraint,
    Consumable,
    Binding,
    Other,
    Help,
}

impl Group {
    const ALL: [Self; 6] = [
        Self::Run,
        Self::Constraint,
        Self::Consumable,
        Self::Binding,
        Self::Other,
        Self::Help,
    ];

    /// Requests have so many options that they are parted.
    fn of(command: Command, flag: &Flag) -> Self {
        match flag.long {
            "help" | "usage" | "version" => Self::Help,
            _ if !command.submits() => Self::Other,
            long if CONSTRAINTS.contains(&long) => Self::Constraint,
            long if CONSUMABLES.contains(&long) => Self::Consumable,
            long if BINDINGS.contains(&long) => Self::Binding,
            _ => Self::Run,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Run => "Parallel run options:",
            Self::Constraint => "Constraint options:",
            Self::Consumable => "Consumable resources related options:",
            Self::Binding => "Affinity/Multi-core options:",
            Self::Other => "Options:",
            Self::Help => "Help options:",
        }
    }
}

/// The groups that are lists of names.
#[cfg(test)]
pub(super) const PARTED: [&[&str]; 3] = [CONSTRAINTS, CONSUMABLES, BINDINGS];

/// Which nodes.
const CONSTRAINTS: &[&str] = &[
    "batch",
    "cluster-constraint",
    "constraint",
    "contiguous",
    "exclude",
    "mincpus",
    "nodefile",
    "nodelist",
    "prefer",
    "reservation",
    "segment",
    "spread-job",
    "switches",
    "tmp",
    "use-min-nodes",
];

/// How much of them.
const CONSUMABLES: &[&str] = &[
    "cpus-per-gpu",
    "exact",
    "exclusive",
    "gpu-freq",
    "gpus",
    "gpus-per-node",
    "gpus-per-socket",
    "gpus-per-task",
    "gres",
    "gres-flags",
    "licenses",
    "mem",
    "mem-per-cpu",
    "mem-per-gpu",
    "overcommit",
    "overlap",
    "oversubscribe",
    "tres-per-task",
    "whole",
];

/// Which part of a node a task is on.
const BINDINGS: &[&str] = &[
    "accel-bind",
    "core-spec",
    "cores-per-socket",
    "cpu-bind",
    "distribution",
    "extra-node-info",
    "gpu-bind",
    "hint",
    "mem-bind",
    "ntasks-per-core",
    "ntasks-per-socket",
    "sockets-per-node",
    "thread-spec",
    "threads-per-core",
    "tres-bind",
];

/// The text of `--usage`: all options in short.
pub fn summary(command: Command) -> String {
    let mut text = format!("Usage: {command}");
    let mut line = text.len();
    let operands = [command.operands().to_owned()];
    let options = rows(command).map(|flag| format!("[{}]", spelled(flag)));
    for word in options.chain(operands).filter(|word| !word.is_empty()) {
        if line + 1 + word.len() > LINE_MAX {
            text.push_str("\n   ");
            line = 3;
        }
        text.push(' ');
        text.push_str(&word);
        line += 1 + word.len();
    }
    text + "\n"
}

/// What `-v` says of a command: its options as they are in effect.
pub fn in_effect(options: &Options) -> String {
    let mut flags: Vec<&Flag> = rows(options.command).collect();
    flags.sort_by_key(|flag| flag.long);
    let width = flags.iter().map(|flag| flag.long.len()).max().unwrap_or(0);
    let mut text = format!("{:-<width$}\n", "");
    for flag in flags {
        let value = match (flag.long, flag.value) {
            ("verbose", _) => options.count("verbose").to_string(),
            (long, Value::No) => options.on(long).to_string(),
            (long, _) if options.on(long) => options.value(long).unwrap_or_default().to_owned(),
            _ => "(null)".to_owned(),
        };
        writeln!(text, "{:width$} = {value}", flag.long).expect("a string grows");
    }
    text
}

/// How a command is called.
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
    words(&mut text, command);
    let mut sorted: Vec<&Flag> = rows(command).collect();
    sorted.sort_by_key(|flag| (flag.long.to_ascii_lowercase(), flag.long));
    for group in Group::ALL {
        let mut flags = sorted
            .iter()
            .filter(|flag| Group::of(command, flag) == group)
            .peekable();
        if flags.peek().is_some() {
            writeln!(text, "\n{}", group.title()).expect("a string grows");
        }
        flags.for_each(|flag| line(&mut text, flag));
    }
    text
}

/// What the first words do, of commands that have such.
fn words(text: &mut String, command: Command) {
    let words = verbs::of(command);
    if words.is_empty() {
        return;
    }
    text.push_str("\nCommands:\n");
    for (usage, what) in words {
        let gap = if usage.len() + 4 > TEXT_COLUMN {
            format!("\n{:TEXT_COLUMN$}", "")
        } else {
            " ".repeat(TEXT_COLUMN - usage.len() - 2)
        };
        writeln!(text, "  {usage}{gap}{what}").expect("a string grows");
    }
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
