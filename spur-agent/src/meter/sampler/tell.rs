//! What the sampler hands on: readings, records, and what a restarted meter needs.

use super::{BACKLOG_MAX, SAVE_EVERY, Sampler};
use crate::meter::outlet::{Emit, Moment};
use crate::meter::state::Saved;
use crate::meter::stream::Item;
use crate::meter::window::sorted;
use crate::node::now as wall;
use crate::sys::clock;
use spur_core::id::JobId;
use spur_core::usage::metric::{Metric, Quality, SeriesKey, Source, Subject, Value};
use spur_core::usage::words::{UsageEvent, UsageEventKind, UsageRecord};
use std::sync::PoisonError;

impl Sampler {
    /// Hands on the reading of the last `millis` milliseconds.
    pub(super) fn tell(&mut self, now: u64, millis: u64) {
        let moment = Moment {
            at: wall(),
            uptime: now,
        };
        let values = self.values(now);
        self.own.told = values.len();
        // What goes out is kept as it is; only when that does not follow on what is kept is it encoded once more.
        let mut ring = self
            .ends
            .ring
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let kept = (!ring.follows(self.outlet.sequence() + 1)).then(|| values.clone());
        // One place is kept for each record that may come with it.
        let room = self.ends.items.capacity() > 1;
        let link = self.ends.shared.link(room);
        let emit = self.outlet.take(values, millis, moment, link);
        match (&emit, &kept) {
            (Some(Emit::Live(batch)), _) if ring.push_live(batch) => {}
            (_, Some(values)) => ring.push(values, millis, moment),
            (Some(Emit::Spool(reading)), None) => ring.push(&reading.values, millis, moment),
            (Some(Emit::Live(_)) | None, None) => ring.push(self.outlet.pending(), millis, moment),
        }
        drop(ring);
        let item = match emit {
            Some(Emit::Live(batch)) => Item::Live(batch),
            Some(Emit::Spool(reading)) => Item::Spool(reading),
            None => return,
        };
        if self.ends.items.try_send(item).is_err() {
            self.own.lost += 1;
        }
    }

    /// All values, in the order of their keys.
    fn values(&self, now: u64) -> Vec<(SeriesKey, Value)> {
        let mut all = Vec::with_capacity(self.own.told + self.own.told / 8);
        self.own_values(&mut all);
        for (gpu, device) in self
            .devices
            .iter()
            .filter(|(_, device)| device.is_fresh(now))
        {
            let from = all.len();
            let mut tell = |metric, source, quality, value| {
                let subject = Subject::Gpu(*gpu);
                all.push((
                    SeriesKey {
                        subject,
                        metric,
                        source,
                        quality,
                    },
                    value,
                ));
            };
            if let Some((us, source, quality)) = device.busy {
                tell(Metric::HwBusyTime, source, quality, Value::Count(us));
            }
            if let Some(errors) = device.errors {
                tell(
                    Metric::HwErrors,
                    Source::Nvml,
                    Quality::Exact,
                    Value::Count(errors),
                );
            }
            let told = |metric| device.look.told.iter().any(|told| told.metric == metric);
            if let Some(busy) = device.look.busy.filter(|_| !told(Metric::HwUtilization)) {
                let value = Value::level(i64::from(busy.permille));
                tell(Metric::HwUtilization, busy.source, busy.quality, value);
            }
            for told in &device.look.told {
                tell(told.metric, told.source, told.quality, told.value);
            }
            sort_tail(&mut all, from);
        }
        for (job, present) in &self.jobs {
            for (kind, step) in &present.job.steps {
                step.series(*job, *kind, &mut all);
            }
        }
        for (job, present) in &self.jobs {
            for (index, gpu) in &present.job.gpus {
                gpu.series(*job, *index, now, &mut all);
            }
        }
        all
    }

    /// What the agent costs, and how the meter does.
    fn own_values(&self, all: &mut Vec<(SeriesKey, Value)>) {
        let children: (u64, u64) = self.sources.iter().fold((0, 0), |sum, source| {
            let (cpu, memory) = source.latest.cost();
            // Threads of our own are in the process's time already.
            if memory > 0 {
                (sum.0 + cpu, sum.1 + memory)
            } else {
                sum
            }
        });
        let cpu = u64::try_from(clock::process_cpu().as_micros()).unwrap_or(u64::MAX);
        let lost = self.own.lost
            + self.outlet.left_out()
            + self.kernel.lost()
            + self.ends.shared.dropped();
        let rate: u64 = self.own.rates.iter().sum();
        let level = |value: u64| Value::level(i64::try_from(value).unwrap_or(i64::MAX));
        let own = [
            (Metric::AgentCpuTime, Some(Value::Count(cpu + children.0))),
            (
                Metric::AgentMemory,
                Some(level(self.own.memory + children.1)),
            ),
            (Metric::AgentOverruns, Some(Value::Count(self.own.overruns))),
            (Metric::AgentLost, Some(Value::Count(lost))),
            (
                Metric::AgentSpool,
                Some(level(self.ends.shared.spool_bytes())),
            ),
            (
                Metric::AgentRate,
                (!self.own.rates.is_empty())
                    .then(|| level(rate * 10 / self.own.rates.len() as u64)),
            ),
            (
                Metric::AgentLevel,
                Some(level(u64::from(self.governor.level()))),
            ),
            (Metric::AgentBpfTime, self.own.bpf.map(Value::Count)),
        ];
        let key = |metric| SeriesKey {
            subject: Subject::Node,
            metric,
            source: Source::Agent,
            quality: Quality::Exact,
        };
        all.extend(
            own.into_iter()
                .filter_map(|(metric, value)| Some((key(metric), value?))),
        );
    }

    /// Something happened.
    pub(super) fn event(&mut self, job: Option<JobId>, gpu: Option<u32>, what: UsageEventKind) {
        tracing::info!(job = job.map(|job| job.0), gpu, ?what, "usage");
        let event = UsageEvent {
            at: wall(),
            job,
            gpu,
            what,
        };
        self.record(UsageRecord::Event(event));
    }

    /// Hands a record on, now or as soon as it is taken.
    pub(super) fn record(&mut self, record: UsageRecord) {
        self.backlog.push_back(record);
        if self.backlog.len() > BACKLOG_MAX {
            let event = self
                .backlog
                .iter()
                .position(|record| matches!(record, UsageRecord::Event(_)));
            self.backlog.remove(event.unwrap_or(0));
            self.own.lost += 1;
        }
        self.flush();
    }

    pub(super) fn flush(&mut self) {
        while let Ok(place) = self.ends.items.try_reserve() {
            let Some(record) = self.backlog.pop_front() else {
                return;
            };
            place.send(Item::Record(Box::new(record)));
        }
    }

    /// Hands on what a restarted meter needs.
    pub(super) fn save(&mut self, now: u64) {
        (self.times.save, self.times.saved) = (now + SAVE_EVERY, now);
        let unnamed = self
            .saved
            .jobs
            .iter()
            .map(|(job, kept)| (*job, kept.clone()));
        let here = self
            .jobs
            .iter()
            .map(|(job, present)| (*job, present.job.clone()));
        let saved = Saved {
            boot_id: self.saved.boot_id.clone(),
            jobs: unnamed.chain(here).collect(),
            done: self.saved.done.clone(),
        };
        // A full queue: the next one will do.
        drop(self.ends.items.try_send(Item::Save(saved.encode())));
    }
}

/// Brings what was told of one device into its order; of a key that was told twice the first counts.
fn sort_tail(all: &mut Vec<(SeriesKey, Value)>, from: usize) {
    let tail = sorted(all.split_off(from));
    all.extend(tail);
}
