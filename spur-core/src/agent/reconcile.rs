//! `reconcile(desired, observed) -> actions`: what a node must do to become what it was told to be.

use super::order::{JobOrder, StepOrder};
use crate::id::{Generation, JobId, StepKind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the controller wants of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// Whether a controller has spoken since this agent started. Until then nothing is ended or forgotten.
    pub synced: bool,
    /// Jobs to hold.
    pub jobs: BTreeMap<JobId, Arc<JobOrder>>,
    /// Steps to run.
    pub steps: BTreeMap<(JobId, StepKind), Arc<StepOrder>>,
    /// Jobs to end, with the highest generation meant.
    pub revoked: BTreeMap<JobId, Generation>,
}

/// A job as it stands on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobPhase {
    /// Cgroup made, limits set, fence attached and policy written.
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
    /// Steps.
    pub steps: BTreeMap<(JobId, StepKind), StepPhase>,
    /// Jobs whose set-up failed (already reported), with the generation: not tried again.
    pub failed: BTreeMap<JobId, Generation>,
}

/// One thing to do on the node. Actions are ordered: what ends comes before what begins, so that devices come free first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make the cgroup, set limits, attach and pin the fence, write the policy; report `LaunchFailed` if any of it fails.
    Prepare(Arc<JobOrder>),
    /// Start the supervisor of a batch step.
    Launch(Arc<StepOrder>),
    /// Let the client of a numbered step in.
    Expect(Arc<StepOrder>),
    /// Kill everything in the job's cgroup.
    Kill {
        /// Which job.
        job: JobId,
    },
    /// Remove cgroup, fence and records once nothing is left, then report `Cleaned`.
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

/// Orders what to do next. Pure and idempotent: with nothing changed between, a second call after the actions were carried out
/// gives nothing.
pub fn reconcile(desired: &Desired, observed: &Observed) -> Vec<Action> {
    let (_, _) = (desired, observed);
    Vec::new()
}
