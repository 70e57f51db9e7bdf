//! Options as data: every option of every command is one row, with its names, its value, the variables that give it and an
//! honest word on what it does here. Parsing, help, usage and `docs/reference/options.md` all come from these rows.

mod accounts;
mod admin;
mod command;
pub mod compat;
pub mod completion;
mod fence;
pub mod getopt;
pub mod help;
pub mod man;
pub mod nearest;
mod prose;
pub mod reference;
mod request;
mod run;
mod shape;
mod tools;
mod topics;
mod values;
mod verbs;
mod view;

use command::*;
pub use command::{Command, Commands};

/// Whether an option takes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// None.
    No,
    /// One, as `--name=VALUE`, `--name VALUE`, `-nVALUE` or `-n VALUE`.
    Needed(&'static str),
    /// Perhaps one, only as `--name=VALUE` or `-nVALUE`.
    Maybe(&'static str),
}

/// What an option does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// What Slurm's does.
    Supported,
    /// Nothing, since things are already so; why.
    Implied(&'static str),
    /// Nothing, and the user is told so on stderr, unless the value is one of those that ask for what happens anyway.
    Ineffective {
        /// Why.
        why: &'static str,
        /// Values that need no notice.
        quiet: &'static [&'static str],
    },
    /// The command ends with an error; why.
    Refused(&'static str),
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Long name, without dashes.
    pub long: &'static str,
    /// Other spellings of the long name.
    pub aliases: &'static [&'static str],
    /// Short name.
    pub short: Option<char>,
    /// Its value.
    pub value: Value,
    /// Which commands have it.
    pub commands: Commands,
    /// Variable that gives it: the command's prefix and this, for these commands.
    pub env_suffix: (Commands, &'static str),
    /// Variables with a full name that give it; they come before the one above.
    pub env_exact: &'static [(Commands, &'static str)],
    /// What it does here.
    pub status: Status,
    /// One line for help.
    pub help: &'static str,
}

const fn row(long: &'static str, value: Value, commands: Commands, help: &'static str) -> Flag {
    Flag {
        long,
        aliases: &[],
        short: None,
        value,
        commands,
        env_suffix: (NONE, ""),
        env_exact: &[],
        status: Status::Supported,
        help,
    }
}

/// A row without a value.
const fn on(long: &'static str, commands: Commands, help: &'static str) -> Flag {
    row(long, Value::No, commands, help)
}

/// A row with a value.
const fn val(long: &'static str, meta: &'static str, of: Commands, help: &'static str) -> Flag {
    row(long, Value::Needed(meta), of, help)
}

/// A row with an optional value.
const fn opt(long: &'static str, meta: &'static str, of: Commands, help: &'static str) -> Flag {
    row(long, Value::Maybe(meta), of, help)
}

impl Flag {
    const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }

    const fn alias(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    const fn env(mut self, commands: Commands, suffix: &'static str) -> Self {
        self.env_suffix = (commands, suffix);
        self
    }

    const fn env_exact(mut self, names: &'static [(Commands, &'static str)]) -> Self {
        self.env_exact = names;
        self
    }

    const fn implied(mut self, why: &'static str) -> Self {
        self.status = Status::Implied(why);
        self
    }

    const fn ineffective(mut self, why: &'static str) -> Self {
        self.status = Status::Ineffective { why, quiet: &[] };
        self
    }

    const fn unless(mut self, quiet: &'static [&'static str]) -> Self {
        if let Status::Ineffective { why, .. } = self.status {
            self.status = Status::Ineffective { why, quiet };
        }
        self
    }

    const fn refused(mut self, why: &'static str) -> Self {
        self.status = Status::Refused(why);
        self
    }

    /// Whether this long name, written in full, means this row.
    pub fn named(&self, long: &str) -> bool {
        self.long == long || self.aliases.contains(&long)
    }

    /// Every long spelling.
    pub fn longs(&self) -> impl Iterator<Item = &'static str> + '_ {
        std::iter::once(self.long).chain(self.aliases.iter().copied())
    }

    /// The variables that give this option to a command, those that win first.
    pub fn env_names(&self, command: Command) -> Vec<String> {
        let exact = self.env_exact.iter().filter(|(c, _)| c.has(command));
        let mut names: Vec<String> = exact.map(|(_, name)| (*name).to_owned()).collect();
        if self.env_suffix.0.has(command) {
            names.push(format!("{}{}", command.env_prefix(), self.env_suffix.1));
        }
        names
    }
}

/// The rows of one command, in table order.
pub fn rows(command: Command) -> impl Iterator<Item = &'static Flag> {
    let parts = [
        request::ROWS,
        shape::ROWS,
        run::ROWS,
        view::ROWS,
        admin::ROWS,
        accounts::ROWS,
        tools::ROWS,
        fence::ROWS,
    ];
    parts
        .into_iter()
        .flatten()
        .filter(move |flag| flag.commands.has(command))
}

#[cfg(test)]
mod tests;
