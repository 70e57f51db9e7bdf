//! What those are told who want resources: what they got, or would get.

use super::JobView;
use crate::id::{JobId, NodeName, StepId};
use crate::time::Millis;
use serde::{Deserialize, Serialize};

/// What `--test-only` tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WouldStart {
    /// The number that it would get.
    pub job: JobId,
    /// When it would start.
    pub start: Millis,
    /// CPUs that it would get.
    pub cpus: u32,
    /// Nodes that it would get; none if that cannot be told yet.
    pub nodes: Vec<NodeName>,
    /// Its partition.
    pub partition: String,
}

/// What `srun` needs to reach the agents of its step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The step.
    pub step: StepId,
    /// The job as it stands.
    pub job: JobView,
    /// Per node of the step, in order.
    pub nodes: Vec<GrantNode>,
    /// CPUs per task.
    pub cpus_per_task: u32,
}

/// One node of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantNode {
    /// Name.
    pub name: NodeName,
    /// Where the agent listens: `unix:/path`.
    pub address: String,
    /// Global task ids that run there.
    pub task_ids: Vec<u32>,
    /// Signed by the controller for that node, step and user (see `spur_core::ticket`); opaque to the client.
    pub ticket: Vec<u8>,
}
