//! What is measured, of what, how, and how well: the identity of a series.
//!
//! Names are OpenTelemetry's where it has one (`hw.*`, `container.*` semantic conventions) and below `job.` or `agent.` elsewhere.

use crate::id::{JobId, StepKind};
use serde::{Deserialize, Serialize};

/// How far a value is to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Quality {
    /// Counted at every event.
    Exact,
    /// Looked at from time to time; what happened between two looks is interpolated.
    Sampled,
    /// Derived from something else, by a rule that the documentation gives.
    Estimated,
}

impl Quality {
    /// The word for it in every output.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Sampled => "sampled",
            Self::Estimated => "estimated",
        }
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Source {
    /// Our own programs at the scheduler's and the block layer's events.
    Bpf,
    /// Files of the control group.
    Cgroup,
    /// `drm_sched` events.
    DrmSched,
    /// `/proc/PID/fdinfo` of DRM clients.
    Fdinfo,
    /// NVML.
    Nvml,
    /// NVML's GPM counters.
    Gpm,
    /// amdgpu's `gpu_metrics` table.
    GpuMetrics,
    /// amdgpu's and KFD's files in sysfs.
    Sysfs,
    /// The `dmem` controller.
    Dmem,
    /// The agent's own record of grants.
    Grants,
    /// The agent itself.
    Agent,
    /// Made up, for stand-ins of development clusters.
    Simulated,
    /// A source that only a newer spur has a word for.
    Other,
}

impl Source {
    /// The word for it in every output.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Bpf => "bpf",
            Self::Cgroup => "cgroup",
            Self::DrmSched => "drm_sched",
            Self::Fdinfo => "fdinfo",
            Self::Nvml => "nvml",
            Self::Gpm => "gpm",
            Self::GpuMetrics => "gpu_metrics",
            Self::Sysfs => "sysfs",
            Self::Dmem => "dmem",
            Self::Grants => "grants",
            Self::Agent => "agent",
            Self::Simulated => "simulated",
            Self::Other => "other",
        }
    }
}

/// Whose value it is. GPUs are named by their index in the node's inventory, as everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Subject {
    /// The agent, or the node as a whole.
    Node,
    /// A device, whoever holds it.
    Gpu(u32),
    /// A step's processes on this node.
    Step(JobId, StepKind),
    /// A job's part of a GPU.
    JobGpu(JobId, u32),
}

impl Subject {
    /// Whose job it concerns.
    pub const fn job(self) -> Option<JobId> {
        match self {
            Self::Node | Self::Gpu(_) => None,
            Self::Step(job, _) | Self::JobGpu(job, _) => Some(job),
        }
    }
}

/// How the values of a series combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Only grows within an epoch of the agent; the difference of two readings is what happened between them.
    Counter,
    /// A level, with the least and the greatest since the reading before.
    Gauge,
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal, $shape:ident, $unit:literal;)*) => {
        /// What is measured. The numbers stand on disk and on the wire: they are never given to something else.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum Metric { $($(#[$doc])* $variant = $number,)* }

        impl Metric {
            /// Each of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The series' name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// How its values combine.
            pub const fn shape(self) -> Shape {
                match self { $(Self::$variant => Shape::$shape,)* }
            }

            /// The unit of the whole numbers that are stored and sent.
            pub const fn unit(self) -> &'static str {
                match self { $(Self::$variant => $unit,)* }
            }

            /// Back from its number.
            pub const fn from_number(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

metrics! {
    /// Time on a CPU.
    CpuTime = 1, "job.cpu.time", Counter, "us";
    /// Of it, in user space.
    CpuUserTime = 2, "job.cpu.user_time", Counter, "us";
    /// Of it, in the kernel.
    CpuSystemTime = 3, "job.cpu.system_time", Counter, "us";
    /// Time ready to run, without a CPU.
    CpuRunqueueTime = 4, "job.cpu.runqueue.time", Counter, "us";
    /// Time held back by a CPU limit.
    CpuThrottledTime = 5, "job.cpu.throttled.time", Counter, "us";
    /// Times that a thread was put on a CPU.
    CpuSwitches = 6, "job.cpu.switches", Counter, "{switch}";
    /// Page faults that waited for a disk.
    MajorFaults = 7, "job.paging.major_faults", Counter, "{fault}";
    /// Page faults that did not.
    MinorFaults = 8, "job.paging.minor_faults", Counter, "{fault}";
    /// Processes started.
    ProcessStarts = 9, "job.process.starts", Counter, "{process}";
    /// Processes ended.
    ProcessEnds = 10, "job.process.ends", Counter, "{process}";
    /// Read from block devices.
    DiskReadBytes = 11, "job.disk.read.io", Counter, "By";
    /// Written to block devices.
    DiskWriteBytes = 12, "job.disk.write.io", Counter, "By";
    /// Reads from block devices.
    DiskReads = 13, "job.disk.read.operations", Counter, "{operation}";
    /// Writes to block devices.
    DiskWrites = 14, "job.disk.write.operations", Counter, "{operation}";
    /// Processes that the out-of-memory killer ended.
    OomKills = 15, "job.memory.oom_kills", Counter, "{event}";
    /// Memory in use (`memory.current` without inactive file cache where that is known).
    Memory = 16, "job.memory.usage", Gauge, "By";
    /// The most that was in use.
    MemoryPeak = 17, "job.memory.peak", Gauge, "By";
    /// The limit, where there is one.
    MemoryLimit = 18, "job.memory.limit", Gauge, "By";
    /// Processes and threads now.
    Pids = 19, "job.pids", Gauge, "{process}";
    /// Time in which some wait for CPU (PSI).
    PressureCpu = 20, "job.pressure.cpu.some.time", Counter, "us";
    /// Time in which some wait for memory (PSI).
    PressureMemory = 21, "job.pressure.memory.some.time", Counter, "us";
    /// Time in which some wait for I/O (PSI).
    PressureIo = 22, "job.pressure.io.some.time", Counter, "us";
    /// Time in which all wait for memory (PSI).
    PressureMemoryFull = 23, "job.pressure.memory.full.time", Counter, "us";
    /// Time in which all wait for I/O (PSI).
    PressureIoFull = 24, "job.pressure.io.full.time", Counter, "us";

    /// Time that the job held the GPU.
    GpuHeldTime = 40, "job.gpu.allocated.time", Counter, "us";
    /// Time that the GPU was busy for the job.
    GpuBusyTime = 41, "job.gpu.busy.time", Counter, "us";
    /// The GPU's memory in the job's use.
    GpuJobMemory = 42, "job.gpu.memory.usage", Gauge, "By";
    /// Energy that the GPU took while the job held it.
    GpuJobEnergy = 43, "job.gpu.energy", Counter, "mJ";
    /// Processes of the job that have the GPU open.
    GpuHolders = 44, "job.gpu.holders", Gauge, "{process}";
    /// Work handed to the GPU (`drm_sched` jobs).
    GpuWork = 45, "job.gpu.work", Counter, "{job}";
    /// Time that work waited for the GPU.
    GpuQueueTime = 46, "job.gpu.queue.time", Counter, "us";

    /// Time that any engine of the device was busy.
    HwBusyTime = 60, "hw.gpu.busy.time", Counter, "us";
    /// Utilization now, in thousandths.
    HwUtilization = 61, "hw.gpu.utilization", Gauge, "permille";
    /// Utilization of the memory controller, in thousandths.
    HwMemoryUtilization = 62, "hw.gpu.memory.controller.utilization", Gauge, "permille";
    /// Device memory in use.
    HwMemory = 63, "hw.gpu.memory.usage", Gauge, "By";
    /// Device memory in all.
    HwMemoryLimit = 64, "hw.gpu.memory.limit", Gauge, "By";
    /// Power.
    HwPower = 65, "hw.power", Gauge, "mW";
    /// Energy since the driver was loaded.
    HwEnergy = 66, "hw.energy", Counter, "mJ";
    /// Temperature of the chip.
    HwTemperature = 67, "hw.temperature", Gauge, "mCel";
    /// Temperature of its memory.
    HwMemoryTemperature = 68, "hw.temperature.memory", Gauge, "mCel";
    /// Clock of the compute units.
    HwClock = 69, "hw.gpu.clock", Gauge, "MHz";
    /// Clock of the memory.
    HwMemoryClock = 70, "hw.gpu.memory.clock", Gauge, "MHz";
    /// Time slowed for heat.
    HwThrottleThermal = 71, "hw.gpu.throttle.thermal.time", Counter, "us";
    /// Time slowed for power.
    HwThrottlePower = 72, "hw.gpu.throttle.power.time", Counter, "us";
    /// Memory errors that were corrected.
    HwEccCorrected = 73, "hw.errors.ecc.corrected", Counter, "{error}";
    /// Memory errors that were not.
    HwEccUncorrected = 74, "hw.errors.ecc.uncorrected", Counter, "{error}";
    /// Errors that the driver reported (XID and the like).
    HwErrors = 75, "hw.errors", Counter, "{error}";
    /// Received over the bus.
    HwPcieReceive = 76, "hw.gpu.io.receive", Counter, "By";
    /// Sent over the bus.
    HwPcieTransmit = 77, "hw.gpu.io.transmit", Counter, "By";
    /// Received over links between GPUs.
    HwLinkReceive = 78, "hw.gpu.link.receive", Counter, "By";
    /// Sent over links between GPUs.
    HwLinkTransmit = 79, "hw.gpu.link.transmit", Counter, "By";
    /// Share of time with a warp on a multiprocessor (GPM), in thousandths.
    HwSmActive = 80, "hw.gpu.sm_active", Gauge, "permille";
    /// Share of time with the tensor units at work (GPM), in thousandths.
    HwTensorActive = 81, "hw.gpu.tensor_active", Gauge, "permille";
    /// Resets of the device.
    HwResets = 82, "hw.gpu.resets", Counter, "{event}";

    /// CPU time of the agent and of its vendors' children.
    AgentCpuTime = 100, "agent.self.cpu.time", Counter, "us";
    /// The agent's memory.
    AgentMemory = 101, "agent.self.rss", Gauge, "By";
    /// Readings that came too late to keep the rate.
    AgentOverruns = 102, "agent.self.tick.overruns", Counter, "{tick}";
    /// Readings or events that were lost.
    AgentLost = 103, "agent.self.samples.lost", Counter, "{sample}";
    /// Bytes that wait on disk for the controller.
    AgentSpool = 104, "agent.self.spool", Gauge, "By";
    /// Readings in ten seconds, as really run.
    AgentRate = 105, "agent.self.rate", Gauge, "{tick}/10s";
    /// How far the governor has gone: 0 is everything.
    AgentLevel = 106, "agent.self.level", Gauge, "1";
    /// CPU time of our programs in the kernel, charged to whoever ran.
    AgentBpfTime = 107, "agent.self.bpf.time", Counter, "us";
}

/// What a series is: one of these exists at most once on a node at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SeriesKey {
    /// Whose.
    pub subject: Subject,
    /// What.
    pub metric: Metric,
    /// From where.
    pub source: Source,
    /// How well.
    pub quality: Quality,
}

/// A value of a series: for a counter its reading, for a gauge its mean with the extremes since the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// A counter's reading.
    Count(u64),
    /// A gauge's mean, least and greatest.
    Level {
        /// Mean.
        mean: i64,
        /// Least.
        min: i64,
        /// Greatest.
        max: i64,
    },
}

impl Value {
    /// A level that was looked at once.
    pub const fn level(value: i64) -> Self {
        Self::Level {
            mean: value,
            min: value,
            max: value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_and_numbers_are_each_metrics_own() {
        let names: BTreeSet<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        assert_eq!(names.len(), Metric::ALL.len());
        for metric in Metric::ALL {
            assert_eq!(Metric::from_number(*metric as u8), Some(*metric));
        }
        assert_eq!(Metric::from_number(0), None);
    }
}
