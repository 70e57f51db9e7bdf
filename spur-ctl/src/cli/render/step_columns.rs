//! The columns of `squeue -s`.

use super::View;
use super::format::{Cell, Column, Table};
use spur_core::api::{JobView, StepView};
use spur_core::id::StepKind;
use spur_core::job::spec::JobKind;
use spur_core::job::step::StepState;
use spur_core::slurm::{hostlist, timespec};
use std::sync::Arc;

/// `squeue -s`.
pub const DEFAULT: &str = "%.15i %.8j %.9P %.8u %.9M %N";

/// A step and its job.
#[derive(Clone, Debug)]
pub struct Row {
    /// The job.
    pub job: Arc<JobView>,
    /// The step.
    pub step: StepView,
}

impl Row {
    /// `12.0`, `12.batch`, `9_3.0`, `9+1.0`.
    pub fn id(&self) -> String {
        let array = self.job.array.as_ref();
        let task = array.and_then(|array| Some((array.job, array.task?)));
        let step = step_word(self.step.kind);
        match task {
            Some((job, task)) => format!("{job}_{task}.{step}"),
            None => match self.job.het {
                Some(part) => format!("{part}.{step}"),
                None => format!("{}.{step}", self.job.id),
            },
        }
    }

    /// Names of its nodes, folded.
    pub fn nodes(&self) -> String {
        let on = self.step.shares.iter().map(|share| share.share.node);
        let held = |node| self.job.nodes.iter().find(|held| held.share.node == node);
        let names: Vec<&str> = on.filter_map(held).map(|held| held.name.as_str()).collect();
        hostlist::compress(&names)
    }

    /// How many tasks it has.
    pub fn tasks(&self) -> u64 {
        let tasks = self
            .step
            .shares
            .iter()
            .map(|share| share.task_ids.len() as u64);
        tasks.sum::<u64>().max(1)
    }

    /// CPUs that it holds.
    pub fn cpus(&self) -> u32 {
        let cpus = self.step.shares.iter().map(|share| share.share.cpus.len());
        cpus.sum()
    }

    /// Seconds that it has run.
    pub fn run_secs(&self, view: &View) -> u64 {
        let until = self.step.ended.unwrap_or(view.clock.now);
        let stopped = self.job.step_stopped_ms(&self.step, until);
        until
            .secs_since(self.step.started)
            .saturating_sub(stopped / 1000)
    }
}

/// How tasks are laid out over nodes, in Slurm's words: a step within a job that has a node for each task says `Cyclic`.
pub fn distribution(job: &JobView, step: &StepView) -> &'static str {
    let tasks: usize = step.shares.iter().map(|share| share.task_ids.len()).sum();
    match (step.kind, job.spec.kind) {
        (StepKind::Batch, _) => "Unknown",
        (StepKind::Numbered(_), JobKind::Batch | JobKind::Alloc) if tasks <= step.shares.len() => {
            "Cyclic"
        }
        (StepKind::Numbered(_), _) => "Block",
    }
}

/// What a step holds, as TRES; empty for the batch script, for which Slurm counts nothing.
pub fn tres(view: &View, row: &Row) -> String {
    if row.step.kind == StepKind::Batch {
        return String::new();
    }
    let shares = || row.step.shares.iter().map(|share| &share.share);
    let memory: u64 = shares().map(|share| share.memory_mib).sum();
    let gpus: u64 = shares().map(|share| u64::from(share.gpus.len())).sum();
    let part = |key: &str, some: bool, value: String| match some {
        true => format!(",{key}={value}"),
        false => String::new(),
    };
    format!(
        "cpu={}{},node={}{}",
        row.cpus(),
        part("mem", memory > 0, view.mib(memory)),
        row.step.shares.len(),
        part("gres/gpu", gpus > 0, gpus.to_string())
    )
}

/// `batch`, `0`.
pub fn step_word(kind: StepKind) -> String {
    match kind {
        StepKind::Batch => "batch".to_owned(),
        StepKind::Numbered(number) => number.to_string(),
    }
}

/// Every column, in the order in which `--helpformat` lists them.
pub static TABLE: Table<Row> = Table {
    parts: &[COLUMNS],
    bad_letter: "Invalid job step format specification",
    bad_name: "Invalid job step format specification",
};

type Names = &'static [&'static str];

const fn of(letter: char, names: Names, header: &'static str, cell: Cell<Row>) -> Column<Row> {
    Column::new(Some(letter), names, header, cell)
}

const fn named(names: Names, header: &'static str, cell: Cell<Row>) -> Column<Row> {
    Column::new(None, names, header, cell)
}

const NOTHING: Cell<Row> = Cell::Fixed("N/A");
const NULL: Cell<Row> = Cell::Fixed("(null)");

fn state(row: &Row) -> &str {
    match row.step.state {
        StepState::Running => "RUNNING",
        StepState::Ended => "COMPLETED",
    }
}

fn gpus(_: &View, row: &Row) -> String {
    let counts = row.step.shares.iter().map(|share| share.share.gpus.len());
    match counts.max().unwrap_or(0) {
        0 => "N/A".to_owned(),
        count => format!("gres/gpu:{count}"),
    }
}

fn array_task(_: &View, row: &Row) -> String {
    let task = row.job.array.as_ref().and_then(|array| array.task);
    task.map_or_else(|| "N/A".to_owned(), |task| task.to_string())
}

static COLUMNS: &[Column<Row>] = &[
    named(
        &["ArrayJobId"],
        "ARRAY_JOB_ID",
        Cell::Text(|_, r| r.job.array.as_ref().map_or(r.job.id, |a| a.job).to_string()),
    ),
    named(&["ArrayTaskId"], "ARRAY_TASK_ID", Cell::Text(array_task)),
    named(
        &["Cluster"],
        "CLUSTER",
        Cell::Text(|v, _| v.cluster.clone()),
    ),
    named(&["Container"], "CONTAINER", NULL),
    named(&["ContainerId"], "CONTAINERID", NULL),
    named(&["CPUFreq"], "CPU_FREQ", NOTHING),
    named(&["cpus-per-tres"], "CPUS_PER_TRES", NOTHING),
    of('b', &["Gres"], "TRES_PER_JOB", Cell::Text(gpus)).hidden(),
    named(
        &["JobId"],
        "JOB_ID",
        Cell::Text(|_, r| r.job.id.to_string()),
    ),
    named(&["mem-per-tres"], "MEM_PER_TRES", NOTHING),
    named(&["Network"], "NETWORK", NULL),
    of(
        'N',
        &["Nodes", "NodeList"],
        "NODELIST",
        Cell::Text(|_, r| r.nodes()),
    )
    .whole_if(|_| true),
    named(
        &["NumCPUs"],
        "NUM_CPUS",
        Cell::Text(|_, r| r.cpus().to_string()),
    ),
    of(
        'A',
        &["NumTasks"],
        "TASKS",
        Cell::Text(|_, r| r.tasks().to_string()),
    ),
    of(
        'P',
        &["Partition"],
        "PARTITION",
        Cell::Name(|r| &r.job.spec.partition),
    ),
    named(&["ResvPorts"], "RESERVED_PORTS", NULL),
    of(
        'S',
        &["StartTime"],
        "START_TIME",
        Cell::Text(|v, r| v.clock.stamp(r.step.started)),
    ),
    of('i', &["StepId"], "STEPID", Cell::Text(|_, r| r.id())),
    of(
        'j',
        &["StepName", "Name"],
        "NAME",
        Cell::Name(|r| &r.step.name),
    ),
    named(&["StepState", "State"], "STATE", Cell::Name(state)),
    of('l', &["TimeLimit"], "TIME_LIMIT", Cell::Fixed("UNLIMITED")),
    of(
        'M',
        &["TimeUsed"],
        "TIME",
        Cell::Text(|v, r| timespec::elapsed(r.run_secs(v))),
    )
    .whole(),
    named(&["tres-bind"], "TRES_BIND", NOTHING),
    named(&["tres-freq"], "TRES_FREQ", NOTHING),
    named(&["tres-per-job"], "TRES_PER_STEP", Cell::Text(gpus)),
    named(&["tres-per-node"], "TRES_PER_JOB", Cell::Text(gpus)).hidden(),
    named(&["tres-per-socket"], "TRES_PER_SOCKET", NOTHING),
    named(&["tres-per-step"], "TRES_PER_STEP", Cell::Text(gpus)),
    named(&["tres-per-task"], "TRES_PER_TASK", NOTHING),
    of(
        'U',
        &["UserId"],
        "UID",
        Cell::Text(|_, r| r.job.spec.owner.uid.to_string()),
    ),
    of(
        'u',
        &["UserName"],
        "USER",
        Cell::Name(|r| &r.job.spec.owner.user),
    ),
];
