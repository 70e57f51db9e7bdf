//! For zsh, by its `_arguments`.

use super::super::values::Words;
use super::super::{Command, Flag, Value, rows};
use super::{OTHER_WORDS, quoted};
use std::fmt::Write as _;

const HEAD: &str = r"
# Completions for zsh; made by `spur completion zsh`.

_spur_partitions() { _values -s , partition ${(f)$(sinfo --noheader --format=%R 2>/dev/null | sort -u)}; }
_spur_nodes() { _values -s , node ${(f)$(sinfo --noheader --Node --format=%N 2>/dev/null | sort -u)}; }
_spur_jobs() { _values -s , job ${(f)$(squeue --noheader --me --format=%i 2>/dev/null)}; }

";

/// The script.
pub(super) fn script() -> String {
    let names: Vec<&str> = Command::ALL.into_iter().map(Command::name).collect();
    let mut text = format!("#compdef spur {}\n{HEAD}", names.join(" "));
    for command in Command::all() {
        of(&mut text, command);
    }
    let words: Vec<&str> = Command::all()
        .map(Command::name)
        .chain(OTHER_WORDS)
        .collect();
    writeln!(
        text,
        "_spur() {{\n  local name=$service\n  if [[ $name == spur ]]; then\n    if (( CURRENT == 2 )); then\n      compadd -- {}\n      \
         return\n    fi\n    name=$words[2]\n    shift words\n    (( CURRENT-- ))\n  fi\n  if (( $+functions[_spur_of_$name] )); then\n    \
         _spur_of_$name\n  else\n    _files\n  fi\n}}\n_spur \"$@\"",
        words.join(" ")
    )
    .expect("a string grows");
    text
}

fn of(text: &mut String, command: Command) {
    writeln!(
        text,
        "_spur_of_{}() {{\n  local state\n  _arguments -s -S \\",
        command.name()
    )
    .expect("a string grows");
    for flag in rows(command) {
        writeln!(text, "    {} \\", option(command, flag)).expect("a string grows");
    }
    let mut following = Words::following(command).peekable();
    if following.peek().is_some() {
        let first = quoted(&format!("1: :{}", action(Words::of_operands(command))));
        writeln!(text, "    {first} \\\n    '*:: :->rest'\n  [[ $state == rest ]] || return\n  case $words[1] in")
            .expect("a string grows");
        for (words, then) in following {
            let offer = quoted(&format!("1: :{}", action(then)));
            let words = words.join("|");
            writeln!(text, "    ({words}) _arguments {offer} ;;").expect("a string grows");
        }
        text.push_str("  esac\n}\n");
        return;
    }
    let rest = match action(Words::of_operands(command)) {
        action if command.stops_at_operand() => format!("'*::command:{}'", action_after(&action)),
        action => quoted(&format!("*:: :{action}")),
    };
    writeln!(text, "    {rest}\n}}").expect("a string grows");
}

/// Programs complete their own arguments.
fn action_after(action: &str) -> String {
    if action == "_command_names -e" {
        "_normal".to_owned()
    } else {
        action.to_owned()
    }
}

fn option(command: Command, flag: &Flag) -> String {
    let help = escaped(flag.help);
    let value = match flag.value {
        Value::No => String::new(),
        Value::Needed(meta) => format!(
            ":{}:{}",
            escaped(meta),
            action(Words::of_value(command, flag))
        ),
        Value::Maybe(meta) => format!(
            "::{}:{}",
            escaped(meta),
            action(Words::of_value(command, flag))
        ),
    };
    let spec = quoted(&format!("[{help}]{value}"));
    let long = flag.long;
    let (short_end, long_end) = match flag.value {
        Value::No => ("", ""),
        Value::Needed(_) => ("+", "="),
        Value::Maybe(_) => ("-", "=-"),
    };
    match flag.short {
        Some(short) => {
            format!("'(-{short} --{long})'{{-{short}{short_end},--{long}{long_end}}}{spec}")
        }
        None => format!("--{long}{long_end}{spec}"),
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if matches!(c, '[' | ']' | ':' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn action(words: Words) -> String {
    match words {
        Words::Any => " ".to_owned(),
        Words::Partitions => "_spur_partitions".to_owned(),
        Words::Nodes => "_spur_nodes".to_owned(),
        Words::Jobs => "_spur_jobs".to_owned(),
        Words::Users => "_users".to_owned(),
        Words::Signals => "_signals".to_owned(),
        Words::Files => "_files".to_owned(),
        Words::Folders => "_files -/".to_owned(),
        Words::Programs => "_command_names -e".to_owned(),
        Words::These(words) => {
            let words: Vec<String> = words.iter().map(|word| escaped(word)).collect();
            format!("({})", words.join(" "))
        }
    }
}
