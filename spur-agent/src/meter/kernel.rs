//! What the kernel counts for each control group, as the meter wants it: a seam, so that the meter runs, and is tested, without BPF.

use serde::{Deserialize, Serialize};
use spur_core::usage::metric::Metric;
use std::fmt::Debug;

/// What was counted for one control group since it was added. What is not counted on this kernel is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Time on CPUs, µs.
    pub cpu: Option<u64>,
    /// Of it in user space, µs.
    pub user: Option<u64>,
    /// Of it in the kernel, µs.
    pub system: Option<u64>,
    /// Time ready to run without a CPU, µs.
    pub runqueue: Option<u64>,
    /// Time held back by a CPU limit, µs.
    pub throttled: Option<u64>,
    /// Times that a thread was put on a CPU.
    pub switches: Option<u64>,
    /// Page faults that waited for a disk.
    pub major_faults: Option<u64>,
    /// Page faults that did not.
    pub minor_faults: Option<u64>,
    /// Processes started.
    pub starts: Option<u64>,
    /// Processes ended.
    pub ends: Option<u64>,
    /// Processes ended by the out-of-memory killer.
    pub oom_kills: Option<u64>,
    /// Bytes read from block devices.
    pub read_bytes: Option<u64>,
    /// Bytes written to block devices.
    pub write_bytes: Option<u64>,
    /// Reads from block devices.
    pub reads: Option<u64>,
    /// Writes to block devices.
    pub writes: Option<u64>,
    /// Whose block I/O it was is guessed in part: it is an estimate.
    #[serde(default)]
    pub guessed_io: bool,
}

impl Counts {
    /// Each with its metric.
    pub fn each(&self) -> [(Metric, Option<u64>); 15] {
        [
            (Metric::CpuTime, self.cpu),
            (Metric::CpuUserTime, self.user),
            (Metric::CpuSystemTime, self.system),
            (Metric::CpuRunqueueTime, self.runqueue),
            (Metric::CpuThrottledTime, self.throttled),
            (Metric::CpuSwitches, self.switches),
            (Metric::MajorFaults, self.major_faults),
            (Metric::MinorFaults, self.minor_faults),
            (Metric::ProcessStarts, self.starts),
            (Metric::ProcessEnds, self.ends),
            (Metric::DiskReadBytes, self.read_bytes),
            (Metric::DiskWriteBytes, self.write_bytes),
            (Metric::DiskReads, self.reads),
            (Metric::DiskWrites, self.writes),
            (Metric::OomKills, self.oom_kills),
        ]
    }

    /// These and the others', added up; what is absent in these stays absent.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let sum = |own: Option<u64>, more: Option<u64>| {
            own.map(|own| own.saturating_add(more.unwrap_or(0)))
        };
        Self {
            cpu: sum(self.cpu, other.cpu),
            user: sum(self.user, other.user),
            system: sum(self.system, other.system),
            runqueue: sum(self.runqueue, other.runqueue),
            throttled: sum(self.throttled, other.throttled),
            switches: sum(self.switches, other.switches),
            major_faults: sum(self.major_faults, other.major_faults),
            minor_faults: sum(self.minor_faults, other.minor_faults),
            starts: sum(self.starts, other.starts),
            ends: sum(self.ends, other.ends),
            oom_kills: sum(self.oom_kills, other.oom_kills),
            read_bytes: sum(self.read_bytes, other.read_bytes),
            write_bytes: sum(self.write_bytes, other.write_bytes),
            reads: sum(self.reads, other.reads),
            writes: sum(self.writes, other.writes),
            guessed_io: self.guessed_io || other.guessed_io,
        }
    }

    /// These, and where one is absent the other's.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self {
            cpu: self.cpu.or(other.cpu),
            user: self.user.or(other.user),
            system: self.system.or(other.system),
            runqueue: self.runqueue.or(other.runqueue),
            throttled: self.throttled.or(other.throttled),
            switches: self.switches.or(other.switches),
            major_faults: self.major_faults.or(other.major_faults),
            minor_faults: self.minor_faults.or(other.minor_faults),
            starts: self.starts.or(other.starts),
            ends: self.ends.or(other.ends),
            oom_kills: self.oom_kills.or(other.oom_kills),
            read_bytes: self.read_bytes.or(other.read_bytes),
            write_bytes: self.write_bytes.or(other.write_bytes),
            reads: self.reads.or(other.reads),
            writes: self.writes.or(other.writes),
            guessed_io: self.guessed_io,
        }
    }
}

/// Work of one control group on one device, as `drm_sched` tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuWork {
    /// The group.
    pub cgroup: u64,
    /// The device's name on its bus, as `/sys/dev/char/226:N/device` ends.
    pub device: String,
    /// Time busy, µs.
    pub busy: u64,
    /// Time that work waited, µs.
    pub queue: u64,
    /// Jobs executed.
    pub jobs: u64,
}

/// The kernel's meter. Calls are cheap and never wait.
pub trait Kernel: Debug + Send + Sync {
    /// Counts for this group from now on. Done twice, it is done once.
    ///
    /// # Errors
    /// Why not, in words: no slot is free.
    fn add(&self, cgroup: u64) -> Result<(), String>;
    /// The final counts of a group, which is not counted any more; `None` if it was not added.
    fn remove(&self, cgroup: u64) -> Option<Counts>;
    /// Counts of all groups.
    fn read(&self, into: &mut Vec<(u64, Counts)>);
    /// Work on devices whose driver uses `drm_sched`.
    fn gpu(&self, into: &mut Vec<GpuWork>);
    /// Whether `drm_sched` events are seen.
    fn sees_drm_sched(&self) -> bool;
    /// Whether CPU time is counted.
    fn counts_cpu(&self) -> bool;
    /// Events that were lost.
    fn lost(&self) -> u64;
    /// CPU time of the programs in the kernel, µs, where that is known.
    fn own_time(&self) -> Option<u64>;
    /// Looks again for what was not there at the start (modules loaded since).
    fn attach_late(&self) {}
    /// Processes that have one of the wanted devices (major and minor number) open; `None` where the kernel cannot say.
    fn holders(&self, _wanted: &dyn Fn(u32, u32) -> bool) -> Option<Vec<(u32, (u32, u32))>> {
        None
    }
}

/// A kernel that counts nothing: the files of the control groups tell what they can.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoKernel;

impl Kernel for NoKernel {
    fn add(&self, _cgroup: u64) -> Result<(), String> {
        Ok(())
    }
    fn remove(&self, _cgroup: u64) -> Option<Counts> {
        None
    }
    fn read(&self, _into: &mut Vec<(u64, Counts)>) {}
    fn gpu(&self, _into: &mut Vec<GpuWork>) {}
    fn sees_drm_sched(&self) -> bool {
        false
    }
    fn counts_cpu(&self) -> bool {
        false
    }
    fn lost(&self) -> u64 {
        0
    }
    fn own_time(&self) -> Option<u64> {
        None
    }
}
