//! Whether a request can ever be met by what the cluster has.

use super::{bounds, features, missing, refuse};
use crate::api::{Refusal, RefusalKind};
use crate::cluster::Cluster;
use crate::id::NodeName;
use crate::job::licenses::Licenses;
use crate::job::limits::Size;
use crate::job::spec::JobSpec;
use crate::node::Node;
use crate::partition::Partition;
use crate::plan::ask::{Ask, Need};
use crate::plan::filter;
use crate::plan::fit::{Source, pick};
use crate::plan::slot::Slot;
use crate::plan::topology::Fabric;
use crate::slurm::constraint::{self, Constraint};
use std::collections::BTreeSet;

/// Names of nodes.
pub(super) fn names(
    cluster: &Cluster,
    partition: &Partition,
    spec: &JobSpec,
) -> Result<(), Refusal> {
    for name in spec.nodelist.iter().chain(&spec.exclude) {
        if !exists(cluster, name) {
            return Err(refuse(
                RefusalKind::InvalidNode,
                format!("no node is named {name}"),
            ));
        }
    }
    let members = partition
        .nodes
        .as_ref()
        .filter(|_| !spec.nodelist.is_empty());
    let members = members.map(|nodes| nodes.iter().map(NodeName::as_str).collect::<BTreeSet<_>>());
    let within = |name: &str| members.as_ref().is_none_or(|nodes| nodes.contains(name));
    if let Some(name) = spec.nodelist.iter().find(|name| !within(name)) {
        let text = format!("node {name} is not in partition {}", partition.name);
        return Err(refuse(RefusalKind::NodeConfigUnavailable, text));
    }
    let excluded: BTreeSet<&String> = spec.exclude.iter().collect();
    if let Some(name) = spec.nodelist.iter().find(|name| excluded.contains(name)) {
        let text = format!("node {name} is both asked for and excluded");
        return Err(refuse(RefusalKind::NodeConfigUnavailable, text));
    }
    Ok(())
}

/// What may be asked for and is not there.
pub(super) fn kept(cluster: &Cluster, spec: &JobSpec) -> Result<(), Refusal> {
    let extras = spec.extras();
    licenses(cluster, &extras.licenses)?;
    if extras.tmp_mib > 0 {
        return Err(refuse(
            RefusalKind::NodeConfigUnavailable,
            "no node says how much local disk it has",
        ));
    }
    Ok(())
}

/// Licenses that the cluster has, and no more than it has of them.
fn licenses(cluster: &Cluster, asked: &str) -> Result<(), Refusal> {
    let no = |text| Err(refuse(RefusalKind::InvalidLicense, text));
    let Some(wanted) = Licenses::read(asked) else {
        return no(format!(
            "{asked:?} is no list of licenses as name:count,name"
        ));
    };
    match cluster.licenses.lacks(&wanted) {
        Some(name) => no(format!(
            "it asks for {} of {name}, and the cluster has {}",
            wanted.count(name),
            cluster.licenses.count(name)
        )),
        None => Ok(()),
    }
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

/// Whether the partition's nodes, all up and empty, would hold the job. A partition with nodes that have not registered yet
/// is given the benefit of the doubt, within bounds.
pub(super) fn satisfiable(
    cluster: &Cluster,
    partition: &Partition,
    spec: &JobSpec,
) -> Result<(), Refusal> {
    // A job that waits in vain for few switches takes any number.
    let mut ask = Ask {
        switches: 0,
        ..Ask::of(spec).within(partition)
    };
    if Size::of(spec).above(partition).is_some() {
        // Slurm lets it wait, and so does this.
        ask.memory_most = 0;
    }
    let ask = ask;
    let never = |text: String| Err(refuse(RefusalKind::NodeConfigUnavailable, text));
    if let Some(capped) = missing::capped(partition, spec) {
        return never(capped);
    }
    if quickly(cluster, partition, spec, &ask) {
        return Ok(());
    }
    let nodes = members(cluster, partition).filter(|nodes| !nodes.is_empty());
    let Some(nodes) = nodes else {
        return bounds::check(cluster, partition, spec);
    };
    let excluded: BTreeSet<&str> = spec.exclude.iter().map(String::as_str).collect();
    let wanted = |node: &&Node| !excluded.contains(node.name.as_str());
    let nodes: Vec<&Node> = nodes.into_iter().filter(wanted).collect();
    let constraint = constraint::parse(&spec.constraint).unwrap_or_default();
    let sets = features::sets(cluster, &constraint, &nodes);
    let fits = |ask: &Ask<'_>| {
        sets.iter().any(|set| {
            let mut empty = Empty::new(cluster, partition, set.iter().copied(), spec);
            features::enough(cluster, &constraint, set, spec)
                && empty.require_kinds(cluster, &constraint, ask)
                && pick(&empty, ask).is_some()
        })
    };
    if fits(&ask) {
        return Ok(());
    }
    let anywhere = Ask {
        segment: 0,
        contiguous: false,
        ..ask
    };
    if anywhere != ask && fits(&anywhere) {
        let (name, wanted) = (&partition.name, spec.nodes_min);
        let text = match spec.segment {
            0 => format!("partition {name} has no {wanted} nodes that follow one another"),
            size => format!("partition {name} has no {wanted} nodes in blocks of {size} each"),
        };
        return Err(refuse(RefusalKind::TopologyUnavailable, text));
    }
    never(missing::lines(cluster, partition, spec, &nodes))
}

/// The common case without looking at every node: a job of one node that the first node can hold.
fn quickly(cluster: &Cluster, partition: &Partition, spec: &JobSpec, ask: &Ask<'_>) -> bool {
    if ask.nodes_min > 1
        || !spec.nodelist.is_empty()
        || !spec.exclude.is_empty()
        || !spec.constraint.is_empty()
    {
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
    let slot = shape.map(|shape| Slot::empty(shape).at_most(partition.cpus_of_a_node()));
    slot.is_some_and(|slot| slot.fits(ask, ask.even_part(1)))
}

/// The partition's nodes; `None` if some of them never registered.
fn members<'a>(cluster: &'a Cluster, partition: &Partition) -> Option<Vec<&'a Node>> {
    let node = |name| cluster.nodes.get(cluster.node_ids.get(name)?);
    match &partition.nodes {
        None => Some(cluster.nodes.values().collect()),
        Some(names) => names.iter().map(node).collect(),
    }
}

/// Nodes as if all were up and empty.
struct Empty<'a> {
    nodes: Vec<&'a Node>,
    slots: Vec<Slot<'a>>,
    required: Vec<usize>,
    fabric: &'a Fabric,
    leaves: Vec<Option<usize>>,
    ranks: Vec<usize>,
}

impl<'a> Empty<'a> {
    fn new(
        cluster: &'a Cluster,
        partition: &Partition,
        nodes: impl Iterator<Item = &'a Node>,
        spec: &JobSpec,
    ) -> Self {
        let wanted: BTreeSet<&str> = spec.nodelist.iter().map(String::as_str).collect();
        let fabric = cluster.fabric();
        let ranks = spec.contiguous.then(|| cluster.fleet().ranks());
        let mut empty = Self {
            nodes: Vec::new(),
            slots: Vec::new(),
            required: Vec::new(),
            fabric,
            leaves: Vec::new(),
            ranks: Vec::new(),
        };
        for node in nodes {
            let Some(shape) = cluster.shape(node.id) else {
                continue;
            };
            if wanted.contains(node.name.as_str()) {
                empty.required.push(empty.slots.len());
            }
            empty.nodes.push(node);
            let slot = Slot::empty(shape).at_most(partition.cpus_of_a_node());
            empty.slots.push(slot);
            empty.leaves.push(fabric.leaf(node.id));
            let rank = ranks.as_ref().and_then(|ranks| ranks.get(&node.id));
            empty.ranks.extend(rank);
        }
        empty
    }

    /// Makes the job get as many nodes of each kind as its constraint says, as the planner does: nodes that can hold a part of it.
    /// Says whether there are so many.
    fn require_kinds(&mut self, cluster: &Cluster, constraint: &Constraint, ask: &Ask<'_>) -> bool {
        let kinds = features::kinds(cluster, constraint, &self.nodes);
        let least = kinds.iter().map(|(_, count)| *count).sum::<usize>();
        let least = u32::try_from(least.max(self.required.len())).unwrap_or(u32::MAX);
        let of = |need: Need| {
            let fits = |at: usize| self.slots.get(at).is_some_and(|slot| slot.fits(ask, need));
            filter::of_each_kind(&kinds, fits)
        };
        let part = ask.even_part(ask.nodes_min.max(least));
        let Some(found) = of(part).or_else(|| of(ask.least_part())) else {
            return false;
        };
        self.required.extend(found);
        self.required.sort_unstable();
        self.required.dedup();
        true
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

    fn fabric(&self) -> Option<&Fabric> {
        self.fabric.matters().then_some(self.fabric)
    }

    fn leaf(&self, position: usize) -> Option<usize> {
        self.leaves.get(position).copied().flatten()
    }

    fn rank(&self, position: usize) -> usize {
        self.ranks.get(position).copied().unwrap_or(position)
    }
}
