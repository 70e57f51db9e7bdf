//! Options of `sattach`, `sbcast`, `sdiag`, `sprio`, `sshare`, `sreport`, `sacctmgr`, `scrontab` and `strigger`.

use super::{
    Commands, Flag, SACCTMGR, SATTACH, SBCAST, SCRONTAB, SDIAG, SPRIO, SREPORT, SSHARE, STRIGGER,
    on, opt, val,
};

const ONLY_LOCAL: &str = "there is only this cluster";
/// Commands that print tables with separators on request.
const TABLES: Commands = SSHARE.and(SREPORT).and(SACCTMGR);
/// Commands with JSON and YAML.
const DATA: Commands = SDIAG.and(SPRIO).and(SSHARE).and(SACCTMGR);
const TALK: Commands = SATTACH
    .and(SBCAST)
    .and(SPRIO)
    .and(SSHARE)
    .and(SREPORT)
    .and(SACCTMGR)
    .and(SCRONTAB)
    .and(STRIGGER);

pub(super) static ROWS: &[Flag] = &[
    val("accounts", "LIST", SSHARE, "only these accounts")
        .alias(&["account"])
        .short('A'),
    on("all", SDIAG, "all counters")
        .short('a')
        .implied("all counters are shown anyway"),
    on("all", SSHARE, "also what other users have").short('a'),
    on("all_clusters", SREPORT, "all clusters")
        .short('a')
        .implied(ONLY_LOCAL),
    on(
        "associations",
        SACCTMGR,
        "show users with their associations",
    )
    .alias(&["withassoc"])
    .short('s'),
    val(
        "cluster",
        "NAME",
        SDIAG.and(SPRIO).and(SREPORT).and(SSHARE).and(STRIGGER),
        "cluster to ask",
    )
    .alias(&["clusters"])
    .short('M'),
    opt("compress", "KIND", SBCAST, "compress what is copied")
        .short('C')
        .env(SBCAST, "COMPRESS")
        .ineffective("files go over the machine's own sockets"),
    on("edit", SCRONTAB, "edit the table").short('e'),
    val(
        "error-filter",
        "TASK",
        SATTACH,
        "standard error of this task only",
    ),
    val("exclude", "PATHS", SBCAST, "libraries not to copy")
        .env(SBCAST, "EXCLUDE")
        .ineffective("only the file itself is copied")
        .unless(&["none", "NONE"]),
    val(
        "fanout",
        "N",
        SBCAST,
        "how many nodes are copied to at once",
    )
    .alias(&["treewidth"])
    .short('F')
    .env(SBCAST, "FANOUT")
    .implied("every node is copied to at once"),
    on(
        "federation",
        SPRIO.and(SREPORT),
        "all clusters of the federation",
    )
    .implied(ONLY_LOCAL),
    on("force", SBCAST, "replace a file that is there")
        .short('f')
        .env(SBCAST, "FORCE"),
    val("format", "LIST", SSHARE, "columns as NAME[%WIDTH]").short('o'),
    val("format", "FORMAT", SPRIO, "columns as %[.][WIDTH]LETTER").short('o'),
    on("helpformat", SSHARE, "list the columns").short('e'),
    on("helpformat", SPRIO, "list the letters of --format"),
    on("immediate", SACCTMGR, "do not ask for confirmation").short('i'),
    val(
        "input-filter",
        "TASK",
        SATTACH,
        "standard input to this task only",
    ),
    val(
        "jobid",
        "JOB[.STEP]",
        SBCAST,
        "the job, instead of the one that this runs in",
    )
    .short('j')
    .env_exact(&[(SBCAST, "SLURM_JOB_ID"), (SBCAST, "SLURM_JOBID")]),
    opt("jobs", "LIST", SPRIO, "only these jobs").short('j'),
    opt("json", "PARSER", DATA, "JSON"),
    on("label", SATTACH, "put the task's number before each line").short('l'),
    on("layout", SATTACH, "show which task runs where, and end"),
    on("list", SCRONTAB, "show the table").short('l'),
    on("local", SPRIO.and(SREPORT), "only this cluster").implied(ONLY_LOCAL),
    on("long", SPRIO.and(SSHARE), "more columns").short('l'),
    on("noheader", TABLES, "no header lines").short('n'),
    on("noheader", SPRIO, "no header line").short('h'),
    on("noheader", STRIGGER, "no header line").short('N'),
    on("norm", SPRIO, "factors between 0 and 1").short('n'),
    on("oneliner", SACCTMGR, "one line for each record").short('o'),
    val(
        "output-filter",
        "TASK",
        SATTACH,
        "standard output of this task only",
    ),
    on("parsable", TABLES, "fields parted and ended by |").short('p'),
    on("parsable2", TABLES, "fields parted by |").short('P'),
    val("partition", "LIST", SPRIO, "only jobs in these partitions").short('p'),
    on("partition", SSHARE, "partitions of associations").short('m'),
    on("preserve", SBCAST, "keep times and mode")
        .short('p')
        .env(SBCAST, "PRESERVE"),
    on("pty", SATTACH, "connect to the terminal of task 0"),
    on(
        "quiet",
        SATTACH.and(SREPORT).and(SACCTMGR).and(STRIGGER),
        "say nothing but errors",
    )
    .short('Q'),
    on("readonly", SACCTMGR, "change nothing").short('r'),
    on("remove", SCRONTAB, "remove the table").short('r'),
    on("reset", SDIAG, "set the counters to zero").short('r'),
    opt("send-libs", "yes|no", SBCAST, "copy libraries too")
        .env(SBCAST, "SEND_LIBS")
        .ineffective("only the file itself is copied")
        .unless(&["no", "n"]),
    on("sibling", SPRIO, "sibling jobs too").implied(ONLY_LOCAL),
    val("size", "SIZE", SBCAST, "how much is sent at once")
        .short('s')
        .env(SBCAST, "SIZE")
        .implied("the stream decides"),
    val("sort", "LIST", SPRIO, "order, by the letters of --format").short('S'),
    on("sort-by-id", SDIAG, "requests in order of their kind").short('i'),
    on("sort-by-time", SDIAG, "requests in order of their time").short('t'),
    on(
        "sort-by-time2",
        SDIAG,
        "requests in order of their mean time",
    )
    .short('T'),
    val(
        "time",
        "FORMAT",
        SREPORT,
        "unit of time: Hours, Minutes, Seconds, Percent, …",
    )
    .short('t'),
    val("timeout", "SECONDS", SBCAST, "how long a message may take")
        .short('t')
        .env(SBCAST, "TIMEOUT")
        .implied("a node that is gone ends the connection"),
    val("tres", "LIST", SREPORT, "resources to report").short('T'),
    val("user", "NAME", SCRONTAB, "the table of this user").short('u'),
    val("user", "LIST", SPRIO, "only jobs of these users").short('u'),
    val("users", "LIST", SSHARE, "only these users")
        .alias(&["user", "uid"])
        .short('u'),
    on("Users", SSHARE, "users only, no accounts").short('U'),
    on("verbose", TALK, "say more; may be repeated").short('v'),
    on("weights", SPRIO, "the weights of the factors").short('w'),
    opt("yaml", "PARSER", DATA, "YAML"),
    // strigger
    on("set", STRIGGER, "make a trigger"),
    on("get", STRIGGER, "show triggers"),
    on("clear", STRIGGER, "remove triggers"),
    on(
        "backup_slurmctld_assumed_control",
        STRIGGER,
        "the second controller took over",
    )
    .short('C'),
    on(
        "backup_slurmctld_failure",
        STRIGGER,
        "the second controller failed",
    )
    .short('B'),
    on(
        "backup_slurmctld_resumed_operation",
        STRIGGER,
        "the second controller is back",
    )
    .short('c'),
    on("burst_buffer", STRIGGER, "a burst buffer failed"),
    on("down", STRIGGER, "a node goes down").short('d'),
    on("drained", STRIGGER, "a node is drained").short('D'),
    on("draining", STRIGGER, "a node begins to drain"),
    on("fail", STRIGGER, "a node is expected to fail").short('F'),
    on("fini", STRIGGER, "a job ends").short('f'),
    val(
        "flags",
        "FLAGS",
        STRIGGER,
        "PERM keeps the trigger after the event",
    ),
    val("id", "NUMBER", STRIGGER, "a trigger by its number").short('i'),
    on("idle", STRIGGER, "a node stays idle").short('I'),
    val("jobid", "JOB", STRIGGER, "events of this job").short('j'),
    opt("node", "NODES", STRIGGER, "events of these nodes").short('n'),
    val(
        "offset",
        "SECONDS",
        STRIGGER,
        "before (negative) or after the event",
    )
    .short('o'),
    on("primary_database_failure", STRIGGER, "the database failed").short('h'),
    on(
        "primary_database_resumed_operation",
        STRIGGER,
        "the database is back",
    )
    .short('H'),
    on(
        "primary_slurmctld_acct_buffer_full",
        STRIGGER,
        "the accounting backlog is full",
    )
    .short('e'),
    on(
        "primary_slurmctld_failure",
        STRIGGER,
        "the controller failed",
    )
    .short('a'),
    on(
        "primary_slurmctld_resumed_control",
        STRIGGER,
        "the controller took over again",
    )
    .short('b'),
    on(
        "primary_slurmctld_resumed_operation",
        STRIGGER,
        "the controller is back",
    )
    .short('A'),
    on(
        "primary_slurmdbd_failure",
        STRIGGER,
        "the accounting daemon failed",
    )
    .short('g'),
    on(
        "primary_slurmdbd_resumed_operation",
        STRIGGER,
        "the accounting daemon is back",
    )
    .short('G'),
    val("program", "PATH", STRIGGER, "what to run").short('p'),
    on("reconfig", STRIGGER, "the configuration changes").short('r'),
    on("resume", STRIGGER, "a node is resumed").short('R'),
    on("time", STRIGGER, "a job reaches its time limit").short('t'),
    on("up", STRIGGER, "a node comes up").short('u'),
    val("user", "NAME", STRIGGER, "triggers of this user"),
];
