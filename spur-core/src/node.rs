//! A node as the controller sees it.

use crate::id::{Generation, JobId, NodeId, NodeName};
use crate::resources::{IdSet, Inventory};
use crate::time::Millis;
use serde::{Deserialize, Serialize};

/// How well a node can keep jobs to their devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FenceState {
    /// No proven fence: takes no job, unless the node's configuration requires none.
    Unfenced,
    /// The device program is attached and its canary was refused.
    Fenced,
    /// The LSM guard is active as well.
    Guarded,
}

/// What an operator or the controller wants of a node, apart from whether it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum AdminState {
    /// Takes jobs.
    Up,
    /// Finishes what it runs, takes no new job.
    Drain,
    /// Takes no job; running ones are ended.
    Down,
}

/// How busy a device was lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuRecent {
    /// Its index.
    pub gpu: u32,
    /// Busy share over about a minute, in thousandths; at most 1000.
    pub permille: u16,
    /// When that was said.
    pub at: Millis,
}

/// What the controller's configuration says of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeConfig {
    /// Features, in configured order, each once.
    pub features: Vec<String>,
    /// Nodes of lower weight are used first; at least 1.
    pub weight: u32,
}

impl Default for NodeConfig {
    /// As Slurm: weight 1, no features.
    fn default() -> Self {
        Self {
            features: Vec::new(),
            weight: 1,
        }
    }
}

/// Why a GPU must not be granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuNote {
    /// Its index.
    pub gpu: u32,
    /// For people.
    pub why: String,
}

/// A job that does not end on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StuckJob {
    /// Which job.
    pub job: JobId,
    /// What is left of it, for people: processes with command, state and where in the kernel they are.
    pub what: String,
}

/// Launches that failed on a node in a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchTrouble {
    /// How many, at least 1; those that fall into one rest count once.
    pub failures: u32,
    /// When the last of them failed.
    pub last: Millis,
    /// No job is placed there before; `None`: the rest is over, and the next launch tells.
    pub until: Option<Millis>,
    /// The job of the last.
    pub job: JobId,
    /// What went wrong with it.
    pub why: String,
}

/// A node: its inventory, condition and use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Dense id.
    pub id: NodeId,
    /// Name.
    pub name: NodeName,
    /// What it offers.
    pub inventory: Inventory,
    /// Wanted state.
    pub admin: AdminState,
    /// Why it is drained or down; empty otherwise.
    pub reason: String,
    /// Who set the reason (uid) and when.
    pub reason_by: Option<(crate::id::Uid, Millis)>,
    /// Whether an agent's stream is open (false after a restart until it connects).
    pub connected: bool,
    /// When the agent was last heard of.
    pub last_seen: Millis,
    /// Boot id of the machine: a change means that nothing of before runs any more.
    pub boot_id: String,
    /// When the machine booted.
    pub boot_time: Millis,
    /// When the agent started.
    pub agent_start: Millis,
    /// Fence condition and, when it is unfenced, the reason.
    pub fence: FenceState,
    /// Why the fence is not what it could be; empty if all is well.
    pub fence_note: String,
    /// Version of the agent.
    pub version: String,
    /// Operating system line (`Linux 6.18…`), as `uname` gives it.
    pub os: String,
    /// Host name of the machine.
    pub hostname: String,
    /// Where clients reach the agent: `unix:/path` (later: a mesh address).
    pub address: String,
    /// Load average of the last minute times 100, and free memory in MiB, as last reported.
    pub load_x100: u32,
    /// Free memory in MiB, as last reported.
    pub free_mib: u64,
    /// CPUs held by jobs.
    pub cpus_used: IdSet,
    /// Memory held by jobs, MiB.
    pub memory_used: u64,
    /// GPUs held by jobs.
    pub gpus_used: IdSet,
    /// GPUs that must not be granted: their agent says that they are gone, or closed for another reason.
    pub gpus_sick: IdSet,
    /// Jobs that hold something here.
    pub jobs: std::collections::BTreeSet<JobId>,
    /// Last generation that was decided for this node.
    pub generation: Generation,
    /// Last time that a job ended or started here.
    pub last_busy: Millis,
    /// Silent for longer than the cluster's `node_timeout`: its jobs were given up.
    #[serde(default)]
    pub lost: bool,
    /// An inventory that does not cover what jobs hold here; adopted once they hold nothing.
    #[serde(default)]
    pub next_inventory: Option<Inventory>,
    /// Whether the fence is what the node's configuration requires; `None` from agents that do not say.
    #[serde(default)]
    pub fence_suffices: Option<bool>,
    /// How busy GPUs were lately, in order of index. Forgotten when the GPU changes hands; absent where nothing tells.
    #[serde(default)]
    pub utilization: Vec<GpuRecent>,
    /// Launches that failed here and were not followed by one that worked.
    #[serde(default)]
    pub trouble: Option<LaunchTrouble>,
    /// Why each of `gpus_sick` is out of order, as its agent says.
    #[serde(default)]
    pub gpu_notes: Vec<GpuNote>,
    /// Jobs that do not end here, as the agent says. Only what they hold stays held.
    #[serde(default)]
    pub stuck: Vec<StuckJob>,
}

impl Node {
    /// Forgets how busy these GPUs were: somebody else holds them from now on.
    pub(crate) fn forget_use(&mut self, gpus: &IdSet) {
        self.utilization.retain(|recent| !gpus.contains(recent.gpu));
    }

    /// Whether it is left alone for a while because launches failed there.
    #[must_use]
    pub fn is_resting(&self) -> bool {
        self.trouble
            .as_ref()
            .is_some_and(|trouble| trouble.until.is_some())
    }

    /// Whether the fence is what the node requires; where its agent did not say, any proven fence is.
    #[must_use]
    pub fn has_required_fence(&self) -> bool {
        self.fence_suffices
            .unwrap_or(self.fence != FenceState::Unfenced)
    }
}
