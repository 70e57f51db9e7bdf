//! Jobs and steps as queries show them.

use super::{IdleGpu, StartEstimate, Written};
use crate::denial::DenialCount;
use crate::id::{Generation, JobId, NodeId, NodeName, StepKind, Uid};
use crate::job::array::ArrayView;
use crate::job::het::HetPart;
use crate::job::spec::JobSpec;
use crate::job::state::{ExitStatus, JobState, Reason};
use crate::job::step::{StepShare, StepState};
use crate::time::Millis;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A job as queries show it: plain values, nothing to compute but text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobView {
    /// Number.
    pub id: JobId,
    /// What was asked for.
    pub spec: Arc<JobSpec>,
    /// Base state.
    pub state: JobState,
    /// Ended, but not yet cleaned up everywhere.
    pub completing: bool,
    /// Why it waits or ended.
    pub reason: Reason,
    /// A sentence.
    pub reason_text: String,
    /// Priority.
    pub priority: u32,
    /// Times.
    pub submitted: Millis,
    /// May start from.
    pub eligible: Millis,
    /// Started.
    pub started: Option<Millis>,
    /// Ended, or will by its limit.
    pub ended: Option<Millis>,
    /// Allocation, by name, in node order; for ended jobs what it held.
    pub nodes: Vec<crate::agent::order::AllocatedNode>,
    /// Models of the granted GPUs per node (parallel to `nodes`), for `GRES=gpu:h200:4(IDX:2-5)`.
    pub gpu_models: Vec<String>,
    /// Steps.
    pub steps: Vec<StepView>,
    /// Exit status.
    pub exit: ExitStatus,
    /// Highest of its steps.
    pub derived_exit: ExitStatus,
    /// Requeues.
    pub restarts: u32,
    /// Refusals in all.
    pub denials: DenialCount,
    /// Generation of the placement that it runs or last ran in; 0 before it first starts and after a requeue.
    #[serde(default)]
    pub generation: Generation,
    /// Who cancelled it.
    #[serde(default)]
    pub cancelled_by: Option<Uid>,
    /// GPUs that it holds and does not use. Shown to its owner and to operators.
    #[serde(default)]
    pub idle: Vec<IdleGpu>,
    /// Its place in the queue among jobs of the same priority: the earliest comes first.
    #[serde(default)]
    pub due: Millis,
    /// Nodes where it failed to start and is not tried again.
    #[serde(default)]
    pub avoid: Vec<NodeId>,
    /// Nodes where its last run is not cleaned up.
    #[serde(default)]
    pub uncleaned: Vec<NodeId>,
    /// Nodes that it names and that take no jobs now, while it waits for them. Filled in by the one who answers.
    #[serde(default)]
    pub unavailable: Vec<NodeName>,
    /// When it is expected to start. Filled in by the one who answers, if asked.
    #[serde(default)]
    pub expected: Option<StartEstimate>,
    /// What it stands for, if it is part of an array.
    #[serde(default)]
    pub array: Option<ArrayView>,
    /// What it still waits for, as Slurm writes it (`afterok:1(unfulfilled)`); empty if nothing.
    #[serde(default)]
    pub dependency: String,
    /// Since when its processes are stopped; its state is `Suspended` then.
    #[serde(default)]
    pub suspended: Option<Millis>,
    /// Milliseconds for which they were stopped before.
    #[serde(default)]
    pub suspended_ms: u64,
    /// When they were last stopped, or last went on.
    #[serde(default)]
    pub turned: Option<Millis>,
    /// Milliseconds that it had run when they were last stopped.
    #[serde(default)]
    pub ran_before_ms: u64,
    /// Which component it is, if it is one of a heterogeneous job.
    #[serde(default)]
    pub het: Option<HetPart>,
    /// Whether a job that comes first in its partition waited when this one started.
    #[serde(default)]
    pub backfilled: bool,
    /// All but `unavailable` and `expected` as it is sent.
    #[serde(skip)]
    pub written: Written,
}

/// A step as queries show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepView {
    /// Which.
    pub kind: StepKind,
    /// Name.
    pub name: String,
    /// State.
    pub state: StepState,
    /// Started.
    pub started: Millis,
    /// Ended.
    pub ended: Option<Millis>,
    /// Shares.
    pub shares: Vec<StepShare>,
    /// Highest status.
    pub exit: ExitStatus,
    /// Milliseconds for which its job was stopped while it ran, without the present stop.
    #[serde(default)]
    pub suspended_ms: u64,
}

impl JobView {
    /// Milliseconds for which its processes were stopped, until then.
    #[must_use]
    pub fn stopped_ms(&self, until: Millis) -> u64 {
        let now = self
            .suspended
            .map_or(0, |since| until.0.saturating_sub(since.0));
        self.suspended_ms.saturating_add(now)
    }

    /// The same of one of its steps.
    #[must_use]
    pub fn step_stopped_ms(&self, step: &StepView, until: Millis) -> u64 {
        let since = self.suspended.filter(|_| step.ended.is_none());
        let now = since.map_or(0, |since| until.0.saturating_sub(since.0));
        step.suspended_ms.saturating_add(now)
    }
}
