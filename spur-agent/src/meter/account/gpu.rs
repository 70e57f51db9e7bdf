//! A job's part of a GPU.
//!
//! Several sources may tell how busy it was; each is added up on its own, and they are never mixed: the best that still tells is
//! what the job's series, its histogram and its idleness go by.

use super::Level;
use crate::meter::device::DeviceLook;
use serde::{Deserialize, Serialize};
use spur_core::id::JobId;
use spur_core::time::Millis;
use spur_core::usage::histogram::Histogram;
use spur_core::usage::idle::{Change, IdlePolicy, Look, Tracker};
use spur_core::usage::metric::{Metric, Quality, SeriesKey, Source, Subject, Value};
use spur_core::usage::summary::{Busy, DeviceErrors, GpuUsage};
use std::collections::BTreeMap;

/// A source that has been silent for so long gives way to the next, ms.
const SILENT: u64 = 5_000;

/// Codes of errors that are told apart; what comes later counts under the last.
const CODES_MAX: usize = 64;

/// Counters of the device whose growth is the job's while it holds the device.
const GROWING: [Metric; 5] = [
    Metric::HwEnergy,
    Metric::HwThrottleThermal,
    Metric::HwThrottlePower,
    Metric::HwEccCorrected,
    Metric::HwEccUncorrected,
];

/// Who tells how busy a GPU was for a job, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Rank {
    /// `drm_sched` events of the job's own work.
    Work,
    /// What DRM clients of its processes say.
    Client,
    /// The vendor's busy time of its processes.
    Process,
    /// The whole device, which only this job holds.
    Device,
    /// A stand-in's file.
    Simulated,
}

/// What a source tells of the time since it told before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusyTold {
    /// Who.
    pub rank: Rank,
    /// From where.
    pub source: Source,
    /// How well.
    pub quality: Quality,
    /// Busy, µs.
    pub us: u64,
    /// Of so much time, ms.
    pub millis: u64,
}

/// A source's word on device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryTold {
    /// Bytes.
    pub bytes: u64,
    /// From where.
    pub source: Source,
    /// How well.
    pub quality: Quality,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sum {
    source: Source,
    quality: Quality,
    us: u64,
    millis: u64,
    last: u64,
}

/// What is kept of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobGpu {
    /// Identity, for the record.
    pub uuid: String,
    /// Model, for the record.
    pub model: String,
    /// Memory of the device, bytes.
    pub memory_total: Option<u64>,
    /// When the job got it, milliseconds since boot.
    pub since: u64,
    /// Until when it was held, milliseconds since boot.
    pub held_until: u64,
    sums: BTreeMap<Rank, Sum>,
    utilization: Histogram,
    tracker: Tracker,
    /// Busy time and time told since the last round, of the source that counts.
    #[serde(skip)]
    pending: (u64, u64),
    looked: u64,
    /// Processes of the job that have it open, if that is known.
    #[serde(skip)]
    pub holders: Option<u64>,
    memory: Level,
    #[serde(skip)]
    memory_now: Option<(MemoryTold, u64)>,
    bases: BTreeMap<Metric, u64>,
    grown: BTreeMap<Metric, (u64, Source, Quality)>,
    sm_active: Level,
    errors: BTreeMap<u32, u64>,
    /// `drm_sched`'s counters, and what they were of groups that are gone.
    work: Option<(u64, u64, u64)>,
    work_over: (u64, u64, u64),
    device_looked: u64,
}

impl JobGpu {
    /// One that is held from `now` on.
    pub fn new(uuid: &str, model: &str, memory_mib: u64, now: u64) -> Self {
        Self {
            uuid: uuid.to_owned(),
            model: model.to_owned(),
            memory_total: (memory_mib > 0).then(|| memory_mib.saturating_mul(1 << 20)),
            since: now,
            held_until: now,
            looked: now,
            device_looked: now,
            ..Self::default()
        }
    }

    /// Adds what a source tells at `now`.
    pub fn tell(&mut self, now: u64, told: BusyTold) {
        let sum = self.sums.entry(told.rank).or_insert(Sum {
            source: told.source,
            quality: told.quality,
            us: 0,
            millis: 0,
            last: now,
        });
        sum.us = sum.us.saturating_add(told.us);
        sum.millis = sum.millis.saturating_add(told.millis);
        sum.last = now;
        if self.telling(now) == Some(told.rank) {
            self.pending.0 = self.pending.0.saturating_add(told.us);
            self.pending.1 = self.pending.1.saturating_add(told.millis);
        }
    }

    /// The best source that is not silent.
    fn telling(&self, now: u64) -> Option<Rank> {
        let telling = self
            .sums
            .iter()
            .find(|(_, sum)| now.saturating_sub(sum.last) < SILENT);
        telling.map(|(rank, _)| *rank)
    }

    /// A group goes whose part of `drm_sched`'s counters this was.
    pub fn work_over(&mut self, work: (u64, u64, u64)) {
        let over = self.work_over;
        self.work_over = (over.0 + work.0, over.1 + work.1, over.2 + work.2);
    }

    /// `drm_sched`'s counters for this job's present groups and device: busy and waiting time in µs, and jobs.
    pub fn take_work(&mut self, now: u64, millis: u64, work: (u64, u64, u64)) {
        let over = self.work_over;
        let work = (over.0 + work.0, over.1 + work.1, over.2 + work.2);
        let before = self.work.replace(work).map_or(0, |before| before.0);
        let told = BusyTold {
            rank: Rank::Work,
            source: Source::DrmSched,
            quality: Quality::Exact,
            us: work.0.saturating_sub(before),
            millis,
        };
        self.tell(now, told);
    }

    /// A look at the device, which the job has to itself, at `now`.
    pub fn take_device(&mut self, now: u64, look: &DeviceLook) {
        let millis = now.saturating_sub(self.device_looked.max(self.since));
        self.device_looked = now;
        for told in look
            .told
            .iter()
            .filter(|told| GROWING.contains(&told.metric))
        {
            let Value::Count(count) = told.value else {
                continue;
            };
            let base = self.bases.insert(told.metric, count).unwrap_or(count);
            // A counter that fell began anew.
            let more = count.checked_sub(base).unwrap_or(count);
            let (grown, source, quality) =
                self.grown
                    .entry(told.metric)
                    .or_insert((0, told.source, told.quality));
            (*grown, *source, *quality) = (grown.saturating_add(more), told.source, told.quality);
        }
        if let Some(active) = look.level(Metric::HwSmActive) {
            self.sm_active.add(active, millis);
        }
        for (code, _) in &look.errors {
            let known = self.errors.len() < CODES_MAX || self.errors.contains_key(code);
            let code = if known { *code } else { u32::MAX };
            *self.errors.entry(code).or_default() += 1;
        }
    }

    /// The device's memory in the job's use at `now`, and for `millis` before. A source gives way to a better one that is not silent.
    pub fn take_memory(&mut self, now: u64, millis: u64, told: MemoryTold) {
        let better = self.memory_now.is_some_and(|(known, at)| {
            (known.quality, known.source) < (told.quality, told.source)
                && now.saturating_sub(at) < SILENT
        });
        if better {
            return;
        }
        self.memory.add(told.bytes, millis.max(1));
        self.memory_now = Some((told, now));
    }

    /// Ends a round of looks at `now`: time held, and the verdict on idleness.
    pub fn tick(&mut self, now: u64, wall: Millis, policy: &IdlePolicy) -> Option<Change> {
        self.held_until = self.held_until.max(now);
        let (us, millis) = std::mem::take(&mut self.pending);
        let silent = now.saturating_sub(self.looked);
        let (busy, millis) = match us.checked_div(millis) {
            Some(share) => (Some(share.min(1000)), millis),
            None if silent >= SILENT && self.telling(now).is_none() => (None, silent),
            None => return None,
        };
        self.looked = now;
        if let Some(share) = busy {
            self.utilization.add(share, millis);
        }
        self.tracker.look(policy, wall, &self.look(busy, millis))
    }

    fn look(&self, busy: Option<u64>, millis: u64) -> Look {
        Look {
            millis,
            busy,
            open: self.holders.map(|holders| holders > 0),
            memory: self.memory_now.map(|(told, _)| told.bytes),
        }
    }

    /// Time held, µs.
    fn held_us(&self) -> u64 {
        self.held_until
            .saturating_sub(self.since)
            .saturating_mul(1000)
    }

    /// The source that the record goes by: the best that told for at least half of the time held, else the one that told most.
    fn busy(&self) -> Option<Busy> {
        let held = self.held_until.saturating_sub(self.since);
        let half = self
            .sums
            .values()
            .find(|sum| sum.millis.saturating_mul(2) >= held);
        let most = || self.sums.values().max_by_key(|sum| sum.millis);
        let sum = half.or_else(most)?;
        Some(Busy {
            us: sum.us.min(self.held_us()),
            source: sum.source,
            quality: sum.quality,
        })
    }

    fn growth(&self, metric: Metric) -> Option<u64> {
        self.grown.get(&metric).map(|(grown, _, _)| *grown)
    }

    /// Its part of the job's record.
    pub fn record(&self, index: u32) -> GpuUsage {
        let us = |millis: Option<u64>| millis.map(|millis| millis.saturating_mul(1000));
        GpuUsage {
            index,
            uuid: self.uuid.clone(),
            model: self.model.clone(),
            held_us: self.held_us(),
            busy: self.busy(),
            utilization: self.utilization.clone(),
            opened: self.tracker.opened(),
            first_busy_us: us(self.tracker.first_work()),
            longest_idle_us: us(self.tracker.longest()),
            trailing_idle_us: us(self.tracker.trailing()),
            memory_peak: self.memory.peak(),
            memory_total: self.memory_total,
            energy_mj: self.growth(Metric::HwEnergy),
            sm_active: self
                .sm_active
                .mean()
                .and_then(|mean| u16::try_from(mean).ok()),
            throttle_thermal_us: self.growth(Metric::HwThrottleThermal),
            throttle_power_us: self.growth(Metric::HwThrottlePower),
            errors: self
                .errors
                .iter()
                .map(|(code, count)| DeviceErrors {
                    code: *code,
                    count: *count,
                })
                .collect(),
            ecc_corrected: self.growth(Metric::HwEccCorrected),
            ecc_uncorrected: self.growth(Metric::HwEccUncorrected),
        }
    }

    /// Its series, in the order of metrics.
    pub fn series(&self, job: JobId, index: u32, now: u64, into: &mut Vec<(SeriesKey, Value)>) {
        let subject = Subject::JobGpu(job, index);
        let mut tell = |metric, source, quality, value| {
            let key = SeriesKey {
                subject,
                metric,
                source,
                quality,
            };
            into.push((key, value));
        };
        tell(
            Metric::GpuHeldTime,
            Source::Grants,
            Quality::Exact,
            Value::Count(self.held_us()),
        );
        if let Some(sum) = self.telling(now).and_then(|rank| self.sums.get(&rank)) {
            tell(
                Metric::GpuBusyTime,
                sum.source,
                sum.quality,
                Value::Count(sum.us),
            );
        }
        if let Some((told, _)) = self
            .memory_now
            .filter(|(_, at)| now.saturating_sub(*at) < SILENT)
            && let Ok(bytes) = i64::try_from(told.bytes)
        {
            tell(
                Metric::GpuJobMemory,
                told.source,
                told.quality,
                Value::level(bytes),
            );
        }
        if let Some((grown, source, quality)) = self.grown.get(&Metric::HwEnergy) {
            tell(
                Metric::GpuJobEnergy,
                *source,
                *quality,
                Value::Count(*grown),
            );
        }
        if let Some(holders) = self.holders.and_then(|holders| i64::try_from(holders).ok()) {
            tell(
                Metric::GpuHolders,
                Source::Agent,
                Quality::Sampled,
                Value::level(holders),
            );
        }
        if let Some((_, queue, jobs)) = self.work {
            tell(
                Metric::GpuWork,
                Source::DrmSched,
                Quality::Exact,
                Value::Count(jobs),
            );
            tell(
                Metric::GpuQueueTime,
                Source::DrmSched,
                Quality::Exact,
                Value::Count(queue),
            );
        }
    }

    /// Nobody looked until `now`: what is known by looking only is not known of that time.
    pub fn resume(&mut self, now: u64) {
        self.looked = now;
        self.device_looked = now;
        self.pending = (0, 0);
    }
}

#[cfg(test)]
mod tests;
