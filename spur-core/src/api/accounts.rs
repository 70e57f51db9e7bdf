//! What jobs used, as commands ask and are told.

use super::JobView;
use crate::id::{JobId, NodeName, Uid};
use crate::job::state::JobState;
use crate::time::Millis;
use crate::usage::idle::Idle;
use crate::usage::summary::{JobUsage, StepUsage};
use crate::usage::words::UsageEvent;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A GPU that a job holds and does not use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleGpu {
    /// Where.
    pub node: NodeName,
    /// Its index there.
    pub gpu: u32,
    /// The evidence.
    pub idle: Idle,
}

/// Which jobs of the accounting record. Empty lists mean "any".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountFilter {
    /// With these numbers.
    pub ids: Vec<JobId>,
    /// Of these users.
    pub users: Vec<Uid>,
    /// Of these accounts.
    pub accounts: Vec<String>,
    /// In these partitions.
    pub partitions: Vec<String>,
    /// With these names.
    pub names: Vec<String>,
    /// With a part on these nodes.
    pub nodes: Vec<NodeName>,
    /// In these states.
    pub states: Vec<JobState>,
    /// That had not ended before this.
    pub since: Option<Millis>,
    /// That might start before this; of jobs that are named, that were submitted before this.
    pub until: Option<Millis>,
    /// Also earlier runs of jobs that were put back into the queue.
    pub duplicates: bool,
}

/// A run of a job: the order of the accounting record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunKey {
    /// When the job was submitted.
    pub submitted: Millis,
    /// Its number.
    pub job: JobId,
    /// How often it was put back into the queue before this run.
    pub restarts: u32,
}

impl RunKey {
    /// The run that a job is in.
    pub fn of(view: &JobView) -> Self {
        Self {
            submitted: view.submitted,
            job: view.id,
            restarts: view.restarts,
        }
    }
}

/// A run of a job as the accounting record has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountedJob {
    /// The job as it was last.
    pub job: Arc<JobView>,
    /// When this run ended by being put back into the queue, if it did.
    pub requeued: Option<Millis>,
    /// What it used, by node: recorded at its end there, or as measured so far. Nodes that told nothing are missing.
    pub nodes: Vec<JobUsage>,
    /// What its steps used, by step and node.
    pub steps: Vec<StepUsage>,
    /// Some of it is not final.
    pub live: bool,
}

/// Everything that is known of a job's use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageReport {
    /// The record.
    pub record: AccountedJob,
    /// Its GPUs at this moment, where it runs.
    pub now: Vec<GpuNow>,
    /// What happened, oldest first.
    pub events: Vec<NodeEvent>,
    /// Over time, from the start of this run.
    pub series: Vec<SeriesView>,
}

/// A GPU of a running job at this moment. What is not measured is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuNow {
    /// Where.
    pub node: NodeName,
    /// Its index there.
    pub gpu: u32,
    /// Milliseconds since the node last told anything.
    pub age: u64,
    /// Busy share, thousandths.
    pub busy: Option<u16>,
    /// Device memory in the job's use, bytes.
    pub memory: Option<u64>,
    /// Power, mW.
    pub power: Option<u64>,
}

/// Something that happened on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEvent {
    /// The node.
    pub node: NodeName,
    /// What.
    pub event: UsageEvent,
}

/// What a series over time is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SeriesKind {
    /// CPUs at work, thousandths of a CPU.
    Cpu,
    /// Memory in use, bytes.
    Memory,
    /// Busy share of a GPU, thousandths.
    GpuBusy,
    /// Device memory in the job's use, bytes.
    GpuMemory,
}

/// A series over time on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesView {
    /// Where.
    pub node: NodeName,
    /// Of what.
    pub kind: SeriesKind,
    /// Of which GPU.
    pub gpu: Option<u32>,
    /// Milliseconds of a point.
    pub step: u64,
    /// From the job's start there.
    pub points: Vec<SeriesPoint>,
}

/// What was seen in one step of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesPoint {
    /// Milliseconds in which something was seen; 0: a gap.
    pub millis: u64,
    /// Mean.
    pub mean: u64,
    /// Least.
    pub min: u64,
    /// Greatest.
    pub max: u64,
}
