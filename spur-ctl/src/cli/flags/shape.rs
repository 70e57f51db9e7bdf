//! Options that shape a request: nodes, tasks, CPUs, memory, GPUs, and where they may be.

use super::{Flag, JOB, SALLOC, SBATCH, SRUN, on, opt, val};

const NO_TOPOLOGY: &str = "CPUs are chosen near the GPUs, not by core and thread";

pub(super) static ROWS: &[Flag] = &[
    val(
        "cluster-constraint",
        "FEATURES",
        JOB,
        "features of the cluster",
    )
    .refused("only this cluster can be reached"),
    val(
        "constraint",
        "FEATURES",
        JOB,
        "features that the nodes must have",
    )
    .short('C')
    .env(JOB, "CONSTRAINT"),
    on("contiguous", JOB, "nodes must follow each other"),
    val("core-spec", "N", JOB, "cores set aside for the system")
        .short('S')
        .env(JOB, "CORE_SPEC")
        .ineffective("no cores are set aside, as where AllowSpecResourcesUsage is off")
        .unless(&["0"]),
    val(
        "cores-per-socket",
        "N",
        JOB,
        "nodes with at least this many cores per socket",
    )
    .ineffective(NO_TOPOLOGY),
    val("cpu-freq", "RANGE", JOB, "clock of the CPUs")
        .env(SRUN, "CPU_FREQ_REQ")
        .ineffective("the clock of CPUs is not changed"),
    val("cpus-per-gpu", "N", JOB, "CPUs for each GPU").env(JOB, "CPUS_PER_GPU"),
    val("cpus-per-task", "N", JOB, "CPUs for each task")
        .short('c')
        .env_exact(&[
            (SRUN, "SRUN_CPUS_PER_TASK"),
            (SRUN, "SLURM_CPUS_PER_TASK"),
            (SBATCH, "SBATCH_CPUS_PER_TASK"),
            (SALLOC, "SALLOC_CPUS_PER_TASK"),
        ]),
    val(
        "distribution",
        "PATTERN",
        JOB,
        "how tasks are spread over nodes",
    )
    .short('m')
    .env(JOB, "DISTRIBUTION")
    .implied("over nodes: block, cyclic or plane=N, for steps; within a node tasks share their step's CPUs"),
    val("exclude", "NODES", JOB, "nodes that the job must not get").short('x'),
    opt("exclusive", "KIND", JOB, "share no node with another job").env(JOB, "EXCLUSIVE"),
    val(
        "extra-node-info",
        "S[:C[:T]]",
        JOB,
        "least sockets, cores and threads of a node",
    )
    .short('B')
    .ineffective(NO_TOPOLOGY),
    val("gpu-bind", "KIND", JOB, "which GPUs each task sees")
        .env(JOB, "GPU_BIND")
        .implied("a task sees its own; what it can open is its step's"),
    val("gpu-freq", "SPEC", JOB, "clock of the GPUs")
        .env(JOB, "GPU_FREQ")
        .ineffective("the clock of GPUs is not changed"),
    val("gpus", "[MODEL:]N", JOB, "GPUs for the whole job")
        .short('G')
        .env(JOB, "GPUS"),
    val("gpus-per-node", "[MODEL:]N", JOB, "GPUs on every node").env(JOB, "GPUS_PER_NODE"),
    val(
        "gpus-per-socket",
        "[MODEL:]N",
        JOB,
        "GPUs on every socket; with --sockets-per-node",
    )
    .env(JOB, "GPUS_PER_SOCKET"),
    val("gpus-per-task", "[MODEL:]N", JOB, "GPUs for each task").env(JOB, "GPUS_PER_TASK"),
    val(
        "gres",
        "gpu[:MODEL][:N]",
        JOB,
        "generic resources on every node",
    )
    .env(SBATCH.and(SALLOC), "GRES")
    .env_exact(&[(SRUN, "SLURM_STEP_GRES"), (SRUN, "SLURM_GRES")]),
    val(
        "gres-flags",
        "FLAGS",
        JOB,
        "how GPUs go with CPUs: enforce-binding, disable-binding, …",
    )
    .env(JOB, "GRES_FLAGS"),
    val("hint", "KIND", JOB, "what the program is like")
        .env(JOB, "HINT")
        .ineffective(NO_TOPOLOGY)
        .unless(&["multithread"]),
    val("mem", "SIZE", JOB, "memory on every node").env(JOB, "MEM_PER_NODE"),
    val("mem-bind", "KIND", JOB, "bind tasks to memory")
        .env(JOB, "MEM_BIND")
        .ineffective("memory is not bound")
        .unless(&["none", "no", "q", "quiet", "v", "verbose"]),
    val("mem-per-cpu", "SIZE", JOB, "memory for each CPU").env(JOB, "MEM_PER_CPU"),
    val("mem-per-gpu", "SIZE", JOB, "memory for each GPU").env(JOB, "MEM_PER_GPU"),
    val("mincpus", "N", JOB, "least CPUs of each node"),
    val(
        "nodefile",
        "FILE",
        SBATCH.and(SALLOC),
        "nodes that the job must get, listed in a file",
    )
    .short('F'),
    val("nodelist", "NODES", JOB, "nodes that the job must get").short('w'),
    val("nodes", "N[-M]", JOB, "number of nodes")
        .short('N')
        .env_exact(&[(SRUN, "SLURM_JOB_NUM_NODES"), (SRUN, "SLURM_NNODES")]),
    val("ntasks", "N", JOB, "number of tasks")
        .alias(&["tasks"])
        .short('n')
        .env_exact(&[(SRUN, "SLURM_NTASKS"), (SRUN, "SLURM_NPROCS")]),
    val("ntasks-per-core", "N", JOB, "most tasks on a core")
        .env(SRUN, "NTASKS_PER_CORE")
        .ineffective(NO_TOPOLOGY),
    val("ntasks-per-gpu", "N", JOB, "tasks for each GPU").env(SRUN, "NTASKS_PER_GPU"),
    val("ntasks-per-node", "N", JOB, "tasks on every node")
        .alias(&["tasks-per-node"])
        .env(SRUN, "NTASKS_PER_NODE"),
    val("ntasks-per-socket", "N", JOB, "most tasks on a socket").env(SRUN, "NTASKS_PER_SOCKET"),
    val("ntasks-per-tres", "N", JOB, "tasks for each GPU").env(SRUN, "NTASKS_PER_TRES"),
    opt(
        "oom-kill-step",
        "0|1",
        JOB,
        "end the whole step when a task runs out of memory",
    )
    .ineffective("the kernel ends the task that ran out of memory"),
    on("overcommit", JOB, "allow more tasks than CPUs")
        .short('O')
        .env(JOB, "OVERCOMMIT"),
    on(
        "oversubscribe",
        JOB,
        "allow sharing of CPUs with other jobs",
    )
    .alias(&["share"])
    .short('s')
    .implied("as in a partition with OverSubscribe=NO"),
    val(
        "prefer",
        "FEATURES",
        JOB,
        "features that the nodes should have",
    ),
    opt("resv-ports", "N", JOB, "reserve network ports")
        .env(SRUN, "RESV_PORTS")
        .ineffective("ports are not reserved"),
    val("segment", "N", JOB, "nodes that must be in the same block"),
    val(
        "sockets-per-node",
        "N",
        JOB,
        "nodes with at least this many sockets",
    )
    .env(SRUN, "NSOCKETS_PER_NODE"),
    on("spread-job", JOB, "use as many nodes as possible")
        .env(JOB, "SPREAD_JOB")
        .ineffective("a job gets as few nodes as it fits on"),
    val(
        "switches",
        "N[@TIME]",
        JOB,
        "most leaf switches of the nodes, and how long to wait for that",
    )
    .env(JOB, "REQ_SWITCH"),
    val("thread-spec", "N", JOB, "threads set aside for the system")
        .env(JOB, "THREAD_SPEC")
        .ineffective("no threads are set aside, as where AllowSpecResourcesUsage is off")
        .unless(&["0"]),
    val("threads-per-core", "N", JOB, "threads of each core to use")
        .env(JOB, "THREADS_PER_CORE")
        .ineffective(NO_TOPOLOGY),
    val("tmp", "SIZE", JOB, "local disk on every node"),
    val("tres-bind", "SPEC", JOB, "which resources each task sees")
        .env(SBATCH.and(SALLOC), "TRES_BIND")
        .implied("of gres/gpu, as --gpu-bind: a task sees its own; what it can open is its step's"),
    val("tres-per-task", "LIST", JOB, "resources for each task")
        .env(SBATCH.and(SALLOC), "TRES_PER_TASK"),
    on("use-min-nodes", JOB, "prefer the least number of nodes").env(JOB, "USE_MIN_NODES"),
];
