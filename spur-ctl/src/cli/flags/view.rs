//! Options of `squeue` and `sinfo`.

use super::{Flag, NONE, SINFO, SQUEUE, VIEWS, on, opt, val};

const ONLY_LOCAL: &str = "there is only this cluster to show";

pub(super) static ROWS: &[Flag] = &[
    val("account", "LIST", SQUEUE, "only jobs of these accounts")
        .alias(&["accounts"])
        .short('A')
        .env(SQUEUE, "ACCOUNT"),
    on("all", VIEWS, "also what is in hidden partitions")
        .short('a')
        .env(VIEWS, "ALL"),
    on("array", SQUEUE, "one line for each task of an array")
        .short('r')
        .env(SQUEUE, "ARRAY"),
    on("array-unique", SQUEUE, "one line for each pending array")
        .env(SQUEUE, "ARRAY_UNIQUE")
        .implied("it is the default"),
    val("clusters", "LIST", VIEWS, "clusters to ask")
        .alias(&["cluster"])
        .short('M')
        .env_exact(&[(VIEWS, "SLURM_CLUSTERS")]),
    on("dead", SINFO, "only nodes that do not respond").short('d'),
    on(
        "exact",
        SINFO,
        "group only nodes that are alike in every column",
    )
    .short('e'),
    on(
        "expand-patterns",
        SQUEUE,
        "names of files with their symbols replaced",
    ),
    on("federation", VIEWS, "all clusters of the federation")
        .env(VIEWS, "FEDERATION")
        .implied(ONLY_LOCAL),
    val("format", "FORMAT", VIEWS, "columns as %[.][WIDTH]LETTER")
        .short('o')
        .env(VIEWS, "FORMAT"),
    val("Format", "LIST", VIEWS, "columns as NAME[:[.]WIDTH]")
        .short('O')
        .env(SQUEUE, "FORMAT2"),
    on("future", SINFO, "also nodes that may be added")
        .short('F')
        .implied("no such nodes are known"),
    on("helpformat", VIEWS, "list the letters of --format"),
    on("helpFormat", VIEWS, "list the names of --Format"),
    on("helpstate", VIEWS, "list the states"),
    on("hide", VIEWS, "not what is in hidden partitions").implied("it is the default"),
    val("iterate", "SECONDS", VIEWS, "show again and again").short('i'),
    opt("job", "LIST", SQUEUE, "only these jobs")
        .alias(&["jobs"])
        .short('j'),
    opt("json", "PARSER", VIEWS, "JSON"),
    val("licenses", "LIST", SQUEUE, "only jobs with these licenses")
        .short('L')
        .env(SQUEUE, "LICENSES"),
    on("list-reasons", SINFO, "why nodes take no jobs").short('R'),
    on("local", VIEWS, "only this cluster")
        .env(VIEWS, "LOCAL")
        .implied(ONLY_LOCAL),
    on("long", VIEWS, "more columns").short('l'),
    on("me", SQUEUE, "only my jobs"),
    val("name", "LIST", SQUEUE, "only jobs with these names")
        .alias(&["names"])
        .short('n')
        .env(SQUEUE, "NAMES"),
    on("notme", SQUEUE, "only the jobs of others"),
    on("noconvert", VIEWS, "memory in the unit of the request"),
    on("Node", SINFO, "one line for each node").short('N'),
    val("nodes", "NODES", SINFO, "only these nodes").short('n'),
    val("nodelist", "NODES", SQUEUE, "only jobs on these nodes")
        .alias(&["nodes"])
        .short('w'),
    on("noheader", VIEWS, "no header line").short('h'),
    on("only-job-state", SQUEUE, "numbers and states only"),
    val("partition", "LIST", VIEWS, "only these partitions")
        .alias(&["partitions"])
        .short('p')
        .env(VIEWS, "PARTITION"),
    on("priority", SQUEUE, "one line for each partition of a job")
        .short('P')
        .env(SQUEUE, "PRIORITY")
        .implied("a job is in one partition"),
    val(
        "qos",
        "LIST",
        SQUEUE,
        "only jobs of these qualities of service",
    )
    .short('q')
    .env(SQUEUE, "QOS"),
    val(
        "reservation",
        "NAME",
        SQUEUE,
        "only jobs in this reservation",
    )
    .short('R'),
    on("reservation", SINFO, "reservations").short('T'),
    on("responding", SINFO, "only nodes that respond").short('r'),
    on("sibling", SQUEUE, "jobs on other clusters too")
        .env(SQUEUE, "SIBLING")
        .implied(ONLY_LOCAL),
    val(
        "sort",
        "LIST",
        VIEWS,
        "order, by the letters of --format; - before a letter reverses",
    )
    .short('S')
    .env(VIEWS, "SORT"),
    on("start", SQUEUE, "when pending jobs should start"),
    val(
        "states",
        "LIST",
        SQUEUE,
        "only jobs in these states, or `all`",
    )
    .alias(&["state"])
    .short('t')
    .env(SQUEUE, "STATES"),
    val("states", "LIST", SINFO, "only nodes in these states")
        .alias(&["state"])
        .short('t'),
    opt("step", "LIST", SQUEUE, "steps instead of jobs")
        .alias(&["steps"])
        .short('s'),
    on("summarize", SINFO, "one line for each partition").short('s'),
    val("user", "LIST", SQUEUE, "only jobs of these users")
        .alias(&["users"])
        .short('u')
        .env(SQUEUE, "USERS"),
    on("verbose", VIEWS, "say more").short('v').env(NONE, ""),
    opt("yaml", "PARSER", VIEWS, "YAML"),
];
