//! For bash. A value after `=` is a word of its own there, and so is the `=`.

use super::super::values::Words;
use super::super::{Command, Flag, Value, rows};
use super::{OTHER_WORDS, WORDS_OF, quoted};
use std::fmt::Write as _;

const HEAD: &str = r#"# Completions for bash; made by `spur completion bash`.

_spur_partitions() { sinfo --noheader --format=%R 2>/dev/null | sort -u; }
_spur_nodes() { sinfo --noheader --Node --format=%N 2>/dev/null | sort -u; }
_spur_jobs() { squeue --noheader --me --format=%i 2>/dev/null; }

# Offers words for the part after the last comma.
_spur_list() {
    local have=""
    case $cur in *,*) have=${cur%,*}, ;; esac
    COMPREPLY=($(compgen -P "$have" -W "$1" -- "${cur##*,}"))
}

# Whether an operand of command $1 stands before the cursor; $2 are its options that take a word of their own.
_spur_operand() {
    local at=$3 word
    while [ "$at" -lt "$COMP_CWORD" ]; do
        word=${COMP_WORDS[at]}
        case $word in
            =) at=$((at + 1)) ;;
            -*) case " $2 " in *" $word "*)
                    if [ "${COMP_WORDS[at + 1]}" = "=" ]; then at=$((at + 2)); else at=$((at + 1)); fi ;;
                esac ;;
            *) return 0 ;;
        esac
        at=$((at + 1))
    done
    return 1
}

# The operands before the cursor; $1 are the options that take a word of their own.
_spur_operands() {
    local at=$2 word words=""
    while [ "$at" -lt "$COMP_CWORD" ]; do
        word=${COMP_WORDS[at]}
        case $word in
            =) at=$((at + 1)) ;;
            -*) case " $1 " in *" $word "*)
                    if [ "${COMP_WORDS[at + 1]}" = "=" ]; then at=$((at + 2)); else at=$((at + 1)); fi ;;
                esac ;;
            *) words="$words $word" ;;
        esac
        at=$((at + 1))
    done
    printf '%s' "${words# }"
}

_spur_command() {
    local command=$1 first=$2 cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    if [ "$cur" = "=" ]; then cur=""
    elif [ "$prev" = "=" ]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi
    COMPREPLY=()
    "_spur_of_$command"
    if [ "${#COMPREPLY[@]}" -eq 1 ]; then
        case ${COMPREPLY[0]} in *= | *:) compopt -o nospace 2>/dev/null ;; esac
    fi
}

"#;

/// The script.
pub(super) fn script() -> String {
    let mut text = HEAD.to_owned();
    for command in Command::all() {
        of(&mut text, command);
    }
    let words: Vec<&str> = Command::all()
        .map(Command::name)
        .chain(OTHER_WORDS)
        .collect();
    let all = Command::all()
        .map(Command::name)
        .collect::<Vec<_>>()
        .join("|");
    let own: String = WORDS_OF
        .iter()
        .map(|(word, then)| {
            let then = quoted(&then.join(" "));
            format!(
                "{word}) COMPREPLY=($(compgen -W {then} -- \"${{COMP_WORDS[COMP_CWORD]}}\")) ;;"
            )
        })
        .collect();
    writeln!(
        text,
        "_spur() {{\n    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W {} -- \"${{COMP_WORDS[1]}}\"))\n    \
         else\n        case ${{COMP_WORDS[1]}} in {all}) _spur_command \"${{COMP_WORDS[1]}}\" 2 ;; {own} *) COMPREPLY=($(compgen -f -- \
         \"${{COMP_WORDS[COMP_CWORD]}}\")) ;; esac\n    fi\n}}\ncomplete -F _spur spur",
        quoted(&words.join(" "))
    )
    .expect("a string grows");
    for command in Command::ALL {
        let name = command.name();
        writeln!(
            text,
            "_spur_for_{name}() {{ _spur_command {name} 1; }}\ncomplete -F _spur_for_{name} {name}"
        )
        .expect("a string grows");
    }
    text
}

/// The function of one command.
fn of(text: &mut String, command: Command) {
    let name = command.name();
    let mut options = Vec::new();
    let mut with_word = Vec::new();
    for flag in rows(command) {
        options.push(format!(
            "--{}{}",
            flag.long,
            if flag.value == Value::No { "" } else { "=" }
        ));
        if let Value::Needed(_) = flag.value {
            with_word.extend(names(flag));
        }
    }
    writeln!(text, "_spur_of_{name}() {{").expect("a string grows");
    if command.stops_at_operand() {
        writeln!(
            text,
            "    if _spur_operand {name} {} \"$first\"; then COMPREPLY=($(compgen -f -- \"$cur\")); return; fi",
            quoted(&with_word.join(" "))
        )
        .expect("a string grows");
    }
    text.push_str("    case $prev in\n");
    for flag in rows(command).filter(|flag| flag.value != Value::No) {
        let patterns = names(flag).join("|");
        let offer = offered(Words::of_value(command, flag));
        writeln!(text, "        {patterns}) {offer}; return ;;").expect("a string grows");
    }
    writeln!(
        text,
        "    esac\n    case $cur in\n        -*) COMPREPLY=($(compgen -W {} -- \"$cur\")) ;;\n        *) {} ;;\n    esac\n}}",
        quoted(&options.join(" ")),
        operands(command, &with_word)
    )
    .expect("a string grows");
}

/// What is offered where an operand stands: where the first says what follows, by the first.
fn operands(command: Command, with_word: &[String]) -> String {
    let first = offered(Words::of_operands(command));
    let mut rest = Words::following(command).peekable();
    if rest.peek().is_none() {
        return first;
    }
    let mut text = format!(
        "case $(_spur_operands {} \"$first\") in\n            '') {first} ;;\n",
        quoted(&with_word.join(" "))
    );
    for (words, then) in rest {
        let words = words.join("|");
        text.push_str(&format!("            {words}) {} ;;\n", offered(then)));
    }
    // What an entity is called.
    if command == Command::Scontrol {
        let named = [
            ("'show job'", Words::Jobs),
            ("'show step'", Words::Jobs),
            ("'show node'", Words::Nodes),
            ("'show partition'", Words::Partitions),
            ("'write batch_script'", Words::Jobs),
        ];
        for (words, then) in named {
            text.push_str(&format!("            {words}) {} ;;\n", offered(then)));
        }
    }
    text + "        esac"
}

fn names(flag: &Flag) -> Vec<String> {
    let long = flag.longs().map(|long| format!("--{long}"));
    let short = flag.short.map(|short| format!("-{short}"));
    // An optional value never is a word of its own, save after `=`.
    let short = short.filter(|_| matches!(flag.value, Value::Needed(_)));
    long.chain(short).collect()
}

fn offered(words: Words) -> String {
    match words {
        Words::Any => ":".to_owned(),
        Words::Partitions => "_spur_list \"$(_spur_partitions)\"".to_owned(),
        Words::Nodes => "_spur_list \"$(_spur_nodes)\"".to_owned(),
        Words::Jobs => "_spur_list \"$(_spur_jobs)\"".to_owned(),
        Words::Users => "_spur_list \"$(compgen -u)\"".to_owned(),
        Words::Signals => "_spur_list \"$(compgen -A signal | sed 's/^SIG//')\"".to_owned(),
        Words::Files => "COMPREPLY=($(compgen -f -- \"$cur\"))".to_owned(),
        Words::Folders => "COMPREPLY=($(compgen -d -- \"$cur\"))".to_owned(),
        Words::Programs => "COMPREPLY=($(compgen -c -f -- \"$cur\"))".to_owned(),
        Words::These(words) => format!("_spur_list {}", quoted(&words.join(" "))),
    }
}
