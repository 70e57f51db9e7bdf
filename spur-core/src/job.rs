//! Jobs: what was asked for, what state they are in, what they hold.

pub mod admit;
pub mod gpus;
pub mod limits;
pub mod spec;
pub mod state;
pub mod step;

use crate::id::{Generation, JobId, NodeId, StepKind, Uid};
use crate::resources::NodeShare;
use crate::time::Millis;
use crate::usage::idle::Idle;
use serde::{Deserialize, Serialize};
use spec::JobSpec;
use state::{ExitStatus, JobState, Reason};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use step::Step;

/// A share of a placement that has ended, not yet clean on its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// Generation of the placement.
    pub generation: Generation,
    /// What is still held.
    pub share: NodeShare,
}

/// A job as the controller keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// What was asked for, defaults filled in. Shared with views.
    pub spec: Arc<JobSpec>,
    /// Base state.
    pub state: JobState,
    /// Why it waits, or why it ended as it did.
    pub reason: Reason,
    /// A sentence for people that says more than `reason`; may be empty.
    pub reason_text: String,
    /// Scheduling priority; 0 means held.
    pub priority: u32,
    /// When it was submitted.
    pub submitted: Millis,
    /// From when it may start.
    pub eligible: Millis,
    /// When it started, if it did.
    pub started: Option<Millis>,
    /// When it ended, or must end by its limit, if either is known.
    pub ended: Option<Millis>,
    /// What it holds while it runs; moves to `leftovers` when it ends.
    pub allocation: Vec<NodeShare>,
    /// What it held when it last ran, for views after its end.
    pub last_nodes: Vec<NodeShare>,
    /// Nodes where it is not yet cleaned up. Non-empty in a terminal state means Slurm's COMPLETING.
    pub uncleaned: BTreeSet<NodeId>,
    /// Generation of the current placement.
    pub generation: Generation,
    /// Steps, by kind.
    pub steps: BTreeMap<StepKind, Step>,
    /// Number that the next `srun` step gets.
    pub next_step: u32,
    /// Exit status of the batch script or of the only step.
    pub exit: ExitStatus,
    /// Highest exit status of any step.
    pub derived_exit: ExitStatus,
    /// How often it was requeued.
    pub restarts: u32,
    /// Refusals by the fence, per node.
    pub denials: BTreeMap<NodeId, crate::denial::DenialCount>,
    /// Nodes where it failed to launch; not tried again for this job.
    pub avoid: BTreeSet<NodeId>,
    /// What placements that have ended still hold, until the node reports that it is clean. Its keys are `uncleaned`.
    #[serde(default)]
    pub leftovers: BTreeMap<NodeId, Leftover>,
    /// GPUs that it holds and does not use, by node and index, with the evidence.
    #[serde(default)]
    pub idle: BTreeMap<NodeId, BTreeMap<u32, Idle>>,
    /// Who cancelled it.
    #[serde(default)]
    pub cancelled_by: Option<Uid>,
    /// Seconds that jobs of its kind ran when it was submitted; `None` if nothing was known. Order and estimates go by it.
    #[serde(default)]
    pub expected: Option<u64>,
}
