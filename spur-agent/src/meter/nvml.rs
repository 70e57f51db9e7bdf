//! NVIDIA GPUs by NVML, which only a child process calls: `spurd nvml`, one GPU after the other, on request.
//!
//! A sick GPU can hold a caller in the kernel for minutes, and killing it can make that worse. A child that does not answer in time
//! is left alone; the GPU that it was asked for is not asked for a while, and another child goes on with the rest.

pub mod child;
mod device;
pub mod keeper;
mod util;
pub mod words;

/// The (hidden) command by which the agent calls itself.
pub const COMMAND: &str = "nvml";
