//! `reconcile(desired, observed) -> actions`: what a node must do to become what it was told to be.
//!
//! ```text
//!  (nothing) --Prepare--> Prepared --Prolog--> Ready --Kill--> Ending --last process and holder gone--> Gone --Clean--> (nothing)
//! ```
//! The shell carries the actions out in order, records their outcome in [`Observed`] (and, once `Cleaned` is in its journal,
//! calls [`Desired::cleaned`]), and asks again whenever a message or an event changed either side.

pub use super::desired::{Absorbed, Desired, Refused, WhyRefused};
use super::order::{JobOrder, StepOrder};
use crate::id::{Generation, JobId, StepKind};
use crate::resources::NodeShare;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A job as it stands on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobPhase {
    /// Cgroup made, limits set, fence attached and policy written.
    Prepared,
    /// Its prolog is over as well: steps may start.
    Ready,
    /// Being ended: kill was sent, processes or device holders are left.
    Ending,
    /// Nothing is left of it; `Cleaned` is to be reported.
    Gone,
}

/// A step as it stands on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepPhase {
    /// A numbered step waits for its client to connect.
    Waiting,
    /// Its supervisor lives.
    Running,
    /// It ended and its end is in the journal.
    Ended,
}

/// What the agent has, from its journal, cgroups, pins and supervisors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Jobs, with the generation that they were set up for.
    pub jobs: BTreeMap<JobId, (Generation, JobPhase)>,
    /// What those jobs hold here, from the journal. A job that is missing here counts as holding everything.
    pub shares: BTreeMap<JobId, NodeShare>,
    /// Steps. An ended step stays until its report is acknowledged (a `Welcome` may still name it) or its job is cleaned.
    pub steps: BTreeMap<(JobId, StepKind), StepPhase>,
    /// Jobs whose set-up failed (already reported), with the generation: not tried again.
    pub failed: BTreeMap<JobId, Generation>,
}

/// How many calls of [`reconcile`], each followed by its actions, empty it: clean up, prepare, prolog, launch, and
/// nothing.
pub const ROUNDS: usize = 5;

/// One thing to do on the node. Actions are ordered: what ends comes before what begins, so that devices come free first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make the cgroup, set limits, attach and pin the fence, write the policy; report `LaunchFailed` if any of it fails.
    Prepare(Arc<JobOrder>),
    /// Run what comes before the job on this node, if anything does, from its beginning; the job is ready then, or has failed.
    Prolog {
        /// Which job.
        job: JobId,
        /// Its generation.
        generation: Generation,
    },
    /// Start the supervisor of a batch step.
    Launch(Arc<StepOrder>),
    /// Let the client of a numbered step in.
    Expect(Arc<StepOrder>),
    /// Kill everything in the job's cgroup.
    Kill {
        /// Which job.
        job: JobId,
    },
    /// Remove cgroup, fence and records (the job's entries in `jobs`, `shares` and `steps`), then report `Cleaned`.
    Clean {
        /// Which job.
        job: JobId,
        /// Generation to report.
        generation: Generation,
    },
    /// The node has nothing of a job that the controller wants gone: report `Cleaned` at once.
    ReportCleaned {
        /// Which job.
        job: JobId,
        /// Generation to report.
        generation: Generation,
    },
}

/// Orders what to do next. Pure: carried out in order, its actions bring the node closer to what is wanted, and with nothing
/// else changed (no set-up fails, nothing ends) it has nothing more to say after at most [`ROUNDS`] calls.
pub fn reconcile(desired: &Desired, observed: &Observed) -> Vec<Action> {
    if !desired.synced {
        return Vec::new();
    }
    let mut actions = ends(desired, observed);
    actions.extend(preparations(desired, observed));
    actions.extend(prologs(desired, observed));
    actions.extend(launches(desired, observed));
    actions
}

/// Whether the job is wanted with exactly this generation and may be here.
fn wanted(desired: &Desired, observed: &Observed, job: JobId, generation: Generation) -> bool {
    let never = |last: Option<&Generation>| last.is_some_and(|last| *last >= generation);
    desired
        .jobs
        .get(&job)
        .is_some_and(|order| order.generation == generation)
        && !never(desired.revoked.get(&job))
        && !never(desired.ended.get(&job))
        && !never(observed.failed.get(&job))
}

/// What must go: also what was not wanted with this generation, and what began to end already.
fn ends(desired: &Desired, observed: &Observed) -> Vec<Action> {
    let mut actions = Vec::new();
    for (&job, &(generation, phase)) in &observed.jobs {
        let meant = desired.revoked.get(&job).copied().unwrap_or(generation);
        match phase {
            JobPhase::Prepared | JobPhase::Ready if wanted(desired, observed, job, generation) => {}
            JobPhase::Prepared | JobPhase::Ready => actions.push(Action::Kill { job }),
            JobPhase::Ending => {}
            JobPhase::Gone => {
                actions.push(Action::Clean {
                    job,
                    generation: generation.max(meant),
                });
            }
        }
    }
    for (&job, &generation) in &desired.revoked {
        if observed
            .jobs
            .get(&job)
            .is_none_or(|(held, _)| *held > generation)
        {
            actions.push(Action::ReportCleaned { job, generation });
        }
    }
    actions
}

/// Jobs to set up, oldest placement first. One that would share a CPU or a GPU with anything still here waits: the controller
/// never orders that, and if it did, the device's holder would win.
fn preparations(desired: &Desired, observed: &Observed) -> Vec<Action> {
    let mut fresh: Vec<&Arc<JobOrder>> = desired
        .jobs
        .values()
        .filter(|order| !observed.jobs.contains_key(&order.job))
        .filter(|order| wanted(desired, observed, order.job, order.generation))
        .collect();
    if fresh.is_empty() {
        return Vec::new();
    }
    let Some(mut taken) = holders(desired, observed) else {
        return Vec::new();
    };
    fresh.sort_by_key(|order| (order.generation, order.job));
    let mut actions = Vec::new();
    for order in fresh {
        let Some(here) = order.here() else { continue };
        if taken.iter().any(|held| collide(held, &here.share)) {
            continue;
        }
        taken.push(&here.share);
        actions.push(Action::Prepare(Arc::clone(order)));
    }
    actions
}

/// The shares of all jobs that are not gone; `None` if one of them is unknown.
fn holders<'a>(desired: &'a Desired, observed: &'a Observed) -> Option<Vec<&'a NodeShare>> {
    let here = observed
        .jobs
        .iter()
        .filter(|(_, (_, phase))| *phase != JobPhase::Gone);
    here.map(|(job, (generation, _))| {
        observed.shares.get(job).or_else(|| {
            let order = desired
                .jobs
                .get(job)
                .filter(|order| order.generation == *generation)?;
            Some(&order.here()?.share)
        })
    })
    .collect()
}

fn collide(a: &NodeShare, b: &NodeShare) -> bool {
    a.gpus.intersects(&b.gpus) || a.cpus.intersects(&b.cpus)
}

/// Jobs that are set up and whose prolog is not over, also because an earlier agent did not see its end.
fn prologs<'a>(
    desired: &'a Desired,
    observed: &'a Observed,
) -> impl Iterator<Item = Action> + use<'a> {
    let prepared = observed
        .jobs
        .iter()
        .filter(|(_, (_, phase))| *phase == JobPhase::Prepared);
    prepared
        .filter(|(job, (generation, _))| wanted(desired, observed, **job, *generation))
        .map(|(&job, &(generation, _))| Action::Prolog { job, generation })
}

/// Steps to start: only in jobs that are set up with the step's own generation, and only once.
fn launches(desired: &Desired, observed: &Observed) -> Vec<Action> {
    let ready = |order: &StepOrder| {
        observed.jobs.get(&order.job) == Some(&(order.generation, JobPhase::Ready))
            && wanted(desired, observed, order.job, order.generation)
    };
    desired
        .steps
        .iter()
        .filter(|(at, order)| !observed.steps.contains_key(at) && ready(order))
        .map(|(_, order)| match order.batch {
            Some(_) => Action::Launch(Arc::clone(order)),
            None => Action::Expect(Arc::clone(order)),
        })
        .collect()
}

#[cfg(test)]
mod tests;
