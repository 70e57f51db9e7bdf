//! Options as data: every option of every command is one row, with its names, its value, the variables that give it and an
//! honest word on what it does here. Parsing, help, usage and `docs/reference/options.md` all come from these rows.

mod accounts;
mod admin;
mod fence;
pub mod getopt;
pub mod help;
pub mod reference;
mod request;
mod run;
mod shape;
mod view;

use std::fmt;

/// A command that takes options from the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Command {
    /// `srun`.
    Srun,
    /// `sbatch`.
    Sbatch,
    /// `salloc`.
    Salloc,
    /// `squeue`.
    Squeue,
    /// `sinfo`.
    Sinfo,
    /// `scancel`.
    Scancel,
    /// `scontrol`.
    Scontrol,
    /// `sacct`.
    Sacct,
    /// `sstat`.
    Sstat,
    /// `seff`.
    Seff,
    /// `spur fence`.
    Fence,
    /// `spur usage`.
    Usage,
}

impl Command {
    /// Every command of Slurm, in the order of the reference page.
    pub const ALL: [Self; 10] = [
        Self::Srun,
        Self::Sbatch,
        Self::Salloc,
        Self::Squeue,
        Self::Sinfo,
        Self::Scancel,
        Self::Scontrol,
        Self::Sacct,
        Self::Sstat,
        Self::Seff,
    ];

    /// Commands of our own.
    pub const OWN: [Self; 2] = [Self::Fence, Self::Usage];

    /// All commands, Slurm's first.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().chain(Self::OWN)
    }

    /// The name that users type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Srun => "srun",
            Self::Sbatch => "sbatch",
            Self::Salloc => "salloc",
            Self::Squeue => "squeue",
            Self::Sinfo => "sinfo",
            Self::Scancel => "scancel",
            Self::Scontrol => "scontrol",
            Self::Sacct => "sacct",
            Self::Sstat => "sstat",
            Self::Seff => "seff",
            Self::Fence => "fence",
            Self::Usage => "usage",
        }
    }

    /// What `--help` says before the options.
    pub fn about(self) -> &'static str {
        match self {
            Self::Fence => fence::ABOUT,
            Self::Usage => accounts::ABOUT,
            Self::Seff => accounts::SEFF_ABOUT,
            Self::Srun
            | Self::Sbatch
            | Self::Salloc
            | Self::Squeue
            | Self::Sinfo
            | Self::Scancel
            | Self::Scontrol
            | Self::Sacct
            | Self::Sstat => "",
        }
    }

    /// What follows the options, for the usage line.
    pub fn operands(self) -> &'static str {
        match self {
            Self::Srun => "COMMAND [ARGUMENT...]",
            Self::Sbatch => "[SCRIPT [ARGUMENT...]]",
            Self::Salloc => "[COMMAND [ARGUMENT...]]",
            Self::Squeue | Self::Sinfo | Self::Sacct => "",
            Self::Sstat => "[JOB[.STEP]...]",
            Self::Seff => "JOB",
            Self::Usage => "[JOB]",
            Self::Scancel => "[JOB[.STEP]...]",
            Self::Scontrol => "WORD [ARGUMENT...]",
            Self::Fence => "show [JOB] | explain [JOB] | log [JOB]",
        }
    }

    /// Prefix of the environment variables that give options to this command.
    pub fn env_prefix(self) -> &'static str {
        match self {
            Self::Srun => "SLURM_",
            Self::Sbatch => "SBATCH_",
            Self::Salloc => "SALLOC_",
            Self::Squeue => "SQUEUE_",
            Self::Sinfo => "SINFO_",
            Self::Scancel => "SCANCEL_",
            Self::Scontrol => "SCONTROL_",
            Self::Sacct => "SACCT_",
            Self::Sstat => "SSTAT_",
            Self::Seff => "SEFF_",
            Self::Fence => "SPUR_FENCE_",
            Self::Usage => "SPUR_USAGE_",
        }
    }

    /// Whether options end at the first operand, because what follows belongs to another program.
    pub fn stops_at_operand(self) -> bool {
        matches!(self, Self::Srun | Self::Sbatch | Self::Salloc)
    }

    /// Exit code for an option that cannot be understood.
    pub fn usage_code(self) -> u8 {
        match self {
            Self::Srun | Self::Sbatch | Self::Salloc => 255,
            Self::Squeue
            | Self::Sinfo
            | Self::Scancel
            | Self::Scontrol
            | Self::Sacct
            | Self::Sstat
            | Self::Seff
            | Self::Fence
            | Self::Usage => 1,
        }
    }

    fn bit(self) -> Commands {
        match self {
            Self::Srun => SRUN,
            Self::Sbatch => SBATCH,
            Self::Salloc => SALLOC,
            Self::Squeue => SQUEUE,
            Self::Sinfo => SINFO,
            Self::Scancel => SCANCEL,
            Self::Scontrol => SCONTROL,
            Self::Fence => FENCE,
            Self::Sacct => SACCT,
            Self::Sstat => SSTAT,
            Self::Seff => SEFF,
            Self::Usage => USAGE,
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Slurm's stand alone.
        if Self::OWN.contains(self) {
            f.write_str("spur ")?;
        }
        f.write_str(self.name())
    }
}

/// A set of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commands(u16);

const NONE: Commands = Commands(0);
const SRUN: Commands = Commands(1);
const SBATCH: Commands = Commands(2);
const SALLOC: Commands = Commands(4);
const SQUEUE: Commands = Commands(8);
const SINFO: Commands = Commands(16);
const SCANCEL: Commands = Commands(32);
const SCONTROL: Commands = Commands(64);
const FENCE: Commands = Commands(128);
const SACCT: Commands = Commands(256);
const SSTAT: Commands = Commands(512);
const SEFF: Commands = Commands(1024);
const USAGE: Commands = Commands(2048);
const RECORDS: Commands = SACCT.and(SSTAT);
const JOB: Commands = SRUN.and(SBATCH).and(SALLOC);
const VIEWS: Commands = SQUEUE.and(SINFO);
const EVERY: Commands = JOB.and(VIEWS).and(SCANCEL).and(SCONTROL);

impl Commands {
    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the command is in the set.
    pub fn has(self, command: Command) -> bool {
        self.0 & command.bit().0 != 0
    }
}

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
        fence::ROWS,
    ];
    parts
        .into_iter()
        .flatten()
        .filter(move |flag| flag.commands.has(command))
}

#[cfg(test)]
mod tests;
