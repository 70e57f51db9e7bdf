//! The variables by which GPU runtimes choose devices. The fence decides what a task can open; these only help runtimes to name
//! it.
//!
//! | granted | variables | why |
//! |---|---|---|
//! | NVIDIA | `CUDA_VISIBLE_DEVICES` by UUID, `CUDA_DEVICE_ORDER=PCI_BUS_ID` | ordinals differ between CUDA's default order, `nvidia-smi` and device minors; UUIDs do not |
//! | AMD | `ROCR_VISIBLE_DEVICES` by UUID, `GPU_DEVICE_ORDINAL` by position | ROCr and HIP order differ; the latter counts what ROCr lets through |
//! | other DRM | `ZE_AFFINITY_MASK` by position | Level Zero counts the devices that it can open |
//! | simulated | all of Slurm's four by node index | no runtime reads them; people and tests do |
//! | nothing of a vendor | its variables are removed | a value from the submitter's environment would name somebody else's device; the fence hides the devices themselves, and programs that ask whether a variable is set get Slurm's answer |
//!
//! A GPU without a UUID is named by its position among the granted ones of its vendor: runtimes pass over devices that they
//! cannot open. HIP reads `CUDA_VISIBLE_DEVICES` too, so a job with both vendors gets `HIP_VISIBLE_DEVICES`, which HIP prefers.

use super::Env;
use crate::resources::{Gpu, GpuVendor, IdSet};

/// Everything that this module sets or removes.
const ALL: [&str; 6] = [
    "CUDA_DEVICE_ORDER",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
];

/// Of a node's GPUs, those in `set`, in order of index.
pub(super) fn granted<'a>(gpus: &'a [Gpu], set: &IdSet) -> Vec<&'a Gpu> {
    let mut granted: Vec<&Gpu> = gpus.iter().filter(|gpu| set.contains(gpu.index)).collect();
    granted.sort_by_key(|gpu| gpu.index);
    granted
}

/// Sets what the granted GPUs need, and removes everything else.
pub(super) fn set(env: &mut Env, granted: &[&Gpu]) {
    for name in ALL {
        env.remove(name);
    }
    let of = |vendor: GpuVendor| -> Vec<&Gpu> {
        granted
            .iter()
            .copied()
            .filter(|gpu| gpu.vendor == vendor)
            .collect()
    };
    let simulated = of(GpuVendor::Simulated);
    if !simulated.is_empty() {
        let indices = joined(simulated.iter().map(|gpu| gpu.index.to_string()));
        for name in [
            "CUDA_VISIBLE_DEVICES",
            "ROCR_VISIBLE_DEVICES",
            "GPU_DEVICE_ORDINAL",
            "ZE_AFFINITY_MASK",
        ] {
            env.set(name, &indices);
        }
    }
    let drm = of(GpuVendor::Drm);
    if !drm.is_empty() {
        env.set("ZE_AFFINITY_MASK", positions(&drm));
    }
    let (amd, nvidia) = (of(GpuVendor::Amd), of(GpuVendor::Nvidia));
    if !amd.is_empty() {
        env.set("ROCR_VISIBLE_DEVICES", names(&amd, "GPU-"));
        env.set("GPU_DEVICE_ORDINAL", positions(&amd));
    }
    if !nvidia.is_empty() {
        env.set("CUDA_VISIBLE_DEVICES", names(&nvidia, ""));
        env.set("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    }
    if !amd.is_empty() && !nvidia.is_empty() {
        env.set("HIP_VISIBLE_DEVICES", positions(&amd));
    }
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(",")
}

fn positions(gpus: &[&Gpu]) -> String {
    joined((0..gpus.len()).map(|at| at.to_string()))
}

/// By UUID with the prefix that the runtime expects; all by position if one has none, since forms do not mix.
fn names(gpus: &[&Gpu], prefix: &str) -> String {
    if gpus.iter().any(|gpu| gpu.uuid.is_empty()) {
        return positions(gpus);
    }
    joined(gpus.iter().map(|gpu| {
        let bare = gpu.uuid.strip_prefix(prefix).unwrap_or(&gpu.uuid);
        [prefix, bare].concat()
    }))
}
