//! Partitions: named sets of nodes with limits and defaults.

use crate::id::NodeName;
use crate::time::TimeLimit;
use serde::{Deserialize, Serialize};

/// Whether a partition takes and starts jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PartitionState {
    /// Takes and starts.
    Up,
    /// Takes, does not start.
    Down,
    /// Starts what is queued, takes no more.
    Drain,
    /// Neither.
    Inactive,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// Name.
    pub name: String,
    /// Used when a job names none.
    pub default: bool,
    /// Node names; `None` means every node that registers.
    pub nodes: Option<Vec<NodeName>>,
    /// Upper bound on a job's limit.
    pub max_time: TimeLimit,
    /// A job's limit when it asks for none; `None` means `max_time`.
    pub default_time: Option<TimeLimit>,
    /// Default memory per CPU in MiB; 0 means that jobs without `--mem` get all of a node's memory, as in Slurm.
    pub default_mem_per_cpu: u64,
    /// State.
    pub state: PartitionState,
    /// Jobs of a higher tier are considered first.
    pub priority_tier: u32,
    /// Fewest nodes of a job; 0 is no limit, as in all that follow.
    #[serde(default)]
    pub min_nodes: u32,
    /// Most nodes of a job.
    #[serde(default)]
    pub max_nodes: u32,
    /// Most CPUs of the partition's jobs on one node, all together.
    #[serde(default)]
    pub max_cpus_per_node: u32,
    /// Most memory of a job on one node, MiB.
    #[serde(default)]
    pub max_mem_per_node: u64,
    /// Most memory of a job for each CPU, MiB.
    #[serde(default)]
    pub max_mem_per_cpu: u64,
    /// Default memory for each GPU, MiB.
    #[serde(default)]
    pub def_mem_per_gpu: u64,
    /// Default CPUs for each GPU.
    #[serde(default)]
    pub def_cpu_per_gpu: u32,
}
