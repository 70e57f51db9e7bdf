//! Options of a job request: who, what, when, where to write.

use super::{Flag, JOB, NONE, SALLOC, SBATCH, SRUN, on, opt, val};

/// Commands whose jobs write files.
const WRITES: super::Commands = SRUN.and(SBATCH);
/// Commands that wait for their job.
const WAITS: super::Commands = SRUN.and(SALLOC);

pub(super) static ROWS: &[Flag] = &[
    val("account", "NAME", JOB, "account to charge")
        .short('A')
        .env(JOB, "ACCOUNT"),
    val("acctg-freq", "LIST", JOB, "rates at which use is sampled")
        .env(JOB, "ACCTG_FREQ")
        .ineffective("the agent chooses its own rate"),
    val("array", "INDEXES", SBATCH, "submit one task for each index")
        .short('a')
        .env(SBATCH, "ARRAY_INX"),
    val(
        "batch",
        "FEATURES",
        SBATCH,
        "features of the node that runs the script",
    )
    .env(SBATCH, "BATCH")
    .ineffective("the script runs on the first node of the allocation"),
    val("bb", "SPEC", JOB, "burst buffer")
        .env(SALLOC.and(SRUN), "BURST_BUFFER")
        .refused("burst buffers are not available"),
    val("bbf", "FILE", JOB, "burst buffer, described in a file")
        .refused("burst buffers are not available"),
    val("begin", "TIME", JOB, "do not start before this time").short('b'),
    on(
        "bell",
        SALLOC,
        "ring the terminal's bell when the allocation is granted",
    )
    .env(SALLOC, "BELL"),
    on("no-bell", SALLOC, "do not ring the bell").env(SALLOC, "NO_BELL"),
    val("clusters", "LIST", JOB, "clusters to submit to")
        .alias(&["cluster"])
        .short('M')
        .env(JOB, "CLUSTERS")
        .env_exact(&[(SBATCH.and(SALLOC), "SLURM_CLUSTERS")]),
    val("comment", "TEXT", JOB, "free text kept with the job"),
    val("container", "BUNDLE", JOB, "OCI bundle to run in")
        .env(JOB, "CONTAINER")
        .refused("OCI containers are not available yet"),
    val("container-id", "ID", JOB, "OCI container to run in")
        .env(JOB, "CONTAINER_ID")
        .refused("OCI containers are not available yet"),
    val(
        "deadline",
        "TIME",
        JOB,
        "drop the job if it cannot end by then",
    ),
    val(
        "delay-boot",
        "MINUTES",
        JOB,
        "wait before nodes are booted for the job",
    )
    .env(JOB, "DELAY_BOOT")
    .implied("no node is ever booted for a job"),
    val("dependency", "LIST", JOB, "start after other jobs")
        .short('d')
        .env(SRUN, "DEPENDENCY"),
    val(
        "kill-on-invalid-dep",
        "yes|no",
        SBATCH,
        "end the job when what it waits for can never come",
    )
    .env(SBATCH, "KILL_INVALID_DEP"),
    val("chdir", "DIR", JOB, "working directory of the job")
        .alias(&["workdir"])
        .short('D')
        .env(SRUN, "WORKING_DIR"),
    val("error", "PATTERN", WRITES, "file for standard error")
        .short('e')
        .env(SBATCH, "ERROR")
        .env_exact(&[(SRUN, "SRUN_ERROR"), (SRUN, "SLURM_STDERRMODE")]),
    val(
        "export",
        "LIST",
        WRITES,
        "variables that the job gets: ALL, NIL, NONE, names, NAME=VALUE",
    )
    .env(SBATCH, "EXPORT")
    .env_exact(&[(SRUN, "SRUN_EXPORT_ENV"), (SRUN, "SLURM_EXPORT_ENV")]),
    val(
        "export-file",
        "FILE",
        SBATCH,
        "read the job's environment from a file of NAME=VALUE entries parted by zero bytes",
    ),
    val("extra", "TEXT", JOB, "more free text kept with the job"),
    opt(
        "get-user-env",
        "MODE",
        SBATCH.and(SALLOC),
        "take the user's login environment",
    )
    .env(SBATCH, "GET_USER_ENV"),
    val("gid", "GROUP", SBATCH.and(SALLOC), "submit as this group")
        .refused("the group is the caller's, as the kernel says"),
    val("uid", "USER", SBATCH.and(SALLOC), "submit as this user")
        .refused("the user is the caller, as the kernel says"),
    on("hold", JOB, "submit held; start only after a release").short('H'),
    on("ignore-pbs", SBATCH, "do not read #PBS lines")
        .env(SBATCH, "IGNORE_PBS")
        .implied("#PBS lines are never read"),
    val("input", "PATTERN", WRITES, "file for standard input")
        .short('i')
        .env(SBATCH, "INPUT")
        .env_exact(&[(SRUN, "SRUN_INPUT"), (SRUN, "SLURM_STDINMODE")]),
    opt(
        "immediate",
        "SECONDS",
        WAITS,
        "give up if the job has not started by then",
    )
    .short('I')
    .env(WAITS, "IMMEDIATE"),
    val("job-name", "NAME", JOB, "name of the job")
        .short('J')
        .env(SBATCH.and(SALLOC), "JOB_NAME")
        .env_exact(&[(SRUN, "SLURM_JOB_NAME")]),
    opt(
        "no-kill",
        "off",
        JOB,
        "keep the job when one of its nodes fails",
    )
    .short('k')
    .env(JOB, "NO_KILL"),
    opt(
        "kill-command",
        "SIGNAL",
        SALLOC,
        "end the user's command when the allocation ends",
    )
    .short('K')
    .env(SALLOC, "KILL_CMD")
    .ineffective("the command is left alone when the allocation ends"),
    val("licenses", "LIST", JOB, "licenses that the job needs").short('L'),
    val("mail-type", "LIST", JOB, "when to send mail"),
    val("mail-user", "ADDRESS", JOB, "who gets the mail"),
    val("mcs-label", "LABEL", JOB, "security label").ineffective("labels are not used"),
    val("network", "SPEC", JOB, "network to use")
        .env(JOB, "NETWORK")
        .ineffective("there is no choice of networks"),
    opt(
        "nice",
        "NUMBER",
        JOB,
        "lower the job's priority by this much",
    ),
    val(
        "open-mode",
        "append|truncate",
        WRITES,
        "how output files are opened",
    )
    .env(WRITES, "OPEN_MODE"),
    val("output", "PATTERN", WRITES, "file for standard output")
        .short('o')
        .env(SBATCH, "OUTPUT")
        .env_exact(&[(SRUN, "SRUN_OUTPUT"), (SRUN, "SLURM_STDOUTMODE")]),
    on("parsable", SBATCH, "print only the job's number"),
    val("partition", "NAME", JOB, "partition to run in")
        .short('p')
        .env(JOB, "PARTITION"),
    val("power", "FLAGS", JOB, "power management")
        .env(JOB, "POWER")
        .ineffective("power is not managed"),
    val(
        "priority",
        "NUMBER",
        JOB,
        "priority of the job, if an operator submits it",
    ),
    opt(
        "propagate",
        "LIST",
        WRITES,
        "resource limits that the job inherits: ALL, NONE or names",
    )
    .env(WRITES, "PROPAGATE"),
    val("profile", "LIST", JOB, "detailed profiles to record")
        .env(JOB, "PROFILE")
        .ineffective("use is metered without profiles")
        .unless(&["none", "None", "NONE"]),
    val("qos", "NAME", JOB, "quality of service")
        .short('q')
        .env(JOB, "QOS"),
    on("quiet", JOB, "say nothing but errors").short('Q'),
    on("reboot", JOB, "boot the nodes before the job starts").refused("nodes are never booted"),
    on("no-requeue", SBATCH, "never start the job again").env(SBATCH, "NO_REQUEUE"),
    on("requeue", SBATCH, "start the job again when a node fails").env(SBATCH, "REQUEUE"),
    val("reservation", "NAME", JOB, "run in a reservation").env(JOB, "RESERVATION"),
    val(
        "signal",
        "[B:]SIGNAL[@SECONDS]",
        JOB,
        "signal before the time limit",
    )
    .env(JOB, "SIGNAL"),
    on("stepmgr", JOB, "let a node manage the job's steps")
        .implied("steps never burden other jobs' scheduling"),
    on(
        "test-only",
        WRITES,
        "say when the job would start, submit nothing",
    ),
    val("time", "TIME", JOB, "limit on the run time")
        .short('t')
        .env(JOB, "TIMELIMIT"),
    val("time-min", "TIME", JOB, "limit that would do as well"),
    on("verbose", JOB, "say more; may be repeated")
        .short('v')
        .env(JOB, "DEBUG"),
    on(
        "wait",
        SBATCH,
        "wait for the job's end; its exit code becomes this command's",
    )
    .short('W')
    .env(SBATCH, "WAIT"),
    val(
        "wait-all-nodes",
        "0|1",
        SBATCH.and(SALLOC),
        "start when every node is ready",
    )
    .env(SBATCH.and(SALLOC), "WAIT_ALL_NODES")
    .implied("a job starts when every node is ready"),
    val("wckey", "KEY", JOB, "key for accounting").env(JOB, "WCKEY"),
    val(
        "wrap",
        "COMMAND",
        SBATCH,
        "submit this shell command instead of a script",
    ),
    opt("x11", "WHERE", JOB, "forward X11")
        .env(NONE, "")
        .refused("X11 is not forwarded"),
];
