//! Refusals by the fence, as users see them.

use crate::id::{Generation, JobId, NodeName, Uid};
use crate::time::Millis;
use serde::{Deserialize, Serialize};

/// What was tried on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
    /// A descriptor that came from elsewhere: over a socket, or by `pidfd_getfd`.
    Receive,
    /// `ioctl` on a descriptor that was open already.
    Ioctl,
    /// `mmap` of a descriptor that was open already.
    Mmap,
    /// A file in sysfs that reaches a device past its node: a BAR, a partition setting, a driver's bind file.
    Sysfs,
    /// Reading or steering another process (`ptrace`, `/proc/PID/mem`, `process_vm_readv`).
    Ptrace,
    /// The `bpf` system call.
    Bpf,
    /// An `io_uring` whose kernel thread submits (`IORING_SETUP_SQPOLL`).
    Sqpoll,
    /// A signal to a process of another job.
    Signal,
    /// Removing a pin of the fence.
    Unpin,
    /// A write to a control group's file.
    Cgroup,
    /// Something that only a newer spur has a word for.
    Other,
}

impl DeviceOp {
    /// Each of them.
    pub const ALL: [Self; 16] = [
        Self::Read,
        Self::Write,
        Self::ReadWrite,
        Self::Mknod,
        Self::Probe,
        Self::Receive,
        Self::Ioctl,
        Self::Mmap,
        Self::Sysfs,
        Self::Ptrace,
        Self::Bpf,
        Self::Sqpoll,
        Self::Signal,
        Self::Unpin,
        Self::Cgroup,
        Self::Other,
    ];

    /// The word for it in every output.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "open-read",
            Self::Write => "open-write",
            Self::ReadWrite => "open-read-write",
            Self::Mknod => "mknod",
            Self::Probe => "probe",
            Self::Receive => "receive",
            Self::Ioctl => "ioctl",
            Self::Mmap => "mmap",
            Self::Sysfs => "sysfs-open",
            Self::Ptrace => "ptrace",
            Self::Bpf => "bpf",
            Self::Sqpoll => "io_uring-sqpoll",
            Self::Signal => "signal",
            Self::Unpin => "unpin",
            Self::Cgroup => "cgroup-write",
            Self::Other => "other",
        }
    }

    /// Whether no library does it by accident, so that an operator wants to know who does.
    pub const fn is_alarming(self) -> bool {
        matches!(
            self,
            Self::Receive | Self::Sysfs | Self::Ptrace | Self::Bpf | Self::Unpin
        )
    }

    /// Whether it concerns a device by its number; the others name a process or an object.
    pub const fn has_device(self) -> bool {
        matches!(
            self,
            Self::Read
                | Self::Write
                | Self::ReadWrite
                | Self::Mknod
                | Self::Probe
                | Self::Receive
                | Self::Ioctl
                | Self::Mmap
        )
    }
}

/// Why it was refused.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum DenialReason {
    /// The node did not say.
    #[default]
    Unknown,
    /// The job does not hold it.
    NotGranted,
    /// No job is ever given it.
    NeverGranted,
    /// A number of a fenced class that belongs to no known device.
    UnknownMinor,
    /// The job's policy was not written yet, or was taken away.
    NoPolicy,
    /// It belongs to another job, or to none.
    Foreign,
    /// No job may do that.
    Forbidden,
}

impl DenialReason {
    /// Each of them.
    pub const ALL: [Self; 7] = [
        Self::Unknown,
        Self::NotGranted,
        Self::NeverGranted,
        Self::UnknownMinor,
        Self::NoPolicy,
        Self::Foreign,
        Self::Forbidden,
    ];

    /// The word for it in every output.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::NotGranted => "not-granted",
            Self::NeverGranted => "never-granted",
            Self::UnknownMinor => "unknown-minor",
            Self::NoPolicy => "no-policy",
            Self::Foreign => "foreign",
            Self::Forbidden => "forbidden",
        }
    }
}

/// What a refusal most likely is, where that can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DenialLabel {
    /// KFD asking about a GPU that the job does not hold, as it does for each GPU of the node when a process begins to use one.
    KfdProbe,
}

impl DenialLabel {
    /// The word for it in every output.
    pub const fn word(self) -> &'static str {
        match self {
            Self::KfdProbe => "kfd-probe",
        }
    }
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
    /// Device major number; 0 if it is about no device.
    pub major: u32,
    /// Device minor number; 0 if it is about no device.
    pub minor: u32,
    /// Path of the device if the agent knows it, else empty.
    pub device: String,
    /// What was tried.
    pub op: DeviceOp,
    /// The controller's number of this line, rising and never used again; 0 until it has one.
    #[serde(default)]
    pub seq: u64,
    /// Why.
    #[serde(default)]
    pub reason: DenialReason,
    /// The process that it was about, where it was about one.
    #[serde(default)]
    pub target_pid: Option<u32>,
    /// Name of the object that it was about (a file in sysfs, a pin), else empty.
    #[serde(default)]
    pub object: String,
    /// Only noted: the kernel let it pass.
    #[serde(default)]
    pub noted: bool,
    /// What it most likely is.
    #[serde(default)]
    pub label: Option<DenialLabel>,
}

impl Denial {
    /// Whether an operator wants to know: it was refused, and nothing does it by accident.
    pub fn is_alarm(&self) -> bool {
        self.op.is_alarming() && !self.noted && self.label.is_none()
    }
}

/// What refusals on a node are counted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DenialKey {
    /// Device major number; 0 if it is about no device.
    pub major: u32,
    /// Device minor number; 0 if it is about no device.
    pub minor: u32,
    /// Path of the device if the agent knows it, else empty.
    pub device: String,
    /// What was tried.
    pub op: DeviceOp,
    /// Why it was refused.
    pub reason: DenialReason,
    /// Only noted: the kernel let it pass.
    pub noted: bool,
    /// What these most likely are.
    pub label: Option<DenialLabel>,
}

/// How many refusals of one kind a job met on a node, of those that the agent saw one by one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DenialRow {
    /// Of what kind.
    pub key: DenialKey,
    /// How many; at least 1.
    pub total: u64,
}

/// A job's rows on one node, as one agent counted them. What is in no row is `DenialCount::total` less the rows that were not
/// only noted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRows {
    /// The job.
    pub job: JobId,
    /// Of which placement.
    pub generation: Generation,
    /// Since when this agent counts: one that was restarted begins anew.
    pub since: Millis,
    /// The rows, at most [`ROWS_MAX`], in order of their keys.
    pub rows: Vec<DenialRow>,
}

/// Most rows for a job on one node.
pub const ROWS_MAX: usize = 64;

/// How many refusals a job met on a node; counts are exact also when single events were dropped by the rate limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DenialCount {
    /// All refusals; what was only noted is not among them.
    pub total: u64,
    /// Of those, how many had no event of their own.
    pub suppressed: u64,
}
