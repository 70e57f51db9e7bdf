//! What of a node's inventory decides which jobs fit there and which devices they get. Most nodes of a cluster share a few shapes,
//! so whatever can be worked out from a shape alone is worked out once.

use super::layout::Layout;
use crate::resources::{Gpu, GpuLink, IdSet, Inventory};

/// A set of a node's GPUs, by index.
pub(crate) type Mask = u128;

/// GPUs (partitions of GPUs count) of a node that are planned; further ones are never given.
pub(crate) const MOST_GPUS: usize = Mask::BITS as usize;

/// NUMA nodes whose CPUs are told apart; those of further ones count as the last one's.
pub(crate) const DOMAINS: usize = 8;

/// A GPU, as far as placement cares.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Device {
    pub(crate) model: String,
    pub(crate) numa: Option<u32>,
    pub(crate) links: Vec<(u32, GpuLink)>,
    pub(crate) rail: Option<u32>,
    /// Number of the physical GPU among those of the node, if this is a part of one.
    pub(crate) parent: Option<usize>,
    /// That physical GPU, if it is there whole as well: who holds one keeps others from the other.
    pub(crate) whole: Option<usize>,
}

/// See the module. Equal inventories, apart from what does not matter here, have equal shapes.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    pub(crate) cpus: u32,
    pub(crate) sockets: u32,
    pub(crate) cores_per_socket: u32,
    pub(crate) threads_per_core: u32,
    pub(crate) memory_mib: u64,
    /// At most [`MOST_GPUS`].
    pub(crate) gpus: Vec<Device>,
    cpus_by_numa: Vec<IdSet>,
    /// GPUs of each model, in order of first index.
    models: Vec<(String, Mask)>,
    /// By NUMA domain: CPU ids. The length is between 1 and [`DOMAINS`].
    domains: Vec<IdSet>,
    /// By socket: CPU ids.
    socket_cpus: Vec<IdSet>,
    /// How the GPUs lie to one another; follows from the rest.
    layout: Layout,
}

impl Shape {
    /// The shape of an inventory.
    pub(crate) fn of(inventory: &Inventory) -> Self {
        let gpus: Vec<Device> = planned(inventory).map(|at| device(inventory, at)).collect();
        let mut models: Vec<(String, Mask)> = Vec::new();
        for (device, at) in gpus.iter().zip(0..) {
            match models.iter_mut().find(|(model, _)| *model == device.model) {
                Some((_, mask)) => *mask |= 1 << at,
                None => models.push((device.model.clone(), 1 << at)),
            }
        }
        let (domains, socket_cpus) = (domains(inventory), sockets(inventory));
        Self {
            layout: Layout::of(&gpus, &domains, &socket_cpus),
            cpus: inventory.cpus,
            sockets: inventory.sockets.max(1),
            cores_per_socket: inventory.cores_per_socket.max(1),
            threads_per_core: inventory.threads_per_core.max(1),
            memory_mib: inventory.memory_mib,
            models,
            domains,
            socket_cpus,
            cpus_by_numa: inventory.cpus_by_numa.clone(),
            gpus,
        }
    }

    /// Whether this is the shape of that inventory; cheaper than making it anew.
    pub(crate) fn is_of(&self, inventory: &Inventory) -> bool {
        self.cpus == inventory.cpus
            && self.memory_mib == inventory.memory_mib
            && self.sockets == inventory.sockets.max(1)
            && self.cores_per_socket == inventory.cores_per_socket.max(1)
            && self.threads_per_core == inventory.threads_per_core.max(1)
            && self.cpus_by_numa == inventory.cpus_by_numa
            && self.gpus.len() == planned(inventory).len()
            && self.gpus.iter().zip(&inventory.gpus).all(|(mine, gpu)| {
                mine.model == gpu.model
                    && mine.numa == gpu.numa
                    && mine.rail == gpu.rail
                    && mine.links == gpu.links
            })
            && (self.gpus.iter().zip(0..)).all(|(mine, at)| {
                mine.parent == parent(inventory, at) && mine.whole == whole(inventory, at)
            })
    }

    /// All GPUs.
    pub(crate) fn all_gpus(&self) -> Mask {
        first(self.gpus.len())
    }

    /// GPUs of a model (all, if it is empty).
    pub(crate) fn gpus_of(&self, model: &str) -> Mask {
        if model.is_empty() {
            return self.all_gpus();
        }
        let known = self.models.iter().find(|(known, _)| known == model);
        known.map_or(0, |(_, mask)| *mask)
    }

    /// Models of GPUs, in order of first index.
    pub(crate) fn models(&self) -> impl Iterator<Item = &str> {
        self.models.iter().map(|(model, _)| model.as_str())
    }

    /// CPU ids of each NUMA domain.
    pub(crate) fn domains(&self) -> &[IdSet] {
        &self.domains
    }

    /// The NUMA domain of a GPU, if it is known.
    pub(crate) fn domain_of_gpu(&self, index: u32) -> Option<usize> {
        let numa = self.gpus.get(index as usize)?.numa?;
        Some((numa as usize).min(self.domains.len() - 1))
    }

    /// CPU ids of each socket.
    pub(crate) fn socket_cpus(&self) -> &[IdSet] {
        &self.socket_cpus
    }

    /// How the GPUs lie to one another.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How many of the node's CPUs each NUMA domain has, apart from those of a set.
    pub(crate) fn cpus_without(&self, used: &IdSet) -> [u16; DOMAINS] {
        let mut counts = [0; DOMAINS];
        for (count, domain) in counts.iter_mut().zip(&self.domains) {
            let free = domain.len() - domain.common(used);
            *count = u16::try_from(free).unwrap_or(u16::MAX);
        }
        counts
    }
}

/// The indices below `count`, as a set.
pub(crate) fn first(count: usize) -> Mask {
    match u32::try_from(count) {
        Ok(count) if count < Mask::BITS => (1 << count) - 1,
        Ok(_) | Err(_) => Mask::MAX,
    }
}

/// GPU indices of an inventory's set, as a mask.
pub(crate) fn mask_of(gpus: &IdSet) -> Mask {
    let words = gpus.words();
    let word = |at: usize| Mask::from(words.get(at).copied().unwrap_or(0));
    word(0) | word(1) << 64
}

/// GPU indices in a mask, as an inventory's set.
pub(crate) fn id_set(gpus: Mask) -> IdSet {
    indices(gpus).collect()
}

/// Indices in a mask, rising.
pub(crate) fn indices(mut mask: Mask) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let index = (mask != 0).then(|| mask.trailing_zeros())?;
        mask &= mask - 1;
        Some(index)
    })
}

fn planned(inventory: &Inventory) -> std::ops::Range<usize> {
    0..inventory.gpus.len().min(MOST_GPUS)
}

fn device(inventory: &Inventory, at: usize) -> Device {
    let gpu = &inventory.gpus[at];
    Device {
        model: gpu.model.clone(),
        numa: gpu.numa,
        links: gpu.links.clone(),
        rail: gpu.rail,
        parent: parent(inventory, at),
        whole: whole(inventory, at),
    }
}

/// The first device that is a part of the same physical GPU stands for it.
fn parent(inventory: &Inventory, at: usize) -> Option<usize> {
    let mine = inventory.gpus.get(at)?.parent.as_ref()?;
    let of_it = |gpu: &Gpu| {
        gpu.parent
            .as_ref()
            .is_some_and(|other| other.uuid == mine.uuid)
    };
    inventory.gpus.iter().position(of_it)
}

/// The physical GPU that a device is a part of, if the inventory has it whole as well.
fn whole(inventory: &Inventory, at: usize) -> Option<usize> {
    let uuid = &inventory.gpus.get(at)?.parent.as_ref()?.uuid;
    let is_it = |gpu: &Gpu| {
        gpu.parent.is_none() && !uuid.is_empty() && (gpu.uuid == *uuid || gpu.pci == *uuid)
    };
    inventory.gpus.iter().position(is_it)
}

/// CPU ids by socket: agents number CPUs by socket, then core, then thread.
fn sockets(inventory: &Inventory) -> Vec<IdSet> {
    let (cpus, sockets) = (
        u64::from(inventory.cpus),
        u64::from(inventory.sockets.max(1)),
    );
    let border = |socket: u64| u32::try_from(cpus * socket / sockets).unwrap_or(u32::MAX);
    let socket = |at: u64| (border(at)..border(at + 1)).collect();
    (0..sockets).map(socket).collect()
}

/// CPU ids by NUMA domain: as told; otherwise by socket.
fn domains(inventory: &Inventory) -> Vec<IdSet> {
    let told = inventory.cpus_by_numa.iter().any(|cpus| !cpus.is_empty());
    let numa = if told {
        inventory.cpus_by_numa.clone()
    } else {
        sockets(inventory)
    };
    let mut domains: Vec<IdSet> = vec![IdSet::new()];
    let mut left = IdSet::first(inventory.cpus);
    for (cpus, at) in numa.into_iter().zip(0..) {
        let at = DOMAINS.min(at + 1) - 1;
        domains.resize(domains.len().max(at + 1), IdSet::new());
        let here = cpus.iter().filter(|cpu| left.contains(*cpu));
        domains[at].union_with(&here.collect());
        left.subtract(&cpus);
    }
    domains[0].union_with(&left);
    domains
}
