//! The cluster's state and the one function that changes it.

use crate::effect::Effects;
use crate::event::Event;
use crate::id::{Generation, JobId, NodeId, NodeName};
use crate::job::Job;
use crate::node::Node;
use crate::partition::Partition;
use crate::time::Millis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that the controller knows and that survives it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// Cluster name.
    pub name: String,
    /// Partitions in configured order.
    pub partitions: Vec<Partition>,
    /// Nodes.
    pub nodes: BTreeMap<NodeId, Node>,
    /// Names of nodes.
    pub node_ids: BTreeMap<NodeName, NodeId>,
    /// Jobs that are not yet purged.
    pub jobs: BTreeMap<JobId, Job>,
    /// The number that the next job gets; never falls.
    pub next_job: JobId,
    /// Last generation given out; never falls.
    pub generation: Generation,
    /// Seconds that an ended job stays visible.
    pub min_job_age: u64,
    /// Seconds of silence after which a node is lost.
    pub node_timeout: u64,
}

impl Cluster {
    /// Applies one logged event. Same state, same event, same result, on every replica, for ever. Cannot fail.
    pub fn apply(&mut self, at: Millis, event: &Event) -> Effects {
        let (_, _) = (at, event);
        Effects::default()
    }
}
