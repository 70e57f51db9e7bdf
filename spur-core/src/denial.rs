//! Refusals by the fence, as users see them.

use crate::id::{JobId, NodeName, Uid};
use crate::time::Millis;
use serde::{Deserialize, Serialize};

/// What was tried on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DeviceOp {
    /// Opened for reading.
    Read,
    /// Opened for writing.
    Write,
    /// Opened for both, or KFD's own probe.
    ReadWrite,
    /// `mknod`.
    Mknod,
    /// `access(F_OK)` and the like: asked, not opened.
    Probe,
}

/// One audited refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// When.
    pub at: Millis,
    /// Where.
    pub node: NodeName,
    /// The job, or 0 for a process outside jobs.
    pub job: JobId,
    /// Process id on the node (thread group).
    pub pid: u32,
    /// Real user id.
    pub uid: Uid,
    /// Command name, at most 15 bytes (`comm`).
    pub command: String,
    /// Device major number.
    pub major: u32,
    /// Device minor number.
    pub minor: u32,
    /// Path of the device if the agent knows it, else empty.
    pub device: String,
    /// What was tried.
    pub op: DeviceOp,
}

/// How many refusals a job met on a node; counts are exact also when single events were dropped by the rate limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DenialCount {
    /// All refusals.
    pub total: u64,
    /// Of those, how many had no event of their own.
    pub suppressed: u64,
}
