//! Options about how steps run, and those that every command has.

use super::{Flag, LONG_HELP, SALLOC, SHORT_HELP, SRUN, VERSIONED, on, opt, val};

pub(super) static ROWS: &[Flag] = &[
    val("accel-bind", "KIND", SRUN, "bind tasks to devices")
        .ineffective("a task may use every GPU of its step"),
    opt("bcast", "PATH", SRUN, "copy the program to the nodes first").env(SRUN, "BCAST"),
    val("bcast-exclude", "PATHS", SRUN, "libraries not to copy")
        .env(SRUN, "BCAST_EXCLUDE")
        .ineffective("libraries are not copied"),
    opt("compress", "KIND", SRUN, "compress what is copied")
        .env(SRUN, "COMPRESS")
        .ineffective("what is copied is not compressed"),
    val("cpu-bind", "KIND", SRUN, "bind tasks to CPUs")
        .env(SRUN, "CPU_BIND")
        .implied("by map, mask, rank, core and thread; else a task may use every CPU of its step"),
    on(
        "disable-status",
        SRUN,
        "do not show task states at Ctrl-C; pass it on",
    )
    .short('X')
    .env(SRUN, "DISABLE_STATUS"),
    val("epilog", "PROGRAM", SRUN, "run after the step").env(SRUN, "EPILOG"),
    on(
        "external-launcher",
        SRUN,
        "start the daemons of another launcher",
    )
    .implied("steps do not exclude each other"),
    on("exact", SRUN, "give the step only what it asks for").env(SRUN, "EXACT"),
    val(
        "het-group",
        "LIST",
        SRUN,
        "components of a heterogeneous job",
    )
    .alias(&["pack-group"]),
    on("interactive", SRUN, "run the allocation's interactive step")
        .refused("interactive steps are not available yet"),
    val("jobid", "JOB", SRUN, "start the step in this job")
        .env_exact(&[(SRUN, "SLURM_JOB_ID"), (SRUN, "SLURM_JOBID")]),
    opt(
        "kill-on-bad-exit",
        "0|1",
        SRUN,
        "end the step when a task fails",
    )
    .short('K')
    .env(SRUN, "KILL_BAD_EXIT"),
    on("label", SRUN, "put the task's number before each line")
        .short('l')
        .env(SRUN, "LABELIO"),
    val(
        "mpi",
        "KIND",
        SRUN,
        "how MPI's processes find each other: pmi2 (default), pmix or none; `list` shows them",
    )
    .env(SRUN, "MPI_TYPE"),
    on(
        "multi-prog",
        SRUN,
        "the command is a file of programs for tasks",
    ),
    on("no-allocate", SRUN, "run on nodes without an allocation")
        .short('Z')
        .refused("nothing runs without an allocation"),
    on("no-shell", SALLOC, "leave the allocation without a command")
        .refused("an allocation lasts as long as its salloc"),
    on("overlap", SRUN, "share resources with other steps").env(SRUN, "OVERLAP"),
    on(
        "preserve-env",
        SRUN,
        "keep SLURM_NNODES and SLURM_NTASKS as they are",
    )
    .short('E'),
    val("prolog", "PROGRAM", SRUN, "run before the step").env(SRUN, "PROLOG"),
    opt("pty", "FD", SRUN, "give task 0 a terminal"),
    on(
        "quit-on-interrupt",
        SRUN,
        "end the step at the first Ctrl-C",
    ),
    val(
        "relative",
        "N",
        SRUN,
        "start at this node of the allocation",
    )
    .short('r'),
    opt("send-libs", "yes|no", SRUN, "copy libraries too")
        .env(SRUN, "SEND_LIBS")
        .ineffective("libraries are not copied")
        .unless(&["no", "n"]),
    val(
        "slurmd-debug",
        "LEVEL",
        SRUN,
        "have the agent say more to the step",
    )
    .ineffective("the agent writes to its own log"),
    val("task-epilog", "PROGRAM", SRUN, "run after each task").env(SRUN, "TASK_EPILOG"),
    val("task-prolog", "PROGRAM", SRUN, "run before each task").env(SRUN, "TASK_PROLOG"),
    val("threads", "N", SRUN, "connections opened at once")
        .short('T')
        .env(SRUN, "THREADS")
        .implied("every node is connected to at once"),
    on("unbuffered", SRUN, "pass output on as it comes")
        .short('u')
        .env(SRUN, "UNBUFFEREDIO")
        .implied("output is passed on as it comes, unless it is labelled"),
    val(
        "wait",
        "SECONDS",
        SRUN,
        "end the step this long after its first task ended",
    )
    .short('W')
    .env(SRUN, "WAIT"),
    on("whole", SRUN, "give the step all of the job's nodes")
        .implied("a step may use all that its job has, unless it asks for less"),
    on("help", SHORT_HELP, "show this").short('h'),
    on("help", LONG_HELP, "show this"),
    on("usage", SHORT_HELP.and(LONG_HELP), "show a short summary"),
    on("version", VERSIONED, "show the version").short('V'),
];
