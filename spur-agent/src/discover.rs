//! What this machine has: CPUs, memory and GPUs with identity, read from `/proc` and `/sys` below a root folder that tests replace.
//!
//! Device numbers are not part of a GPU's identity: they are looked up again at every grant (see `fence::resolve`).

pub mod amd;
pub mod cpu;
pub mod declared;
pub mod drm;
pub mod known;
pub mod memory;
pub mod mig;
pub mod nvidia;
pub mod nvml;
pub mod pci;
pub mod rail;
pub mod tree;

use crate::config::{Config, Declare, GPUS_MAX};
use serde::{Deserialize, Serialize};
use spur_core::resources::{Gpu, Inventory};
use tree::Tree;

/// What tells one GPU of the machine from every other, whatever numbers its device nodes have today.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Identity {
    /// NVIDIA's UUID (`GPU-…`) and the PCI address at which it was found.
    Nvidia {
        /// UUID.
        uuid: String,
        /// `dddd:bb:dd.f`.
        pci: String,
    },
    /// AMD: one KFD node, which is a whole GPU or a partition of one.
    Amd {
        /// `unique_id`, 0 if the kernel tells none.
        unique_id: u64,
        /// PCI address of the whole GPU.
        pci: String,
        /// Number of the partition within it.
        partition: u32,
    },
    /// Another DRM device, by its place in sysfs (`/sys/devices/…`).
    Drm {
        /// The device's folder, without the root.
        device: String,
    },
    /// A stand-in, by its device number: there is nothing else to it.
    Declared {
        /// Major.
        major: u32,
        /// Minor.
        minor: u32,
    },
    /// A MIG instance: a compute instance within a GPU instance of an NVIDIA GPU.
    Mig {
        /// Its own UUID (`MIG-…`).
        uuid: String,
        /// UUID of the GPU.
        gpu: String,
        /// PCI address of the GPU.
        pci: String,
        /// Number of the GPU instance.
        gi: u32,
        /// Number of the compute instance within it.
        ci: u32,
    },
    /// What holders of several MIG instances share. It is in no inventory: nobody is given this alone.
    MigShared {
        /// UUID of the GPU.
        gpu: String,
        /// The GPU instance that its compute instances share; `None` for the GPU's own nodes, which all its instances share.
        gi: Option<u32>,
    },
}

impl Identity {
    /// Whether it is a whole GPU of NVIDIA with one of these UUIDs.
    pub fn is_whole(&self, uuids: &[String]) -> bool {
        matches!(self, Self::Nvidia { uuid, .. } if uuids.contains(uuid))
    }

    /// What its holder shares with holders of others, and needs to use it.
    pub fn shares(&self) -> Vec<Self> {
        let Self::Mig { gpu, gi, .. } = self else {
            return Vec::new();
        };
        let shared = |gi| Self::MigShared {
            gpu: gpu.clone(),
            gi,
        };
        vec![shared(None), shared(Some(*gi))]
    }
}

/// A GPU as found: its public description and its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundGpu {
    /// As the controller sees it.
    pub gpu: Gpu,
    /// As the agent finds it again.
    pub identity: Identity,
}

/// Everything found on a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// What the node offers.
    pub inventory: Inventory,
    /// Kernel's number of each schedulable CPU, in the order of [`Inventory::cpus`]; empty when CPUs are declared.
    pub host_cpus: Vec<u32>,
    /// NUMA node of each, parallel to `host_cpus`.
    pub cpu_numa: Vec<u32>,
    /// Identity of each GPU, parallel to `inventory.gpus`.
    pub identities: Vec<Identity>,
    /// UUIDs of NVIDIA GPUs in MIG mode: offered by instance, never whole.
    pub split: Vec<String>,
    /// UUIDs of NVIDIA GPUs with MIG instances of which NVML told nothing.
    pub unsure: Vec<String>,
    /// GPUs that were here before and are not found now, by index, and what is said of them. They keep their places.
    pub absent: Vec<(u32, String)>,
    /// What could not be read, for the log.
    pub notes: Vec<String>,
}

/// Looks at the machine below `config.root` and applies what the configuration declares.
pub fn discover(config: &Config) -> Machine {
    let tree = Tree::new(&config.root);
    let extra = if tree.is_host() && tree.exists("proc/driver/nvidia/gpus") {
        nvml::ask_child()
    } else {
        Ok(Vec::new())
    };
    let (extra, note) = match extra {
        Ok(extra) => (extra, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let mut machine = survey(&tree, &config.declare, &extra);
    machine.inventory.features.clone_from(&config.features);
    machine.notes.extend(note);
    known::remember(&config.state_dir, machine)
}

/// The pure part of [`discover`]: a tree, a declaration and NVML's answers in, a machine out.
pub fn survey(tree: &Tree, declare: &Declare, nvml: &[nvml::Extra]) -> Machine {
    let mut notes = Vec::new();
    let cpus = cpu::find(tree);
    let found = match &declare.gpus {
        Some(groups) => declared::gpus(declare, groups),
        None => find_gpus(tree, nvml, &mut notes),
    };
    let modes = match &declare.gpus {
        Some(_) => mig::Modes::default(),
        None => mig::modes(tree, nvml),
    };
    let (gpus, identities): (Vec<Gpu>, Vec<Identity>) = found
        .into_iter()
        .take(GPUS_MAX as usize)
        .map(|found| (found.gpu, found.identity))
        .unzip();
    let mut inventory = Inventory {
        cpus: u32::try_from(cpus.host.len()).unwrap_or(u32::MAX),
        sockets: cpus.sockets,
        cores_per_socket: cpus.cores_per_socket,
        threads_per_core: cpus.threads_per_core,
        memory_mib: declare
            .memory_mib
            .unwrap_or_else(|| memory::total_mib(tree)),
        gpus,
        simulated: declare.cpus.is_some()
            || declare.memory_mib.is_some()
            || declare.gpus.is_some()
            || declare.numa.is_some()
            || declare.sockets.is_some(),
        cpus_by_numa: cpu::by_numa(&cpus.numa),
        features: Vec::new(),
    };
    let (mut host_cpus, mut cpu_numa) = (cpus.host, cpus.numa);
    if let Some(count) = declare.cpus {
        (
            inventory.cpus,
            inventory.sockets,
            inventory.cores_per_socket,
            inventory.threads_per_core,
        ) = (count, 1, count, 1);
        inventory.cpus_by_numa.clear();
        host_cpus.clear();
        cpu_numa.clear();
    }
    if let Some(sockets) = declare.numa.or(declare.sockets) {
        declared::share_cpus(&mut inventory, sockets);
    }
    Machine {
        inventory,
        host_cpus,
        cpu_numa,
        identities,
        split: modes.split,
        unsure: modes.unsure,
        absent: Vec::new(),
        notes,
    }
}

/// All real GPUs, NVIDIA's first, then AMD's, then the rest; indices and links point into the returned list.
fn find_gpus(tree: &Tree, nvml: &[nvml::Extra], notes: &mut Vec<String>) -> Vec<FoundGpu> {
    let mut all = nvidia::find(tree, nvml, notes);
    append(&mut all, amd::find(tree, notes));
    let taken = all.clone();
    append(&mut all, drm::find(tree, &taken, notes));
    rail::find(tree, &mut all);
    // People are shown all that a holder may open, also what it shares with others.
    let shared = crate::fence::resolve::shared(&tree.read("proc/devices").unwrap_or_default());
    for FoundGpu { gpu, .. } in &mut all {
        gpu.files
            .extend(shared.get(&gpu.vendor).into_iter().flatten().cloned());
    }
    all
}

/// The identities of all real GPUs that are there now.
pub fn identities(tree: &Tree) -> Vec<Identity> {
    let found = find_gpus(tree, &[], &mut Vec::new());
    found.into_iter().map(|found| found.identity).collect()
}

/// The model of a part of a GPU: Slurm's GRES type for MIG instances, and likewise for AMD's partitions. What no type may have, the
/// `+` of `1g.18gb+me`, is written as a dot.
fn part_model(model: &str, profile: &str) -> String {
    format!("{model}_{}", profile.to_ascii_lowercase().replace('+', "."))
}

/// Appends GPUs whose indices and links count from 0.
fn append(all: &mut Vec<FoundGpu>, more: Vec<FoundGpu>) {
    let base = u32::try_from(all.len()).unwrap_or(u32::MAX);
    all.extend(more.into_iter().map(|mut found| {
        found.gpu.index += base;
        for link in &mut found.gpu.links {
            link.0 += base;
        }
        found
    }));
}

#[cfg(test)]
pub(crate) mod tests;
