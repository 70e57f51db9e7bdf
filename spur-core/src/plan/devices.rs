//! Which CPUs and GPUs of a node: GPUs that are close to one another, CPUs that are close to the GPUs.

use super::ask::{Ask, Need};
use super::shape::Shape;
use super::slot::Slot;
use crate::id::NodeId;
use crate::resources::{GpuLink, IdSet, MemoryRequest, NodeShare};
use std::collections::BTreeMap;

/// The share that a part of an ask becomes on a node; the caller has checked that it fits. `cpus` are the free ones that the slot
/// counts.
pub(crate) fn share(
    slot: &Slot<'_>,
    (node, cpus): (NodeId, &IdSet),
    ask: &Ask<'_>,
    need: Need,
) -> NodeShare {
    let gpus = if ask.exclusive {
        slot.free_gpus("").collect()
    } else {
        choose_gpus(slot, ask.model, need.gpus)
    };
    let cpus = if ask.exclusive {
        cpus.clone()
    } else {
        choose_cpus(
            slot.shape,
            cpus,
            &gpus,
            need.tasks.saturating_mul(ask.cpus_per_task),
        )
    };
    let memory_mib = match ask.memory {
        MemoryRequest::Default => 0,
        MemoryRequest::PerNode(0) => slot.shape.memory_mib,
        MemoryRequest::PerNode(mib) => mib,
        MemoryRequest::PerCpu(mib) => mib.saturating_mul(u64::from(cpus.len())),
        MemoryRequest::PerGpu(mib) => mib.saturating_mul(u64::from(need.gpus)),
    };
    let memory_mib = memory_mib.min(slot.free.memory);
    NodeShare {
        node,
        cpus,
        memory_mib,
        gpus,
        tasks: need.tasks,
    }
}

/// The NUMA node with the fewest free GPUs that suffice; if none does, the fullest ones together. Within them, the set with
/// the best links, lowest indices first.
fn choose_gpus(slot: &Slot<'_>, model: &str, count: u32) -> IdSet {
    let count = count as usize;
    if count == 0 {
        return IdSet::new();
    }
    let shape = slot.shape;
    let mut by_numa: BTreeMap<Option<u32>, Vec<u32>> = BTreeMap::new();
    for index in slot.free_gpus(model) {
        let numa = shape.gpus.get(index as usize).and_then(|gpu| gpu.numa);
        by_numa.entry(numa).or_default().push(index);
    }
    let fitting = by_numa.values().filter(|free| free.len() >= count);
    if let Some(free) = fitting.min_by_key(|free| free.len()) {
        return best_linked(shape, free, count);
    }
    let mut groups: Vec<Vec<u32>> = by_numa.into_values().collect();
    groups.sort_by_key(|free| std::cmp::Reverse(free.len()));
    let mut chosen = IdSet::new();
    let mut left = count;
    for free in groups {
        let here = left.min(free.len());
        chosen.union_with(&best_linked(shape, &free, here));
        left -= here;
    }
    chosen
}

/// Grows a set from each start by the GPU that is best linked to it, and keeps the best set.
fn best_linked(shape: &Shape, free: &[u32], count: usize) -> IdSet {
    let lowest = || free.iter().take(count).copied().collect();
    if count == 0 || count >= free.len() || !has_links(shape, free) {
        return lowest();
    }
    let mut best: Option<(u32, Vec<u32>)> = None;
    for start in free {
        let mut set = vec![*start];
        let mut score = 0;
        while set.len() < count {
            let gain = |gpu: &u32| {
                set.iter()
                    .map(|other| link(shape, *gpu, *other))
                    .sum::<u32>()
            };
            let rest = free.iter().filter(|gpu| !set.contains(gpu));
            let Some(next) = rest.max_by_key(|gpu| (gain(gpu), std::cmp::Reverse(**gpu))) else {
                break;
            };
            score += gain(next);
            set.push(*next);
        }
        if best.as_ref().is_none_or(|(most, _)| score > *most) {
            best = Some((score, set));
        }
    }
    best.map_or_else(lowest, |(_, set)| set.into_iter().collect())
}

fn has_links(shape: &Shape, free: &[u32]) -> bool {
    let gpus = free
        .iter()
        .filter_map(|index| shape.gpus.get(*index as usize));
    gpus.into_iter().any(|gpu| !gpu.links.is_empty())
}

/// How good the link between two GPUs is, 0 for none.
fn link(shape: &Shape, a: u32, b: u32) -> u32 {
    let links = shape
        .gpus
        .get(a as usize)
        .map(|gpu| gpu.links.as_slice())
        .unwrap_or_default();
    let kind = links.iter().find(|(to, _)| *to == b).map(|(_, kind)| *kind);
    kind.map_or(0, |kind| match kind {
        GpuLink::NvLink | GpuLink::Xgmi => 4,
        GpuLink::Pcie => 1,
    })
}

/// CPUs of the NUMA nodes of the chosen GPUs first, then any; lowest ids first.
fn choose_cpus(shape: &Shape, free: &IdSet, gpus: &IdSet, count: u32) -> IdSet {
    let mut near = IdSet::new();
    for at in gpus.iter().filter_map(|gpu| shape.domain_of_gpu(gpu)) {
        if let Some(domain) = shape.domains().get(at) {
            near.union_with(domain);
        }
    }
    let first = free.iter().filter(|cpu| near.contains(*cpu));
    let then = free.iter().filter(|cpu| !near.contains(*cpu));
    first.chain(then).take(count as usize).collect()
}
