//! The layouts shared with the meter's programs: `bpf/meter_abi.h` in Rust.
//!
//! `tests/layout.rs` compares every struct here, member by member, with the BTF of the built objects. Times are nanoseconds.

use crate::abi::{Plain, plain};
use std::mem::size_of;

/// Version of these layouts and of their meaning. A meter pinned by another version is replaced.
pub const ABI: u32 = 1;
/// Metered cgroups of one node.
pub const SLOTS_MAX: u32 = 4096;
/// The low bits of a slice: 1 + its slot.
pub(crate) const SLOT_MASK: u64 = 0x1fff;
/// Bytes of a device's name on its bus, and of a ring's.
pub const DEVICE_LEN: usize = 32;
/// Bytes of a ring's name.
pub const RING_LEN: usize = 16;

/// Setting: a queue comes before the bio in the block layer's events.
pub(crate) const BIO_SECOND: u32 = 1;
/// Setting: `sched_process_exit` says whether the whole process ends.
pub(crate) const GROUP_DEAD: u32 = 2;
/// Setting: `mark_victim` has the task, not its number.
pub(crate) const VICTIM_TASK: u32 = 4;

/// `struct spur_meter_meta`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawMeterMeta {
    /// [`ABI`] of who pinned.
    pub abi: u32,
    /// Level of the jobs' cgroups.
    pub job_level: u32,
    /// Which builds of the programs are pinned; 0 while they are replaced.
    pub object_hash: u64,
    /// CPUs that the machine may have.
    pub cpus: u32,
    /// Parts of a slot.
    pub shards: u32,
}

/// `struct spur_meter_settings`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawMeterSettings {
    /// Level of the jobs' cgroups; the steps' is one more.
    pub job_level: u32,
    /// Parts of a slot, a power of two.
    pub shards: u32,
    /// In what this kernel's events differ.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}

/// `struct spur_meter_place`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RawMeterPlace {
    /// Which slot.
    pub slot: u32,
    /// Of its owners, which; never 0 for a metered cgroup.
    pub generation: u32,
}

/// `struct spur_meter_slot`: mapped into user space, read by single words.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawMeterSlot {
    /// Whose counts, 0: free.
    pub cgroup: u64,
    /// Raised at each change of owner.
    pub generation: u32,
    /// Operations whose owner the block layer did not know.
    pub guessed_ios: u32,
    /// On a CPU.
    pub cpu_ns: u64,
    /// Waiting for one.
    pub runqueue_ns: u64,
    /// Times that a task left a CPU.
    pub switches: u64,
    /// As the tick saw it.
    pub user_ns: u64,
    /// As the tick saw it.
    pub system_ns: u64,
    /// Faults that waited for a device.
    pub major_faults: u64,
    /// Faults that did not.
    pub minor_faults: u64,
    /// Processes.
    pub starts: u64,
    /// Processes.
    pub ends: u64,
    /// Processes.
    pub oom_kills: u64,
    /// Bytes read from block devices.
    pub read_bytes: u64,
    /// Bytes written to block devices.
    pub write_bytes: u64,
    /// Read operations.
    pub reads: u64,
    /// Write operations.
    pub writes: u64,
}

/// `struct spur_meter_counters`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawTaskCounters {
    /// On CPUs.
    pub exec_ns: u64,
    /// Waiting for one.
    pub wait_ns: u64,
    /// As the tick saw it.
    pub user_ns: u64,
    /// As the tick saw it.
    pub system_ns: u64,
    /// Faults that waited for a device.
    pub major_faults: u64,
    /// Faults that did not.
    pub minor_faults: u64,
}

/// `struct spur_meter_running`: mapped into user space.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawMeterRunning {
    /// When the slice began, and 1 + the slot in the low bits; 0: nothing that is metered runs.
    pub slice: u64,
    /// Of the slot.
    pub generation: u32,
    /// The thread, metered or not.
    pub pid: u32,
    /// When it came, if it is metered.
    pub counters: RawTaskCounters,
}

/// `struct spur_meter_seen`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawMeterSeen {
    /// The thread.
    pub pid: u32,
    /// Zero.
    pub reserved: u32,
    /// Whose it was.
    pub place: RawMeterPlace,
    /// When it was seen.
    pub time_ns: u64,
    /// Then.
    pub counters: RawTaskCounters,
}

/// `struct spur_meter_ending`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawMeterEnding {
    /// Address of the process's signals.
    pub signal: u64,
    /// When its first thread began.
    pub started_ns: u64,
}

/// `struct spur_meter_gpu_job`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawGpuJob {
    /// Who queued it.
    pub place: RawMeterPlace,
    /// Address of the scheduler.
    pub ring: u64,
    /// When it was queued.
    pub queued_ns: u64,
    /// When it was handed to the GPU; 0: not yet.
    pub run_ns: u64,
}

/// `struct spur_meter_gpu_ring`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawGpuRing {
    /// When its last job was done.
    pub done_ns: u64,
    /// When that was handed to the GPU.
    pub done_run_ns: u64,
    /// Address of the device.
    pub bus_device: u64,
    /// The device's name on its bus, zero-filled.
    pub device: [u8; DEVICE_LEN],
    /// The scheduler's name, zero-filled.
    pub name: [u8; RING_LEN],
}

/// `struct spur_meter_gpu_key`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RawGpuKey {
    /// Whose work.
    pub place: RawMeterPlace,
    /// On which device, zero-filled.
    pub device: [u8; DEVICE_LEN],
    /// On which of its rings, zero-filled.
    pub ring: [u8; RING_LEN],
}

/// `struct spur_meter_gpu_work`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawGpuWork {
    /// The ring worked on it.
    pub busy_ns: u64,
    /// It waited for the ring.
    pub queue_ns: u64,
    /// Jobs that are done.
    pub jobs: u64,
}

/// `struct spur_meter_holder`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawHolder {
    /// Id of the step's or the job's cgroup.
    pub cgroup: u64,
    /// Process.
    pub pid: u32,
    /// Device number as the kernel has it.
    pub device: u32,
}

/// `struct spur_meter_gpu_totals`: mapped into user space.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawGpuTotals {
    /// As long as it stays, nothing has changed.
    pub events: u64,
    /// Jobs whose beginning was not seen, or was forgotten.
    pub lost_jobs: u64,
    /// Jobs for which there was no row.
    pub lost_rows: u64,
}

// Keys that are one number.
plain!(u64, 8);
plain!(RawMeterMeta, 4 + 4 + 8 + 4 + 4);
plain!(RawMeterSettings, 4 * 4);
plain!(RawMeterPlace, 4 + 4);
plain!(RawMeterSlot, 8 + 2 * 4 + 14 * 8);
plain!(RawTaskCounters, 6 * 8);
plain!(RawMeterRunning, 8 + 2 * 4 + 6 * 8);
plain!(RawMeterSeen, 2 * 4 + 8 + 7 * 8);
plain!(RawMeterEnding, 2 * 8);
plain!(RawGpuJob, 8 + 3 * 8);
plain!(RawGpuRing, 3 * 8 + DEVICE_LEN + RING_LEN);
plain!(RawGpuKey, 8 + DEVICE_LEN + RING_LEN);
plain!(RawGpuWork, 3 * 8);
plain!(RawHolder, 8 + 4 + 4);
plain!(RawGpuTotals, 3 * 8);
