//! The columns of `squeue`, in the order in which `--helpformat` lists them.

use super::format::{Cell, Column, Table};
use super::job_row::{JobRow, push};
use super::job_text as text;
use super::{View, or_null};
use spur_core::job::het::HetPart;
use spur_core::slurm::signal;
use spur_core::time::Millis;

mod fields;
mod more;

use fields::*;

/// `squeue`.
pub const DEFAULT: &str = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
/// `squeue -l`.
pub const LONG: &str = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
/// `squeue --start`.
pub const START: &str = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";
/// `squeue --only-job-state`.
pub const STATES: &str = "%.18i %.2t";

/// Every column.
pub static TABLE: Table<JobRow> = Table {
    parts: &[FIRST, more::COLUMNS],
    bad_letter: "Invalid job format specification",
    bad_name: "Invalid job format specification",
};

type Names = &'static [&'static str];

const fn of(
    letter: char,
    names: Names,
    header: &'static str,
    cell: Cell<JobRow>,
) -> Column<JobRow> {
    Column::new(Some(letter), names, header, cell)
}

/// A column without a letter.
const fn named(names: Names, header: &'static str, cell: Cell<JobRow>) -> Column<JobRow> {
    Column::new(None, names, header, cell)
}

const NULL: Cell<JobRow> = Cell::Fixed("(null)");
const NOTHING: Cell<JobRow> = Cell::Fixed("N/A");
const NA: Cell<JobRow> = Cell::Fixed("NA");
const ZERO: Cell<JobRow> = Cell::Fixed("0");

fn moment(view: &View, at: Option<Millis>, out: &mut String) {
    match at {
        Some(at) => view.clock.write(at, out),
        None => out.push_str("N/A"),
    }
}

/// Of a component of a heterogeneous job.
fn of_het(row: &JobRow, tell: impl Fn(HetPart) -> String) -> String {
    row.job.het.map_or_else(|| "N/A".to_owned(), tell)
}

static FIRST: &[Column<JobRow>] = &[
    of(
        'a',
        &["Account"],
        "ACCOUNT",
        Cell::Name(|r| or_null(&r.job.spec.account)),
    ),
    named(
        &["AccrueTime"],
        "ACCRUE_TIME",
        Cell::Write(|v, r, o| moment(v, text::accrues(&r.job), o)),
    ),
    named(
        &["admin_comment"],
        "ADMIN_COMMENT",
        Cell::Name(|r| or_null(&r.job.spec.extras().admin_comment)),
    ),
    named(
        &["AllocNodes"],
        "ALLOC_NODES",
        Cell::Name(|r| or_null(&r.job.spec.submit_host)),
    ),
    named(
        &["AllocSID"],
        "ALLOC_SID",
        Cell::Write(|_, r, o| push(o, r.job.spec.submit_sid)),
    ),
    of(
        'F',
        &["ArrayJobId"],
        "ARRAY_JOB_ID",
        Cell::Write(|_, r, o| push(o, r.array_or_job())),
    ),
    of(
        'K',
        &["ArrayTaskId"],
        "ARRAY_TASK_ID",
        Cell::Write(|_, r, o| r.write_tasks(o)),
    ),
    named(
        &["AssocId"],
        "ASSOC_ID",
        Cell::Write(|_, r, o| push(o, r.job.spec.association)),
    ),
    named(
        &["BatchFlag"],
        "BATCH_FLAG",
        Cell::Write(|_, r, o| push(o, u32::from(is_batch(r)))),
    ),
    of('B', &["BatchHost"], "EXEC_HOST", Cell::Name(exec_host)),
    named(&["BoardsPerNode"], "BOARDS_PER_NODE", NOTHING),
    named(
        &["BurstBuffer"],
        "BURST_BUFFER",
        Cell::Name(|r| or_null(&r.job.spec.extras().burst_buffer)),
    ),
    named(&["BurstBufferState"], "BURST_BUFFER_STATE", Cell::Fixed("")),
    named(
        &["Cluster"],
        "CLUSTER",
        Cell::Write(|v, _, o| o.push_str(&v.cluster)),
    ),
    named(
        &["ClusterFeature"],
        "CLUSTER_FEATURES",
        Cell::Name(|r| or_null(&r.job.spec.extras().cluster_features)),
    ),
    of(
        'o',
        &["Command"],
        "COMMAND",
        Cell::Name(|r| or_null(&r.job.spec.command)),
    ),
    of(
        'k',
        &["Comment"],
        "COMMENT",
        Cell::Name(|r| or_null(&r.job.spec.comment)),
    ),
    named(
        &["Container"],
        "CONTAINER",
        Cell::Name(|r| or_null(&r.job.spec.extras().container)),
    ),
    named(
        &["ContainerId"],
        "CONTAINERID",
        Cell::Name(|r| or_null(&r.job.spec.extras().container_id)),
    ),
    of(
        'O',
        &["Contiguous"],
        "CONTIGUOUS",
        Cell::Write(|_, r, o| push(o, u32::from(r.job.spec.contiguous))),
    ),
    of(
        'I',
        &["Cores"],
        "CORES_PER_SOCKET",
        Cell::Text(|_, r| text::given(r.job.spec.extras().cores_per_socket, "*")),
    ),
    of('X', &["CoreSpec"], "CORE_SPEC", Cell::Text(core_spec)),
    named(&["CPUsPerTask"], "CPUS_PER_TASK", Cell::Text(cpus_per_task)),
    named(
        &["cpus-per-task"],
        "CPUS_PER_TASK",
        Cell::Text(cpus_per_task),
    ),
    named(
        &["cpus-per-tres"],
        "CPUS_PER_TRES",
        Cell::Text(|_, r| or_na(text::per_gpu(r.job.spec.cpus_per_gpu.into()))),
    ),
    named(
        &["Deadline"],
        "DEADLINE",
        Cell::Write(|v, r, o| moment(v, r.job.spec.extras().deadline, o)),
    ),
    named(
        &["DelayBoot"],
        "DELAY_BOOT",
        Cell::Write(|_, r, o| elapsed(o, r.job.spec.extras().delay_boot.unwrap_or(0))),
    ),
    of(
        'E',
        &["Dependency"],
        "DEPENDENCY",
        Cell::Name(|r| or_null(&r.job.dependency)),
    ),
    named(
        &["DerivedEC"],
        "DERIVED_EC",
        Cell::Text(|_, r| signal::pair(r.job.derived_exit)),
    ),
    named(
        &["EligibleTime"],
        "ELIGIBLE_TIME",
        Cell::Write(|v, r, o| moment(v, text::eligible(&r.job), o)),
    ),
    of('e', &["EndTime"], "END_TIME", Cell::Write(end_time)),
    of(
        'x',
        &["ExcNodes"],
        "EXC_NODES",
        Cell::Text(|_, r| text::hosts(&r.job.spec.exclude)),
    )
    .whole(),
    named(
        &["exit_code"],
        "EXIT_CODE",
        Cell::Text(|_, r| signal::pair(r.job.exit)),
    ),
    of(
        'f',
        &["Feature"],
        "FEATURES",
        Cell::Name(|r| or_null(&r.job.spec.constraint)),
    ),
    of('b', &["Gres"], "TRES_PER_NODE", Cell::Text(gpus_per_node)).hidden(),
    of(
        'G',
        &["GroupId"],
        "GROUP",
        Cell::Write(|_, r, o| push(o, r.job.spec.owner.gid.0)),
    ),
    of(
        'g',
        &["GroupName"],
        "GROUP",
        Cell::Name(|r| &r.job.spec.owner.group),
    ),
    named(
        &["HetJobId", "PackJobId"],
        "HET_JOB_ID",
        Cell::Text(|_, r| of_het(r, |part| part.leader.to_string())),
    ),
    named(
        &["HetJobIdSet", "PackJobIdSet"],
        "HET_JOB_ID_SET",
        Cell::Text(|_, r| of_het(r, HetPart::id_set)),
    ),
    named(
        &["HetJobOffset", "PackJobOffset"],
        "HET_JOB_OFFSET",
        Cell::Text(|_, r| of_het(r, |part| part.offset.to_string())),
    ),
    of(
        'i',
        &["JobArrayId"],
        "JOBID",
        Cell::Write(|_, r, o| r.write_id(o)),
    ),
    of(
        'A',
        &["JobId"],
        "JOBID",
        Cell::Write(|_, r, o| push(o, r.job.id.0)),
    ),
    named(
        &["LastSchedEval"],
        "LAST_SCHED_EVAL",
        Cell::Write(|v, r, o| moment(v, text::last_evaluation(&r.job), o)),
    ),
    of(
        'W',
        &["Licenses"],
        "LICENSES",
        Cell::Name(|r| or_null(&r.job.spec.extras().licenses)),
    ),
    named(
        &["MaxCPUs"],
        "MAX_CPUS",
        Cell::Write(|_, r, o| push(o, text::cpu_count(&r.job))),
    ),
    named(
        &["MaxNodes"],
        "MAX_NODES",
        Cell::Write(|_, r, o| push(o, max_nodes(r))),
    ),
    named(
        &["mem-per-tres"],
        "MEM_PER_TRES",
        Cell::Text(|_, r| or_na(text::per_gpu(text::memory_per_gpu(&r.job)))),
    ),
    named(
        &["MCSLabel"],
        "MCSLABEL",
        Cell::Name(|r| or_null(&r.job.spec.extras().mcs_label)),
    ),
    of(
        'c',
        &["MinCPUs"],
        "MIN_CPUS",
        Cell::Write(|_, r, o| push(o, text::cpus_per_node(&r.job))),
    ),
    of(
        'm',
        &["MinMemory"],
        "MIN_MEMORY",
        Cell::Text(|v, r| v.mib(text::memory_request(&r.job).1)),
    ),
    named(&["MinTime"], "TIME_MIN", Cell::Write(min_time)),
    of(
        'd',
        &["MinTmpDisk"],
        "MIN_TMP_DISK",
        Cell::Text(|v, r| v.mib(r.job.spec.extras().tmp_mib)),
    ),
    of('j', &["Name"], "NAME", Cell::Name(|r| &r.job.spec.name)),
    named(
        &["Network"],
        "NETWORK",
        Cell::Name(|r| or_null(&r.job.spec.extras().network)),
    ),
    of(
        'y',
        &["Nice"],
        "NICE",
        Cell::Text(|_, r| r.job.spec.nice.to_string()),
    ),
];
