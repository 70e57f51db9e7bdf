//! The columns of `squeue`.

use super::format::{Column, Key};
use super::job_text::{self as text, Stream};
use super::{View, or_null};
use spur_core::api::JobView;
use spur_core::job::state::JobState;
use spur_core::slurm::{hostlist, signal, timespec};
use spur_core::time::Millis;

/// `squeue`.
pub const DEFAULT: &str = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
/// `squeue -l`.
pub const LONG: &str = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
/// `squeue --start`.
pub const START: &str = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";
/// `squeue --only-job-state`.
pub const STATES: &str = "%.18i %.2t";
/// Order of the lines.
pub const SORT: &str = "P,t,-p";
/// Order of the lines of `squeue --start`.
pub const SORT_START: &str = "S,P,t,-p";

type Names = &'static [&'static str];
type Cell = fn(&View, &JobView) -> String;

const fn column(letter: char, names: Names, header: &'static str, cell: Cell) -> Column<JobView> {
    Column {
        letter: Some(letter),
        names,
        header,
        cell,
        key: None,
    }
}

/// A column sorted by a number.
const fn number(
    letter: char,
    names: Names,
    header: &'static str,
    cell: Cell,
    key: fn(&JobView) -> Key,
) -> Column<JobView> {
    Column {
        letter: Some(letter),
        names,
        header,
        cell,
        key: Some(key),
    }
}

/// A column without a letter.
const fn named(names: Names, header: &'static str, cell: Cell) -> Column<JobView> {
    Column {
        letter: None,
        names,
        header,
        cell,
        key: None,
    }
}

fn id(_: &View, job: &JobView) -> String {
    job.id.to_string()
}

fn by_id(job: &JobView) -> Key {
    Key::Number(job.id.0.into())
}

fn null(_: &View, _: &JobView) -> String {
    "(null)".to_owned()
}

fn not_applicable(_: &View, _: &JobView) -> String {
    "N/A".to_owned()
}

fn any(_: &View, _: &JobView) -> String {
    "*".to_owned()
}

fn zero(_: &View, _: &JobView) -> String {
    "0".to_owned()
}

fn moment(view: &View, at: Option<Millis>) -> String {
    view.clock.stamp_or(at, "N/A")
}

/// Moments that are not known sort last.
fn by_moment(at: Option<Millis>) -> Key {
    Key::Number(at.map_or(i128::MAX, |at| at.0.into()))
}

fn priority_share(_: &View, job: &JobView) -> String {
    format!("{:.14}", f64::from(job.priority) / f64::from(u32::MAX))
}

fn by_priority(job: &JobView) -> Key {
    Key::Number(job.priority.into())
}

fn user(_: &View, job: &JobView) -> String {
    job.spec.owner.user.clone()
}

fn group(_: &View, job: &JobView) -> String {
    job.spec.owner.group.clone()
}

fn run_time(view: &View, job: &JobView) -> String {
    timespec::elapsed(text::run_secs(view, job))
}

fn cpus(_: &View, job: &JobView) -> String {
    text::cpu_count(job).to_string()
}

fn nodes(_: &View, job: &JobView) -> String {
    text::node_count(job).to_string()
}

fn over_subscribe(_: &View, job: &JobView) -> String {
    if job.spec.exclusive { "NO" } else { "OK" }.to_owned()
}

/// Every column. The order is that of the letters, then of the names.
pub static COLUMNS: &[Column<JobView>] = &[
    column('a', &["Account"], "ACCOUNT", |_, j| {
        or_null(&j.spec.account).to_owned()
    }),
    column('b', &["tres-per-node", "Gres"], "TRES_PER_NODE", |_, j| {
        text::tres_gpus(j.spec.gpus_per_node.as_ref())
    }),
    column('c', &["MinCPUs"], "MIN_CPUS", |_, j| {
        text::cpus_per_node(j).to_string()
    }),
    column('d', &["MinTmpDisk"], "MIN_TMP_DISK", zero),
    number(
        'e',
        &["EndTime"],
        "END_TIME",
        |v, j| moment(v, text::end(v, j)),
        |j| by_moment(j.ended),
    ),
    column('f', &["Feature"], "FEATURES", |_, j| {
        or_null(&j.spec.constraint).to_owned()
    }),
    column('g', &["GroupName"], "GROUP", group),
    column('h', &["OverSubscribe"], "OVER_SUBSCRIBE", over_subscribe),
    number('i', &["JobArrayId"], "JOBID", id, by_id),
    column('j', &["Name"], "NAME", |_, j| j.spec.name.clone()),
    column('k', &["Comment"], "COMMENT", |_, j| {
        or_null(&j.spec.comment).to_owned()
    }),
    column('l', &["TimeLimit"], "TIME_LIMIT", |_, j| {
        text::time_limit(j)
    }),
    column('m', &["MinMemory"], "MIN_MEMORY", |v, j| {
        v.mib(text::memory_request(j).1)
    }),
    column('n', &["ReqNodes"], "REQ_NODES", |_, j| {
        hostlist::compress(&j.spec.nodelist)
    }),
    column('o', &["Command"], "COMMAND", |_, j| {
        text::command(j).to_owned()
    }),
    number('p', &["Priority"], "PRIORITY", priority_share, by_priority),
    column('q', &["QOS"], "QOS", |_, j| or_null(&j.spec.qos).to_owned()),
    column('r', &["Reason"], "REASON", |_, j| text::reason(j)),
    number(
        't',
        &["StateCompact"],
        "ST",
        |_, j| text::state_compact(j).to_owned(),
        by_state,
    ),
    column('u', &["UserName"], "USER", user),
    column('v', &["Reservation"], "RESERVATION", null),
    column('w', &["WCKey"], "WCKEY", null),
    column('x', &["ExcNodes"], "EXC_NODES", |_, j| {
        hostlist::compress(&j.spec.exclude)
    }),
    number(
        'y',
        &["Nice"],
        "NICE",
        |_, j| j.spec.nice.to_string(),
        |j| Key::Number(j.spec.nice.into()),
    ),
    column('z', &["SCT"], "S:C:T", |_, j| {
        format!("{}:*:*", text::given(j.spec.sockets_per_node, "*"))
    }),
    number('A', &["JobId"], "JOBID", id, by_id),
    column('B', &["BatchHost"], "EXEC_HOST", |_, j| {
        text::batch_host(j).unwrap_or("n/a").to_owned()
    }),
    number('C', &["NumCPUs"], "CPUS", cpus, |j| {
        Key::Number(text::cpu_count(j).into())
    }),
    number('D', &["NumNodes"], "NODES", nodes, |j| {
        Key::Number(text::node_count(j).into())
    }),
    column('E', &["Dependency"], "DEPENDENCY", null),
    number('F', &["ArrayJobId"], "ARRAY_JOB_ID", id, by_id),
    column('G', &["GroupId"], "GROUP", |_, j| {
        j.spec.owner.gid.to_string()
    }),
    column('H', &["Sockets"], "SOCKETS_PER_NODE", |_, j| {
        text::given(j.spec.sockets_per_node, "*")
    }),
    column('I', &["Cores"], "CORES_PER_SOCKET", any),
    column('J', &["Threads"], "THREADS_PER_CORE", any),
    column('K', &["ArrayTaskId"], "ARRAY_TASK_ID", not_applicable),
    column('L', &["TimeLeft"], "TIME_LEFT", |v, j| {
        text::time_left(v, j)
    }),
    column('M', &["TimeUsed"], "TIME", run_time),
    column('N', &["NodeList"], "NODELIST", |_, j| text::node_list(j)),
    column('O', &["Contiguous"], "CONTIGUOUS", |_, j| {
        u8::from(j.spec.contiguous).to_string()
    }),
    column('P', &["Partition"], "PARTITION", |_, j| {
        j.spec.partition.clone()
    }),
    number(
        'Q',
        &["PriorityLong"],
        "PRIORITY",
        |_, j| j.priority.to_string(),
        by_priority,
    ),
    column('R', &["ReasonList"], "NODELIST(REASON)", |_, j| {
        text::nodes_or_reason(j)
    }),
    number(
        'S',
        &["StartTime"],
        "START_TIME",
        |v, j| moment(v, text::start_shown(v, j)),
        |j| by_moment(text::start(j)),
    ),
    number(
        'T',
        &["State"],
        "STATE",
        |_, j| text::state(j).to_owned(),
        by_state,
    ),
    number(
        'U',
        &["UserId"],
        "UID",
        |_, j| j.spec.owner.uid.to_string(),
        |j| Key::Number(j.spec.owner.uid.0.into()),
    ),
    number(
        'V',
        &["SubmitTime"],
        "SUBMIT_TIME",
        |v, j| v.clock.stamp(j.submitted),
        |j| by_moment(Some(j.submitted)),
    ),
    column('W', &["Licenses"], "LICENSES", null),
    column('X', &["CoreSpec"], "CORE_SPEC", not_applicable),
    column('Y', &["SchedNodes"], "SCHEDNODES", |_, j| {
        text::sched_nodes(j)
    }),
    column('Z', &["WorkDir"], "WORK_DIR", |_, j| {
        j.spec.work_dir.clone()
    }),
    named(&["AccrueTime"], "ACCRUE_TIME", |v, j| {
        v.clock.stamp(j.eligible)
    }),
    named(&["AllocNodes"], "ALLOC_NODES", |_, j| {
        or_null(&j.spec.submit_host).to_owned()
    }),
    named(&["AllocSID"], "ALLOC_SID", |_, j| {
        j.spec.submit_sid.to_string()
    }),
    named(&["BatchFlag"], "BATCH_FLAG", |_, j| {
        u8::from(j.spec.kind == spur_core::job::spec::JobKind::Batch).to_string()
    }),
    named(
        &["cpus-per-task", "CPUsPerTask"],
        "CPUS_PER_TASK",
        |_, j| {
            if j.spec.cpus_per_task_set {
                j.spec.cpus_per_task.to_string()
            } else {
                "N/A".to_owned()
            }
        },
    ),
    named(&["DerivedEC"], "DERIVED_EC", |_, j| {
        signal::pair(j.derived_exit)
    }),
    named(&["EligibleTime"], "ELIGIBLE_TIME", |v, j| {
        v.clock.stamp(j.eligible)
    }),
    named(&["exit_code"], "EXIT_CODE", |_, j| signal::pair(j.exit)),
    named(&["MaxCPUs"], "MAX_CPUS", zero),
    named(&["MaxNodes"], "MAX_NODES", |_, j| {
        j.spec.nodes_max.to_string()
    }),
    named(&["NTPerNode"], "NTASKS_PER_NODE", |_, j| {
        j.spec.tasks_per_node.to_string()
    }),
    named(&["NumTasks"], "TASKS", |_, j| {
        text::task_count(j).to_string()
    }),
    named(&["PendingTime"], "PENDING_TIME", |v, j| {
        j.started
            .unwrap_or(v.clock.now)
            .secs_since(j.submitted)
            .to_string()
    }),
    named(&["Requeue"], "REQUEUE", |_, j| {
        u8::from(j.spec.requeue).to_string()
    }),
    named(&["RestartCnt"], "RESTART_COUNT", |_, j| {
        j.restarts.to_string()
    }),
    named(&["StdErr"], "STDERR", |_, j| text::file(j, Stream::Err)),
    named(&["StdIn"], "STDIN", |_, j| text::file(j, Stream::In)),
    named(&["StdOut"], "STDOUT", |_, j| text::file(j, Stream::Out)),
    named(&["tres-alloc"], "TRES_ALLOC", text::job_tres),
    named(&["tres-per-job"], "TRES_PER_JOB", |_, j| {
        text::tres_gpus(j.spec.gpus_total.as_ref())
    }),
    named(&["tres-per-task"], "TRES_PER_TASK", |_, j| {
        text::tres_gpus(j.spec.gpus_per_task.as_ref())
    }),
    named(&["admin_comment"], "ADMIN_COMMENT", null),
    named(&["AssocId"], "ASSOC_ID", zero),
    named(&["BoardsPerNode"], "BOARDS_PER_NODE", not_applicable),
    named(&["BurstBuffer"], "BURST_BUFFER", null),
    named(&["BurstBufferState"], "BURST_BUFFER_STATE", null),
    named(&["Cluster"], "CLUSTER", not_applicable),
    named(&["ClusterFeature"], "CLUSTER_FEATURES", null),
    named(&["Container"], "CONTAINER", null),
    named(&["ContainerId"], "CONTAINER_ID", null),
    named(&["cpus-per-tres"], "CPUS_PER_TRES", |_, j| {
        text::per_gpu(j.spec.cpus_per_gpu.into()).unwrap_or_else(|| "N/A".to_owned())
    }),
    named(&["Deadline"], "DEADLINE", not_applicable),
    named(&["DelayBoot"], "DELAY_BOOT", zero),
    named(&["HetJobId"], "HET_JOB_ID", not_applicable),
    named(&["HetJobIdSet"], "HET_JOB_ID_SET", not_applicable),
    named(&["HetJobOffset"], "HET_JOB_OFFSET", not_applicable),
    named(&["LastSchedEval"], "LAST_SCHED_EVAL", not_applicable),
    named(&["mem-per-tres"], "MEM_PER_TRES", |_, j| {
        text::per_gpu(text::memory_per_gpu(j)).unwrap_or_else(|| "N/A".to_owned())
    }),
    named(&["MCSLabel"], "MCSLABEL", null),
    named(&["MinTime"], "MIN_TIME", not_applicable),
    named(&["Network"], "NETWORK", null),
    named(&["NTPerCore"], "NTASKS_PER_CORE", not_applicable),
    named(&["NTPerSocket"], "NTASKS_PER_SOCKET", |_, j| {
        text::given(j.spec.tasks_per_socket, "N/A")
    }),
    named(&["NTPerBoard"], "NTASKS_PER_BOARD", not_applicable),
    named(&["Origin"], "ORIGIN", not_applicable),
    named(&["OriginRaw"], "ORIGIN_RAW", not_applicable),
    named(&["PreemptTime"], "PREEMPT_TIME", not_applicable),
    named(&["Prefer"], "PREFER", |_, j| {
        or_null(&j.spec.prefer).to_owned()
    }),
    named(&["Profile"], "PROFILE", not_applicable),
    named(&["Reboot"], "REBOOT", zero),
    named(&["ReqSwitch"], "REQ_SWITCH", |_, j| {
        j.spec.switches.map_or(0, |s| s.count).to_string()
    }),
    named(&["ResizeTime"], "RESIZE_TIME", not_applicable),
    named(&["SiblingsActive"], "SIBLINGS_ACTIVE", not_applicable),
    named(
        &["SiblingsActiveRaw"],
        "SIBLINGS_ACTIVE_RAW",
        not_applicable,
    ),
    named(&["SiblingsViable"], "SIBLINGS_VIABLE", not_applicable),
    named(
        &["SiblingsViableRaw"],
        "SIBLINGS_VIABLE_RAW",
        not_applicable,
    ),
    named(&["SPerBoard"], "SOCKETS_PER_BOARD", not_applicable),
    named(&["system_comment"], "SYSTEM_COMMENT", null),
    named(&["tres-bind"], "TRES_BIND", |_, j| {
        text::task_binding(j).unwrap_or_else(|| "N/A".to_owned())
    }),
    named(&["tres-freq"], "TRES_FREQ", not_applicable),
    named(&["tres-per-socket"], "TRES_PER_SOCKET", |_, j| {
        text::tres_gpus(j.spec.gpus_per_socket.as_ref())
    }),
    named(&["Wait4Switch"], "WAIT4SWITCH", |_, j| {
        let wait = j.spec.switches.and_then(|switches| switches.max_wait_secs);
        wait.map_or_else(|| "0".to_owned(), timespec::elapsed)
    }),
];

/// States sort by their number, as Slurm's do; what is completing comes last.
fn by_state(job: &JobView) -> Key {
    let number = match job.state {
        _ if job.completing => 0x8000,
        JobState::Pending => 0,
        JobState::Running => 1,
        JobState::Suspended => 2,
        JobState::Completed => 3,
        JobState::Cancelled => 4,
        JobState::Failed => 5,
        JobState::Timeout => 6,
        JobState::NodeFail => 7,
        JobState::OutOfMemory => 12,
    };
    Key::Number(number)
}
