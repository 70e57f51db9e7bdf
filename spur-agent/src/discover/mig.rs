//! MIG instances: parts of an NVIDIA GPU that are devices of their own.
//!
//! Who uses one opens the GPU's own node, as the users of all its other instances do, and two capability nodes: `access` of the GPU
//! instance and of the compute instance within it, which the driver numbers in
//! `/proc/driver/nvidia/capabilities/gpuN/mig/giX/ciY/access` (N: the GPU's minor). Those tell instances apart. Which instances there
//! are, NVML tells (see [`super::nvml`]); what the numbers are is read here at every grant.

use super::nvml::{Extra, Instance, Mig};
use super::{FoundGpu, Identity, Machine, nvidia, part_model, tree::Tree};
use crate::fence::classes;
use spur_core::resources::{DeviceFile, Gpu, GpuVendor, PartOf};

const CAPABILITIES: &str = "proc/driver/nvidia/capabilities";

/// Name of the capabilities' major in `/proc/devices`.
const MAJOR_NAME: &str = "nvidia-caps";

/// Which GPUs are offered by instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// UUIDs of GPUs in MIG mode.
    pub split: Vec<String>,
    /// UUIDs of GPUs that have instances of which NVML tells nothing.
    pub unsure: Vec<String>,
}

/// The two capability nodes of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// Of the GPU instance, whose compute instances share it.
    pub gpu_instance: DeviceFile,
    /// Of the compute instance.
    pub compute_instance: DeviceFile,
}

/// How every GPU of the driver is offered.
pub fn modes(tree: &Tree, extra: &[Extra]) -> Modes {
    let mut modes = Modes::default();
    for gpu in nvidia::informations(tree, &mut Vec::new()) {
        let told = extra.iter().find(|extra| extra.is(&gpu));
        match told.map(|extra| &extra.mig) {
            _ if gpu.uuid.is_empty() => {}
            Some(Mig::On(_)) => modes.split.push(gpu.uuid),
            Some(Mig::Unknown(_)) | None if has_any(tree, gpu.minor) => modes.unsure.push(gpu.uuid),
            Some(Mig::Off | Mig::Unknown(_)) | None => {}
        }
    }
    modes
}

/// What a GPU is offered as: itself, or its instances. Links and index are the caller's.
pub fn split(
    tree: &Tree,
    whole: FoundGpu,
    minor: u32,
    extra: Option<&Extra>,
    notes: &mut Vec<String>,
) -> Vec<FoundGpu> {
    let name = format!("{} at {}", whole.gpu.uuid, whole.gpu.pci);
    let instances = match extra.map(|extra| &extra.mig) {
        _ if whole.gpu.uuid.is_empty() => return vec![whole],
        Some(Mig::On(instances)) => instances,
        Some(Mig::Off) => return vec![whole],
        told @ (Some(Mig::Unknown(_)) | None) => {
            if has_any(tree, minor) {
                let why = match told {
                    Some(Mig::Unknown(why)) => why.as_str(),
                    Some(_) | None => "no answer",
                };
                notes.push(format!(
                    "{name}: NVML does not tell its MIG instances ({why}): they are offered as they were known, and if none were, the GPU whole with all of them"
                ));
            }
            return vec![whole];
        }
    };
    if instances.is_empty() {
        notes.push(format!(
            "{name}: in MIG mode without instances: nothing of it is offered; make some (nvidia-smi mig -cgi PROFILE -C) and restart spurd"
        ));
    }
    let part = |instance: &Instance| part(tree, &whole, minor, instance);
    instances.iter().map(part).collect()
}

fn part(tree: &Tree, whole: &FoundGpu, minor: u32, instance: &Instance) -> FoundGpu {
    let gpu = &whole.gpu;
    let Instance { gi, ci, .. } = *instance;
    let nodes = major(tree).and_then(|major| nodes(tree, major, minor, gi, ci));
    // What tells it apart comes first.
    let mut files = Vec::new();
    if let Some(nodes) = nodes {
        files.extend([nodes.compute_instance, nodes.gpu_instance]);
    }
    files.extend(gpu.files.iter().cloned());
    FoundGpu {
        gpu: Gpu {
            index: 0,
            vendor: GpuVendor::Nvidia,
            model: part_model(&gpu.model, &instance.profile),
            uuid: instance.uuid.clone(),
            pci: gpu.pci.clone(),
            numa: gpu.numa,
            memory_mib: instance.memory_mib,
            files,
            links: Vec::new(),
            rail: None,
            parent: Some(PartOf {
                uuid: gpu.uuid.clone(),
                profile: instance.profile.clone(),
            }),
        },
        identity: Identity::Mig {
            uuid: instance.uuid.clone(),
            gpu: gpu.uuid.clone(),
            pci: gpu.pci.clone(),
            gi,
            ci,
        },
    }
}

/// The major of capability nodes, if the driver has them.
fn major(tree: &Tree) -> Option<u32> {
    classes::major_of(&tree.read("proc/devices").ok()?, MAJOR_NAME)
}

/// The capability nodes of one instance of the GPU with this minor; `None` if it is not there.
pub fn nodes(tree: &Tree, major: u32, minor: u32, gi: u32, ci: u32) -> Option<Nodes> {
    let instance = format!("{}/gi{gi}", top(minor));
    Some(Nodes {
        gpu_instance: file(major, access(tree, &instance)?),
        compute_instance: file(major, access(tree, &format!("{instance}/ci{ci}"))?),
    })
}

/// The capability nodes of all instances of the GPU with this minor, `access` of GPU and compute instances: never `config` or
/// `monitor`.
pub fn all_nodes(tree: &Tree, major: u32, minor: u32) -> Vec<DeviceFile> {
    let top = top(minor);
    let mut folders: Vec<String> = Vec::new();
    for gi in tree.numbered(&top, "gi") {
        let instance = format!("{top}/gi{gi}");
        let within = tree.numbered(&instance, "ci").into_iter();
        folders.extend(within.map(|ci| format!("{instance}/ci{ci}")));
        folders.push(instance);
    }
    let minors = folders.iter().filter_map(|folder| access(tree, folder));
    minors.map(|minor| file(major, minor)).collect()
}

/// Instances of GPUs in MIG mode that came after the agent started, in words.
pub fn appeared(tree: &Tree, machine: &Machine) -> Vec<String> {
    let mut new = Vec::new();
    let known = |of: &str, numbers: (u32, u32)| {
        machine.identities.iter().any(|identity| {
            matches!(identity, Identity::Mig { gpu, gi, ci, .. } if gpu == of && (*gi, *ci) == numbers)
        })
    };
    for gpu in nvidia::informations(tree, &mut Vec::new()) {
        if !machine.split.contains(&gpu.uuid) {
            continue;
        }
        for numbers in instances(tree, gpu.minor) {
            if !known(&gpu.uuid, numbers) {
                let (gi, ci) = numbers;
                new.push(format!("MIG instance gi{gi}/ci{ci} of {}", gpu.uuid));
            }
        }
    }
    new
}

/// Numbers of the GPU and compute instances of the GPU with this minor.
fn instances(tree: &Tree, minor: u32) -> Vec<(u32, u32)> {
    let top = top(minor);
    let within = |gi: u32| {
        let compute = tree.numbered(&format!("{top}/gi{gi}"), "ci").into_iter();
        compute.map(move |ci| (gi, ci))
    };
    let all = tree.numbered(&top, "gi").into_iter();
    all.flat_map(within).collect()
}

fn has_any(tree: &Tree, minor: u32) -> bool {
    !tree.numbered(&top(minor), "gi").is_empty()
}

fn top(minor: u32) -> String {
    format!("{CAPABILITIES}/gpu{minor}/mig")
}

/// The minor by which an instance is used.
fn access(tree: &Tree, folder: &str) -> Option<u32> {
    let text = tree.read(&format!("{folder}/access")).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("DeviceFileMinor:")?.trim().parse().ok())
}

fn file(major: u32, minor: u32) -> DeviceFile {
    DeviceFile {
        path: format!("/dev/nvidia-caps/nvidia-cap{minor}"),
        major,
        minor,
    }
}

#[cfg(test)]
pub(crate) mod tests;
