//! Steps: what runs inside an allocation.

mod grant;
#[cfg(test)]
mod tests;

pub use grant::grant;

use crate::id::{JobId, NodeId, StepKind, Uid};
use crate::job::state::ExitStatus;
use crate::resources::{MemoryRequest, NodeShare};
use crate::time::Millis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a step is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StepState {
    /// Ordered or running.
    Running,
    /// Every node reported its end.
    Ended,
}

/// A step's part on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepShare {
    /// Resources on that node, a subset of the job's share; `tasks` is the number of tasks here.
    pub share: NodeShare,
    /// Global task ids (`SLURM_PROCID`) that run there, in local order.
    pub task_ids: Vec<u32>,
}

/// What a step shares with others of its job that run at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Sharing {
    /// What it does not ask for by number; GPUs that it asks for are its own.
    #[default]
    Unasked,
    /// `--exact`, `--exclusive`: nothing; it has what it asks for, and its CPUs are its own too.
    Nothing,
    /// `--overlap`: everything, with all steps.
    Everything,
}

/// What a client asks for when it starts a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepSpec {
    /// Name (basename of the command).
    pub name: String,
    /// `-n`; 0 means: as the job.
    pub tasks: u32,
    /// `-N`; 0 means: as the job.
    pub nodes: u32,
    /// `-c`; 0: one, and no part of its own.
    pub cpus_per_task: u32,
    /// `--ntasks-per-node`; 0 if not given.
    pub tasks_per_node: u32,
    /// GPUs per node for this step; `None` means: all of the job's.
    pub gpus_per_node: Option<crate::resources::GpuCount>,
    /// GPUs per task for this step.
    pub gpus_per_task: Option<crate::resources::GpuCount>,
    /// `-w` within the allocation.
    pub nodelist: Vec<String>,
    /// `-x` within the allocation.
    #[serde(default)]
    pub exclude: Vec<String>,
    /// See [`crate::job::spec::JobSpec::request_id`].
    #[serde(default)]
    pub request_id: u64,
    /// What it shares.
    #[serde(default)]
    pub sharing: Sharing,
    /// `--relative`: its first node, by position in the allocation.
    #[serde(default)]
    pub relative: Option<u32>,
    /// `--overcommit`: tasks need no CPU of their own.
    #[serde(default)]
    pub overcommit: bool,
    /// `--distribution`: so many neighbours share a node before it is the next node's turn (1: cyclic, more: plane); 0: all of a
    /// node's (block).
    #[serde(default)]
    pub plane: u32,
    /// While other steps hold what it needs, its request is not refused with `NodesBusy`, but waits for their ends.
    #[serde(default)]
    pub patient: bool,
    /// Memory, as for a job: it has its job's, and is refused if it asks for more.
    #[serde(default)]
    pub memory: Option<MemoryRequest>,
}

/// A step as the controller keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Which.
    pub kind: StepKind,
    /// Name.
    pub name: String,
    /// Who started it.
    pub uid: Uid,
    /// State.
    pub state: StepState,
    /// When it was ordered.
    pub started: Millis,
    /// When its last node reported.
    pub ended: Option<Millis>,
    /// Its part on each node, in node order of the allocation.
    pub shares: Vec<StepShare>,
    /// Nodes that have reported, with the highest status of their tasks.
    pub reported: BTreeMap<NodeId, ExitStatus>,
    /// CPUs per task.
    #[serde(default)]
    pub cpus_per_task: u32,
    /// The kernel's out-of-memory killer struck on some node.
    #[serde(default)]
    pub oom: bool,
    /// Components of a heterogeneous job, in order, whose steps of this number are one; empty: it is one by itself.
    #[serde(default)]
    pub with: Vec<JobId>,
    /// The request that it came of; 0 if that had no number.
    #[serde(default)]
    pub request_id: u64,
    /// What it shares.
    #[serde(default)]
    pub sharing: Sharing,
    /// Milliseconds for which its job was stopped while it ran, before now.
    #[serde(default)]
    pub suspended_ms: u64,
}

impl Step {
    /// Its processes were stopped for this long.
    pub(crate) fn stopped_for(&mut self, since: Millis, until: Millis) {
        let stopped = until.0.saturating_sub(since.0.max(self.started.0));
        self.suspended_ms = self.suspended_ms.saturating_add(stopped);
    }

    /// The highest status that was reported.
    pub fn exit(&self) -> ExitStatus {
        self.reported
            .values()
            .fold(ExitStatus::default(), |worst, exit| worst.worse(*exit))
    }
}
