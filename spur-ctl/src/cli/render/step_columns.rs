//! The columns of `squeue -s`.

use super::View;
use super::format::{Column, Key};
use spur_core::api::{JobView, StepView};
use spur_core::id::{StepId, StepKind};
use spur_core::job::step::StepState;
use spur_core::slurm::{hostlist, timespec};
use std::sync::Arc;

/// `squeue -s`.
pub const DEFAULT: &str = "%.15i %.8j %.9P %.8u %.9M %N";
/// Order of the lines.
pub const SORT: &str = "P,i";

/// A step and its job.
#[derive(Clone, Debug)]
pub struct Row {
    /// The job.
    pub job: Arc<JobView>,
    /// The step.
    pub step: StepView,
}

const fn column(
    letter: char,
    names: &'static [&'static str],
    header: &'static str,
    cell: fn(&View, &Row) -> String,
) -> Column<Row> {
    Column {
        letter: Some(letter),
        names,
        header,
        cell,
        key: None,
    }
}

/// Steps sort by job, the batch script first.
fn by_id(row: &Row) -> Key {
    let step = match row.step.kind {
        StepKind::Batch => 0,
        StepKind::Numbered(number) => i128::from(number) + 1,
    };
    Key::Number((i128::from(row.job.id.0) << 33) + step)
}

fn id(_: &View, row: &Row) -> String {
    StepId {
        job: row.job.id,
        step: row.step.kind,
    }
    .to_string()
}

fn nodes(_: &View, row: &Row) -> String {
    let on = row.step.shares.iter().map(|share| share.share.node);
    let held = |node| row.job.nodes.iter().find(|held| held.share.node == node);
    let names: Vec<&str> = on.filter_map(held).map(|held| held.name.as_str()).collect();
    hostlist::compress(&names)
}

fn run_time(view: &View, row: &Row) -> String {
    let until = row.step.ended.unwrap_or(view.clock.now);
    timespec::elapsed(until.secs_since(row.step.started))
}

fn state(_: &View, row: &Row) -> String {
    match row.step.state {
        StepState::Running => "RUNNING",
        StepState::Ended => "COMPLETED",
    }
    .to_owned()
}

/// Every column.
pub static COLUMNS: &[Column<Row>] = &[
    Column {
        letter: Some('i'),
        names: &["StepId"],
        header: "STEPID",
        cell: id,
        key: Some(by_id),
    },
    column('A', &["JobId"], "JOBID", |_, row| row.job.id.to_string()),
    column('j', &["StepName", "Name"], "NAME", |_, row| {
        row.step.name.clone()
    }),
    column('P', &["Partition"], "PARTITION", |_, row| {
        row.job.spec.partition.clone()
    }),
    column('u', &["UserName"], "USER", |_, row| {
        row.job.spec.owner.user.clone()
    }),
    column('U', &["UserId"], "USERID", |_, row| {
        row.job.spec.owner.uid.to_string()
    }),
    column('M', &["TimeUsed"], "TIME", run_time),
    column('S', &["StartTime"], "START_TIME", |view, row| {
        view.clock.stamp(row.step.started)
    }),
    column('N', &["Nodes", "NodeList"], "NODELIST", nodes),
    column('T', &["StepState", "State"], "STATE", state),
    column('b', &["tres-per-node"], "TRES_PER_NODE", |_, row| {
        let count: u32 = row
            .step
            .shares
            .iter()
            .map(|share| share.share.gpus.len())
            .max()
            .unwrap_or(0);
        if count == 0 {
            "N/A".to_owned()
        } else {
            format!("gres/gpu:{count}")
        }
    }),
    column('C', &["NumCPUs"], "CPUS", |_, row| {
        row.step
            .shares
            .iter()
            .map(|share| share.share.cpus.len())
            .sum::<u32>()
            .to_string()
    }),
];
