//! Rows of the accounting record, as `sacct` and `sstat` show them: a job, then its steps. The table of columns is in [`fields`], how
//! they are laid out in [`sheet`], and how numbers are written in [`numbers`].

pub mod data;
pub mod fields;
pub mod numbers;
pub mod sheet;

#[cfg(test)]
mod tests;

use super::View;
use spur_core::api::{AccountedJob, GpuNow, JobView, StepView};
use spur_core::id::{NodeName, StepKind};
use spur_core::job::state::{JobState, Reason};
use spur_core::job::step::StepState;
use spur_core::manage::accounts::Accounts;
use spur_core::usage::summary::{JobTotals, Processes};
use std::sync::Arc;

/// What a job's steps are ended by.
const SIGTERM: u8 = 15;

/// What every cell needs beside its row.
#[derive(Debug)]
pub struct Context {
    /// The present, and how moments are written.
    pub view: View,
    /// Cluster name.
    pub cluster: String,
    /// Unit of sizes that was asked for.
    pub units: Option<char>,
    /// Names of files with their symbols replaced.
    pub expand: bool,
    /// Accounts and qualities of service, for their numbers.
    pub accounts: Accounts,
}

impl Context {
    /// The number of the association that a job is charged to; 0 if there is none.
    pub fn association(&self, job: &JobView) -> u32 {
        let spec = &job.spec;
        let mut all = self.accounts.associations.iter();
        let own = all.find(|one| one.account == spec.account && one.user == spec.owner.user);
        own.map_or(0, |one| one.id)
    }
}

/// A line: a job, or one of its steps.
#[derive(Clone, Debug)]
pub struct Row {
    /// The job.
    pub run: Arc<AccountedJob>,
    /// The step, if the line is a step's.
    pub step: Option<StepView>,
    /// The job over all of its nodes: the one computation of its efficiency.
    pub totals: Arc<JobTotals>,
    /// What the line's processes used, by node; empty if nothing told.
    pub used: Vec<(NodeName, Processes)>,
    /// The job's GPUs at this moment.
    pub now: Arc<Vec<GpuNow>>,
}

impl Row {
    /// All nodes together; `None` if nothing told.
    pub fn sum(&self) -> Option<Processes> {
        let mut parts = self.used.iter();
        let mut sum = parts.next()?.1.clone();
        for (_, part) in parts {
            sum.add(part);
        }
        Some(sum)
    }
}

/// The step as the record has it. One that ran when its job went back to the queue was ended with it.
fn ended_with(run: &AccountedJob, step: &StepView) -> StepView {
    let mut step = step.clone();
    if let (Some(at), StepState::Running) = (run.requeued, step.state) {
        step.state = StepState::Ended;
        step.ended = Some(at);
        step.exit.signal = SIGTERM;
    }
    step
}

/// Why a job waits, as Slurm's record has it: nothing of places in the queue, and of an end its state says enough.
pub fn recorded_reason(job: &JobView) -> String {
    match (job.state, job.reason) {
        (JobState::Pending, Reason::Priority | Reason::Resources) => "None".to_owned(),
        (JobState::Pending, _) => super::job_text::reason(job),
        (_, _) => "None".to_owned(),
    }
}

/// A job's lines, without its steps if only allocations are wanted.
pub fn rows(run: AccountedJob, now: Vec<GpuNow>, with_steps: bool) -> Vec<Row> {
    let totals = Arc::new(JobTotals::of_run(&run));
    let (run, now) = (Arc::new(run), Arc::new(now));
    let row = |step: Option<StepView>, used| Row {
        run: Arc::clone(&run),
        step,
        totals: Arc::clone(&totals),
        used,
        now: Arc::clone(&now),
    };
    let own = run.nodes.iter();
    let own = own.map(|node| (node.node.clone(), node.used.clone()));
    let mut rows = vec![row(None, own.collect())];
    if with_steps {
        let mut steps: Vec<&StepView> = run.job.steps.iter().collect();
        // The batch script first, then by number.
        steps.sort_by_key(|step| match step.kind {
            StepKind::Batch => 0,
            StepKind::Numbered(number) => u64::from(number) + 1,
        });
        for step in steps {
            let told = run.steps.iter().filter(|told| told.step == step.kind);
            let used = told.map(|told| (told.node.clone(), told.used.clone()));
            rows.push(row(Some(ended_with(&run, step)), used.collect()));
        }
    }
    rows
}
