//! For fish: one line for each option.

use super::super::values::Words;
use super::super::{Command, Flag, Value, rows};
use super::OTHER_WORDS;
use std::fmt::Write as _;

const HEAD: &str = r"# Completions for fish; made by `spur completion fish`.

function __spur_partitions; sinfo --noheader --format=%R 2>/dev/null | sort -u; end
function __spur_nodes; sinfo --noheader --Node --format=%N 2>/dev/null | sort -u; end
function __spur_jobs; squeue --noheader --me --format=%i 2>/dev/null; end

";

/// The script.
pub(super) fn script() -> String {
    let mut text = HEAD.to_owned();
    for command in Command::ALL {
        let of = format!("complete -c {}", command.name());
        block(&mut text, &of, command);
    }
    let words: Vec<&str> = Command::all()
        .map(Command::name)
        .chain(OTHER_WORDS)
        .collect();
    writeln!(
        text,
        "complete -c spur -n __fish_use_subcommand -f -a {}",
        quoted(&words.join(" "))
    )
    .expect("a string grows");
    for command in Command::all() {
        let name = command.name();
        let of = format!("complete -c spur -n '__fish_seen_subcommand_from {name}'");
        block(&mut text, &of, command);
    }
    text
}

fn block(text: &mut String, of: &str, command: Command) {
    let operands = Words::of_operands(command);
    if operands != Words::Any && operands != Words::Files {
        writeln!(text, "{of}{}", offered(operands)).expect("a string grows");
    }
    for (words, then) in Words::following(command) {
        let after = format!("__fish_seen_subcommand_from {}", words.join(" "));
        // A condition that is there already must be met as well.
        let of = match of.strip_suffix('\'') {
            Some(both) => format!("{both}; and {after}'"),
            None => format!("{of} -n '{after}'"),
        };
        writeln!(text, "{of}{}", offered(then)).expect("a string grows");
    }
    for flag in rows(command) {
        option(text, of, command, flag);
    }
}

fn option(text: &mut String, of: &str, command: Command, flag: &Flag) {
    let short = flag
        .short
        .map(|short| format!(" -s {short}"))
        .unwrap_or_default();
    let value = match flag.value {
        Value::No | Value::Maybe(_) => String::new(),
        Value::Needed(_) => format!(" -r{}", offered(Words::of_value(command, flag))),
    };
    writeln!(
        text,
        "{of}{short} -l {}{value} -d {}",
        flag.long,
        quoted(flag.help)
    )
    .expect("a string grows");
}

/// In fish a backslash counts inside single quotes too.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn offered(words: Words) -> String {
    let from = |source: &str| format!(" -f -a '({source})'");
    match words {
        Words::Any => " -f".to_owned(),
        Words::Partitions => from("__spur_partitions"),
        Words::Nodes => from("__spur_nodes"),
        Words::Jobs => from("__spur_jobs"),
        Words::Users => from("__fish_complete_users"),
        Words::Signals => " -f -a 'HUP INT QUIT KILL USR1 USR2 TERM CONT STOP'".to_owned(),
        Words::Files => " -F".to_owned(),
        Words::Folders => from("__fish_complete_directories"),
        Words::Programs => from("__fish_complete_command"),
        Words::These(words) => format!(" -f -a {}", quoted(&words.join(" "))),
    }
}
