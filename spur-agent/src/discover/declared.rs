//! Stand-ins for GPUs: device nodes without a driver, declared by configuration.

use super::{FoundGpu, Identity};
use crate::config::DeclaredGpus;
use spur_core::resources::{DeviceFile, Gpu, GpuVendor};

/// The declared GPUs in the order of the configuration.
pub fn gpus(groups: &[DeclaredGpus]) -> Vec<FoundGpu> {
    let all = groups
        .iter()
        .flat_map(|group| (0..group.count).map(move |number| (group, number)));
    (0u32..)
        .zip(all)
        .map(|(index, (group, number))| FoundGpu {
            gpu: Gpu {
                index,
                vendor: GpuVendor::Simulated,
                model: group.model.clone(),
                uuid: String::new(),
                pci: String::new(),
                numa: None,
                memory_mib: group.memory_mib,
                files: vec![file(group, number)],
                links: Vec::new(),
                rail: None,
                parent: None,
            },
            identity: Identity::Declared {
                major: group.major,
                minor: group.minor + number,
            },
        })
        .collect()
}

/// The device node of one stand-in.
pub fn file(group: &DeclaredGpus, number: u32) -> DeviceFile {
    DeviceFile {
        path: group
            .dev_dir
            .join(format!("gpu{number}"))
            .to_string_lossy()
            .into_owned(),
        major: group.major,
        minor: group.minor + number,
    }
}

/// The device node of the stand-in with this number, if it is (still) declared.
pub fn find(groups: &[DeclaredGpus], major: u32, minor: u32) -> Option<DeviceFile> {
    let group = groups
        .iter()
        .find(|g| g.major == major && (g.minor..g.minor + g.count).contains(&minor))?;
    Some(file(group, minor - group.minor))
}
