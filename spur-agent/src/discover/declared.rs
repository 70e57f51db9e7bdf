//! Stand-ins for GPUs: device nodes without a driver, declared by configuration.

use super::{FoundGpu, Identity};
use crate::config::{Declare, DeclaredGpus, DeclaredLinks};
use spur_core::resources::{DeviceFile, Gpu, GpuLink, GpuVendor, IdSet, Inventory, PartOf};

/// The declared GPUs in the order of the configuration.
pub fn gpus(declare: &Declare, groups: &[DeclaredGpus]) -> Vec<FoundGpu> {
    let all: u32 = groups.iter().map(|group| group.count).sum();
    let evenly = |to: Option<u32>, physical: u32| to.map(|to| part_of(physical, all, to));
    let (mut found, mut before, mut physical) = (Vec::new(), 0, 0);
    for group in groups {
        for number in 0..group.devices() {
            let gpu = number / group.parts;
            found.push(FoundGpu {
                gpu: Gpu {
                    index: before + number,
                    vendor: GpuVendor::Simulated,
                    model: model(group),
                    uuid: String::new(),
                    pci: String::new(),
                    numa: evenly(declare.numa, physical + gpu),
                    memory_mib: group.memory_mib,
                    files: vec![file(group, number)],
                    links: links(group, number, before),
                    rail: evenly(declare.rails, physical + gpu),
                    parent: group.profile.as_ref().map(|profile| PartOf {
                        uuid: format!(
                            "standin-{}:{}",
                            group.major,
                            group.minor + gpu * group.parts
                        ),
                        profile: profile.clone(),
                    }),
                },
                identity: Identity::Declared {
                    major: group.major,
                    minor: group.minor + number,
                },
            });
        }
        before += group.devices();
        physical += group.count;
    }
    found
}

/// Which of `parts` equal parts the `number`th of `all` is in.
fn part_of(number: u32, all: u32, parts: u32) -> u32 {
    let part = u64::from(number) * u64::from(parts) / u64::from(all.max(1));
    u32::try_from(part).unwrap_or(u32::MAX)
}

/// `h200`, or `h200_1g.18gb` for a part of one.
fn model(group: &DeclaredGpus) -> String {
    match &group.profile {
        Some(profile) => super::part_model(&group.model, profile),
        None => group.model.clone(),
    }
}

/// Links to everything else on the device's island; `before` devices come before the group's.
fn links(group: &DeclaredGpus, number: u32, before: u32) -> Vec<(u32, GpuLink)> {
    let Some(kind) = group.links else {
        return Vec::new();
    };
    let kind = match kind {
        DeclaredLinks::Nvlink => GpuLink::NvLink,
        DeclaredLinks::Xgmi => GpuLink::Xgmi,
        DeclaredLinks::Pcie => GpuLink::Pcie,
    };
    let island = group.island.unwrap_or(group.count).max(1) * group.parts;
    let first = number / island * island;
    let peers = (first..first + island).filter(|peer| *peer != number);
    peers.map(|peer| (before + peer, kind)).collect()
}

/// Shares the CPUs out to as many NUMA nodes as are declared, each a socket.
pub fn share_cpus(inventory: &mut Inventory, numa: u32) {
    let cpus = u64::from(inventory.cpus);
    let start = |node: u32| u32::try_from(cpus * u64::from(node) / u64::from(numa)).unwrap_or(0);
    let node = |node: u32| (start(node)..start(node + 1)).collect::<IdSet>();
    inventory.cpus_by_numa = (0..numa).map(node).collect();
    inventory.sockets = numa;
    let threads = inventory.threads_per_core.max(1);
    inventory.cores_per_socket = (inventory.cpus / numa / threads).max(1);
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
        .find(|g| g.major == major && (g.minor..g.minor + g.devices()).contains(&minor))?;
    Some(file(group, minor - group.minor))
}
