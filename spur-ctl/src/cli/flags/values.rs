//! What may stand in a value, for completion.

use super::{Command, Flag, Value};

/// Where the words come from that a value or an operand may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// Nobody can tell.
    Any,
    /// Partitions of the cluster.
    Partitions,
    /// Nodes of the cluster.
    Nodes,
    /// Jobs in the queue.
    Jobs,
    /// Users of this host.
    Users,
    /// Signals.
    Signals,
    /// Files.
    Files,
    /// Folders.
    Folders,
    /// Programs.
    Programs,
    /// These.
    These(&'static [&'static str]),
}

const STATES: &[&str] = &[
    "all",
    "pending",
    "running",
    "suspended",
    "completing",
    "completed",
    "cancelled",
    "failed",
    "timeout",
    "node_fail",
    "out_of_memory",
];
const NODE_STATES: &[&str] = &[
    "alloc", "idle", "mix", "down", "drain", "draining", "drained", "comp", "resv", "maint",
];
const MAIL: &[&str] = &[
    "NONE",
    "BEGIN",
    "END",
    "FAIL",
    "REQUEUE",
    "ALL",
    "TIME_LIMIT",
    "TIME_LIMIT_90",
    "TIME_LIMIT_80",
    "TIME_LIMIT_50",
    "ARRAY_TASKS",
];
const DEPENDENCIES: &[&str] = &[
    "after:",
    "afterany:",
    "afterok:",
    "afternotok:",
    "aftercorr:",
    "singleton",
];
const SCONTROL_WORDS: &[&str] = &[
    "show",
    "update",
    "hold",
    "uhold",
    "release",
    "requeue",
    "requeuehold",
    "suspend",
    "resume",
    "create",
    "delete",
    "reconfigure",
    "ping",
    "top",
    "token",
    "version",
    "wait_job",
    "write",
    "help",
];
const SACCTMGR_WORDS: &[&str] = &["show", "list", "add", "modify", "delete", "ping", "version"];
const SACCTMGR_KEPT: &[&str] = &["account", "user", "qos"];

/// What follows a first word, by the command and its first words.
const FOLLOWING: [(Command, &[&str], Words); 9] = [
    (
        Command::Scontrol,
        &["show"],
        Words::These(&crate::cli::scontrol::show::ENTITIES),
    ),
    (
        Command::Scontrol,
        &[
            "hold",
            "uhold",
            "release",
            "requeue",
            "requeuehold",
            "suspend",
            "resume",
            "top",
            "wait_job",
        ],
        Words::Jobs,
    ),
    (
        Command::Scontrol,
        &["update"],
        Words::These(&["jobid=", "nodename=", "partitionname=", "reservationname="]),
    ),
    (
        Command::Scontrol,
        &["create", "delete"],
        Words::These(&["reservation", "partition"]),
    ),
    (
        Command::Scontrol,
        &["write"],
        Words::These(&["batch_script"]),
    ),
    (
        Command::Sacctmgr,
        &["show", "list"],
        Words::These(&crate::cli::sacctmgr::ENTITIES),
    ),
    (
        Command::Sacctmgr,
        &["add", "modify", "delete"],
        Words::These(SACCTMGR_KEPT),
    ),
    (
        Command::Sreport,
        &["cluster"],
        Words::These(&crate::cli::sreport::CLUSTER_REPORTS),
    ),
    (Command::Sreport, &["user"], Words::These(&["TopUsage"])),
];

const FENCE_WORDS: &[&str] = &["show", "explain", "log"];

impl Words {
    /// What an option's value may be.
    pub(super) fn of_value(command: Command, flag: &Flag) -> Self {
        if flag.value == Value::No {
            return Self::Any;
        }
        match flag.long {
            "partition" => Self::Partitions,
            "nodelist" | "exclude" | "node" => Self::Nodes,
            "nodes" if !command.submits() => Self::Nodes,
            "job" | "jobs" | "jobid" | "step" => Self::Jobs,
            "user" | "users" | "uid" => Self::Users,
            "signal" => Self::Signals,
            "chdir" => Self::Folders,
            "output" | "error" | "input" | "nodefile" | "export-file" | "program" | "bbf"
            | "prolog" | "epilog" | "task-prolog" | "task-epilog" | "plot" | "file" => Self::Files,
            "dependency" => Self::These(DEPENDENCIES),
            "mail-type" => Self::These(MAIL),
            "gres" => Self::These(&["gpu:"]),
            "open-mode" => Self::These(&["append", "truncate"]),
            "export" => Self::These(&["ALL", "NONE", "NIL"]),
            "propagate" => Self::These(&["ALL", "NONE", "NOFILE", "MEMLOCK", "STACK", "CORE"]),
            "mpi" => Self::These(&["none", "pmi2", "pmix", "list"]),
            "cpu-bind" => Self::These(&["none", "cores", "threads", "verbose"]),
            "gres-flags" => Self::These(&["enforce-binding", "disable-binding"]),
            "states" if command == Command::Sinfo => Self::These(NODE_STATES),
            "states" | "state" => Self::These(STATES),
            "units" => Self::These(&["K", "M", "G", "T", "P"]),
            "json" | "yaml" => Self::These(&["list", "v0.0.40", "v0.0.41", "v0.0.42"]),
            _ => Self::Any,
        }
    }

    /// First words and what may follow them; nothing for commands of which all operands are alike.
    pub(super) fn following(
        command: Command,
    ) -> impl Iterator<Item = (&'static [&'static str], Self)> {
        let own = FOLLOWING.into_iter().filter(move |(of, ..)| *of == command);
        own.map(|(_, first, words)| (first, words))
    }

    /// What may follow the options.
    pub(super) fn of_operands(command: Command) -> Self {
        match command {
            Command::Srun | Command::Salloc => Self::Programs,
            Command::Sbatch | Command::Sbcast | Command::Scrontab => Self::Files,
            Command::Scancel
            | Command::Seff
            | Command::Usage
            | Command::Sstat
            | Command::Sattach => Self::Jobs,
            Command::Scontrol => Self::These(SCONTROL_WORDS),
            Command::Sacctmgr => Self::These(SACCTMGR_WORDS),
            Command::Sreport => Self::These(&["cluster", "job", "user", "reservation"]),
            Command::Fence => Self::These(FENCE_WORDS),
            Command::Squeue
            | Command::Sinfo
            | Command::Sacct
            | Command::Sdiag
            | Command::Sprio
            | Command::Sshare
            | Command::Strigger => Self::Any,
        }
    }
}
