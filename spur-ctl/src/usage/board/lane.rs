//! One lane of a node's stream: batches in, each once, and what of them concerns jobs and devices out.

use super::readings::rank;
use spur_core::id::{JobId, StepKind};
use spur_core::usage::codec::{BadBatch, Decoder};
use spur_core::usage::metric::{Metric, SeriesKey, Subject, Value};
use spur_core::usage::words::Batch;
use std::collections::BTreeMap;

/// What came of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::usage) struct Taken {
    /// It was new.
    pub(in crate::usage) fresh: bool,
    /// Jobs in it that the node does not hold.
    pub(in crate::usage) refused: u64,
    /// How busy devices were lately, if that is to be told.
    pub(in crate::usage) recent: Option<Vec<(u32, u16)>>,
}

/// What a batch says of a job's part, by the best source of each metric.
#[derive(Clone, Debug, Default)]
pub(super) struct OfJob {
    /// Values of steps that changed or are there.
    pub(super) steps: Vec<(StepKind, SeriesKey, Value)>,
    /// Values of GPUs.
    pub(super) gpus: Vec<(u32, SeriesKey, Value)>,
    /// CPU time in this batch, µs; absent where nothing tells.
    pub(super) cpu_us: Option<u64>,
    /// Busy time of GPUs in this batch, µs.
    pub(super) busy_us: BTreeMap<u32, u64>,
}

/// What a batch says.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// Of jobs.
    pub(super) jobs: BTreeMap<JobId, OfJob>,
    /// Of devices.
    pub(super) devices: Vec<(u32, SeriesKey, Value)>,
    /// Busy shares of devices in this batch, thousandths.
    pub(super) busy: BTreeMap<u32, u64>,
}

/// A lane.
#[derive(Debug, Default)]
pub(super) struct Lane {
    decoder: Decoder,
    /// The best series of each subject and metric.
    best: BTreeMap<(Subject, Metric), SeriesKey>,
    /// Readings of the counters whose rates are wanted.
    before: BTreeMap<SeriesKey, u64>,
    /// The node's uptime at the end of the last batch, ms.
    uptime: u64,
}

/// How far two batches may lie apart and still follow each other, ms.
const SLACK: u64 = 500;

/// Counters whose increase from batch to batch is wanted.
fn is_rate(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::CpuTime | Metric::GpuBusyTime | Metric::HwBusyTime
    )
}

impl Lane {
    /// The last batch that was taken; 0 for none.
    pub(super) fn last(&self) -> u64 {
        self.decoder.last()
    }

    /// Takes a batch; `None` if it was taken before.
    pub(super) fn take(&mut self, batch: &Batch) -> Result<Option<Sample>, BadBatch> {
        if batch.sequence <= self.decoder.last() {
            return Ok(None);
        }
        let decoded = match self.decoder.decode(batch) {
            Ok(decoded) => decoded,
            Err(bad) => {
                *self = Self::default();
                return Err(bad);
            }
        };
        // What was counted in a time that this lane does not cover belongs to no batch of it.
        let begins = batch.uptime.saturating_sub(u64::from(batch.span));
        if begins > self.uptime.saturating_add(SLACK) {
            self.before.clear();
        }
        self.uptime = batch.uptime;
        self.choose(batch, &decoded.ended);
        Ok(Some(self.sample(batch)))
    }

    /// Keeps the best series of each metric up to date.
    fn choose(&mut self, batch: &Batch, ended: &[SeriesKey]) {
        for key in ended {
            self.before.remove(key);
            let of = (key.subject, key.metric);
            if self.best.get(&of) == Some(key) {
                self.best.remove(&of);
                let rest = self.decoder.current().map(|(key, _)| key);
                let rest = rest.filter(|other| (other.subject, other.metric) == of);
                if let Some(next) = rest.min_by_key(rank) {
                    self.best.insert(of, next);
                }
            }
        }
        for name in &batch.names {
            let key = name.key;
            let best = self.best.entry((key.subject, key.metric)).or_insert(key);
            if rank(&key) < rank(best) {
                *best = key;
            }
            // What a series counted before it was first heard of belongs to no batch, unless it began in this one.
            if is_rate(key.metric) && !batch.keyframe {
                self.before.insert(key, 0);
            }
        }
    }

    fn sample(&mut self, batch: &Batch) -> Sample {
        let mut sample = Sample::default();
        for (key, value) in self.decoder.current() {
            if self.best.get(&(key.subject, key.metric)) != Some(&key) {
                continue;
            }
            let grown = match value {
                Value::Count(now) if is_rate(key.metric) => {
                    let before = self.before.insert(key, now);
                    before.map(|before| now.saturating_sub(before))
                }
                Value::Count(_) | Value::Level { .. } => None,
            };
            sample.note(batch, key, value, grown);
        }
        sample
    }
}

impl Sample {
    fn note(&mut self, batch: &Batch, key: SeriesKey, value: Value, grown: Option<u64>) {
        match key.subject {
            Subject::Node => {}
            Subject::Gpu(gpu) => {
                let span = u64::from(batch.span).max(1);
                let share = match (key.metric, value, grown) {
                    (Metric::HwUtilization, Value::Level { mean, .. }, _) => {
                        u64::try_from(mean).ok()
                    }
                    (Metric::HwBusyTime, _, Some(grown)) if !self.busy.contains_key(&gpu) => {
                        Some(grown / span)
                    }
                    _ => None,
                };
                if let Some(share) = share {
                    self.busy.insert(gpu, share.min(1000));
                }
                self.devices.push((gpu, key, value));
            }
            Subject::Step(job, step) => {
                let of = self.jobs.entry(job).or_default();
                if let (Metric::CpuTime, Some(grown)) = (key.metric, grown) {
                    of.cpu_us = Some(of.cpu_us.unwrap_or(0).saturating_add(grown));
                }
                of.steps.push((step, key, value));
            }
            Subject::JobGpu(job, gpu) => {
                let of = self.jobs.entry(job).or_default();
                if let (Metric::GpuBusyTime, Some(grown)) = (key.metric, grown) {
                    of.busy_us.insert(gpu, grown);
                }
                of.gpus.push((gpu, key, value));
            }
        }
    }
}
