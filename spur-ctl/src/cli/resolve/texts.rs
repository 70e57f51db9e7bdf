//! What options say of themselves when their value is `help`.

/// By option.
pub const HELP: [(&str, &str); 3] = [
    (
        "hint",
        "Application hint options:
    --hint=             what the program is bound by
        compute_bound   CPUs: all cores of each socket
        memory_bound    memory: one core of each socket
        [no]multithread more than one thread of a core, or one only
        help            show this help message
The hint is accepted and has no effect here: tasks may run on all CPUs of their step.
",
    ),
    (
        "cpu-bind",
        "CPU bind options:
    --cpu-bind=         bind tasks to CPUs
        q[uiet]         say nothing of it
        v[erbose]       say what is bound
        no[ne]          do not bind
        rank, rank_ldom by the number of the task
        map_cpu:LIST, mask_cpu:LIST
                        to these CPUs, one for each task
        map_ldom:LIST, mask_ldom:LIST
                        to these NUMA nodes, one for each task
        sockets, cores, threads, ldoms
                        to whole ones of these
        help            show this help message
",
    ),
    (
        "mem-bind",
        "Memory bind options:
    --mem-bind=         bind memory to NUMA nodes
        q[uiet]         say nothing of it
        v[erbose]       say what is bound
        no[ne]          do not bind
        rank            by the number of the task
        local           to the NUMA node that the task runs on
        map_mem:LIST, mask_mem:LIST
                        to these NUMA nodes, one for each task
        prefer, sort, nosort
                        how the list is taken
        help            show this help message
",
    ),
];
