//! What of a node's inventory decides which jobs fit there and which devices they get. Most nodes of a cluster share a few shapes,
//! so whatever can be worked out from a shape alone is worked out once.

use crate::resources::{GpuLink, IdSet, Inventory};

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
}

/// See the module. Equal inventories, apart from what does not matter here, have equal shapes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
        Self {
            cpus: inventory.cpus,
            sockets: inventory.sockets.max(1),
            cores_per_socket: inventory.cores_per_socket.max(1),
            threads_per_core: inventory.threads_per_core.max(1),
            memory_mib: inventory.memory_mib,
            models,
            domains: domains(inventory),
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
            && (self.gpus.iter().zip(0..)).all(|(mine, at)| mine.parent == parent(inventory, at))
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

    /// CPU ids of each NUMA domain.
    pub(crate) fn domains(&self) -> &[IdSet] {
        &self.domains
    }

    /// The NUMA domain of a GPU, if it is known.
    pub(crate) fn domain_of_gpu(&self, index: u32) -> Option<usize> {
        let numa = self.gpus.get(index as usize)?.numa?;
        Some((numa as usize).min(self.domains.len() - 1))
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
    }
}

/// The first device that is a part of the same physical GPU stands for it.
fn parent(inventory: &Inventory, at: usize) -> Option<usize> {
    let mine = inventory.gpus.get(at)?.parent.as_ref()?;
    let of_it = |gpu: &crate::resources::Gpu| {
        gpu.parent
            .as_ref()
            .is_some_and(|other| other.uuid == mine.uuid)
    };
    inventory.gpus.iter().position(of_it)
}

/// CPU ids by NUMA domain: as told; otherwise by socket, as Linux numbers threads on x86 (one socket after another, then again for
/// each further thread of a core). A wrong guess costs locality, nothing else.
fn domains(inventory: &Inventory) -> Vec<IdSet> {
    let mut domains = vec![IdSet::new()];
    let mut put = |at: usize, cpu: u32| {
        let at = at.min(DOMAINS - 1);
        if domains.len() <= at {
            domains.resize(at + 1, IdSet::new());
        }
        domains[at].insert(cpu);
    };
    if inventory.cpus_by_numa.is_empty() {
        let cores = inventory.sockets.max(1) * inventory.cores_per_socket.max(1);
        for cpu in 0..inventory.cpus {
            let socket = (cpu % cores) / inventory.cores_per_socket.max(1);
            put(socket as usize, cpu);
        }
        return domains;
    }
    let mut left = IdSet::first(inventory.cpus);
    for (cpus, at) in inventory.cpus_by_numa.iter().zip(0..) {
        for cpu in cpus.iter().filter(|cpu| left.contains(*cpu)) {
            put(at, cpu);
        }
        left.subtract(cpus);
    }
    left.iter().for_each(|cpu| put(0, cpu));
    domains
}
