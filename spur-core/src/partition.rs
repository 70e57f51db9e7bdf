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
    /// Groups of users who may use it (operators always may); empty means everybody, as in the lists that follow.
    #[serde(default)]
    pub allow_groups: Vec<String>,
    /// Accounts that may use it.
    #[serde(default)]
    pub allow_accounts: Vec<String>,
    /// Accounts that may not; of no meaning beside `allow_accounts`.
    #[serde(default)]
    pub deny_accounts: Vec<String>,
    /// Qualities of service that may use it.
    #[serde(default)]
    pub allow_qos: Vec<String>,
    /// Qualities of service that may not; of no meaning beside `allow_qos`.
    #[serde(default)]
    pub deny_qos: Vec<String>,
    /// Hosts from which jobs may be submitted, as written; empty is all. Kept and shown, not enforced.
    #[serde(default)]
    pub alloc_nodes: String,
    /// Its own quality of service; empty if none. Kept and shown.
    #[serde(default)]
    pub qos: String,
    /// Not listed unless asked for (`-a`).
    #[serde(default)]
    pub hidden: bool,
    /// Only root may use it.
    #[serde(default)]
    pub root_only: bool,
    /// Only jobs with a reservation may use it.
    #[serde(default)]
    pub require_reservation: bool,
    /// Root's jobs may not use it.
    #[serde(default)]
    pub disable_root_jobs: bool,
    /// `ExclusiveUser`. Kept and shown.
    #[serde(default)]
    pub exclusive_user: bool,
    /// `LLN`: least loaded nodes first. Kept and shown.
    #[serde(default)]
    pub least_loaded: bool,
    /// `PriorityJobFactor`; `None` is 1. Kept and shown.
    #[serde(default)]
    pub priority_job_factor: Option<u32>,
    /// `GraceTime`, seconds. Kept and shown.
    #[serde(default)]
    pub grace_time: u32,
    /// `OverSubscribe` as Slurm shows it (`FORCE:4`); empty is `NO`. Kept and shown: no CPU has two holders.
    #[serde(default)]
    pub over_subscribe: String,
    /// `OverTimeLimit` in minutes, or `UNLIMITED`; empty is `NONE`. Kept and shown.
    #[serde(default)]
    pub over_time_limit: String,
    /// `PreemptMode` as Slurm shows it; empty is `OFF`. Kept and shown.
    #[serde(default)]
    pub preempt_mode: String,
    /// Most CPUs of the partition's jobs on one socket; 0 is no limit. Kept and shown.
    #[serde(default)]
    pub max_cpus_per_socket: u32,
    /// `Alternate`; empty if none. Kept and shown.
    #[serde(default)]
    pub alternate: String,
    /// `TRESBillingWeights`; empty if none. Kept and shown.
    #[serde(default)]
    pub billing_weights: String,
    /// Default memory of a job on each node, MiB; 0 means all. Of no meaning beside `default_mem_per_cpu`.
    #[serde(default)]
    pub default_mem_per_node: u64,
}

impl Default for Partition {
    /// Every node, no limits, no name.
    fn default() -> Self {
        Self {
            name: String::new(),
            default: false,
            nodes: None,
            max_time: TimeLimit::Unlimited,
            default_time: None,
            default_mem_per_cpu: 0,
            state: PartitionState::Up,
            priority_tier: 1,
            min_nodes: 0,
            max_nodes: 0,
            max_cpus_per_node: 0,
            max_mem_per_node: 0,
            max_mem_per_cpu: 0,
            def_mem_per_gpu: 0,
            def_cpu_per_gpu: 0,
            allow_groups: Vec::new(),
            allow_accounts: Vec::new(),
            deny_accounts: Vec::new(),
            allow_qos: Vec::new(),
            deny_qos: Vec::new(),
            alloc_nodes: String::new(),
            qos: String::new(),
            hidden: false,
            root_only: false,
            require_reservation: false,
            disable_root_jobs: false,
            exclusive_user: false,
            least_loaded: false,
            priority_job_factor: None,
            grace_time: 0,
            over_subscribe: String::new(),
            over_time_limit: String::new(),
            preempt_mode: String::new(),
            max_cpus_per_socket: 0,
            alternate: String::new(),
            billing_weights: String::new(),
            default_mem_per_node: 0,
        }
    }
}

impl Partition {
    /// Most CPUs of a node that its jobs may have together, if that is bounded.
    #[must_use]
    pub fn cpus_of_a_node(&self) -> Option<u32> {
        (self.max_cpus_per_node > 0).then_some(self.max_cpus_per_node)
    }

    /// Whether a node with this name is in it.
    #[must_use]
    pub fn has(&self, node: &NodeName) -> bool {
        self.nodes.as_ref().is_none_or(|nodes| nodes.contains(node))
    }
}
