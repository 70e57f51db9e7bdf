//! How the GPUs of a node lie to one another: links, NUMA nodes, sockets, rails, parts of one GPU. Worked out once for each
//! shape, with what was found out since about which GPUs are best chosen.

mod choose;

#[cfg(test)]
mod tests;

pub(crate) use choose::{Closeness, Quality};

use super::shape::{Device, Mask, first, indices};
use crate::resources::{GpuLink, IdSet};
use choose::Table;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// GPUs at one NUMA node.
#[derive(Clone, Debug)]
pub(crate) struct Island {
    pub(crate) gpus: Mask,
    /// Which of the shape's CPU domains is there; `None`: the kernel does not tell, so all are as near.
    pub(crate) domain: Option<usize>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Layout {
    all: Mask,
    /// NUMA nodes that have GPUs.
    islands: Vec<Island>,
    /// GPUs at each socket.
    sockets: Vec<Mask>,
    /// Sets of GPUs that are worth keeping whole: all, those of a NUMA node, those that links join.
    wholes: Vec<Mask>,
    /// Parts of one GPU, for every GPU that has parts.
    siblings: Vec<Mask>,
    /// For each GPU the others that fast links join to it.
    fast: Vec<Mask>,
    /// Whether any are.
    linked: bool,
    /// For each GPU the others that it reaches over PCI Express, and the parts of the same GPU.
    close: Vec<Mask>,
    /// For each GPU what cannot be held by anybody else while it is held: a GPU and its parts.
    excludes: Vec<Mask>,
    /// GPUs that are there whole beside their parts.
    split: Mask,
    /// GPUs on each network rail.
    rails: BTreeMap<u32, Mask>,
    table: Table,
}

impl Layout {
    /// The layout of these GPUs, on a node with these CPU domains and sockets.
    pub(crate) fn of(gpus: &[Device], domains: &[IdSet], socket_cpus: &[IdSet]) -> Self {
        let islands = islands(gpus, domains.len());
        let fast = both_ways(gpus.iter().map(fast_links).collect());
        let siblings = siblings(gpus);
        let excludes = excludes(gpus);
        let is_split = |at: &u32| gpus.iter().any(|gpu| gpu.whole == Some(*at as usize));
        Self {
            all: first(gpus.len()),
            sockets: at_sockets(&islands, domains, socket_cpus),
            wholes: wholes(&islands, &fast, &siblings),
            islands,
            close: close(gpus, &siblings),
            siblings,
            linked: fast.iter().any(|set| *set != 0),
            fast,
            split: indices(first(gpus.len())).filter(is_split).fold(0, with),
            excludes,
            rails: rails(gpus),
            table: Table::new(gpus.len()),
        }
    }

    /// What nobody else can hold while these are held or broken: themselves, their parts, and the GPUs they are parts of.
    pub(crate) fn closure(&self, held: Mask) -> Mask {
        if self.split == 0 {
            return held;
        }
        let excluded = indices(held).filter_map(|at| self.excludes.get(at as usize));
        excluded.fold(held, |set, more| set | more)
    }

    /// Of free GPUs those that can all be held at once: a GPU that is free beside its parts is left out.
    pub(crate) fn apart(&self, free: Mask) -> Mask {
        let parts_are_free = |at: &u32| {
            let parts = self.excludes.get(*at as usize);
            parts.is_some_and(|parts| parts & free != 0)
        };
        free & !indices(free & self.split)
            .filter(parts_are_free)
            .fold(0, with)
    }

    /// NUMA nodes that have GPUs.
    pub(crate) fn islands(&self) -> &[Island] {
        &self.islands
    }

    /// GPUs at each socket.
    pub(crate) fn sockets(&self) -> &[Mask] {
        &self.sockets
    }

    /// Whether the node's GPUs are on network rails.
    pub(crate) fn has_rails(&self) -> bool {
        !self.rails.is_empty()
    }

    /// Network rails that one of these GPUs is on, as a set of numbers; those above 127 do not count.
    pub(crate) fn rails_of(&self, gpus: Mask) -> u128 {
        let touched = self.rails.iter().filter(|(_, on)| **on & gpus != 0);
        touched.fold(0, |set, (rail, _)| with(set, *rail))
    }

    /// GPUs on these rails.
    pub(crate) fn on_rails(&self, rails: u128) -> Mask {
        let wanted = self
            .rails
            .iter()
            .filter(|(rail, _)| with(0, **rail) & rails != 0);
        wanted.fold(0, |set, (_, gpus)| set | gpus)
    }

    /// Fewest NUMA nodes that so many of these GPUs lie at, were all free.
    pub(crate) fn least_span(&self, gpus: Mask, count: u32) -> u32 {
        let mut sizes = [0u32; Mask::BITS as usize];
        for (size, island) in sizes.iter_mut().zip(&self.islands) {
            *size = (island.gpus & gpus).count_ones();
        }
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let (mut left, mut span) = (count, 0);
        for size in sizes {
            if left == 0 || size == 0 {
                break;
            }
            left = left.saturating_sub(size);
            span += 1;
        }
        span
    }
}

/// A layout follows from the rest of its shape, so it never tells two shapes apart.
impl PartialEq for Layout {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Layout {}

impl PartialOrd for Layout {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Layout {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

/// The set with one more; numbers that it cannot hold are left out.
fn with(set: Mask, at: u32) -> Mask {
    set | 1u128.checked_shl(at).unwrap_or(0)
}

fn islands(gpus: &[Device], domains: usize) -> Vec<Island> {
    let mut by_numa: BTreeMap<Option<u32>, Mask> = BTreeMap::new();
    for (gpu, at) in gpus.iter().zip(0..) {
        let set = by_numa.entry(gpu.numa).or_default();
        *set = with(*set, at);
    }
    // Where only one domain of CPUs is known, nothing is near or far.
    let known = |numa: u32| (domains > 1).then(|| (numa as usize).min(domains - 1));
    let island = |(numa, gpus): (Option<u32>, Mask)| Island {
        gpus,
        domain: numa.and_then(known),
    };
    by_numa.into_iter().map(island).collect()
}

/// A socket's GPUs: those at NUMA nodes whose first CPU is the socket's; all of them where the node has but one socket.
fn at_sockets(islands: &[Island], domains: &[IdSet], socket_cpus: &[IdSet]) -> Vec<Mask> {
    let at = |cpus: &IdSet| {
        let here = islands.iter().filter(|island| {
            let domain = island.domain.and_then(|at| domains.get(at));
            let first = domain.and_then(|domain| domain.iter().next());
            first.map_or(socket_cpus.len() == 1, |cpu| cpus.contains(cpu))
        });
        here.fold(0, |set, island| set | island.gpus)
    };
    socket_cpus.iter().map(at).collect()
}

fn fast_links(gpu: &Device) -> Mask {
    let fast = |kind: GpuLink| match kind {
        GpuLink::NvLink | GpuLink::Xgmi => true,
        GpuLink::Pcie => false,
    };
    let links = gpu.links.iter().filter(|(_, kind)| fast(*kind));
    links.fold(0, |set, (to, _)| with(set, *to))
}

fn close(gpus: &[Device], siblings: &[Mask]) -> Vec<Mask> {
    let pcie = |gpu: &Device| {
        let links = gpu.links.iter().filter(|(_, kind)| *kind == GpuLink::Pcie);
        links.fold(0, |set, (to, _)| with(set, *to))
    };
    let mut close = both_ways(gpus.iter().map(pcie).collect());
    for (set, at) in close.iter_mut().zip(0..) {
        let own = with(0, at);
        let parts = siblings.iter().filter(|parts| **parts & own != 0);
        *set = parts.fold(*set, |set, parts| set | parts) & !own;
    }
    close
}

/// Links as both ends should tell of them.
fn both_ways(links: Vec<Mask>) -> Vec<Mask> {
    let all = first(links.len());
    let mut sets: Vec<Mask> = links.iter().map(|set| set & all).collect();
    for (set, at) in links.into_iter().zip(0..) {
        for other in indices(set & all) {
            if let Some(other) = sets.get_mut(other as usize) {
                *other = with(*other, at);
            }
        }
    }
    for (set, at) in sets.iter_mut().zip(0..) {
        *set &= !with(0, at);
    }
    sets
}

/// Parts are left out: what matters of them is which GPUs are not broken into.
fn wholes(islands: &[Island], fast: &[Mask], siblings: &[Mask]) -> Vec<Mask> {
    let parts = siblings.iter().fold(0, |set, parts| set | parts);
    let mut wholes: Vec<Mask> = islands.iter().map(|island| island.gpus).collect();
    wholes.push(first(fast.len()));
    wholes.extend(joined(fast));
    wholes.iter_mut().for_each(|set| *set &= !parts);
    wholes.retain(|set| set.count_ones() > 1);
    wholes.sort_unstable();
    wholes.dedup();
    wholes
}

/// Parts of one GPU, for every GPU that has parts.
fn siblings(gpus: &[Device]) -> Vec<Mask> {
    let mut groups: BTreeMap<usize, Mask> = BTreeMap::new();
    for (gpu, at) in gpus.iter().zip(0..) {
        if let Some(parent) = gpu.parent {
            let set = groups.entry(parent).or_default();
            *set = with(*set, at);
        }
    }
    groups.into_values().collect()
}

fn excludes(gpus: &[Device]) -> Vec<Mask> {
    let mut sets = vec![0; gpus.len()];
    for (part, at) in (0u32..).zip(0..gpus.len()) {
        let Some(whole) = gpus.get(at).and_then(|gpu| gpu.whole) else {
            continue;
        };
        if let Some(set) = sets.get_mut(whole) {
            *set = with(*set, part);
        }
        if let (Some(set), Ok(whole)) = (sets.get_mut(at), u32::try_from(whole)) {
            *set = with(*set, whole);
        }
    }
    sets
}

fn rails(gpus: &[Device]) -> BTreeMap<u32, Mask> {
    let mut rails: BTreeMap<u32, Mask> = BTreeMap::new();
    for (gpu, at) in gpus.iter().zip(0..) {
        if let Some(rail) = gpu.rail {
            let set = rails.entry(rail).or_default();
            *set = with(*set, at);
        }
    }
    rails
}

/// Groups of GPUs that links join, directly or over others.
fn joined(links: &[Mask]) -> Vec<Mask> {
    let mut groups = Vec::new();
    let mut seen: Mask = 0;
    for start in indices(first(links.len())) {
        if seen & with(0, start) != 0 {
            continue;
        }
        let (mut group, mut before) = (with(0, start), 0);
        while group != before {
            before = group;
            let linked = indices(group).filter_map(|at| links.get(at as usize));
            group = linked.fold(group, |set, more| set | more);
        }
        seen |= group;
        groups.push(group);
    }
    groups
}
