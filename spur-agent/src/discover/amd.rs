//! AMD GPUs, from KFD's topology: `/sys/class/kfd/kfd/topology/nodes/N/properties`.
//!
//! One KFD node is one thing that can be given to a job: a whole GPU, or a partition of one. Partitions share `unique_id` and PCI
//! address; KFD adds the partition's number to `location_id`, and each has a render node of its own.

use super::{FoundGpu, Identity, drm, pci, tree::Tree};
use spur_core::resources::{DeviceFile, Gpu, GpuLink, GpuVendor, PartOf};
use std::collections::BTreeMap;

const NODES: &str = "sys/class/kfd/kfd/topology/nodes";

/// `CRAT_HEAP_TYPE_FB_PUBLIC` and `_PRIVATE`, the device's own memory (drivers/gpu/drm/amd/amdkfd/kfd_topology.h).
const LOCAL_HEAPS: [u64; 2] = [1, 2];
/// `CRAT_IOLINK_TYPE_PCIEXPRESS` (kfd_crat.h).
const LINK_PCIE: u64 = 2;
/// `CRAT_IOLINK_TYPE_XGMI`.
const LINK_XGMI: u64 = 11;

/// What KFD says of one GPU node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KfdGpu {
    /// Node number in the topology.
    pub node: u32,
    /// `unique_id`, 0 if unknown.
    pub unique_id: u64,
    /// PCI address of the whole GPU.
    pub pci: String,
    /// Which partition of it.
    pub partition: u32,
    /// How many partitions it has; 1 if it is whole.
    pub parts: u32,
    /// DRM minor of its render node.
    pub render_minor: u32,
    /// PCI device id.
    device_id: u64,
    /// `gfx_target_version`: major * 10000 + minor * 100 + step.
    gfx: u64,
    /// KFD's name (`vega10`, `ip discovery`).
    name: String,
    /// Fallback for memory in bytes.
    local_mem_size: u64,
}

/// Every GPU node of the topology, in KFD's order.
pub fn kfd_gpus(tree: &Tree, notes: &mut Vec<String>) -> Vec<KfdGpu> {
    let mut gpus = Vec::new();
    for node in tree.numbered(NODES, "") {
        let path = format!("{NODES}/{node}/properties");
        let properties = match tree.read(&path) {
            Ok(text) => Properties::parse(&text),
            Err(error) => {
                notes.push(format!(
                    "/{path}: {error}; what it describes is not offered"
                ));
                continue;
            }
        };
        if properties.get("simd_count") == 0 {
            continue;
        }
        let Some(render_minor) = u32::try_from(properties.get("drm_render_minor"))
            .ok()
            .filter(|minor| *minor >= 128)
        else {
            notes.push(format!("/{path}: no render node; this GPU is not offered"));
            continue;
        };
        let number = |key: &str| u32::try_from(properties.get(key)).unwrap_or(0);
        gpus.push(KfdGpu {
            node,
            unique_id: properties.get("unique_id"),
            pci: pci::Address::from_location(number("domain"), number("location_id")).to_string(),
            partition: 0,
            parts: 1,
            render_minor,
            device_id: properties.get("device_id"),
            gfx: properties.get("gfx_target_version"),
            name: tree
                .line(&format!("{NODES}/{node}/name"))
                .unwrap_or_default(),
            local_mem_size: properties.get("local_mem_size"),
        });
    }
    split_partitions(&mut gpus);
    gpus
}

/// Nodes of one physical GPU get its address and their number within it.
fn split_partitions(gpus: &mut [KfdGpu]) {
    let whole = |pci: &str| {
        pci.rsplit_once('.')
            .map_or(pci, |(slot, _)| slot)
            .to_owned()
    };
    let mut groups: BTreeMap<(u64, String), Vec<usize>> = BTreeMap::new();
    for (at, gpu) in gpus.iter().enumerate() {
        groups
            .entry((gpu.unique_id, whole(&gpu.pci)))
            .or_default()
            .push(at);
    }
    for ((unique_id, slot), members) in groups {
        if unique_id == 0 || members.len() < 2 {
            continue;
        }
        let parts = u32::try_from(members.len()).unwrap_or(u32::MAX);
        for (partition, at) in (0u32..).zip(members) {
            gpus[at].pci = format!("{slot}.0");
            gpus[at].partition = partition;
            gpus[at].parts = parts;
        }
    }
}

/// The GPUs with memory and links.
pub fn find(tree: &Tree, notes: &mut Vec<String>) -> Vec<FoundGpu> {
    let all = kfd_gpus(tree, notes);
    let index_of = |node: u64| {
        (0u32..)
            .zip(&all)
            .find(|(_, gpu)| u64::from(gpu.node) == node)
            .map(|(index, _)| index)
    };
    (0u32..)
        .zip(&all)
        .map(|(index, gpu)| {
            let (links, near) = links(tree, gpu.node, index, &index_of);
            let numa = pci::numa(tree, &gpu.pci)
                .or_else(|| near.filter(|node| index_of(u64::from(*node)).is_none()));
            let parent = part_of(tree, gpu);
            FoundGpu {
                gpu: Gpu {
                    index,
                    vendor: GpuVendor::Amd,
                    model: match &parent {
                        Some(part) => super::part_model(&model(gpu), &part.profile),
                        None => model(gpu),
                    },
                    uuid: if gpu.unique_id == 0 {
                        String::new()
                    } else {
                        format!("{:016x}", gpu.unique_id)
                    },
                    pci: gpu.pci.clone(),
                    numa,
                    memory_mib: memory_mib(tree, gpu),
                    files: vec![file(gpu.render_minor)],
                    links,
                    rail: None,
                    parent,
                },
                identity: Identity::Amd {
                    unique_id: gpu.unique_id,
                    pci: gpu.pci.clone(),
                    partition: gpu.partition,
                },
            }
        })
        .collect()
}

/// What the partition of a GPU is a part of, in AMD's words for the mode: as the driver says, else by how many there are.
fn part_of(tree: &Tree, gpu: &KfdGpu) -> Option<PartOf> {
    if gpu.parts < 2 {
        return None;
    }
    let mode = tree.line(&format!(
        "sys/bus/pci/devices/{}/current_compute_partition",
        gpu.pci
    ));
    let mode = mode.filter(|mode| mode.bytes().all(|b| b.is_ascii_alphanumeric()));
    let by_number = match gpu.parts {
        2 => "dpx",
        3 => "tpx",
        4 => "qpx",
        _ => "cpx",
    };
    Some(PartOf {
        uuid: format!("{:016x}", gpu.unique_id),
        profile: mode.map_or_else(|| by_number.to_owned(), |mode| mode.to_ascii_lowercase()),
    })
}

/// The render node of a GPU.
pub fn file(render_minor: u32) -> DeviceFile {
    DeviceFile {
        path: format!("/dev/dri/renderD{render_minor}"),
        major: drm::MAJOR,
        minor: render_minor,
    }
}

/// Links to other GPUs (XGMI before PCIe where both exist), and the nearest CPU node: KFD numbers CPU nodes as NUMA nodes.
fn links(
    tree: &Tree,
    node: u32,
    own: u32,
    index_of: &dyn Fn(u64) -> Option<u32>,
) -> (Vec<(u32, GpuLink)>, Option<u32>) {
    let mut best: BTreeMap<u32, GpuLink> = BTreeMap::new();
    let mut near: Option<(u64, u32)> = None;
    for kind in ["io_links", "p2p_links"] {
        for link in tree.numbered(&format!("{NODES}/{node}/{kind}"), "") {
            let Ok(text) = tree.read(&format!("{NODES}/{node}/{kind}/{link}/properties")) else {
                continue;
            };
            let properties = Properties::parse(&text);
            let sort = match properties.get("type") {
                LINK_XGMI => GpuLink::Xgmi,
                LINK_PCIE => GpuLink::Pcie,
                _ => continue,
            };
            let to = properties.get("node_to");
            match index_of(to) {
                Some(peer) if peer == own => {}
                Some(peer) => {
                    let known = best.entry(peer).or_insert(sort);
                    *known = sort.min(*known);
                }
                None => {
                    let candidate = (
                        properties.get("weight"),
                        u32::try_from(to).unwrap_or(u32::MAX),
                    );
                    near = Some(near.map_or(candidate, |known| known.min(candidate)));
                }
            }
        }
    }
    (best.into_iter().collect(), near.map(|(_, node)| node))
}

/// Sum of the memory banks on the device; the driver's own total where there are none.
fn memory_mib(tree: &Tree, gpu: &KfdGpu) -> u64 {
    let banks = format!("{NODES}/{}/mem_banks", gpu.node);
    let bytes: u64 = tree
        .numbered(&banks, "")
        .into_iter()
        .filter_map(|bank| tree.read(&format!("{banks}/{bank}/properties")).ok())
        .map(|text| Properties::parse(&text))
        .filter(|bank| LOCAL_HEAPS.contains(&bank.get("heap_type")))
        .map(|bank| bank.get("size_in_bytes"))
        .fold(0, u64::saturating_add);
    (if bytes == 0 {
        gpu.local_mem_size
    } else {
        bytes
    }) >> 20
}

/// Slurm's GRES type: the product for device ids of the Instinct line, else the instruction set, else KFD's name.
fn model(gpu: &KfdGpu) -> String {
    let product = match gpu.device_id {
        0x6860 => "mi25",
        0x66a0 | 0x66a1 => "mi50",
        0x738c | 0x738e => "mi100",
        0x7408 => "mi250x",
        0x740c => "mi250",
        0x740f | 0x7410 => "mi210",
        0x74a0 => "mi300a",
        0x74a1 | 0x74a9 | 0x74b5 | 0x74bd => "mi300x",
        0x74a2 | 0x74a8 => "mi308x",
        0x74a5 | 0x74b9 => "mi325x",
        0x75a0 | 0x75b0 => "mi350x",
        0x75a3 | 0x75b3 => "mi355x",
        _ => "",
    };
    if !product.is_empty() {
        return product.to_owned();
    }
    if gpu.gfx > 0 {
        return format!(
            "gfx{}{:x}{:x}",
            gpu.gfx / 10_000,
            gpu.gfx / 100 % 100,
            gpu.gfx % 100
        );
    }
    let word: String = gpu
        .name
        .to_ascii_lowercase()
        .replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    if word.is_empty() || word == "ip_discovery" {
        "amd".into()
    } else {
        word
    }
}

/// A file of `key value` lines.
struct Properties(BTreeMap<String, u64>);

impl Properties {
    fn parse(text: &str) -> Self {
        Self(
            text.lines()
                .filter_map(|line| line.split_once(' '))
                .filter_map(|(k, v)| Some((k.to_owned(), v.trim().parse().ok()?)))
                .collect(),
        )
    }

    /// The value, 0 if it is not there.
    fn get(&self, key: &str) -> u64 {
        self.0.get(key).copied().unwrap_or(0)
    }
}
