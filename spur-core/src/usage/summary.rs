//! What a job or a step used, as one record per node, and as one over all of its nodes.

use super::histogram::Histogram;
use super::metric::{Quality, Source};
use crate::api::AccountedJob;
use crate::id::{Generation, JobId, NodeName, StepKind};
use crate::time::Millis;
use serde::{Deserialize, Serialize};

/// What a step's processes used on one node, or, merged, on all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processes {
    /// Time on CPUs, µs.
    pub cpu_us: u64,
    /// Of it in user space, µs; absent where nothing tells the two apart.
    pub user_us: Option<u64>,
    /// Of it in the kernel, µs.
    pub system_us: Option<u64>,
    /// Time ready to run without a CPU, µs; absent where the kernel does not count it.
    pub runqueue_us: Option<u64>,
    /// Major page faults.
    pub major_faults: Option<u64>,
    /// Read from block devices, bytes.
    pub read_bytes: Option<u64>,
    /// Written to block devices, bytes.
    pub write_bytes: Option<u64>,
    /// Processes started.
    pub processes: Option<u64>,
    /// Processes that the out-of-memory killer ended.
    pub oom_kills: Option<u64>,
    /// Most memory in use at a time, bytes; over several nodes, the most of any.
    pub memory_peak: Option<u64>,
    /// Mean memory in use, bytes; over several nodes, their sum.
    pub memory_mean: Option<u64>,
}

impl Processes {
    /// Adds what was used elsewhere at the same time. A part that was measured on one side only stays, as what is known at least.
    pub fn add(&mut self, other: &Self) {
        self.cpu_us = self.cpu_us.saturating_add(other.cpu_us);
        sum(&mut self.user_us, other.user_us);
        sum(&mut self.system_us, other.system_us);
        sum(&mut self.runqueue_us, other.runqueue_us);
        sum(&mut self.major_faults, other.major_faults);
        sum(&mut self.read_bytes, other.read_bytes);
        sum(&mut self.write_bytes, other.write_bytes);
        sum(&mut self.processes, other.processes);
        sum(&mut self.oom_kills, other.oom_kills);
        sum(&mut self.memory_mean, other.memory_mean);
        self.memory_peak = self.memory_peak.max(other.memory_peak);
    }
}

/// A sum in which "not measured" is no number.
fn sum(into: &mut Option<u64>, other: Option<u64>) {
    *into = match (*into, other) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    };
}

/// A step's use of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepUsage {
    /// Job.
    pub job: JobId,
    /// Step.
    pub step: StepKind,
    /// Generation of the job's placement.
    pub generation: Generation,
    /// Node.
    pub node: NodeName,
    /// When the step began here, by the node's clock.
    pub started: Millis,
    /// When it ended here.
    pub ended: Millis,
    /// What its processes used.
    pub used: Processes,
    /// How much of the time was measured, in thousandths.
    pub coverage: u16,
}

/// How long a GPU was busy for a job, and how that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Busy {
    /// µs.
    pub us: u64,
    /// From where.
    pub source: Source,
    /// How well.
    pub quality: Quality,
}

/// A job's use of one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuUsage {
    /// Index in the node's inventory.
    pub index: u32,
    /// Identity: UUID, or PCI address, or empty for a stand-in.
    pub uuid: String,
    /// Model.
    pub model: String,
    /// How long the job held it, µs.
    pub held_us: u64,
    /// How long it was busy; absent if nothing tells.
    pub busy: Option<Busy>,
    /// How its utilization was spread over the time that was measured.
    pub utilization: Histogram,
    /// Whether a process of the job ever had it open; absent if nothing tells.
    pub opened: Option<bool>,
    /// From the grant to the first work, µs.
    pub first_busy_us: Option<u64>,
    /// The longest stretch without work, µs.
    pub longest_idle_us: Option<u64>,
    /// The stretch without work at the end, µs.
    pub trailing_idle_us: Option<u64>,
    /// Most memory of the device in the job's use, bytes.
    pub memory_peak: Option<u64>,
    /// Memory of the device, bytes.
    pub memory_total: Option<u64>,
    /// Energy while the job held it, mJ.
    pub energy_mj: Option<u64>,
    /// Share of the time with a warp on a multiprocessor, in thousandths.
    pub sm_active: Option<u16>,
    /// Time slowed for heat, µs.
    pub throttle_thermal_us: Option<u64>,
    /// Time slowed for power, µs.
    pub throttle_power_us: Option<u64>,
    /// Errors that the driver reported: code and how often.
    pub errors: Vec<DeviceErrors>,
    /// Memory errors corrected.
    pub ecc_corrected: Option<u64>,
    /// Memory errors not corrected.
    pub ecc_uncorrected: Option<u64>,
}

impl GpuUsage {
    /// The time of which something tells how busy it was, µs; absent if nothing tells. What counts events misses nothing of the time
    /// held; what only looks knows nothing of the time in which nobody looked, and that must not pass for idleness.
    pub fn told_us(&self) -> Option<u64> {
        let looked = self.utilization.total().saturating_mul(1000);
        match self.busy?.quality {
            Quality::Sampled | Quality::Estimated if looked > 0 => Some(looked.min(self.held_us)),
            Quality::Exact | Quality::Sampled | Quality::Estimated => Some(self.held_us),
        }
    }

    /// Busy share of the time of which something tells, in thousandths; absent if nothing does, or if it was held for no time.
    pub fn busy_permille(&self) -> Option<u64> {
        permille(self.busy?.us, self.told_us()?)
    }
}

/// `part` of `whole` in thousandths, rounded; absent for nothing of nothing.
pub fn permille(part: u64, whole: u64) -> Option<u64> {
    let (part, whole) = (u128::from(part), u128::from(whole));
    let rounded = (part * 1000 + whole / 2).checked_div(whole)?;
    u64::try_from(rounded).ok()
}

/// Errors of one code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceErrors {
    /// XID, or what the driver has for it.
    pub code: u32,
    /// How often.
    pub count: u64,
}

/// A job's use of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobUsage {
    /// Job.
    pub job: JobId,
    /// Generation of its placement.
    pub generation: Generation,
    /// Node.
    pub node: NodeName,
    /// When the job began here, by the node's clock.
    pub started: Millis,
    /// When it ended here.
    pub ended: Millis,
    /// CPUs that it held here.
    pub cpus: u32,
    /// Memory that it was given here, MiB; 0 for all.
    pub memory_mib: u64,
    /// What all of its processes used.
    pub used: Processes,
    /// GPUs that it held, by index.
    pub gpus: Vec<GpuUsage>,
    /// How much of the time was measured, in thousandths.
    pub coverage: u16,
}

impl JobUsage {
    /// Wall time here, µs.
    pub fn elapsed_us(&self) -> u64 {
        self.ended
            .0
            .saturating_sub(self.started.0)
            .saturating_mul(1000)
    }
}

/// Memory that was used of what was given, on one node: limits are each node's own, so that a sum over nodes says nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// Node.
    pub node: NodeName,
    /// Most in use at a time, bytes.
    pub peak: u64,
    /// Given, bytes.
    pub given: u64,
}

impl MemoryUse {
    fn of(node: &JobUsage) -> Option<Self> {
        Some(Self {
            node: node.node.clone(),
            peak: node.used.memory_peak?,
            given: node
                .memory_mib
                .checked_mul(1 << 20)
                .filter(|given| *given > 0)?,
        })
    }

    /// Used of what was given, in thousandths.
    pub fn permille(&self) -> Option<u64> {
        permille(self.peak, self.given)
    }
}

/// A job over all of its nodes: what `seff`, `sacct` and `spur usage` tell, from one computation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobTotals {
    /// What its processes used.
    pub used: Processes,
    /// CPUs times wall time, µs.
    pub cpu_held_us: u64,
    /// GPUs times wall time, µs.
    pub gpu_held_us: u64,
    /// Busy time of the GPUs for which something tells, µs; absent if for none.
    pub gpu_busy_us: Option<u64>,
    /// Time held of those GPUs, µs.
    pub gpu_told_us: u64,
    /// GPUs held.
    pub gpus: u32,
    /// GPUs that were busy at some time; absent if nothing tells for any.
    pub gpus_used: Option<u32>,
    /// Energy of the GPUs for which something tells, mJ.
    pub gpu_energy_mj: Option<u64>,
    /// Memory given, MiB, over all nodes; 0 if any was given all.
    pub memory_mib: u64,
    /// The node on which its memory was tightest; absent if any node gave it all, or none was measured.
    pub tightest: Option<MemoryUse>,
    /// Utilization of all GPUs.
    pub utilization: Histogram,
    /// The longest stretch in which one of its GPUs was idle, µs.
    pub longest_idle_us: Option<u64>,
    /// Least coverage of any node, in thousandths.
    pub coverage: u16,
    /// Nodes that told.
    pub nodes: u32,
}

impl JobTotals {
    /// Over the nodes of a job.
    pub fn of<'a>(nodes: impl IntoIterator<Item = &'a JobUsage>) -> Self {
        Self::sum(nodes, |_| 0)
    }

    /// The same of a run. While it stood still it used no CPU, nor counts that it held them.
    pub fn of_run(run: &AccountedJob) -> Self {
        Self::sum(&run.nodes, |node| run.job.stopped_ms(node.ended))
    }

    fn sum<'a>(
        nodes: impl IntoIterator<Item = &'a JobUsage>,
        stopped_ms: impl Fn(&JobUsage) -> u64,
    ) -> Self {
        let mut totals = Self {
            coverage: 1000,
            ..Self::default()
        };
        let mut all_memory = false;
        for node in nodes {
            totals.nodes += 1;
            totals.used.add(&node.used);
            let stopped_us = stopped_ms(node).saturating_mul(1000);
            let ran_us = node.elapsed_us().saturating_sub(stopped_us);
            let held = u64::from(node.cpus).saturating_mul(ran_us);
            totals.cpu_held_us = totals.cpu_held_us.saturating_add(held);
            totals.memory_mib = totals.memory_mib.saturating_add(node.memory_mib);
            all_memory |= node.memory_mib == 0;
            let here = MemoryUse::of(node);
            if here.as_ref().and_then(MemoryUse::permille) > totals.memory_permille() {
                totals.tightest = here;
            }
            totals.coverage = totals.coverage.min(node.coverage);
            for gpu in &node.gpus {
                totals.add_gpu(gpu);
            }
        }
        if all_memory {
            totals.memory_mib = 0;
            totals.tightest = None;
        }
        if totals.nodes == 0 {
            totals.coverage = 0;
        }
        totals
    }

    fn add_gpu(&mut self, gpu: &GpuUsage) {
        self.gpus += 1;
        self.gpu_held_us = self.gpu_held_us.saturating_add(gpu.held_us);
        if let Some(busy) = gpu.busy {
            sum(&mut self.gpu_busy_us, Some(busy.us));
            let told = gpu.told_us().unwrap_or(gpu.held_us);
            self.gpu_told_us = self.gpu_told_us.saturating_add(told);
            self.gpus_used = Some(self.gpus_used.unwrap_or(0) + u32::from(busy.us > 0));
        }
        sum(&mut self.gpu_energy_mj, gpu.energy_mj);
        self.utilization.merge(&gpu.utilization);
        self.longest_idle_us = self.longest_idle_us.max(gpu.longest_idle_us);
    }

    /// CPU time of the CPU time held, in thousandths.
    pub fn cpu_permille(&self) -> Option<u64> {
        permille(self.used.cpu_us, self.cpu_held_us)
    }

    /// GPU busy time of the time held, over the GPUs for which something tells, in thousandths.
    pub fn gpu_permille(&self) -> Option<u64> {
        permille(self.gpu_busy_us?, self.gpu_told_us)
    }

    /// Peak memory of what was given on the node where it was tightest, in thousandths; absent if all memory was given or none was
    /// measured.
    pub fn memory_permille(&self) -> Option<u64> {
        self.tightest.as_ref()?.permille()
    }
}

#[cfg(test)]
mod tests;
