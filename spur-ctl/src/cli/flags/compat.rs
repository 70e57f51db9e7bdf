//! How much of each command is here, counted from the rows: `cargo xtask compat`.

use super::{Command, Status, rows};
use std::fmt::Write as _;

/// Options of one command by what they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Do what Slurm's do.
    pub supported: usize,
    /// Are accepted, since things are so already.
    pub already_so: usize,
    /// Are accepted and have no effect, which is said.
    pub no_effect: usize,
    /// End the command with an error that says why.
    pub refused: usize,
}

impl Count {
    /// Counts one command's rows.
    pub fn of(command: Command) -> Self {
        let mut count = Self::default();
        for flag in rows(command) {
            match flag.status {
                Status::Supported => count.supported += 1,
                Status::Implied(_) => count.already_so += 1,
                Status::Ineffective { .. } => count.no_effect += 1,
                Status::Refused(_) => count.refused += 1,
            }
        }
        count
    }

    /// All of them.
    pub fn all(self) -> usize {
        self.supported + self.already_so + self.no_effect + self.refused
    }
}

/// The table for people, one line for each command of Slurm's, and the refused options by name.
pub fn table() -> String {
    let mut text = format!(
        "{:<10} {:>7} {:>9} {:>10} {:>9} {:>7}\n",
        "command", "options", "supported", "already so", "no effect", "refused"
    );
    let mut sum = Count::default();
    for command in Command::ALL {
        let count = Count::of(command);
        line(&mut text, command.name(), count);
        sum.supported += count.supported;
        sum.already_so += count.already_so;
        sum.no_effect += count.no_effect;
        sum.refused += count.refused;
    }
    line(&mut text, "all", sum);
    text.push_str("\nRefused:\n");
    for command in Command::ALL {
        let refused = rows(command).filter(|flag| matches!(flag.status, Status::Refused(_)));
        let names: Vec<String> = refused.map(|flag| format!("--{}", flag.long)).collect();
        if !names.is_empty() {
            writeln!(text, "  {:<10} {}", command.name(), names.join(" ")).expect("a string grows");
        }
    }
    text
}

fn line(text: &mut String, name: &str, count: Count) {
    writeln!(
        text,
        "{name:<10} {:>7} {:>9} {:>10} {:>9} {:>7}",
        count.all(),
        count.supported,
        count.already_so,
        count.no_effect,
        count.refused
    )
    .expect("a string grows");
}
