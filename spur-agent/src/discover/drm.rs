//! DRM render nodes: `/sys/class/drm/renderDN`. What NVIDIA's or AMD's discovery has claimed is left out of [`find`].

use super::{FoundGpu, Identity, nvidia, pci, tree::Tree};
use spur_core::resources::{DeviceFile, Gpu, GpuVendor};

const CLASS: &str = "sys/class/drm";

/// DRM's major (Documentation/admin-guide/devices.txt).
pub const MAJOR: u32 = 226;

/// One render node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderNode {
    /// Its minor, from 128.
    pub minor: u32,
    /// The device that it belongs to, `/sys/devices/…`.
    pub device: String,
    /// PCI address of that device or of the nearest one above it; empty if none.
    pub pci: String,
}

/// Every render node, by minor.
pub fn render_nodes(tree: &Tree, notes: &mut Vec<String>) -> Vec<RenderNode> {
    let mut nodes = Vec::new();
    for number in tree.numbered(CLASS, "renderD") {
        let folder = format!("{CLASS}/renderD{number}");
        let minor = match tree
            .line(&format!("{folder}/dev"))
            .as_deref()
            .map(|dev| dev.split_once(':'))
        {
            Some(Some(("226", minor))) => minor.parse().unwrap_or(number),
            Some(other) => {
                notes.push(format!(
                    "/{folder}/dev: not a DRM device number: {other:?}; it is not offered"
                ));
                continue;
            }
            None => number,
        };
        let Some(device) = tree.resolve(&format!("{folder}/device")) else {
            notes.push(format!("/{folder}/device leads nowhere; it is not offered"));
            continue;
        };
        let pci = device
            .rsplit('/')
            .find_map(pci::Address::parse)
            .map(|address| address.to_string())
            .unwrap_or_default();
        nodes.push(RenderNode { minor, device, pci });
    }
    nodes
}

/// Render nodes that belong to no GPU in `taken`, by minor.
pub fn find(tree: &Tree, taken: &[FoundGpu], notes: &mut Vec<String>) -> Vec<FoundGpu> {
    let claimed = |node: &RenderNode| {
        taken.iter().any(|found| match found.gpu.vendor {
            GpuVendor::Nvidia => !node.pci.is_empty() && found.gpu.pci == node.pci,
            GpuVendor::Amd => {
                let own = found.gpu.files.iter().any(|file| file.minor == node.minor);
                own || (!node.pci.is_empty() && found.gpu.pci == node.pci)
            }
            GpuVendor::Drm | GpuVendor::Simulated => false,
        })
    };
    // A partition's platform device without a KFD node is part of a GPU that KFD splits otherwise today.
    let idle_partition = |node: &RenderNode| node.device.contains("/amdgpu_xcp");
    // Also of a GPU that is not offered, such as one in MIG mode without instances.
    let nvidias = |node: &RenderNode| !node.pci.is_empty() && nvidia::has(tree, &node.pci);
    let nodes = render_nodes(tree, notes);
    let free = nodes
        .into_iter()
        .filter(|node| !claimed(node) && !nvidias(node) && !idle_partition(node));
    (0u32..)
        .zip(free)
        .map(|(index, node)| FoundGpu {
            gpu: Gpu {
                index,
                vendor: GpuVendor::Drm,
                model: model(tree, &node),
                uuid: String::new(),
                numa: if node.pci.is_empty() {
                    None
                } else {
                    pci::numa(tree, &node.pci)
                },
                pci: node.pci.clone(),
                memory_mib: vram_mib(tree, &node),
                files: vec![file(node.minor)],
                links: Vec::new(),
                rail: None,
                parent: None,
            },
            identity: Identity::Drm {
                device: node.device,
            },
        })
        .collect()
}

/// The node of a render minor.
pub fn file(minor: u32) -> DeviceFile {
    DeviceFile {
        path: format!("/dev/dri/renderD{minor}"),
        major: MAJOR,
        minor,
    }
}

/// The driver's name, or the device's where it has no driver of its own (`vgem`).
fn model(tree: &Tree, node: &RenderNode) -> String {
    let driver = tree.resolve(&format!("{}/driver", node.device));
    let last = |path: &str| {
        path.rsplit('/')
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase()
    };
    // Since Linux 6.15 software devices sit on the faux bus, whose one driver says nothing.
    let name = driver
        .as_deref()
        .map(last)
        .filter(|name| name != "faux_driver")
        .unwrap_or_else(|| last(&node.device));
    name.replace(
        |c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-',
        "_",
    )
}

/// Memory of amdgpu devices without KFD; other drivers tell none in sysfs.
fn vram_mib(tree: &Tree, node: &RenderNode) -> u64 {
    tree.number::<u64>(&format!("{}/mem_info_vram_total", node.device))
        .unwrap_or(0)
        >> 20
}
