//! A job's part of one node, as measured so far: newest values, what can only be told from watching, and the end of its series.

use super::Holder;
use super::lane::OfJob;
use super::readings::Readings;
use super::tail::{Entry, Tail, TailBatch, Which};
use spur_core::api::SeriesKind;
use spur_core::id::{Generation, JobId, NodeName, StepKind};
use spur_core::resources::Gpu;
use spur_core::time::Millis;
use spur_core::usage::histogram::Histogram;
use spur_core::usage::metric::{Metric, Value};
use spur_core::usage::summary::{Busy, GpuUsage, Processes};
use spur_core::usage::words::Batch;
use std::collections::BTreeMap;

/// Most steps of one part.
const STEPS_MAX: usize = 10_000;
/// A share of busy time up to this is no work, thousandths; as the nodes' own rule has it unless configured.
const IDLE_SHARE: u64 = 10;
/// How far a node's clock may be ahead, ms: what is said to be later belongs to no series.
const AHEAD_MAX: u64 = 3_600_000;

/// Part of a job.
#[derive(Debug)]
pub(in crate::usage) struct Part {
    holder: Holder,
    steps: BTreeMap<StepKind, OfStep>,
    gpus: BTreeMap<u32, OfGpu>,
    tail: Tail,
}

/// A step's part.
#[derive(Debug, Default)]
struct OfStep {
    readings: Readings,
    /// Memory times milliseconds, and milliseconds.
    memory: (u128, u64),
    peak: Option<u64>,
}

/// A GPU of the job.
#[derive(Debug, Default)]
struct OfGpu {
    readings: Readings,
    spread: Histogram,
    opened: Option<bool>,
    peak: Option<u64>,
    idle_now: u64,
    idle_longest: Option<u64>,
    first_busy: Option<u64>,
    /// Busy share of the newest batch, thousandths.
    busy: Option<u16>,
}

fn whole(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

impl Part {
    /// Nothing yet.
    pub(super) fn new(holder: Holder) -> Self {
        Self {
            holder,
            steps: BTreeMap::new(),
            gpus: BTreeMap::new(),
            tail: Tail::default(),
        }
    }

    /// A later placement begins anew.
    pub(super) fn renew(&mut self, holder: Holder) {
        if holder.generation != self.holder.generation {
            *self = Self::new(holder);
        }
    }

    /// Generation of the placement.
    pub(in crate::usage) fn generation(&self) -> Generation {
        self.holder.generation
    }

    /// Takes a batch's values in.
    pub(super) fn take(&mut self, batch: &Batch, of: &OfJob) {
        let (span, until) = (
            u64::from(batch.span),
            batch.at.0.saturating_sub(self.holder.started.0),
        );
        let latest = crate::driver::now().0.saturating_add(AHEAD_MAX);
        let span = span.min(until.max(1));
        let mut memory: Option<(i64, i64, i64)> = None;
        for (step, key, value) in &of.steps {
            if !self.steps.contains_key(step) && self.steps.len() >= STEPS_MAX {
                continue;
            }
            let known = self.steps.entry(*step).or_default();
            if !batch.late {
                known.readings.put(*key, *value);
            }
            if let (Metric::Memory, Value::Level { mean, min, max }) = (key.metric, *value) {
                known.memory.0 += u128::from(whole(mean)) * u128::from(span);
                known.memory.1 = known.memory.1.saturating_add(span);
                known.peak = known.peak.max(Some(whole(max)));
                let sum = memory.unwrap_or_default();
                memory = Some((
                    sum.0.saturating_add(mean),
                    sum.1.saturating_add(min),
                    sum.2.saturating_add(max),
                ));
            }
        }
        if batch.at.0 > latest {
            return;
        }
        if let Some(cpu_us) = of.cpu_us {
            let milli = i64::try_from(cpu_us / span.max(1)).unwrap_or(i64::MAX);
            let milli = milli.min(i64::from(self.holder.cpus.max(1)).saturating_mul(1000));
            self.tail
                .add((SeriesKind::Cpu, None), until, span, (milli, milli, milli));
        }
        if let Some(seen) = memory {
            self.tail.add((SeriesKind::Memory, None), until, span, seen);
        }
        self.take_gpus(batch, of, (until, span));
    }

    fn take_gpus(&mut self, batch: &Batch, of: &OfJob, (until, span): (u64, u64)) {
        for (gpu, key, value) in &of.gpus {
            let known = self.gpus.entry(*gpu).or_default();
            if !batch.late {
                known.readings.put(*key, *value);
            }
            match (key.metric, *value) {
                (Metric::GpuHolders, Value::Level { max, .. }) => {
                    known.opened = Some(known.opened.unwrap_or(false) || max > 0);
                }
                (Metric::GpuJobMemory, Value::Level { mean, min, max }) => {
                    known.peak = known.peak.max(Some(whole(max)));
                    let which = (SeriesKind::GpuMemory, Some(*gpu));
                    self.tail.add(which, until, span, (mean, min, max));
                }
                _ => {}
            }
        }
        for (gpu, busy_us) in &of.busy_us {
            let share = (busy_us / span.max(1)).min(1000);
            let known = self.gpus.entry(*gpu).or_default();
            known.work(share, span, until, !batch.late);
            let share = i64::try_from(share).unwrap_or(1000);
            let which = (SeriesKind::GpuBusy, Some(*gpu));
            self.tail.add(which, until, span, (share, share, share));
        }
    }

    /// Whether its series are due to be written.
    pub(super) fn is_due(&self) -> bool {
        self.tail.is_due()
    }

    /// Takes the end of its series.
    pub(super) fn tail(&mut self, job: JobId, node: &NodeName) -> Option<TailBatch> {
        let series = self.tail.take();
        (!series.is_empty()).then(|| TailBatch {
            job,
            generation: self.holder.generation,
            node: node.clone(),
            series,
        })
    }

    /// Looks at the end of its series.
    pub(in crate::usage) fn entries(&self) -> &BTreeMap<Which, Vec<Entry>> {
        self.tail.entries()
    }

    /// What a step's processes used so far; `None` if nothing tells.
    pub(in crate::usage) fn step(&self, step: StepKind) -> Option<Processes> {
        self.steps.get(&step).map(OfStep::used)
    }

    /// What all of its processes used so far; `None` if nothing tells.
    pub(in crate::usage) fn used(&self) -> Option<Processes> {
        let mut steps = self.steps.values().map(OfStep::used);
        let mut sum = steps.next()?;
        for step in steps {
            sum.add(&step);
        }
        Some(sum)
    }

    /// Use of a GPU so far; `None` if nothing tells.
    pub(in crate::usage) fn gpu(&self, gpu: &Gpu, now: Millis) -> Option<GpuUsage> {
        let known = self.gpus.get(&gpu.index)?;
        let elapsed = now.0.saturating_sub(self.holder.started.0) * 1000;
        Some(known.used(gpu, elapsed))
    }

    /// Busy share of a GPU in the newest batch, and the job's memory on it.
    pub(in crate::usage) fn gpu_now(&self, gpu: u32) -> (Option<u16>, Option<u64>) {
        let Some(known) = self.gpus.get(&gpu) else {
            return (None, None);
        };
        let memory = match known.readings.value(Metric::GpuJobMemory) {
            Some(Value::Level { mean, .. }) => Some(whole(mean)),
            Some(Value::Count(_)) | None => None,
        };
        (known.busy, memory)
    }
}

impl OfStep {
    fn used(&self) -> Processes {
        let count = |metric| self.readings.count(metric);
        let peak = match self.readings.value(Metric::MemoryPeak) {
            Some(Value::Level { max, .. }) => Some(whole(max)),
            Some(Value::Count(_)) | None => None,
        };
        let mean = self.memory.0.checked_div(u128::from(self.memory.1));
        Processes {
            cpu_us: count(Metric::CpuTime).unwrap_or(0),
            user_us: count(Metric::CpuUserTime),
            system_us: count(Metric::CpuSystemTime),
            runqueue_us: count(Metric::CpuRunqueueTime),
            major_faults: count(Metric::MajorFaults),
            read_bytes: count(Metric::DiskReadBytes),
            write_bytes: count(Metric::DiskWriteBytes),
            processes: count(Metric::ProcessStarts),
            oom_kills: count(Metric::OomKills),
            memory_peak: peak.max(self.peak),
            memory_mean: mean.and_then(|mean| u64::try_from(mean).ok()),
        }
    }
}

impl OfGpu {
    /// It was busy for this share of `span` ms that ended `until` ms after the start.
    fn work(&mut self, share: u64, span: u64, until: u64, live: bool) {
        self.spread.add(share, span);
        if live {
            self.busy = u16::try_from(share).ok();
        }
        if share > IDLE_SHARE {
            self.idle_now = 0;
            self.first_busy.get_or_insert(until);
        } else {
            self.idle_now = self.idle_now.saturating_add(span);
        }
        self.idle_longest = self.idle_longest.max(Some(self.idle_now));
    }

    fn used(&self, gpu: &Gpu, elapsed_us: u64) -> GpuUsage {
        let count = |metric| self.readings.count(metric);
        let micros = |millis: u64| millis.saturating_mul(1000);
        let busy = self.readings.get(Metric::GpuBusyTime);
        let busy = busy.and_then(|reading| match reading.value {
            Value::Count(us) => Some(Busy {
                us,
                source: reading.source,
                quality: reading.quality,
            }),
            Value::Level { .. } => None,
        });
        let identity = if gpu.uuid.is_empty() {
            &gpu.pci
        } else {
            &gpu.uuid
        };
        GpuUsage {
            index: gpu.index,
            uuid: identity.clone(),
            model: gpu.model.clone(),
            held_us: count(Metric::GpuHeldTime).unwrap_or(elapsed_us),
            busy,
            utilization: self.spread.clone(),
            opened: self.opened,
            first_busy_us: self.first_busy.map(micros),
            longest_idle_us: self.idle_longest.map(micros),
            trailing_idle_us: self.idle_longest.map(|_| micros(self.idle_now)),
            memory_peak: self.peak,
            memory_total: Some(gpu.memory_mib << 20).filter(|bytes| *bytes > 0),
            energy_mj: count(Metric::GpuJobEnergy),
            sm_active: None,
            throttle_thermal_us: None,
            throttle_power_us: None,
            errors: Vec::new(),
            ecc_corrected: None,
            ecc_uncorrected: None,
        }
    }
}
