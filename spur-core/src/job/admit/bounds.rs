//! What a partition cannot hold whatever its nodes turn out to be: for when not all of them have registered yet.

use super::{features, refuse};
use crate::api::{Refusal, RefusalKind};
use crate::cluster::Cluster;
use crate::job::limits::cpus_on_a_node;
use crate::job::spec::JobSpec;
use crate::node::Node;
use crate::partition::Partition;
use crate::plan::bits::Bits;
use crate::resources::{GpuCount, Inventory};
use crate::slurm::constraint;
use crate::slurm::hostlist::MAX_HOSTS;
use std::collections::BTreeSet;

/// The nodes that a partition may come to have.
struct Future<'a> {
    known: Vec<&'a Node>,
    /// How many may come to be.
    unknown: usize,
}

impl<'a> Future<'a> {
    /// Those of the partition that the job does not exclude. One without a list may get as many as a list may have.
    fn of(cluster: &'a Cluster, partition: &Partition, spec: &JobSpec) -> Self {
        let excluded: BTreeSet<&str> = spec.exclude.iter().map(String::as_str).collect();
        let Some(names) = &partition.nodes else {
            let known = cluster.nodes.values();
            let known = known.filter(|node| !excluded.contains(node.name.as_str()));
            return Self {
                known: known.collect(),
                unknown: MAX_HOSTS.saturating_sub(cluster.nodes.len()),
            };
        };
        let names = names
            .iter()
            .filter(|name| !excluded.contains(name.as_str()));
        let node = |name| cluster.nodes.get(cluster.node_ids.get(name)?);
        let (mut known, mut unknown) = (Vec::new(), 0);
        for name in names {
            match node(name) {
                Some(node) => known.push(node),
                None => unknown += 1,
            }
        }
        Self { known, unknown }
    }

    fn len(&self) -> usize {
        self.known.len() + self.unknown
    }

    /// The most of something on so many nodes, if any that is not known has `most`, which none exceeds.
    fn sum(&self, nodes: u32, has: impl Fn(&Inventory) -> u64, most: u64) -> u64 {
        let unknown = self.unknown.min(nodes as usize);
        let mut known: Vec<u64> = self.known.iter().map(|node| has(&node.inventory)).collect();
        known.sort_unstable_by(|a, b| b.cmp(a));
        let known = known.iter().take(nodes as usize - unknown);
        known.sum::<u64>() + most * unknown as u64
    }
}

/// Refuses what needs more nodes, CPUs or GPUs than there can be.
pub(super) fn check(
    cluster: &Cluster,
    partition: &Partition,
    spec: &JobSpec,
) -> Result<(), Refusal> {
    let future = Future::of(cluster, partition, spec);
    let never = |text: String| Err(refuse(RefusalKind::NodeConfigUnavailable, text));
    let (name, most, wanted) = (&partition.name, future.len(), spec.nodes_min);
    if (wanted as usize) > most {
        return never(format!(
            "partition {name} has {most} nodes at most, not {wanted}"
        ));
    }
    let nodes = spec.nodes_max.max(wanted);
    let constraint = constraint::parse(&spec.constraint).unwrap_or_default();
    let kinds = features::kinds(cluster, &constraint, &future.known);
    let sum: u64 = kinds.iter().map(|(_, count)| *count as u64).sum();
    let enough =
        |(nodes, count): &(Bits, usize)| nodes.len().saturating_add(future.unknown) >= *count;
    let at_most = u64::from(nodes).min(most as u64);
    if sum > at_most || !kinds.iter().all(enough) {
        return never(format!(
            "{constraint} takes {sum} nodes, and the job has {at_most} of partition {name} at most"
        ));
    }
    let (cpus_max, gpus_max) = (u64::from(Inventory::CPUS_MAX), Inventory::GPUS_MAX as u64);
    let cpus_there = future.sum(nodes, |has| u64::from(has.cpus), cpus_max);
    let gpus_there = future.sum(nodes, |has| has.gpus.len() as u64, gpus_max);
    let things = [
        ("CPUs", cpus(spec), cpus_there),
        ("GPUs", gpus(spec), gpus_there),
    ];
    for (thing, wanted, there) in things {
        if wanted > there {
            return never(format!(
                "partition {name} has {there} {thing} at most, not {wanted}"
            ));
        }
    }
    Ok(())
}

/// CPUs that the job has at least, on all of its nodes.
fn cpus(spec: &JobSpec) -> u64 {
    let each = u64::from(spec.cpus_per_task.max(1));
    let by_task = u64::from(spec.placed_tasks()).saturating_mul(each);
    let by_node = u64::from(cpus_on_a_node(spec)).saturating_mul(u64::from(spec.nodes_min.max(1)));
    by_task.max(by_node)
}

/// GPUs that the job has at least, on all of its nodes.
fn gpus(spec: &JobSpec) -> u64 {
    let nodes = u64::from(spec.nodes_min.max(1));
    let count = |gpus: &Option<GpuCount>| gpus.as_ref().map_or(0, |gpus| u64::from(gpus.count));
    let by_node = count(&spec.gpus_per_node).saturating_mul(nodes);
    let by_task = count(&spec.gpus_per_task).saturating_mul(u64::from(spec.tasks));
    count(&spec.gpus_total).max(by_node).max(by_task)
}

#[cfg(test)]
mod tests;
