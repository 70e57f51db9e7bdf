//! From GPUs by identity to device numbers, as they are at this moment.
//!
//! Numbers change under a running agent: NVIDIA's minors are handed out anew after a hotplug, majors after a module reload,
//! MIG capabilities at every reconfiguration. So nothing here is kept: it is asked again at every grant, and a GPU that cannot
//! be found again, or whose node another GPU claims too, is not granted at all.

use super::classes::{self, Fenced};
use crate::config::Declare;
use crate::discover::{Identity, Machine, amd, declared, drm, mig, nvidia, tree::Tree};
use spur_core::resources::{DeviceFile, GpuVendor, IdSet};
use std::collections::{BTreeMap, BTreeSet};

/// The device numbers of this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// What is fenced.
    pub fenced: BTreeSet<Fenced>,
    /// Each GPU's own nodes, or why it cannot be granted; by index.
    pub own: Vec<Result<Vec<DeviceFile>, Ungrantable>>,
    /// Nodes that a MIG instance shares with others, and by what identity; by index, empty for all else.
    pub common: Vec<Vec<(Identity, DeviceFile)>>,
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
    /// It is a MIG instance, and the driver does not show it any more.
    #[error(
        "GPU {index} ({identity}) is gone: the MIG instance was destroyed; restart spurd to offer what there is instead"
    )]
    InstanceGone {
        /// Index.
        index: u32,
        /// Its identity.
        identity: String,
    },
    /// It is in MIG mode, so it is offered by instance, and has none.
    #[error(
        "GPU {index} is in MIG mode and has no instances: make some (nvidia-smi mig -cgi PROFILE -C) or turn the mode off, and restart spurd"
    )]
    NoInstances {
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
    let (mut own, mut common) = (Vec::new(), Vec::new());
    for (index, identity) in (0u32..).zip(&machine.identities) {
        own.push(if identity.is_whole(&machine.split) {
            Err(Ungrantable::NoInstances { index })
        } else {
            now.files(identity).ok_or_else(|| gone(index, identity))
        });
        common.push(now.common(identity));
    }
    refuse_shared(&mut own, &common);
    Devices {
        fenced: classes::fenced(
            &proc_devices,
            groups.iter().map(|group| group.major),
            infiniband,
        ),
        own,
        common,
        shared: shared(&proc_devices),
        vendors: machine
            .inventory
            .gpus
            .iter()
            .map(|gpu| gpu.vendor)
            .collect(),
    }
}

fn gone(index: u32, identity: &Identity) -> Ungrantable {
    let is_part = matches!(identity, Identity::Mig { .. });
    let identity = describe(identity);
    if is_part {
        Ungrantable::InstanceGone { index, identity }
    } else {
        Ungrantable::Gone { index, identity }
    }
}

impl Devices {
    /// The nodes that this GPU shares with others of its kind.
    pub fn common_of(&self, index: u32) -> impl Iterator<Item = &DeviceFile> {
        let common = usize::try_from(index)
            .ok()
            .and_then(|at| self.common.get(at));
        common.into_iter().flatten().map(|(_, file)| file)
    }

    /// The nodes that GPUs share which can be granted now, each with what it is shared by.
    pub fn shared_out(&self) -> impl Iterator<Item = &(Identity, DeviceFile)> {
        let all = self.own.iter().zip(&self.common);
        all.filter(|(own, _)| own.is_ok())
            .flat_map(|(_, common)| common)
    }

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
            nodes.extend(own.iter().chain(self.common_of(index)).cloned());
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
        let common = self.common.iter().flatten().map(|(_, file)| file);
        let mut all = own.chain(common).chain(self.shared.values().flatten());
        all.find(|file| (file.major, file.minor) == (major, minor))
            .map_or("", |file| file.path.as_str())
    }

    /// The maker of the GPU that a device belongs to.
    pub fn vendor_of(&self, major: u32, minor: u32) -> Option<GpuVendor> {
        let has = |file: &DeviceFile| (file.major, file.minor) == (major, minor);
        let mut all = self.own.iter().zip(&self.vendors);
        if self.common.iter().flatten().any(|(_, file)| has(file)) {
            return Some(GpuVendor::Nvidia);
        }
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
    /// The GPU that a MIG instance is a part of, and the instance's capabilities.
    fn instance(&self, identity: &Identity) -> Option<(&nvidia::Information, mig::Nodes)> {
        let Identity::Mig { gpu, gi, ci, .. } = identity else {
            return None;
        };
        let whole = self.nvidia.iter().find(|now| now.uuid == *gpu)?;
        let nodes = mig::nodes(self.tree, self.caps?, whole.minor, *gi, *ci)?;
        Some((whole, nodes))
    }

    /// What a MIG instance shares with others; nothing for all else. The GPU's render node is nobody's: instances do not render.
    fn common(&self, identity: &Identity) -> Vec<(Identity, DeviceFile)> {
        let Some((whole, nodes)) = self.instance(identity) else {
            return Vec::new();
        };
        let file = |shared: Identity| {
            let of_instance = matches!(shared, Identity::MigShared { gi: Some(_), .. });
            let file = if of_instance {
                nodes.gpu_instance.clone()
            } else {
                nvidia::file(whole.minor)
            };
            (shared, file)
        };
        identity.shares().into_iter().map(file).collect()
    }

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
                let render = self.render.iter().filter(|node| node.pci == gpu.pci);
                files.extend(render.map(|node| drm::file(node.minor)));
                if let Some(major) = self.caps {
                    files.extend(mig::all_nodes(self.tree, major, gpu.minor));
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
            Identity::Mig { .. } => {
                let (_, nodes) = self.instance(identity)?;
                Some(vec![nodes.compute_instance])
            }
            Identity::MigShared { .. } => None,
        }
    }
}

/// Who claims a node: by index, and by what it is shared if it is.
type Claimant = (u32, Option<Identity>);

/// A node that two GPUs claim is granted through neither, unless they share it: then all that do are one claimant.
fn refuse_shared(
    own: &mut [Result<Vec<DeviceFile>, Ungrantable>],
    common: &[Vec<(Identity, DeviceFile)>],
) {
    let claims_of = |index: u32, own: &Result<Vec<DeviceFile>, Ungrantable>| {
        let own = own.iter().flatten().map(|file| (None, file.clone()));
        let at = usize::try_from(index).ok();
        let common = at.and_then(|at| common.get(at)).into_iter().flatten();
        let common = common.map(|(by, file)| (Some(by.clone()), file.clone()));
        own.chain(common).collect::<Vec<_>>()
    };
    let mut claims: BTreeMap<(u32, u32), Vec<Claimant>> = BTreeMap::new();
    for (index, files) in (0u32..).zip(own.iter()) {
        for (by, file) in claims_of(index, files) {
            let claimants = claims.entry((file.major, file.minor)).or_default();
            claimants.push((index, by));
        }
    }
    for (index, files) in (0u32..).zip(own.iter_mut()) {
        let conflict = claims_of(index, files).into_iter().find_map(|(by, file)| {
            let mut claimants = claims.get(&(file.major, file.minor))?.iter();
            let (other, _) = claimants
                .find(|(other, theirs)| *other != index && (by.is_none() || *theirs != by))?;
            let DeviceFile { path, major, minor } = file;
            Some(Ungrantable::Shared {
                index,
                other: *other,
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
        Identity::Mig {
            uuid, gpu, gi, ci, ..
        } => format!("{uuid}, gi{gi}/ci{ci} of {gpu}"),
        Identity::MigShared { gpu, gi: None } => format!("what the instances of {gpu} share"),
        Identity::MigShared { gpu, gi: Some(gi) } => format!("what users of gi{gi} of {gpu} share"),
    }
}

#[cfg(test)]
mod tests;
