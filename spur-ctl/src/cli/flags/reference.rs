//! `docs/reference/options.md`, generated from the rows so that it cannot be out of date.

use super::{Command, Flag, Status, help::spelled, rows};
use std::fmt::Write as _;

const HEAD: &str = "# Options of the commands

Generated from the option table in `spur-ctl/src/cli/flags/`; a test holds the two together.

- *supported*: does what Slurm's does.
- *already so*: asks for what happens anyway.
- *no effect*: accepted; the command says on stderr that it does nothing.
- *refused*: the command ends with an error that says why.

A value on the command line wins over the environment, which wins over `#SBATCH` lines.

The same table makes completions (`spur completion bash`, `zsh` or `fish`, to be sourced or put where the shell looks for them) and
man pages (`spur man DIR` writes `DIR/man1/srun.1` and so on).
";

/// The whole page.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for command in Command::all() {
        writeln!(page, "\n## {command}\n").expect("a string grows");
        page.push_str("| option | | variables | here | |\n|---|---|---|---|---|\n");
        for flag in rows(command) {
            row(&mut page, command, flag);
        }
    }
    page
}

fn row(page: &mut String, command: Command, flag: &Flag) {
    let short = flag
        .short
        .map(|short| format!("`-{short}`, "))
        .unwrap_or_default();
    let (word, why) = match flag.status {
        Status::Supported => ("supported", ""),
        Status::Implied(why) => ("already so", why),
        Status::Ineffective { why, .. } => ("no effect", why),
        Status::Refused(why) => ("refused", why),
    };
    let variables: Vec<_> = flag
        .env_names(command)
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    let (spelled, text) = (cell(&spelled(flag)), cell(flag.help));
    let variables = variables.join(" ");
    writeln!(
        page,
        "| {short}`{spelled}` | {text} | {variables} | {word} | {} |",
        cell(why)
    )
    .expect("a string grows");
}

/// A bar would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
