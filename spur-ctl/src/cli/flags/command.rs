//! The commands, and what is said of each.

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
    /// `sattach`.
    Sattach,
    /// `sbcast`.
    Sbcast,
    /// `sstat`.
    Sstat,
    /// `sdiag`.
    Sdiag,
    /// `sprio`.
    Sprio,
    /// `sshare`.
    Sshare,
    /// `sreport`.
    Sreport,
    /// `sacctmgr`.
    Sacctmgr,
    /// `scrontab`.
    Scrontab,
    /// `strigger`.
    Strigger,
    /// `seff`.
    Seff,
    /// `spur fence`.
    Fence,
    /// `spur usage`.
    Usage,
}

/// What does not depend on options.
#[derive(Clone, Copy, Debug)]
struct Facts {
    name: &'static str,
    /// What it is for, as the end of a sentence that begins with its name.
    purpose: &'static str,
    /// What follows the options, for the usage line.
    operands: &'static str,
    env_prefix: &'static str,
}

const fn facts(
    name: &'static str,
    purpose: &'static str,
    operands: &'static str,
    env_prefix: &'static str,
) -> Facts {
    Facts {
        name,
        purpose,
        operands,
        env_prefix,
    }
}

impl Command {
    /// Every command of Slurm, in the order of the reference page.
    pub const ALL: [Self; 19] = [
        Self::Srun,
        Self::Sbatch,
        Self::Salloc,
        Self::Squeue,
        Self::Sinfo,
        Self::Scancel,
        Self::Scontrol,
        Self::Sacct,
        Self::Sattach,
        Self::Sbcast,
        Self::Sstat,
        Self::Sdiag,
        Self::Sprio,
        Self::Sshare,
        Self::Sreport,
        Self::Sacctmgr,
        Self::Scrontab,
        Self::Strigger,
        Self::Seff,
    ];

    /// Commands of our own.
    pub const OWN: [Self; 2] = [Self::Fence, Self::Usage];

    /// All commands, Slurm's first.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().chain(Self::OWN)
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each command")]
    fn facts(self) -> Facts {
        match self {
            Self::Srun => facts(
                "srun",
                "runs tasks in parallel, in a job of its own or as a step of a job that is there",
                "executable [ARGUMENT...]",
                "SLURM_",
            ),
            Self::Sbatch => facts(
                "sbatch",
                "hands a script to the queue",
                "[SCRIPT [ARGUMENT...]]",
                "SBATCH_",
            ),
            Self::Salloc => facts(
                "salloc",
                "gets resources and runs a command with them",
                "[COMMAND [ARGUMENT...]]",
                "SALLOC_",
            ),
            Self::Squeue => facts("squeue", "shows the queue", "", "SQUEUE_"),
            Self::Sinfo => facts("sinfo", "shows partitions and nodes", "", "SINFO_"),
            Self::Scancel => facts(
                "scancel",
                "ends jobs and steps, or sends them signals",
                "[JOB[_INDEX][.STEP]...]",
                "SCANCEL_",
            ),
            Self::Scontrol => facts(
                "scontrol",
                "shows and changes jobs, nodes, partitions and reservations",
                "[WORD [ARGUMENT...]]",
                "SCONTROL_",
            ),
            Self::Sacct => facts("sacct", "shows the record of jobs and steps", "", "SACCT_"),
            Self::Sattach => facts(
                "sattach",
                "shows the output of a step that runs",
                "JOB.STEP",
                "SLURM_",
            ),
            Self::Sbcast => facts(
                "sbcast",
                "copies a file to every node of a job",
                "FILE TARGET",
                "SBCAST_",
            ),
            Self::Sstat => facts(
                "sstat",
                "shows what running steps use",
                "[JOB[.STEP]...]",
                "SSTAT_",
            ),
            Self::Sdiag => facts("sdiag", "shows counters of the controller", "", "SDIAG_"),
            Self::Sprio => facts("sprio", "shows what makes a job's priority", "", "SPRIO_"),
            Self::Sshare => facts("sshare", "shows the shares of accounts", "", "SSHARE_"),
            Self::Sreport => facts(
                "sreport",
                "reports use over time",
                "[WORD [ARGUMENT...]]",
                "SREPORT_",
            ),
            Self::Sacctmgr => facts(
                "sacctmgr",
                "shows and changes accounts, users and their limits",
                "[WORD [ARGUMENT...]]",
                "SACCTMGR_",
            ),
            Self::Scrontab => facts(
                "scrontab",
                "keeps a table of jobs to run at fixed times",
                "[FILE]",
                "SCRONTAB_",
            ),
            Self::Strigger => facts(
                "strigger",
                "runs a program when something happens in the cluster",
                "",
                "STRIGGER_",
            ),
            Self::Seff => facts(
                "seff",
                "says how well a job used what it held: CPUs, memory and GPUs",
                "JOB",
                "SEFF_",
            ),
            Self::Fence => facts(
                "fence",
                "says what a job may open, what it was refused, and what that means",
                "show [JOB] | explain [JOB] | log [JOB]",
                "SPUR_FENCE_",
            ),
            Self::Usage => facts(
                "usage",
                "says what a job used, and which GPUs are held and not used",
                "[JOB]",
                "SPUR_USAGE_",
            ),
        }
    }

    /// The name that users type.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// What it is for, as the end of a sentence that begins with its name.
    pub fn purpose(self) -> &'static str {
        self.facts().purpose
    }

    /// What `--help` says before the options.
    pub fn about(self) -> &'static str {
        if self == Self::Fence {
            super::fence::ABOUT
        } else if self == Self::Usage {
            super::accounts::ABOUT
        } else {
            ""
        }
    }

    /// What follows the options, for the usage line.
    pub fn operands(self) -> &'static str {
        self.facts().operands
    }

    /// Prefix of the environment variables that give options to this command.
    pub fn env_prefix(self) -> &'static str {
        self.facts().env_prefix
    }

    /// Whether this is one of the three that ask for a job.
    pub fn submits(self) -> bool {
        matches!(self, Self::Srun | Self::Sbatch | Self::Salloc)
    }

    /// Whether options end at the first operand, because what follows belongs to another program.
    pub fn stops_at_operand(self) -> bool {
        self.submits()
    }

    /// Exit code for an option that cannot be understood.
    pub fn usage_code(self) -> u8 {
        if self.submits() { 255 } else { 1 }
    }

    pub(super) const fn bit(self) -> Commands {
        Commands(1 << self as u32)
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
pub struct Commands(u32);

pub(super) const NONE: Commands = Commands(0);
pub(super) const SRUN: Commands = Command::Srun.bit();
pub(super) const SBATCH: Commands = Command::Sbatch.bit();
pub(super) const SALLOC: Commands = Command::Salloc.bit();
pub(super) const SQUEUE: Commands = Command::Squeue.bit();
pub(super) const SINFO: Commands = Command::Sinfo.bit();
pub(super) const SCANCEL: Commands = Command::Scancel.bit();
pub(super) const SCONTROL: Commands = Command::Scontrol.bit();
pub(super) const SACCT: Commands = Command::Sacct.bit();
pub(super) const SATTACH: Commands = Command::Sattach.bit();
pub(super) const SBCAST: Commands = Command::Sbcast.bit();
pub(super) const SSTAT: Commands = Command::Sstat.bit();
pub(super) const SDIAG: Commands = Command::Sdiag.bit();
pub(super) const SPRIO: Commands = Command::Sprio.bit();
pub(super) const SSHARE: Commands = Command::Sshare.bit();
pub(super) const SREPORT: Commands = Command::Sreport.bit();
pub(super) const SACCTMGR: Commands = Command::Sacctmgr.bit();
pub(super) const SCRONTAB: Commands = Command::Scrontab.bit();
pub(super) const STRIGGER: Commands = Command::Strigger.bit();
pub(super) const SEFF: Commands = Command::Seff.bit();
pub(super) const FENCE: Commands = Command::Fence.bit();
pub(super) const USAGE: Commands = Command::Usage.bit();
pub(super) const RECORDS: Commands = SACCT.and(SSTAT);
pub(super) const JOB: Commands = SRUN.and(SBATCH).and(SALLOC);
pub(super) const VIEWS: Commands = SQUEUE.and(SINFO);
/// The commands whose `-h` means something else, or whose help has no letter.
pub(super) const LONG_HELP: Commands = VIEWS.and(SCANCEL).and(SDIAG).and(SPRIO).and(STRIGGER);
/// Those whose `-h` is help.
pub(super) const SHORT_HELP: Commands = JOB
    .and(SCONTROL)
    .and(SATTACH)
    .and(SBCAST)
    .and(SSHARE)
    .and(SREPORT)
    .and(SACCTMGR)
    .and(SCRONTAB)
    .and(RECORDS)
    .and(SEFF)
    .and(FENCE)
    .and(USAGE);
/// Those that have `--version`.
pub(super) const VERSIONED: Commands = LONG_HELP
    .and(JOB)
    .and(SCONTROL)
    .and(SATTACH)
    .and(SBCAST)
    .and(SSHARE)
    .and(SREPORT)
    .and(SACCTMGR)
    .and(SCRONTAB)
    .and(RECORDS)
    .and(SEFF);

impl Commands {
    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the command is in the set.
    pub fn has(self, command: Command) -> bool {
        self.0 & command.bit().0 != 0
    }
}
