//! What nodes have and jobs take: CPUs, memory, GPUs with identity.

use crate::id::NodeId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A set of small numbers (CPU ids, GPU indices), kept as a bitmap. Displays as Slurm and the kernel do: `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdSet {
    words: Vec<u64>,
}

impl IdSet {
    /// The largest id that a set may hold (65,535): bounds what a hostile peer can make us allocate.
    pub const MAX: u32 = 65_535;

    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// `0..n`.
    pub fn first(n: u32) -> Self {
        (0..n).collect()
    }

    /// Adds an id; ids above [`Self::MAX`] are ignored and reported as `false`.
    pub fn insert(&mut self, id: u32) -> bool {
        if id > Self::MAX {
            return false;
        }
        let (word, bit) = ((id / 64) as usize, id % 64);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let fresh = self.words[word] & (1 << bit) == 0;
        self.words[word] |= 1 << bit;
        fresh
    }

    /// Removes an id.
    pub fn remove(&mut self, id: u32) -> bool {
        let had = self.contains(id);
        if had {
            self.words[(id / 64) as usize] &= !(1 << (id % 64));
            self.trim();
        }
        had
    }

    /// Whether the id is in the set.
    pub fn contains(&self, id: u32) -> bool {
        self.words
            .get((id / 64) as usize)
            .is_some_and(|w| w & (1 << (id % 64)) != 0)
    }

    /// How many ids.
    pub fn len(&self) -> u32 {
        self.words.iter().map(|w| w.count_ones()).sum()
    }

    /// No ids at all.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|w| *w == 0)
    }

    /// The ids in rising order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().zip(0u32..).flat_map(|(word, at)| {
            let mut word = *word;
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros())?;
                word &= word - 1;
                Some(at * 64 + bit)
            })
        })
    }

    /// The first ids, up to so many, that are in both sets and not in a third.
    pub(crate) fn first_common(&self, other: &Self, without: &Self, most: u32) -> Self {
        let mut left = most;
        let both = self.words.iter().zip(&other.words).enumerate();
        let words = both.map(|(at, (a, b))| {
            let mut word = a & b & !without.words.get(at).copied().unwrap_or(0);
            while word.count_ones() > left {
                // The highest one is too much.
                word &= !(1 << (63 - word.leading_zeros()));
            }
            left -= word.count_ones();
            word
        });
        let mut first = Self {
            words: words.collect(),
        };
        first.trim();
        first
    }

    /// Adds every id of `other`.
    pub fn union_with(&mut self, other: &Self) {
        if other.words.len() > self.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine |= theirs;
        }
    }

    /// Removes every id of `other`.
    pub fn subtract(&mut self, other: &Self) {
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine &= !theirs;
        }
        self.trim();
    }

    /// Whether the two share an id.
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Whether every id of `self` is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.iter().all(|id| other.contains(id))
    }

    /// How many ids the two share.
    pub(crate) fn common(&self, other: &Self) -> u32 {
        let both = self.words.iter().zip(&other.words);
        both.map(|(a, b)| (a & b).count_ones()).sum()
    }

    /// The bitmap, lowest ids first; what is beyond it is not in the set.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Trailing zero words are dropped so that equal sets are equal values.
    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

impl FromIterator<u32> for IdSet {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Self {
        let mut set = Self::new();
        for id in ids {
            set.insert(id);
        }
        set
    }
}

impl fmt::Display for IdSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ids = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = ids.next() {
            let mut last = first;
            while ids.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            if last == first {
                write!(f, "{separator}{first}")?
            } else {
                write!(f, "{separator}{first}-{last}")?
            }
            separator = ",";
        }
        Ok(())
    }
}

/// Who made a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GpuVendor {
    /// NVIDIA's driver: `/dev/nvidiaN`.
    Nvidia,
    /// AMD's: KFD and a DRM render node.
    Amd,
    /// Any other DRM render node.
    Drm,
    /// A stand-in without hardware, declared by configuration; called simulated in every view.
    Simulated,
}

/// The kind of link between two GPUs, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum GpuLink {
    /// NVIDIA NVLink.
    NvLink,
    /// AMD Infinity Fabric between GPUs.
    Xgmi,
    /// PCI Express, possibly through a host bridge.
    Pcie,
}

/// A character device node by which a GPU is reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeviceFile {
    /// Absolute path, for people; the fence goes by the numbers.
    pub path: String,
    /// Kernel major number (12 bits).
    pub major: u32,
    /// Kernel minor number (20 bits).
    pub minor: u32,
}

/// One GPU of a node, by identity. Device numbers are not here: the agent resolves them when it grants.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Gpu {
    /// Position in the node's inventory; what Slurm calls the index (`IDX`).
    pub index: u32,
    /// Who made it.
    pub vendor: GpuVendor,
    /// Slurm's GRES type, lower case: `h200`, `mi300x`; empty if unknown.
    pub model: String,
    /// The vendor's unique id (`GPU-…` for NVIDIA, 16 hex digits of `unique_id` for AMD), empty if it has none.
    pub uuid: String,
    /// PCI address `dddd:bb:dd.f`, empty if not a PCI device.
    pub pci: String,
    /// NUMA node, if the kernel tells.
    pub numa: Option<u32>,
    /// Memory in MiB, 0 if unknown.
    pub memory_mib: u64,
    /// The device nodes that its holder may open, those of its own first, for people.
    pub files: Vec<DeviceFile>,
    /// Direct links to other GPUs of the node: (index, kind).
    pub links: Vec<(u32, GpuLink)>,
    /// The network rail next to it: GPUs of the same number on different nodes reach each other over one switch less.
    #[serde(default)]
    pub rail: Option<u32>,
    /// The physical GPU that this is a part of; `None` for a whole one.
    #[serde(default)]
    pub parent: Option<PartOf>,
}

/// What a partition of a GPU (MIG instance, AMD compute partition) is a part of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PartOf {
    /// The physical GPU's unique id, or its PCI address where it has none: the same for all parts of one GPU.
    pub uuid: String,
    /// What kind of part: `1g.18gb`, `cpx`.
    pub profile: String,
}

/// Everything that a node offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// Schedulable CPUs (hardware threads), numbered 0..cpus.
    pub cpus: u32,
    /// Sockets; at least 1.
    pub sockets: u32,
    /// Cores per socket; at least 1.
    pub cores_per_socket: u32,
    /// Hardware threads per core; at least 1.
    pub threads_per_core: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// GPUs in index order: `gpus[i].index == i`.
    pub gpus: Vec<Gpu>,
    /// True when CPUs, memory or GPUs were declared rather than found on the machine.
    pub simulated: bool,
    /// CPU ids of each NUMA node, by its number; empty if not known: then CPUs are shared out evenly to sockets, in order.
    #[serde(default)]
    pub cpus_by_numa: Vec<IdSet>,
    /// Features that the node itself tells of, in order; the controller's configuration adds others.
    #[serde(default)]
    pub features: Vec<String>,
}

impl Inventory {
    /// Most CPUs of one node.
    pub const CPUS_MAX: u32 = IdSet::MAX;
    /// Most GPUs of one node, instances of divided ones counted as such.
    pub const GPUS_MAX: usize = 1024;
}

/// What a job holds on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeShare {
    /// The node.
    pub node: NodeId,
    /// CPU ids.
    pub cpus: IdSet,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// GPU indices.
    pub gpus: IdSet,
    /// How many tasks of the job run here by default.
    pub tasks: u32,
}

/// A GPU request: how many, of which model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GpuCount {
    /// GRES type, lower case; empty means any.
    pub model: String,
    /// How many; 0 is "none wanted".
    pub count: u32,
}

/// Memory as asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MemoryRequest {
    /// The partition's or cluster's default.
    #[default]
    Default,
    /// MiB on each node; 0 means all of the node's memory (`--mem=0`).
    PerNode(u64),
    /// MiB for each CPU (`--mem-per-cpu`).
    PerCpu(u64),
    /// MiB for each GPU (`--mem-per-gpu`).
    PerGpu(u64),
}
