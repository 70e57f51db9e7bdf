//! Which character devices are fenced: everything through which a GPU, or raw memory, can be reached. All other devices are left
//! to file modes, so that nobody loses `/dev/fuse`.
//!
//! Numbers that Linux assigns for good are fenced whether or not a driver is loaded; the others come from `/proc/devices`, which
//! is read again at every grant.

use std::collections::BTreeSet;

/// `/dev/dri/*` (Documentation/admin-guide/devices.txt, as all fixed majors here).
const DRM: u32 = 226;
/// `/dev/accel/*`.
const ACCEL: u32 = 261;
/// `/dev/nvidia*`.
const NVIDIA: u32 = crate::discover::nvidia::MAJOR;
/// `/dev/mem`, `/dev/kmem`, `/dev/port` and harmless neighbours such as `/dev/null`.
const MEM: u32 = 1;
/// `/dev/vfio/vfio` among the miscellaneous devices.
const MISC: u32 = 10;
/// Minor of `/dev/vfio/vfio` (include/linux/miscdevice.h, `VFIO_MINOR`).
const VFIO_CONTAINER: u32 = 196;
/// `/dev/infiniband/*`.
const INFINIBAND: u32 = 231;

/// A set of device numbers that no job may open unless it was granted the very one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fenced {
    /// Every minor of a major.
    Major(u32),
    /// One device.
    Device(u32, u32),
}

/// Every fenced class: the fixed ones, those that `/proc/devices` names, and the majors of stand-ins.
pub fn fenced(
    proc_devices: &str,
    standin_majors: impl IntoIterator<Item = u32>,
    infiniband: bool,
) -> BTreeSet<Fenced> {
    let mut all = BTreeSet::from([
        Fenced::Major(DRM),
        Fenced::Major(ACCEL),
        Fenced::Major(NVIDIA),
        Fenced::Device(MEM, 1),
        Fenced::Device(MEM, 2),
        Fenced::Device(MEM, 4),
        Fenced::Device(MISC, VFIO_CONTAINER),
    ]);
    all.extend(standin_majors.into_iter().map(Fenced::Major));
    if infiniband {
        all.insert(Fenced::Major(INFINIBAND));
    }
    for (major, name) in characters(proc_devices) {
        if is_gpu_class(name) || (infiniband && name.starts_with("infiniband")) {
            all.insert(Fenced::Major(major));
        }
    }
    all
}

/// Drivers whose devices reach GPUs. Every name of NVIDIA's counts, also ones that are not known yet.
fn is_gpu_class(name: &str) -> bool {
    name.starts_with("nvidia")
        || matches!(
            name,
            "drm" | "accel" | "kfd" | "vfio" | "vfio-dev" | "habanalabs"
        )
}

/// The major of a character driver that has no fixed one.
pub fn major_of(proc_devices: &str, driver: &str) -> Option<u32> {
    characters(proc_devices)
        .find(|(_, name)| *name == driver)
        .map(|(major, _)| major)
}

/// The lines of the first part of `/proc/devices`.
fn characters(proc_devices: &str) -> impl Iterator<Item = (u32, &str)> {
    let lines = proc_devices
        .lines()
        .take_while(|line| !line.starts_with("Block devices"));
    lines.filter_map(|line| {
        let (major, name) = line.trim().split_once(' ')?;
        Some((major.parse().ok()?, name.trim()))
    })
}
