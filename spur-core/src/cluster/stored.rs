//! A [`Cluster`] as it is stored: without what can be derived. Reading it back rebuilds the index, so that no reader can forget.

use super::hooks::{Hook, Hooks};
use super::{Cluster, Index};
use crate::id::{Generation, JobId, NodeId, NodeName, Uid};
use crate::job::Job;
use crate::job::array::Arrays;
use crate::job::licenses::Licenses;
use crate::manage::Managed;
use crate::mesh::Roster;
use crate::node::{Node, NodeConfig};
use crate::partition::Partition;
use crate::plan::mix::Mix;
use crate::plan::predict::History;
use crate::resources::MemoryRequest;
use crate::topology::Topology;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The stored fields, as [`Cluster`] writes them. Persisted: fields are only ever added, with `#[serde(default)]`.
#[derive(Deserialize)]
pub(super) struct Stored {
    name: String,
    partitions: Vec<Partition>,
    nodes: BTreeMap<NodeId, Node>,
    node_ids: BTreeMap<NodeName, NodeId>,
    jobs: BTreeMap<JobId, Job>,
    next_job: JobId,
    generation: Generation,
    min_job_age: u64,
    node_timeout: u64,
    #[serde(default)]
    node_config: BTreeMap<NodeName, NodeConfig>,
    #[serde(default)]
    topology: Topology,
    #[serde(default)]
    history: History,
    #[serde(default)]
    mix: Mix,
    #[serde(default)]
    arrays: Arrays,
    #[serde(default)]
    max_array_size: u32,
    #[serde(default)]
    default_memory: MemoryRequest,
    #[serde(default)]
    managed: Managed,
    #[serde(default)]
    crontabs: BTreeMap<Uid, String>,
    #[serde(default)]
    licenses: Licenses,
    #[serde(default)]
    hooks: Hooks,
    #[serde(default)]
    hooks_due: BTreeMap<JobId, Vec<Hook>>,
    #[serde(default)]
    mesh: Roster,
}

impl From<Stored> for Cluster {
    fn from(stored: Stored) -> Self {
        let mut cluster = Self {
            name: stored.name,
            partitions: stored.partitions,
            nodes: stored.nodes,
            node_ids: stored.node_ids,
            jobs: stored.jobs,
            next_job: stored.next_job,
            generation: stored.generation,
            min_job_age: stored.min_job_age,
            node_timeout: stored.node_timeout,
            node_config: stored.node_config,
            topology: stored.topology,
            history: stored.history,
            mix: stored.mix,
            arrays: stored.arrays,
            max_array_size: stored.max_array_size,
            default_memory: stored.default_memory,
            managed: stored.managed,
            crontabs: stored.crontabs,
            licenses: stored.licenses,
            hooks: stored.hooks,
            hooks_due: stored.hooks_due,
            mesh: stored.mesh,
            index: Index::default(),
        };
        // States from before partitions could be changed do not say how they are configured.
        if cluster.managed.configured.is_empty() && cluster.managed.partitions.is_empty() {
            cluster.managed.configured.clone_from(&cluster.partitions);
        }
        cluster.reindex_all();
        cluster
    }
}
