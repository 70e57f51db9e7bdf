//! The numbers of MIG instances, which NVML has and its safe wrapper does not give.

use nvml_wrapper::Device;

/// `NVML_SUCCESS`.
const SUCCESS: u32 = 0;

/// The numbers of the GPU instance and of the compute instance within it that a MIG device is (`nvmlDeviceGetGpuInstanceId` and
/// `nvmlDeviceGetComputeInstanceId` of `nvml.h`), as the driver names them below `/proc/driver/nvidia/capabilities`. An error is a
/// sentence.
pub fn numbers(device: &Device<'_>) -> Result<(u32, u32), String> {
    let library = device.nvml().lib();
    let (Ok(gpu_instance), Ok(compute_instance)) = (
        &library.nvmlDeviceGetGpuInstanceId,
        &library.nvmlDeviceGetComputeInstanceId,
    ) else {
        return Err("this NVML has no numbers of MIG instances".into());
    };
    let (mut gi, mut ci) = (u32::MAX, u32::MAX);
    // SAFETY: the library gave the handle and stays loaded as long as `device` is borrowed; each function reads the handle and writes one
    // unsigned integer, which outlives the call.
    let results = unsafe {
        let handle = device.handle();
        [
            gpu_instance(handle, &raw mut gi),
            compute_instance(handle, &raw mut ci),
        ]
    };
    match results {
        [SUCCESS, SUCCESS] => Ok((gi, ci)),
        [one, other] => Err(format!(
            "NVML does not number a MIG instance (errors {one} and {other})"
        )),
    }
}
