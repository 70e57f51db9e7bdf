//! What a request that no state of the cluster could satisfy lacks, and where: the first thing that too few nodes have.

use super::features;
use crate::cluster::Cluster;
use crate::job::limits::cpus_on_a_node;
use crate::job::spec::JobSpec;
use crate::node::Node;
use crate::partition::Partition;
use crate::resources::{Gpu, GpuCount, Inventory, MemoryRequest};
use crate::slurm::constraint::{self, Constraint};
use std::collections::BTreeSet;
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
    if most.len() < wanted {
        let has = counted(most.len());
        return format!("{place} has {has} that {constraint} allows, and the job needs {wanted}");
    }
    if !enough {
        return of_kinds(cluster, &constraint, &most, (spec, &place));
    }
    of_nodes(spec, &most, (partition, &place), wanted)
}

/// What the partition gives less of than a node of the job needs, whatever nodes it has.
pub(super) fn capped(partition: &Partition, spec: &JobSpec) -> Option<String> {
    let most = partition.cpus_of_a_node()?;
    let (cpus, name) = (cpus_on_a_node(spec), &partition.name);
    (cpus > most)
        .then(|| format!("{cpus} CPUs on a node, and partition {name} gives at most {most}"))
}

/// Too few nodes of a kind of which the constraint wants a number, or more kinds than the job has nodes.
fn of_kinds(
    cluster: &Cluster,
    constraint: &Constraint,
    nodes: &[&Node],
    (spec, place): (&JobSpec, &str),
) -> String {
    let kinds = features::kinds(cluster, constraint, nodes);
    let groups = constraint.counts().iter().zip(kinds);
    let mut scarce = groups.filter(|(_, (having, count))| having.len() < *count);
    if let Some(((group, _), (having, count))) = scarce.next() {
        let has = counted(having.len());
        return format!(
            "{place} has {has} with feature {group}, and the job needs {count} of them"
        );
    }
    let sum: u64 = constraint
        .counts()
        .iter()
        .map(|(_, count)| u64::from(*count))
        .sum();
    let most = spec.nodes_max.max(spec.nodes_min);
    format!("{constraint} takes {sum} nodes, and the job has at most {most}")
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
    is_gpus: bool,
    /// Slurm's line.
    first: &'static str,
}

fn of_nodes(
    spec: &JobSpec,
    nodes: &[&Node],
    (partition, place): (&Partition, &str),
    wanted: usize,
) -> String {
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
            is_gpus: false,
            first: "CPU count per node can not be satisfied\n",
        },
        Thing {
            name: "MiB of memory".to_owned(),
            needed: memory_on_a_node(spec, gpus.count),
            has: &|inventory| inventory.memory_mib,
            is_gpus: false,
            first: "Memory specification can not be satisfied\n",
        },
        Thing {
            name,
            needed: u64::from(gpus.count),
            has: &of_model,
            is_gpus: true,
            first: "",
        },
        Thing {
            name: "sockets".to_owned(),
            needed: u64::from(spec.sockets_per_node),
            has: &|inventory| u64::from(inventory.sockets),
            is_gpus: false,
            first: "Socket, core and/or thread specification can not be satisfied\n",
        },
    ];
    for thing in things {
        let enough = |node: &&&Node| (thing.has)(&node.inventory) >= thing.needed;
        let able = nodes.iter().filter(enough).count();
        if able < wanted {
            let mut text = short_of(&thing, nodes, place, (able, wanted));
            if able == 0 && thing.is_gpus && !gpus.model.is_empty() {
                text.push_str(&models(nodes));
            }
            return text;
        }
    }
    in_all(spec, nodes, (partition, place)).unwrap_or_else(|| arranged(spec, partition, place))
}

/// The models that there are, of which none is enough.
fn models(nodes: &[&Node]) -> String {
    let all = nodes.iter().flat_map(|node| &node.inventory.gpus);
    let known: BTreeSet<&str> = all.map(|gpu| gpu.model.as_str()).collect();
    if known.is_empty() {
        return "; there are no GPUs".to_owned();
    }
    let known: Vec<&str> = known.into_iter().collect();
    format!("; its GPUs are {}", known.join(", "))
}

/// Nodes have enough of everything; what the job says of how it must lie on a node, or what goes with what, is in the way.
fn arranged(spec: &JobSpec, partition: &Partition, place: &str) -> String {
    let mut wishes = Vec::new();
    let per_socket = spec.gpus_per_socket.as_ref().map_or(0, |gpus| gpus.count);
    if per_socket > 0 {
        wishes.push(format!("--gpus-per-socket={per_socket}"));
    }
    if spec.tasks_per_socket > 0 {
        wishes.push(format!("--ntasks-per-socket={}", spec.tasks_per_socket));
    }
    if spec.gres_flags.enforce_binding {
        wishes.push("--gres-flags=enforce-binding".to_owned());
    }
    if !spec.nodelist.is_empty() {
        wishes.push("-w".to_owned());
    }
    let most = partition.max_mem_per_node;
    if most > 0
        && matches!(
            spec.memory,
            MemoryRequest::PerCpu(_) | MemoryRequest::PerGpu(_)
        )
    {
        wishes.push(format!(
            "at most {most} MiB of a node, as the partition gives a job,"
        ));
    }
    let with = if wishes.is_empty() {
        String::new()
    } else {
        format!(" with {}", wishes.join(" and "))
    };
    format!("no nodes of {place} have all of it at once{with}, even when nothing runs there")
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
        ..
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
fn in_all(
    spec: &JobSpec,
    nodes: &[&Node],
    (partition, place): (&Partition, &str),
) -> Option<String> {
    let (gpus, model) = match (&spec.gpus_total, &spec.gpus_per_task) {
        (Some(total), _) if total.count > 0 => (u64::from(total.count), &total.model),
        (_, Some(each)) if each.count > 0 => (
            u64::from(each.count).saturating_mul(u64::from(spec.tasks)),
            &each.model,
        ),
        _ => (0, &String::new()),
    };
    let nodes_max = match partition.max_nodes {
        0 => spec.nodes_max.max(spec.nodes_min),
        most => spec.nodes_max.min(most).max(spec.nodes_min),
    };
    let nodes_max = nodes_max as usize;
    let who = counted(nodes_max.min(nodes.len()));
    let sum = |of: &dyn Fn(&Inventory) -> u64| -> u64 {
        let mut most: Vec<u64> = nodes.iter().map(|node| of(&node.inventory)).collect();
        most.sort_unstable_by(|a, b| b.cmp(a));
        most.iter().take(nodes_max).sum()
    };
    let same = |gpu: &&Gpu| model.is_empty() || gpu.model == *model;
    let there = sum(&|inventory| inventory.gpus.iter().filter(same).count() as u64);
    if gpus > there {
        return Some(format!(
            "{who} of {place} have {there} GPUs at most, and the job needs {gpus}"
        ));
    }
    let by_task =
        u64::from(spec.placed_tasks()).saturating_mul(u64::from(spec.cpus_per_task.max(1)));
    let cpus = by_task.max(gpus.saturating_mul(u64::from(spec.cpus_per_gpu)));
    let there = sum(&|inventory| u64::from(inventory.cpus));
    if cpus > there {
        return Some(format!(
            "{who} of {place} have {there} CPUs at most, and the job needs {cpus}"
        ));
    }
    let (most, name) = (u64::from(partition.cpus_of_a_node()?), &partition.name);
    let whole = nodes
        .iter()
        .map(|node| u64::from(node.inventory.cpus))
        .min();
    let whole = whole.filter(|whole| spec.exclusive && *whole > most);
    if let Some(whole) = whole {
        return Some(format!(
            "a whole node has {whole} CPUs, and partition {name} gives at most {most} of one"
        ));
    }
    let given = sum(&|inventory| u64::from(inventory.cpus).min(most));
    (cpus > given).then(|| {
        format!("partition {name} gives at most {most} CPUs of a node, {given} of {who}, and the job needs {cpus}")
    })
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
