//! The second half of the columns of `squeue`.

use super::*;

pub(super) static COLUMNS: &[Column<JobRow>] = &[
    of(
        'N',
        &["NodeList"],
        "NODELIST",
        Cell::Write(|_, r, o| text::write_nodes(&r.job, o)),
    )
    .whole_if(|_| true),
    named(
        &["NTPerCore"],
        "NTASKS_PER_CORE",
        Cell::Text(|_, r| text::given(r.job.spec.extras().tasks_per_core, "N/A")),
    ),
    named(
        &["NTPerNode"],
        "NTASKS_PER_NODE",
        Cell::Write(|_, r, o| push(o, r.job.spec.tasks_per_node)),
    ),
    named(
        &["NTPerSocket"],
        "NTASKS_PER_SOCKET",
        Cell::Text(|_, r| text::given(r.job.spec.tasks_per_socket, "N/A")),
    ),
    named(&["NTPerBoard"], "NTASKS_PER_BOARD", ZERO),
    of(
        'C',
        &["NumCPUs"],
        "CPUS",
        Cell::Write(|_, r, o| push(o, text::cpu_count(&r.job))),
    ),
    of(
        'D',
        &["NumNodes"],
        "NODES",
        Cell::Write(|_, r, o| push(o, text::node_count(&r.job))),
    ),
    named(
        &["NumTasks"],
        "TASKS",
        Cell::Write(|_, r, o| push(o, text::task_count(&r.job))),
    ),
    named(&["Origin"], "ORIGIN", NA),
    named(&["OriginRaw"], "ORIGIN_RAW", NA),
    of(
        'h',
        &["OverSubscribe", "Shared"],
        "OVER_SUBSCRIBE",
        Cell::Name(|r| text::sharing(&r.job)),
    ),
    of(
        'P',
        &["Partition"],
        "PARTITION",
        Cell::Name(|r| &r.job.spec.partition),
    ),
    named(&["PendingTime"], "PENDING_TIME", Cell::Write(pending_time)),
    named(&["PreemptTime"], "PREEMPT_TIME", NOTHING),
    named(
        &["Prefer"],
        "PREFER",
        Cell::Name(|r| or_null(&r.job.spec.prefer)),
    ),
    of('p', &["Priority"], "PRIORITY", Cell::Text(priority_share)),
    of(
        'Q',
        &["PriorityLong"],
        "PRIORITY",
        Cell::Write(|_, r, o| push(o, r.job.priority)),
    ),
    named(&["Profile"], "PROFILE", Cell::Name(profile)),
    of(
        'q',
        &["QOS"],
        "QOS",
        Cell::Name(|r| or_null(&r.job.spec.qos)),
    ),
    of('r', &["Reason"], "REASON", Cell::Write(reason)),
    of(
        'R',
        &["ReasonList"],
        "NODELIST(REASON)",
        Cell::Write(nodes_or_reason),
    )
    .whole_if(|r| !text::shows_reason(&r.job)),
    named(
        &["Reboot"],
        "REBOOT",
        Cell::Write(|_, r, o| push(o, u32::from(r.job.spec.extras().reboot))),
    ),
    of(
        'n',
        &["ReqNodes"],
        "REQ_NODES",
        Cell::Text(|_, r| text::hosts(&r.job.spec.nodelist)),
    )
    .whole(),
    named(
        &["ReqSwitch"],
        "REQ_SWITCH",
        Cell::Write(|_, r, o| push(o, r.job.spec.switches.map_or(0, |s| s.count))),
    ),
    named(
        &["Requeue"],
        "REQUEUE",
        Cell::Write(|_, r, o| push(o, u32::from(r.job.spec.requeue))),
    ),
    of(
        'v',
        &["Reservation"],
        "RESERVATION",
        Cell::Name(|r| or_null(&r.job.spec.extras().reservation)),
    ),
    named(&["ResizeTime"], "RESIZE_TIME", NOTHING),
    named(
        &["RestartCnt"],
        "RESTART_COUNT",
        Cell::Write(|_, r, o| push(o, r.job.restarts)),
    ),
    of(
        'Y',
        &["SchedNodes"],
        "SCHEDNODES",
        Cell::Text(|_, r| text::sched_nodes(&r.job)),
    )
    .whole_if(|_| true),
    of('z', &["SCT"], "S:C:T", Cell::Text(sockets_cores_threads)),
    named(&["SiblingsActive"], "SIBLINGS_ACTIVE", NA),
    named(&["SiblingsActiveRaw"], "SIBLINGS_ACTIVE_RAW", NA),
    named(&["SiblingsViable"], "SIBLINGS_VIABLE", NA),
    named(&["SiblingsViableRaw"], "SIBLINGS_VIABLE_RAW", NA),
    of(
        'H',
        &["Sockets"],
        "SOCKETS_PER_NODE",
        Cell::Text(|_, r| text::given(r.job.spec.sockets_per_node, "*")),
    ),
    named(&["SPerBoard"], "SOCKETS_PER_BOARD", ZERO),
    of(
        'S',
        &["StartTime"],
        "START_TIME",
        Cell::Write(|v, r, o| moment(v, text::start_shown(v, &r.job), o)),
    ),
    of(
        'T',
        &["State"],
        "STATE",
        Cell::Name(|r| text::state(&r.job)),
    ),
    of(
        't',
        &["StateCompact"],
        "ST",
        Cell::Name(|r| text::state_compact(&r.job)),
    ),
    named(
        &["StdErr"],
        "STDERR",
        Cell::Text(|v, r| text::stream(v, r, text::Stream::Err)),
    ),
    named(
        &["StdIn"],
        "STDIN",
        Cell::Text(|v, r| text::stream(v, r, text::Stream::In)),
    ),
    named(
        &["StdOut"],
        "STDOUT",
        Cell::Text(|v, r| text::stream(v, r, text::Stream::Out)),
    ),
    of(
        'V',
        &["SubmitTime"],
        "SUBMIT_TIME",
        Cell::Write(|v, r, o| v.clock.write(r.job.submitted, o)),
    ),
    named(&["system_comment"], "SYSTEM_COMMENT", NULL),
    of(
        'J',
        &["Threads"],
        "THREADS_PER_CORE",
        Cell::Text(|_, r| text::given(r.job.spec.extras().threads_per_core, "*")),
    ),
    of(
        'L',
        &["TimeLeft"],
        "TIME_LEFT",
        Cell::Text(|v, r| text::time_left(v, &r.job)),
    )
    .whole(),
    of('l', &["TimeLimit"], "TIME_LIMIT", Cell::Write(time_limit)).whole(),
    of(
        'M',
        &["TimeUsed"],
        "TIME",
        Cell::Write(|v, r, o| elapsed(o, text::run_secs(v, &r.job))),
    )
    .whole(),
    named(
        &["tres-alloc", "Tres"],
        "TRES_ALLOC",
        Cell::Text(|v, r| text::job_tres(v, &r.job)),
    ),
    named(
        &["tres-bind"],
        "TRES_BIND",
        Cell::Text(|_, r| or_na(text::task_binding(&r.job))),
    ),
    named(
        &["tres-freq"],
        "TRES_FREQ",
        Cell::Name(|r| or_not(&r.job.spec.extras().tres_freq)),
    ),
    named(
        &["tres-per-job"],
        "TRES_PER_JOB",
        Cell::Text(|_, r| text::tres_gpus(r.job.spec.gpus_total.as_ref())),
    ),
    named(
        &["tres-per-node"],
        "TRES_PER_NODE",
        Cell::Text(gpus_per_node),
    )
    .hidden(),
    named(
        &["tres-per-socket"],
        "TRES_PER_SOCKET",
        Cell::Text(|_, r| text::tres_gpus(r.job.spec.gpus_per_socket.as_ref())),
    ),
    named(
        &["tres-per-task"],
        "TRES_PER_TASK",
        Cell::Text(|_, r| or_na(text::tres_per_task(&r.job))),
    ),
    of(
        'U',
        &["UserId"],
        "UID",
        Cell::Write(|_, r, o| push(o, r.job.spec.owner.uid.0)),
    ),
    of(
        'u',
        &["UserName"],
        "USER",
        Cell::Name(|r| &r.job.spec.owner.user),
    ),
    named(&["Wait4Switch"], "WAIT4SWITCH", Cell::Write(switch_wait)),
    of(
        'w',
        &["WCKey"],
        "WCKEY",
        Cell::Name(|r| or_null(&r.job.spec.extras().wckey)),
    ),
    of(
        'Z',
        &["WorkDir"],
        "WORK_DIR",
        Cell::Name(|r| &r.job.spec.work_dir),
    ),
];
