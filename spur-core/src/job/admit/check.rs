//! Whether a request can ever be met by what the cluster has.

use super::refuse;
use crate::api::{Refusal, RefusalKind};
use crate::cluster::Cluster;
use crate::id::NodeName;
use crate::job::spec::JobSpec;
use crate::node::Node;
use crate::partition::Partition;
use crate::plan::ask::{Ask, GpuAsk, Need};
use crate::plan::fit::{Source, pick};
use crate::plan::slot::Slot;
use crate::resources::MemoryRequest;
use std::collections::BTreeSet;

/// Node and feature names.
pub(super) fn names(
    cluster: &Cluster,
    partition: &Partition,
    spec: &JobSpec,
) -> Result<(), Refusal> {
    if !spec.constraint.is_empty() {
        return Err(refuse(RefusalKind::InvalidFeature, String::new()));
    }
    for name in spec.nodelist.iter().chain(&spec.exclude) {
        if !exists(cluster, name) {
            return Err(refuse(
                RefusalKind::InvalidNode,
                format!("no node is named {name}"),
            ));
        }
    }
    let outside = spec.nodelist.iter().find(|name| !within(partition, name));
    if let Some(name) = outside {
        let text = format!("node {name} is not in partition {}", partition.name);
        return Err(refuse(RefusalKind::NodeConfigUnavailable, text));
    }
    if let Some(name) = spec
        .nodelist
        .iter()
        .find(|name| spec.exclude.contains(name))
    {
        let text = format!("node {name} is both asked for and excluded");
        return Err(refuse(RefusalKind::NodeConfigUnavailable, text));
    }
    Ok(())
}

/// Registered, or named by a partition so that it may register.
fn exists(cluster: &Cluster, name: &str) -> bool {
    let Ok(name) = NodeName::new(name) else {
        return false;
    };
    let configured = |partition: &Partition| {
        partition
            .nodes
            .as_ref()
            .is_some_and(|nodes| nodes.contains(&name))
    };
    cluster.node_ids.contains_key(&name) || cluster.partitions.iter().any(configured)
}

fn within(partition: &Partition, name: &str) -> bool {
    partition
        .nodes
        .as_ref()
        .is_none_or(|nodes| nodes.iter().any(|node| node.as_str() == name))
}

/// Whether the partition's nodes, all up and empty, would hold the job. A partition with nodes that have not registered yet
/// is given the benefit of the doubt.
pub(super) fn satisfiable(
    cluster: &Cluster,
    partition: &Partition,
    spec: &JobSpec,
) -> Result<(), Refusal> {
    let ask = Ask::of(spec);
    let excluded = |node: &&Node| !spec.exclude.iter().any(|name| name == node.name.as_str());
    if quickly(cluster, partition, spec, &ask) {
        return Ok(());
    }
    let Some(nodes) = members(cluster, partition) else {
        return Ok(());
    };
    let empty = Empty::new(cluster, nodes.into_iter().filter(excluded), spec);
    if empty.slots.is_empty() && spec.exclude.is_empty() {
        return Ok(());
    }
    if pick(&empty, &ask).is_some() {
        return Ok(());
    }
    Err(refuse(
        RefusalKind::NodeConfigUnavailable,
        blame(&empty, &ask),
    ))
}

/// The common case without looking at every node: a job of one node that the first node can hold.
fn quickly(cluster: &Cluster, partition: &Partition, spec: &JobSpec, ask: &Ask<'_>) -> bool {
    if ask.nodes_min > 1 || !spec.nodelist.is_empty() || !spec.exclude.is_empty() {
        return false;
    }
    let first = match &partition.nodes {
        None => cluster.nodes.values().next(),
        Some(names) => {
            let id = names.first().and_then(|name| cluster.node_ids.get(name));
            id.and_then(|id| cluster.nodes.get(id))
        }
    };
    let shape = first.and_then(|node| cluster.shape(node.id));
    shape.is_some_and(|shape| Slot::empty(shape).fits(ask, ask.even_part(1)))
}

/// The partition's nodes; `None` if some of them never registered.
fn members<'a>(cluster: &'a Cluster, partition: &Partition) -> Option<Vec<&'a Node>> {
    let node = |name| cluster.nodes.get(cluster.node_ids.get(name)?);
    match &partition.nodes {
        None => Some(cluster.nodes.values().collect()),
        Some(names) => names.iter().map(node).collect(),
    }
}

/// The line that Slurm puts before its message, where it has one.
fn blame(empty: &Empty<'_>, ask: &Ask<'_>) -> String {
    let one = Need { tasks: 1, gpus: 0 };
    let bare = Ask {
        gpus: GpuAsk::No,
        memory: MemoryRequest::Default,
        exclusive: false,
        ..*ask
    };
    let any = |ask: &Ask<'_>| empty.slots.iter().any(|slot| slot.fits(ask, one));
    if !any(&bare) {
        return "CPU count per node can not be satisfied".to_owned();
    }
    if !any(&Ask {
        memory: ask.memory,
        ..bare
    }) {
        return "Memory specification can not be satisfied".to_owned();
    }
    String::new()
}

/// Nodes as if all were up and empty.
struct Empty<'a> {
    slots: Vec<Slot<'a>>,
    required: Vec<usize>,
}

impl<'a> Empty<'a> {
    fn new(cluster: &'a Cluster, nodes: impl Iterator<Item = &'a Node>, spec: &JobSpec) -> Self {
        let wanted: BTreeSet<&str> = spec.nodelist.iter().map(String::as_str).collect();
        let (mut slots, mut required) = (Vec::new(), Vec::new());
        for node in nodes {
            if wanted.contains(node.name.as_str()) {
                required.push(slots.len());
            }
            slots.extend(cluster.shape(node.id).map(Slot::empty));
        }
        Self { slots, required }
    }
}

impl<'a> Source<'a> for Empty<'a> {
    fn candidates(&self, _: &Ask<'_>, _: Need) -> impl Iterator<Item = usize> {
        0..self.slots.len()
    }

    fn slot(&self, position: usize) -> Slot<'a> {
        self.slots[position]
    }

    fn required(&self) -> &[usize] {
        &self.required
    }
}
