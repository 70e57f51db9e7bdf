//! From GPUs by identity to device numbers, as they are at this moment.
//!
//! Numbers change under a running agent: NVIDIA's minors are handed out anew after a hotplug, majors after a module reload,
//! MIG capabilities at every reconfiguration. So nothing here is kept: it is asked again at every grant, and a GPU that cannot
//! be found again, or whose node another GPU claims too, is not granted at all.

use super::classes::{self, Fenced};
use crate::config::Declare;
use crate::discover::{Identity, Machine, amd, declared, drm, nvidia, tree::Tree};
use spur_core::resources::{DeviceFile, GpuVendor, IdSet};
use std::collections::{BTreeMap, BTreeSet};

/// The device numbers of this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// What is fenced.
    pub fenced: BTreeSet<Fenced>,
    /// Each GPU's own nodes, or why it cannot be granted; by index.
    pub own: Vec<Result<Vec<DeviceFile>, Ungrantable>>,
    /// Nodes that every user of a vendor's GPUs needs: `nvidiactl` and `nvidia-uvm`, `kfd`.
    pub shared: BTreeMap<GpuVendor, Vec<DeviceFile>>,
    /// Vendor of each GPU, by index.
    pub vendors: Vec<GpuVendor>,
}

/// Why a GPU cannot be granted now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ungrantable {
    /// The index is not in the inventory.
    #[error("GPU {index} is not in this node's inventory of {count}")]
    Unknown {
        /// Index.
        index: u32,
        /// How many there are.
        count: usize,
    },
    /// The driver does not show it any more.
    #[error(
        "GPU {index} ({identity}) is gone: its driver does not list it; check the kernel log; it is offered again when it is back"
    )]
    Gone {
        /// Index.
        index: u32,
        /// Its identity.
        identity: String,
    },
    /// The kernel says that it takes the device away.
    #[error(
        "GPU {index} is being removed, or its driver unloaded: it is closed until it is found again"
    )]
    Leaving {
        /// Index.
        index: u32,
    },
    /// Its MIG instances changed while a job held it.
    #[error(
        "GPU {index} was partitioned anew (MIG) while a job held it: it is closed to everybody until that job has ended"
    )]
    Repartitioned {
        /// Index.
        index: u32,
    },
    /// Two GPUs claim one device node.
    #[error("GPU {index} and GPU {other} both claim {file} ({major}:{minor}); neither is granted")]
    Shared {
        /// Index.
        index: u32,
        /// The other.
        other: u32,
        /// Path of the node.
        file: String,
        /// Major.
        major: u32,
        /// Minor.
        minor: u32,
    },
}

/// Looks every GPU of `machine` up again below `tree`.
pub fn resolve(tree: &Tree, machine: &Machine, declare: &Declare, infiniband: bool) -> Devices {
    let proc_devices = tree.read("proc/devices").unwrap_or_default();
    let groups = declare.gpus.as_deref().unwrap_or_default();
    let now = Now {
        nvidia: nvidia::informations(tree, &mut Vec::new()),
        kfd: amd::kfd_gpus(tree, &mut Vec::new()),
        render: drm::render_nodes(tree, &mut Vec::new()),
        caps: classes::major_of(&proc_devices, "nvidia-caps"),
        groups,
        tree,
    };
    let mut own: Vec<Result<Vec<DeviceFile>, Ungrantable>> = (0u32..)
        .zip(&machine.identities)
        .map(|(index, identity)| {
            now.files(identity).ok_or_else(|| Ungrantable::Gone {
                index,
                identity: describe(identity),
            })
        })
        .collect();
    refuse_shared(&mut own);
    Devices {
        fenced: classes::fenced(
            &proc_devices,
            groups.iter().map(|group| group.major),
            infiniband,
        ),
        own,
        shared: shared(&proc_devices),
        vendors: machine
            .inventory
            .gpus
            .iter()
            .map(|gpu| gpu.vendor)
            .collect(),
    }
}

impl Devices {
    /// Every node that a holder of `gpus` may open: their own, and the shared ones of their vendors.
    pub fn grant(&self, gpus: &IdSet) -> Result<BTreeSet<DeviceFile>, Ungrantable> {
        let mut nodes = BTreeSet::new();
        for index in gpus.iter() {
            let unknown = Ungrantable::Unknown {
                index,
                count: self.own.len(),
            };
            let at = usize::try_from(index).map_err(|_| unknown.clone())?;
            let own = self
                .own
                .get(at)
                .ok_or_else(|| unknown.clone())?
                .as_ref()
                .map_err(Clone::clone)?;
            nodes.extend(own.iter().cloned());
            let vendor = self.vendors.get(at).ok_or(unknown)?;
            nodes.extend(self.shared.get(vendor).into_iter().flatten().cloned());
        }
        Ok(nodes)
    }

    /// The number of `/dev/kfd`, if there is one.
    pub fn kfd(&self) -> Option<(u32, u32)> {
        let files = self.shared.get(&GpuVendor::Amd)?;
        files.first().map(|file| (file.major, file.minor))
    }

    /// The path of a device, for people; empty if it belongs to no known GPU.
    pub fn path_of(&self, major: u32, minor: u32) -> &str {
        let own = self
            .own
            .iter()
            .filter_map(|files| files.as_ref().ok())
            .flatten();
        let mut all = own.chain(self.shared.values().flatten());
        all.find(|file| (file.major, file.minor) == (major, minor))
            .map_or("", |file| file.path.as_str())
    }

    /// The maker of the GPU that a device belongs to.
    pub fn vendor_of(&self, major: u32, minor: u32) -> Option<GpuVendor> {
        let has = |file: &DeviceFile| (file.major, file.minor) == (major, minor);
        let mut all = self.own.iter().zip(&self.vendors);
        all.find(|(own, _)| own.iter().flatten().any(has))
            .map(|(_, vendor)| *vendor)
    }
}

/// What the drivers show now.
struct Now<'a> {
    nvidia: Vec<nvidia::Information>,
    kfd: Vec<amd::KfdGpu>,
    render: Vec<drm::RenderNode>,
    caps: Option<u32>,
    groups: &'a [crate::config::DeclaredGpus],
    tree: &'a Tree,
}

impl Now<'_> {
    /// The GPU's own nodes; `None` if it is not there. Card nodes (`/dev/dri/cardN`) are never among them: they can set modes and
    /// reach other clients' buffers by name.
    fn files(&self, identity: &Identity) -> Option<Vec<DeviceFile>> {
        match identity {
            Identity::Nvidia { uuid, pci } => {
                let mine = |gpu: &&nvidia::Information| {
                    if uuid.is_empty() {
                        gpu.pci == *pci && gpu.uuid.is_empty()
                    } else {
                        gpu.uuid == *uuid
                    }
                };
                let gpu = self.nvidia.iter().find(mine)?;
                let mut files = vec![nvidia::file(gpu.minor)];
                files.extend(
                    self.render
                        .iter()
                        .filter(|node| node.pci == gpu.pci)
                        .map(|node| drm::file(node.minor)),
                );
                if let Some(major) = self.caps {
                    let minors = nvidia::mig_access_minors(self.tree, gpu.minor);
                    files.extend(minors.into_iter().map(|minor| DeviceFile {
                        path: format!("/dev/nvidia-caps/nvidia-cap{minor}"),
                        major,
                        minor,
                    }));
                }
                Some(files)
            }
            Identity::Amd {
                unique_id,
                pci,
                partition,
            } => {
                let mut mine = self.kfd.iter().filter(|gpu| {
                    gpu.unique_id == *unique_id && gpu.pci == *pci && gpu.partition == *partition
                });
                let gpu = mine.next()?;
                mine.next()
                    .is_none()
                    .then(|| vec![amd::file(gpu.render_minor)])
            }
            Identity::Drm { device } => {
                let nodes: Vec<DeviceFile> = self
                    .render
                    .iter()
                    .filter(|node| node.device == *device)
                    .map(|node| drm::file(node.minor))
                    .collect();
                (!nodes.is_empty()).then_some(nodes)
            }
            Identity::Declared { major, minor } => {
                declared::find(self.groups, *major, *minor).map(|file| vec![file])
            }
        }
    }
}

/// A node that two GPUs claim is granted through neither.
fn refuse_shared(own: &mut [Result<Vec<DeviceFile>, Ungrantable>]) {
    let mut claims: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    for (index, files) in (0u32..).zip(own.iter()) {
        for file in files.iter().flatten() {
            claims
                .entry((file.major, file.minor))
                .or_default()
                .push(index);
        }
    }
    for (index, files) in (0u32..).zip(own.iter_mut()) {
        let conflict = files.iter().flatten().find_map(|file| {
            let other = claims
                .get(&(file.major, file.minor))?
                .iter()
                .copied()
                .find(|other| *other != index)?;
            let DeviceFile { path, major, minor } = file.clone();
            Some(Ungrantable::Shared {
                index,
                other,
                file: path,
                major,
                minor,
            })
        });
        if let Some(conflict) = conflict {
            *files = Err(conflict);
        }
    }
}

/// Control nodes by vendor. Never `nvidia-modeset`, and never `nvidia-uvm-tools`, which watches other processes.
pub fn shared(proc_devices: &str) -> BTreeMap<GpuVendor, Vec<DeviceFile>> {
    let node = |path: &str, major: u32, minor: u32| DeviceFile {
        path: path.to_owned(),
        major,
        minor,
    };
    let mut nvidia = vec![node("/dev/nvidiactl", nvidia::MAJOR, nvidia::CONTROL_MINOR)];
    nvidia.extend(
        classes::major_of(proc_devices, "nvidia-uvm")
            .map(|major| node("/dev/nvidia-uvm", major, 0)),
    );
    let kfd = classes::major_of(proc_devices, "kfd").map(|major| node("/dev/kfd", major, 0));
    BTreeMap::from([
        (GpuVendor::Nvidia, nvidia),
        (GpuVendor::Amd, kfd.into_iter().collect()),
    ])
}

/// An identity for people.
pub(crate) fn describe(identity: &Identity) -> String {
    match identity {
        Identity::Nvidia { uuid, pci } => format!("{uuid} at {pci}"),
        Identity::Amd {
            unique_id,
            pci,
            partition,
        } => format!("{unique_id:016x} at {pci}, partition {partition}"),
        Identity::Drm { device } => device.clone(),
        Identity::Declared { major, minor } => format!("stand-in {major}:{minor}"),
    }
}

#[cfg(test)]
mod tests;
