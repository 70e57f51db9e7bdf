//! The layouts shared with the program: `bpf/fence_abi.h` in Rust.
//!
//! `tests/layout.rs` compares every struct here, member by member, with the BTF of the built object.

use std::mem::size_of;

/// Version of these layouts and of their meaning. Objects pinned by another version are not adopted.
pub const ABI: u32 = 2;
/// Grant bits of one policy.
pub const GRANT_BITS: u32 = 512;
/// 64-bit words that hold the grant bits.
pub const GRANT_WORDS: usize = 8;
/// Major numbers that a `dev_t` can hold.
pub const MAJORS: u32 = 4096;
/// Fenced device numbers that one table can list, and entries of the devices map.
pub const DEVICES_MAX: usize = 8192;
/// Bytes of the audit ring.
pub const AUDIT_BYTES: u32 = 256 * 1024;

/// Majors whose low minors have a direct place each.
pub const SLOTS: u32 = 32;
/// Minors per slot.
pub const SLOT_MINORS: u32 = 256;

/// Class of a major: file modes alone decide.
pub(crate) const CLASS_OPEN: u32 = 0;
/// Class of a major: every minor is fenced.
pub(crate) const CLASS_WHOLE: u32 = 1;
/// Class of a major: listed minors are fenced.
pub(crate) const CLASS_LISTED: u32 = 2;
/// The class in the word of a major; above it lies 1 + its slot.
pub(crate) const CLASS_MASK: u32 = 0xff;
/// Where the slot lies in the word of a major.
pub(crate) const SLOT_SHIFT: u32 = 8;
/// Entry of a device that is not listed.
pub(crate) const ENTRY_NONE: u32 = 0;
/// Entry of a device that no policy can grant; others are 1 + their bit.
pub(crate) const ENTRY_NEVER: u32 = u32::MAX;
/// Policy flag: count, send no event.
pub(crate) const POLICY_QUIET: u32 = 1;
/// Event flag: seen and let through.
pub(crate) const EVENT_NOTED: u32 = 1;

/// `struct spur_fence_meta`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawMeta {
    /// [`ABI`] of who pinned.
    pub abi: u32,
    /// Zero.
    pub reserved: u32,
    /// Which build of the program is pinned.
    pub object_hash: u64,
}

/// `struct spur_fence_device_key`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RawDeviceKey {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// `struct spur_fence_table`: mapped into user space, written by single words.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawTable {
    /// Word of each major.
    pub majors: [u32; MAJORS as usize],
    /// Entries of the slots, one slot after the other.
    pub entries: [u32; (SLOTS * SLOT_MINORS) as usize],
}

/// `struct spur_guard_settings`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawGuardSettings {
    /// Which build of the guard runs.
    pub object_hash: u64,
    /// Level of the jobs' cgroups; the steps' is one more.
    pub job_level: u32,
    /// 1: signals to other jobs are refused.
    pub deny_signals: u32,
}

/// `struct spur_guard_file`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawGuardFile {
    /// Cgroup id of the job that opened or made it.
    pub job: u64,
    /// Device number, or that it is a dma-buf.
    pub what: u64,
}

/// `struct spur_fence_policy`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawPolicy {
    /// [`ABI`]; 0 in an empty policy.
    pub abi: u32,
    /// Flags.
    pub flags: u32,
    /// Job id.
    pub job: u64,
    /// Generation of the assignment.
    pub generation: u64,
    /// Id of the fenced cgroup.
    pub cgroup: u64,
    /// Step number as the agent encodes it.
    pub step: u32,
    /// Events that may come at once; 0 for the default.
    pub audit_burst: u32,
    /// Events per second after that; 0 for the default.
    pub audit_per_second: u32,
    /// Zero.
    pub reserved: u32,
    /// Grant bits, bit 0 lowest in word 0.
    pub grants: [u64; GRANT_WORDS],
    /// State of the rate limit, the program's own.
    pub audit_next_ns: u64,
}

/// `struct spur_fence_counters`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawCounters {
    /// Refusals.
    pub denied: u64,
    /// Of those, events in the ring.
    pub emitted: u64,
    /// Of those, held back by the rate limit or the quiet flag.
    pub suppressed: u64,
    /// Of those, lost because the ring was full.
    pub lost: u64,
    /// Seen and let through; no part of `denied`.
    pub noted: u64,
}

/// `struct spur_fence_event`
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawEvent {
    /// `CLOCK_MONOTONIC` nanoseconds.
    pub time_ns: u64,
    /// Job of the policy.
    pub job: u64,
    /// Generation of the policy.
    pub generation: u64,
    /// Cgroup id of the process.
    pub cgroup: u64,
    /// Step of the policy.
    pub step: u32,
    /// Thread id.
    pub pid: u32,
    /// Process id.
    pub tgid: u32,
    /// Real user id.
    pub uid: u32,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Access bits.
    pub access: u16,
    /// Device type.
    pub device_type: u16,
    /// Verdict.
    pub verdict: u32,
    /// What was tried, `SPUR_OP_*`.
    pub operation: u32,
    /// Process that was the object, or 0.
    pub target: u32,
    /// `SPUR_EVENT_*`.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
    /// Command name, zero-filled.
    pub comm: [u8; 16],
    /// Short name of what is no device, zero-filled.
    pub object: [u8; 24],
}

/// A struct of this file: plain integers without padding, so that its bytes are its value.
///
/// # Safety
/// The type is `repr(C)`, has no padding, and every bit pattern is a value of it.
pub(crate) unsafe trait Plain: Copy + Default {
    /// The bytes of the value.
    fn bytes(&self) -> &[u8] {
        // SAFETY: the trait promises that all `size_of::<Self>()` bytes are initialised.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }

    /// The value in `bytes`, or `None` if the length differs.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        // SAFETY: the length is checked, any bit pattern is a value, and the read does not ask for alignment.
        (bytes.len() == size_of::<Self>())
            .then(|| unsafe { bytes.as_ptr().cast::<Self>().read_unaligned() })
    }
}

/// Promises [`Plain`] for a struct and proves at compile time that its members fill it.
macro_rules! plain {
    ($name:ident, $size:expr) => {
        const _: () = assert!(size_of::<$name>() == $size, "padding, or a changed layout");
        // SAFETY: `repr(C)` of integers and integer arrays; the assertion above shows that the members leave no gap.
        unsafe impl Plain for $name {}
    };
}

pub(crate) use plain;

plain!(RawMeta, 4 + 4 + 8);
plain!(RawDeviceKey, 4 + 4);
plain!(RawGuardSettings, 8 + 4 + 4);
plain!(RawGuardFile, 8 + 8);
plain!(RawPolicy, 2 * 4 + 3 * 8 + 4 * 4 + 8 * GRANT_WORDS + 8);
plain!(RawCounters, 5 * 8);
plain!(RawEvent, 4 * 8 + 6 * 4 + 2 * 2 + 5 * 4 + 16 + 24);
