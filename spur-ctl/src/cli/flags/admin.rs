//! Options of `scancel` and `scontrol`.

use super::{Flag, SCANCEL, SCONTROL, on, opt, val};

const ONE_CLUSTER: &str = "only this cluster can be reached";
const ONLY_LOCAL: &str = "there is only this cluster";

pub(super) static ROWS: &[Flag] = &[
    val("account", "NAME", SCANCEL, "only jobs of this account")
        .short('A')
        .env(SCANCEL, "ACCOUNT"),
    on("batch", SCANCEL, "signal the batch shell only")
        .short('b')
        .env(SCANCEL, "BATCH"),
    val("clusters", "LIST", SCANCEL, "clusters to ask")
        .alias(&["cluster"])
        .short('M')
        .env_exact(&[(SCANCEL, "SLURM_CLUSTERS")]),
    on("cron", SCANCEL, "confirm that a cron job is meant")
        .short('c')
        .implied("cron jobs are cancelled without it too, as Slurm does by default"),
    on("ctld", SCANCEL, "let the controller send the signal")
        .env(SCANCEL, "CTLD")
        .implied("signals always go through the controller"),
    on("full", SCANCEL, "signal the batch shell and all steps")
        .short('f')
        .env(SCANCEL, "FULL"),
    on("hurry", SCANCEL, "do not stage data out")
        .short('H')
        .env(SCANCEL, "HURRY")
        .implied("no data is staged"),
    on("interactive", SCANCEL, "ask before each job")
        .short('i')
        .env(SCANCEL, "INTERACTIVE"),
    on("me", SCANCEL, "only my jobs"),
    val("name", "NAME", SCANCEL, "only jobs with this name")
        .alias(&["jobname"])
        .short('n')
        .env(SCANCEL, "NAME"),
    val("nodelist", "NODES", SCANCEL, "only jobs on these nodes").short('w'),
    val("partition", "NAME", SCANCEL, "only jobs in this partition")
        .short('p')
        .env(SCANCEL, "PARTITION"),
    val(
        "qos",
        "NAME",
        SCANCEL,
        "only jobs of this quality of service",
    )
    .short('q')
    .env(SCANCEL, "QOS"),
    on("quiet", SCANCEL, "say nothing").short('Q'),
    val(
        "reservation",
        "NAME",
        SCANCEL,
        "only jobs in this reservation",
    )
    .short('R'),
    val(
        "sibling",
        "CLUSTER",
        SCANCEL,
        "only the job's sibling there",
    )
    .refused(ONE_CLUSTER),
    val(
        "signal",
        "SIGNAL",
        SCANCEL,
        "send this signal instead of ending the job",
    )
    .short('s'),
    val(
        "state",
        "STATE",
        SCANCEL,
        "only jobs in this state: PENDING, RUNNING or SUSPENDED",
    )
    .alias(&["states"])
    .short('t')
    .env(SCANCEL, "STATE"),
    val("user", "NAME", SCANCEL, "only jobs of this user")
        .short('u')
        .env(SCANCEL, "USER"),
    on("verbose", SCANCEL, "say more; may be repeated")
        .short('v')
        .env(SCANCEL, "VERBOSE"),
    val("wckey", "KEY", SCANCEL, "only jobs with this key").env(SCANCEL, "WCKEY"),
    on("all", SCONTROL, "also what is in hidden partitions")
        .short('a')
        .env(SCONTROL, "ALL"),
    on("details", SCONTROL, "show more").short('d'),
    on("federation", SCONTROL, "jobs of the whole federation")
        .env(SCONTROL, "FEDERATION")
        .implied(ONLY_LOCAL),
    on("future", SCONTROL, "also nodes that may be added")
        .short('F')
        .env(SCONTROL, "FUTURE")
        .implied("no such nodes are known"),
    on("hide", SCONTROL, "not what is in hidden partitions").implied("it is the default"),
    opt("json", "PARSER", SCONTROL, "JSON"),
    on("local", SCONTROL, "only this cluster")
        .env(SCONTROL, "LOCAL")
        .implied(ONLY_LOCAL),
    val("cluster", "NAME", SCONTROL, "cluster to ask")
        .alias(&["clusters"])
        .short('M')
        .env_exact(&[(SCONTROL, "SLURM_CLUSTERS")]),
    on("oneliner", SCONTROL, "one line for each record").short('o'),
    on("quiet", SCONTROL, "print no warnings").short('Q'),
    on("sibling", SCONTROL, "sibling jobs too")
        .env(SCONTROL, "SIBLING")
        .implied(ONLY_LOCAL),
    on("verbose", SCONTROL, "say more").short('v'),
    opt("yaml", "PARSER", SCONTROL, "YAML"),
];
