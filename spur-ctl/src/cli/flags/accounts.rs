//! Options of `sacct`, `sstat`, `seff` and `spur usage`.

use super::{Flag, RECORDS, SACCT, SEFF, SSTAT, USAGE, on, opt, val};

const ONLY_LOCAL: &str = "there is only this cluster to show";

/// What `spur usage` does.
pub(super) const ABOUT: &str = "
  JOB        everything that is known of what the job used, and how well that is known
  --idle     GPUs that are held and not used, with the job, its owner and the evidence
";

pub(super) static ROWS: &[Flag] = &[
    val("accounts", "LIST", SACCT, "only jobs of these accounts")
        .alias(&["account"])
        .short('A'),
    on("allclusters", SACCT, "jobs of all clusters")
        .short('L')
        .implied(ONLY_LOCAL),
    on("allocations", SACCT, "jobs only, no steps").short('X'),
    on("allsteps", SSTAT, "every step that runs").short('a'),
    on("allusers", SACCT, "jobs of all users").short('a'),
    on("array", SACCT, "one line for each task of an array"),
    val(
        "associations",
        "LIST",
        SACCT,
        "only jobs of these associations, by number",
    )
    .short('x'),
    on(
        "batch-script",
        SACCT,
        "the batch script of the jobs that are named",
    )
    .short('B'),
    on("brief", SACCT, "job, state and exit code only").short('b'),
    val("clusters", "LIST", SACCT, "clusters to ask")
        .alias(&["cluster"])
        .short('M')
        .env_exact(&[(SACCT, "SLURM_CLUSTERS")]),
    on(
        "completion",
        SACCT,
        "the completion log, of which there is none",
    )
    .short('c'),
    on("debug", SEFF, "say more").short('d'),
    val(
        "delimiter",
        "TEXT",
        SACCT,
        "what parts fields, instead of |",
    ),
    on("duplicates", SACCT, "also earlier runs of requeued jobs").short('D'),
    val("endtime", "TIME", SACCT, "only what was submitted before").short('E'),
    on(
        "expand-patterns",
        SACCT,
        "file names with their symbols replaced",
    )
    .alias(&["expand-pattern"]),
    on(
        "env-vars",
        SACCT,
        "the environment of the jobs that are named",
    ),
    on("federation", SACCT, "jobs of the federation").implied(ONLY_LOCAL),
    val(
        "file",
        "FILE",
        SACCT,
        "a completion log, of which there is none",
    )
    .short('f'),
    val("format", "LIST", RECORDS, "columns as NAME[%[-]WIDTH]")
        .alias(&["fields"])
        .short('o')
        .env(RECORDS, "FORMAT"),
    val("gid", "LIST", SACCT, "only jobs of these groups")
        .alias(&["group"])
        .short('g'),
    on("helpformat", RECORDS, "list the columns").short('e'),
    on("idle", USAGE, "GPUs that are held and not used"),
    val("jobs", "LIST", RECORDS, "only these jobs or steps")
        .alias(&["job"])
        .short('j'),
    on("json", USAGE, "print JSON"),
    opt("json", "PARSER", SACCT, "JSON"),
    on("local", SACCT, "only this cluster").implied(ONLY_LOCAL),
    on("long", SACCT, "many columns").short('l'),
    val("name", "LIST", SACCT, "only jobs with these names"),
    val("ncpus", "RANGE", SACCT, "only jobs of this many CPUs").short('I'),
    val("nnodes", "RANGE", SACCT, "only jobs of this many nodes").short('i'),
    on(
        "noconvert",
        RECORDS,
        "sizes in the unit that they are counted in",
    ),
    val("nodelist", "NODES", SACCT, "only jobs on these nodes").short('N'),
    on("noheader", RECORDS, "no header lines").short('n'),
    on("parsable", RECORDS, "fields parted and ended by |").short('p'),
    on("parsable2", RECORDS, "fields parted by |").short('P'),
    val("partition", "LIST", SACCT, "only jobs in these partitions").short('r'),
    on("pidformat", SSTAT, "processes of steps")
        .short('i')
        .refused("not available yet"),
    val(
        "plot",
        "FILE",
        USAGE,
        "write the job's use over time as SVG",
    ),
    val(
        "qos",
        "LIST",
        SACCT,
        "only jobs of these qualities of service",
    )
    .short('q'),
    val("reason", "LIST", SACCT, "only jobs with these reasons").short('R'),
    val("starttime", "TIME", SACCT, "only what had not ended before").short('S'),
    val("state", "LIST", SACCT, "only jobs in these states")
        .alias(&["states"])
        .short('s'),
    val(
        "timelimit-max",
        "TIME",
        SACCT,
        "only jobs of at most this limit",
    )
    .short('K'),
    val(
        "timelimit-min",
        "TIME",
        SACCT,
        "only jobs of at least this limit",
    )
    .short('k'),
    on("truncate", SACCT, "times cut to the window").short('T'),
    val("uid", "LIST", SACCT, "only jobs of these users")
        .alias(&["user"])
        .short('u'),
    val("units", "KMGTP", SACCT, "sizes in this unit"),
    on("verbose", RECORDS.and(SEFF), "say more").short('v'),
    on(
        "watch",
        USAGE,
        "and have the nodes measure ten times a second for the next ten seconds",
    ),
    opt(
        "whole-hetjob",
        "yes|no",
        SACCT,
        "all parts of a heterogeneous job",
    )
    .implied("a leader's number means all of its components"),
    val("wckeys", "LIST", SACCT, "only jobs with these keys").short('W'),
    opt("yaml", "PARSER", SACCT, "YAML"),
];
