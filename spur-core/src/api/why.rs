//! Why a job waits, as values: what a sentence, a table and JSON are made of.

use crate::denial::DenialRow;
use crate::id::{JobId, NodeName};
use crate::job::state::Reason;
use crate::time::Millis;
use serde::{Deserialize, Serialize};

/// What an expected start rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StartBasis {
    /// Devices are reserved for the job from then on.
    Reserved,
    /// What runs and waits now, and how long such jobs took; it moves when they do.
    Estimated,
    /// Nothing that is known to happen lets it start.
    Never,
}

/// When a waiting job is expected to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartEstimate {
    /// When; `None` if it never will as things stand.
    pub start: Option<Millis>,
    /// What that rests on.
    pub basis: StartBasis,
    /// Where, if that is known.
    pub nodes: Vec<NodeName>,
}

/// The first thing that keeps a job off a node, in the order in which they are looked at: what cannot change by waiting, then
/// the node's condition, then what is taken there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stop {
    /// The job excludes it (`-x`).
    Excluded,
    /// The job names other nodes (`-w`).
    NotNamed,
    /// It lacks a feature that the job asks for (`-C`).
    Feature,
    /// Even empty it has less than the job asks for on one node.
    TooSmall,
    /// The job could not be started there before.
    LaunchFailed,
    /// The job's last run is not cleaned up there.
    Unclean,
    /// Down, or given up.
    Down,
    /// Does not answer.
    Silent,
    /// Drained.
    Drained,
    /// Without the fence that it requires.
    Unfenced,
    /// Waits for its jobs to end, to take over other hardware.
    Changing,
    /// Left alone for a while because launches failed there.
    Resting,
    /// GPUs that the job would need are missing or out of order.
    SickGpus,
    /// What the job needs is held by others.
    Busy,
    /// What is free has the right amount and not the right shape (links, sockets, rails), or is reserved for others.
    Shape,
    /// Nothing: it has room now.
    Nothing,
}

/// Nodes that the same thing keeps a job off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// What.
    pub by: Stop,
    /// What exactly, the same for all of them: `2 of 8 h200 free`; may be empty.
    pub detail: String,
    /// How many nodes.
    pub nodes: u32,
    /// The first of them, in their order.
    pub names: Vec<NodeName>,
    /// When that ends by itself, if it does: of nodes that rest.
    #[serde(default)]
    pub until: Option<Millis>,
}

/// What a running job will give back to a waiting one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// Where.
    pub node: NodeName,
    /// Who holds it.
    pub job: JobId,
    /// Whose job that is.
    pub user: String,
    /// What of it the waiting job can use: `4 h200`.
    pub gives: String,
    /// Until when at the latest; `None`: it has no limit, or has ended and is being cleaned up.
    pub until: Option<Millis>,
    /// It has ended, and its processes or devices are not gone yet.
    pub cleaning: bool,
}

/// Why a job waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The job.
    pub job: JobId,
    /// Slurm's reason.
    pub reason: Reason,
    /// Slurm's words for it, with what belongs to them: `ReqNodeNotAvail, UnavailableNodes:n3`.
    pub words: String,
    /// Its partition.
    pub partition: String,
    /// What it needs: `4 h200 on one node`.
    pub need: String,
    /// What keeps it waiting apart from room, as a clause; empty if it is room.
    pub cause: String,
    /// From when it may start.
    pub eligible: Millis,
    /// Jobs of its partition that are considered before it.
    pub ahead: u32,
    /// Nodes of its partition.
    pub nodes: u32,
    /// Those by what keeps the job off them.
    pub stopped: Vec<Stopped>,
    /// What running jobs will give back, soonest first; as much as the job needs, at most a few.
    pub releases: Vec<Release>,
    /// When enough is given back if every job uses all of its limit and nobody is before this one.
    pub by_limits: Option<Millis>,
    /// When it is expected to start, if that can be told.
    pub expected: Option<StartEstimate>,
    /// What its owner can do, most useful first.
    pub advice: Vec<String>,
    /// What it still wants of the network: `nodes on at most 1 switch`.
    #[serde(default)]
    pub network: Option<String>,
    /// Until when it waits for that.
    #[serde(default)]
    pub network_until: Option<Millis>,
    /// What must change before it can start, where nothing that is known to end suffices, as a clause.
    #[serde(default)]
    pub blocked: Option<String>,
}

/// Refusals of a job on a node, by kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRows {
    /// The node.
    pub node: NodeName,
    /// The rows, most refusals first.
    pub rows: Vec<DenialRow>,
}
