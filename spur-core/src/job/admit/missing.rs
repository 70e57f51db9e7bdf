//! What a request that no state of the cluster could satisfy lacks, and where: the first thing that too few nodes have.

use super::features;
use crate::cluster::Cluster;
use crate::job::limits::cpus_on_a_node;
use crate::job::spec::JobSpec;
use crate::node::Node;
use crate::partition::Partition;
use crate::resources::{Gpu, GpuCount, Inventory, MemoryRequest};
use crate::slurm::constraint;
use std::fmt::Write as _;

/// Slurm's own line where it has one, then a sentence. `nodes` are those of the partition that the job does not exclude.
pub(super) fn lines(
    cluster: &Cluster,
    partition: &Partition,
    spec: &JobSpec,
    nodes: &[&Node],
) -> String {
    let place = if spec.exclude.is_empty() {
        format!("partition {}", partition.name)
    } else {
        format!("partition {} without the excluded nodes", partition.name)
    };
    let wanted = spec.nodes_min.max(1) as usize;
    if nodes.len() < wanted {
        return format!("{place} has {}, not {wanted}", counted(nodes.len()));
    }
    let constraint = constraint::parse(&spec.constraint).unwrap_or_default();
    let sets = features::sets(cluster, &constraint, nodes);
    let most = sets.into_iter().max_by_key(Vec::len).unwrap_or_default();
    let enough = features::enough(cluster, &constraint, &most, spec);
    if most.len() < wanted || !enough {
        let has = counted(most.len());
        return format!("{place} has {has} that {constraint} allows, and the job needs {wanted}");
    }
    of_nodes(spec, &most, &place, wanted)
}

fn counted(nodes: usize) -> String {
    match nodes {
        0 => "no node".to_owned(),
        1 => "1 node".to_owned(),
        many => format!("{many} nodes"),
    }
}

/// Something that a node has so much of.
struct Thing<'a> {
    name: String,
    needed: u64,
    has: &'a dyn Fn(&Inventory) -> u64,
    /// Slurm's line.
    first: &'static str,
}

fn of_nodes(spec: &JobSpec, nodes: &[&Node], place: &str, wanted: usize) -> String {
    let gpus = gpus_on_a_node(spec);
    let model = gpus.model.clone();
    let of_model = move |inventory: &Inventory| {
        let same = |gpu: &&Gpu| model.is_empty() || gpu.model == model;
        inventory.gpus.iter().filter(same).count() as u64
    };
    let name = match (gpus.model.as_str(), gpus.count) {
        ("", 1) => "GPU".to_owned(),
        ("", _) => "GPUs".to_owned(),
        (model, _) => format!("{model} GPUs"),
    };
    let things = [
        Thing {
            name: "CPUs".to_owned(),
            needed: u64::from(cpus_on_a_node(spec)),
            has: &|inventory| u64::from(inventory.cpus),
            first: "CPU count per node can not be satisfied\n",
        },
        Thing {
            name: "MiB of memory".to_owned(),
            needed: memory_on_a_node(spec, gpus.count),
            has: &|inventory| inventory.memory_mib,
            first: "Memory specification can not be satisfied\n",
        },
        Thing {
            name,
            needed: u64::from(gpus.count),
            has: &of_model,
            first: "",
        },
        Thing {
            name: "sockets".to_owned(),
            needed: u64::from(spec.sockets_per_node),
            has: &|inventory| u64::from(inventory.sockets),
            first: "Socket, core and/or thread specification can not be satisfied\n",
        },
    ];
    for thing in things {
        let enough = |node: &&&Node| (thing.has)(&node.inventory) >= thing.needed;
        let able = nodes.iter().filter(enough).count();
        if able < wanted {
            return short_of(&thing, nodes, place, (able, wanted));
        }
    }
    in_all(spec, nodes, place)
}

fn short_of(
    thing: &Thing<'_>,
    nodes: &[&Node],
    place: &str,
    (able, wanted): (usize, usize),
) -> String {
    let Thing {
        name,
        needed,
        has,
        first,
    } = thing;
    let best = nodes.iter().map(|node| has(&node.inventory)).max();
    let best = best.unwrap_or_default();
    let mut text = (*first).to_owned();
    // Writing to a string cannot fail.
    let _written = if able == 0 {
        let where_ = nodes
            .iter()
            .find(|node| has(&node.inventory) == best)
            .map(|node| format!(", on node {}", node.name));
        let where_ = where_.filter(|_| best > 0).unwrap_or_default();
        write!(
            text,
            "no node of {place} has {needed} {name}; the most is {best}{where_}"
        )
    } else {
        let has = counted(able);
        write!(
            text,
            "{place} has {has} with {needed} {name}, and the job needs {wanted}"
        )
    };
    text
}

/// Every node would do, but all together do not.
fn in_all(spec: &JobSpec, nodes: &[&Node], place: &str) -> String {
    let (wanted, model) = match (&spec.gpus_total, &spec.gpus_per_task) {
        (Some(total), _) if total.count > 0 => (u64::from(total.count), &total.model),
        (_, Some(each)) if each.count > 0 => (
            u64::from(each.count).saturating_mul(u64::from(spec.tasks)),
            &each.model,
        ),
        _ => (0, &String::new()),
    };
    let same = |gpu: &&Gpu| model.is_empty() || gpu.model == *model;
    let count = |node: &&Node| node.inventory.gpus.iter().filter(same).count() as u64;
    let mut most: Vec<u64> = nodes.iter().map(count).collect();
    most.sort_unstable_by(|a, b| b.cmp(a));
    let nodes_max = spec.nodes_max.max(spec.nodes_min) as usize;
    let there: u64 = most.iter().take(nodes_max).sum();
    if wanted > there {
        let nodes = counted(nodes_max.min(nodes.len()));
        return format!("{nodes} of {place} have {there} GPUs at most, and the job needs {wanted}");
    }
    let cpus = u64::from(spec.tasks).saturating_mul(u64::from(spec.cpus_per_task.max(1)));
    let mut most: Vec<u64> = nodes
        .iter()
        .map(|node| u64::from(node.inventory.cpus))
        .collect();
    most.sort_unstable_by(|a, b| b.cmp(a));
    let there: u64 = most.iter().take(nodes_max).sum();
    if cpus > there {
        let nodes = counted(nodes_max.min(nodes.len()));
        return format!("{nodes} of {place} have {there} CPUs at most, and the job needs {cpus}");
    }
    format!("no nodes of {place} have all of it at once, even when nothing runs there")
}

/// GPUs that a node of the job has at least, and of which model.
fn gpus_on_a_node(spec: &JobSpec) -> GpuCount {
    let asked = [
        (&spec.gpus_per_node, 1),
        (&spec.gpus_per_task, 1),
        (&spec.gpus_per_socket, spec.sockets_per_node.max(1)),
    ];
    let given = asked
        .into_iter()
        .filter_map(|(gpus, times)| Some((gpus.as_ref()?, times)));
    let most = given.max_by_key(|(gpus, times)| gpus.count.saturating_mul(*times));
    let alone = spec.nodes_max <= 1;
    let total = spec.gpus_total.as_ref().map(|gpus| GpuCount {
        model: gpus.model.clone(),
        count: if alone { gpus.count } else { gpus.count.min(1) },
    });
    let most = most.map(|(gpus, times)| GpuCount {
        model: gpus.model.clone(),
        count: gpus.count.saturating_mul(times),
    });
    most.or(total).unwrap_or(GpuCount {
        model: String::new(),
        count: 0,
    })
}

fn memory_on_a_node(spec: &JobSpec, gpus: u32) -> u64 {
    match spec.memory {
        MemoryRequest::Default => 0,
        MemoryRequest::PerNode(mib) => mib,
        MemoryRequest::PerCpu(mib) => mib.saturating_mul(u64::from(cpus_on_a_node(spec))),
        MemoryRequest::PerGpu(mib) => mib.saturating_mul(u64::from(gpus)),
    }
}
