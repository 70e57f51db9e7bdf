//! What hollow nodes say that their jobs use: made up, and called simulated in every view.

use crate::meter::window::{Values, sorted};
use spur_core::event::NodeHello;
use spur_core::id::{Generation, JobId, StepKind};
use spur_core::resources::NodeShare;
use spur_core::time::Millis;
use spur_core::usage::histogram::Histogram;
use spur_core::usage::metric::{Metric, Quality, SeriesKey, Source, Subject, Value};
use spur_core::usage::summary::{Busy, GpuUsage, JobUsage, Processes, StepUsage};
use spur_core::usage::words::UsageRecord;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Records that wait for the controller; beyond, the oldest is dropped.
const RECORDS_MAX: usize = 10_000;

/// A GPU that works takes so much, and one that rests, mW.
const POWER: (u64, u64) = (550_000, 90_000);

#[derive(Debug)]
struct Job {
    generation: Generation,
    share: NodeShare,
    since: Millis,
    steps: BTreeMap<StepKind, Millis>,
}

/// A node's made-up use.
#[derive(Debug)]
pub(super) struct Made {
    hello: Arc<NodeHello>,
    spool: String,
    jobs: BTreeMap<JobId, Job>,
    records: BTreeMap<u64, UsageRecord>,
    next: u64,
}

/// A number that looks like chance and is the same each time (splitmix64).
fn noise(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// How busy a job keeps a GPU, in thousandths: every fourth GPU of a job rests.
fn share_of(job: JobId, gpu: u32) -> u64 {
    match noise(u64::from(job.0) << 32 | u64::from(gpu)) {
        chance if chance.is_multiple_of(4) => 0,
        chance => 500 + chance % 500,
    }
}

fn millis(since: Millis, now: Millis) -> u64 {
    now.0.saturating_sub(since.0)
}

impl Made {
    pub(super) fn new(hello: Arc<NodeHello>, spool: String) -> Self {
        Self {
            hello,
            spool,
            jobs: BTreeMap::new(),
            records: BTreeMap::new(),
            next: 1,
        }
    }

    pub(super) fn job_begins(
        &mut self,
        job: JobId,
        generation: Generation,
        share: NodeShare,
        now: Millis,
    ) {
        let begun = Job {
            generation,
            share,
            since: now,
            steps: BTreeMap::new(),
        };
        self.jobs.insert(job, begun);
    }

    pub(super) fn step_begins(&mut self, job: JobId, step: StepKind, now: Millis) {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.steps.insert(step, now);
        }
    }

    pub(super) fn step_ends(&mut self, job: JobId, step: StepKind, now: Millis) {
        let Some(entry) = self.jobs.get_mut(&job) else {
            return;
        };
        let Some(since) = entry.steps.remove(&step) else {
            return;
        };
        let record = StepUsage {
            job,
            step,
            generation: entry.generation,
            node: self.hello.name.clone(),
            started: since,
            ended: now,
            used: processes(&entry.share, millis(since, now)),
            coverage: 1000,
        };
        self.record(UsageRecord::Step(record));
    }

    pub(super) fn job_ends(&mut self, job: JobId, now: Millis) {
        let Some(entry) = self.jobs.remove(&job) else {
            return;
        };
        let held = millis(entry.since, now);
        let gpus = entry
            .share
            .gpus
            .iter()
            .map(|gpu| self.gpu(job, gpu, held))
            .collect();
        let record = JobUsage {
            job,
            generation: entry.generation,
            node: self.hello.name.clone(),
            started: entry.since,
            ended: now,
            cpus: entry.share.cpus.len(),
            memory_mib: entry.share.memory_mib,
            used: processes(&entry.share, held),
            gpus,
            coverage: 1000,
        };
        self.record(UsageRecord::Job(record));
    }

    fn gpu(&self, job: JobId, index: u32, held: u64) -> GpuUsage {
        let share = share_of(job, index);
        let mut utilization = Histogram::default();
        utilization.add(share, held);
        let known = usize::try_from(index)
            .ok()
            .and_then(|at| self.hello.inventory.gpus.get(at));
        let memory = known.map_or(0, |gpu| gpu.memory_mib << 20);
        let idle = if share == 0 { held * 1000 } else { 0 };
        GpuUsage {
            index,
            uuid: known.map(|gpu| gpu.uuid.clone()).unwrap_or_default(),
            model: known.map(|gpu| gpu.model.clone()).unwrap_or_default(),
            held_us: held * 1000,
            busy: Some(Busy {
                us: share * held,
                source: Source::Simulated,
                quality: Quality::Estimated,
            }),
            utilization,
            opened: None,
            first_busy_us: (share > 0).then_some(0),
            longest_idle_us: Some(idle),
            trailing_idle_us: Some(idle),
            memory_peak: Some(memory / 1000 * share),
            memory_total: Some(memory).filter(|bytes| *bytes > 0),
            energy_mj: Some(power(share) * held / 1000),
            sm_active: None,
            throttle_thermal_us: None,
            throttle_power_us: None,
            errors: Vec::new(),
            ecc_corrected: None,
            ecc_uncorrected: None,
        }
    }

    fn record(&mut self, record: UsageRecord) {
        self.records.insert(self.next, record);
        self.next += 1;
        while self.records.len() > RECORDS_MAX {
            self.records.pop_first();
        }
    }

    /// Records after `number`, at most `most`, with the name of their spool.
    pub(super) fn after(&self, number: u64, most: usize) -> (String, Vec<(u64, UsageRecord)>) {
        let range = self.records.range(number + 1..).take(most);
        (
            self.spool.clone(),
            range
                .map(|(number, record)| (*number, record.clone()))
                .collect(),
        )
    }

    /// The controller has every record up to this one.
    pub(super) fn acked(&mut self, number: u64) {
        self.records = self.records.split_off(&(number + 1));
    }

    /// All values at `now`, about as many as a real node of this size has. `second` moves what moves.
    pub(super) fn values(&self, now: Millis, second: u64) -> Values {
        let mut all = Vec::new();
        let holders: BTreeMap<u32, JobId> = self
            .jobs
            .iter()
            .flat_map(|(job, entry)| entry.share.gpus.iter().map(|gpu| (gpu, *job)))
            .collect();
        let ours: BTreeSet<u32> = self
            .hello
            .inventory
            .gpus
            .iter()
            .map(|gpu| gpu.index)
            .collect();
        for gpu in ours {
            let share = holders.get(&gpu).map_or(0, |job| share_of(*job, gpu));
            device(gpu, share, second, &mut all);
        }
        for (job, entry) in &self.jobs {
            for (step, since) in &entry.steps {
                processes_series(
                    Subject::Step(*job, *step),
                    &entry.share,
                    millis(*since, now),
                    second,
                    &mut all,
                );
            }
            for gpu in entry.share.gpus.iter() {
                let held = millis(entry.since, now);
                let subject = Subject::JobGpu(*job, gpu);
                all.push((key(subject, Metric::GpuHeldTime), Value::Count(held * 1000)));
                all.push((
                    key(subject, Metric::GpuBusyTime),
                    Value::Count(held * share_of(*job, gpu)),
                ));
                all.push((
                    key(subject, Metric::GpuJobEnergy),
                    Value::Count(power(share_of(*job, gpu)) * held / 1000),
                ));
            }
        }
        sorted(all)
    }
}

fn power(share: u64) -> u64 {
    POWER.1 + (POWER.0 - POWER.1) * share / 1000
}

fn processes(share: &NodeShare, millis: u64) -> Processes {
    let cpu = u64::from(share.cpus.len()) * millis * 700;
    Processes {
        cpu_us: cpu,
        user_us: Some(cpu / 10 * 9),
        system_us: Some(cpu / 10),
        processes: Some(1),
        oom_kills: Some(0),
        memory_peak: Some((share.memory_mib << 20) / 3),
        memory_mean: Some((share.memory_mib << 20) / 4),
        ..Processes::default()
    }
}

fn key(subject: Subject, metric: Metric) -> SeriesKey {
    SeriesKey {
        subject,
        metric,
        source: Source::Simulated,
        quality: Quality::Estimated,
    }
}

fn level(value: u64) -> Value {
    Value::level(i64::try_from(value).unwrap_or(i64::MAX))
}

fn device(gpu: u32, share: u64, second: u64, all: &mut Vec<(SeriesKey, Value)>) {
    let subject = Subject::Gpu(gpu);
    let jitter = noise(second << 16 | u64::from(gpu)) % 40;
    let now = if share == 0 {
        0
    } else {
        (share + jitter).min(1000)
    };
    let values = [
        (Metric::HwBusyTime, Value::Count(second * share * 1000)),
        (Metric::HwUtilization, level(now)),
        (Metric::HwMemory, level(share << 27)),
        (Metric::HwPower, level(power(now) + jitter * 100)),
        (Metric::HwEnergy, Value::Count(second * power(share))),
        (Metric::HwTemperature, level(35_000 + now * 30)),
        (
            Metric::HwClock,
            level(if share == 0 { 345 } else { 1_900 + jitter }),
        ),
    ];
    all.extend(values.map(|(metric, value)| (key(subject, metric), value)));
}

fn processes_series(
    subject: Subject,
    share: &NodeShare,
    millis: u64,
    second: u64,
    all: &mut Vec<(SeriesKey, Value)>,
) {
    let used = processes(share, millis);
    let jitter = noise(second) % 4096;
    let values = [
        (Metric::CpuTime, Value::Count(used.cpu_us)),
        (Metric::CpuUserTime, Value::Count(used.user_us.unwrap_or(0))),
        (
            Metric::CpuSystemTime,
            Value::Count(used.system_us.unwrap_or(0)),
        ),
        (Metric::CpuRunqueueTime, Value::Count(millis * 3)),
        (Metric::CpuSwitches, Value::Count(millis / 7)),
        (Metric::MinorFaults, Value::Count(millis / 2)),
        (Metric::ProcessStarts, Value::Count(1)),
        (Metric::DiskReadBytes, Value::Count(millis * 4096)),
        (Metric::DiskWriteBytes, Value::Count(millis * 512)),
        (Metric::OomKills, Value::Count(0)),
        (
            Metric::Memory,
            level(used.memory_mean.unwrap_or(0) + jitter * 4096),
        ),
        (Metric::MemoryPeak, level(used.memory_peak.unwrap_or(0))),
        (Metric::Pids, level(4)),
        (Metric::PressureCpu, Value::Count(millis * 5)),
    ];
    all.extend(values.map(|(metric, value)| (key(subject, metric), value)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_only_grow_and_records_say_the_same() {
        let mut hello = crate::testing::hello();
        hello.name = spur_core::id::NodeName::new("n1").unwrap();
        let mut made = Made::new(Arc::new(hello), "s".into());
        made.job_begins(
            JobId(7),
            Generation(1),
            crate::testing::share(&[0, 1]),
            Millis(1_000),
        );
        made.step_begins(JobId(7), StepKind::Batch, Millis(1_000));
        let first = made.values(Millis(2_000), 1);
        let second = made.values(Millis(3_000), 2);
        let second: BTreeMap<SeriesKey, Value> = second.into_iter().collect();
        for (key, value) in &first {
            if let (Value::Count(before), Some(Value::Count(after))) = (value, second.get(key)) {
                assert!(after >= before, "{key:?}");
            }
        }
        assert!(first.len() > 15 && first.iter().all(|(key, _)| key.source == Source::Simulated));
        made.step_ends(JobId(7), StepKind::Batch, Millis(3_000));
        made.job_ends(JobId(7), Millis(3_000));
        let (_, records) = made.after(0, 9);
        let [(1, UsageRecord::Step(step)), (2, UsageRecord::Job(job))] = &records[..] else {
            panic!("{records:?}")
        };
        assert_eq!((step.used.cpu_us, job.used.cpu_us), (1_400_000, 1_400_000));
        let held = SeriesKey {
            metric: Metric::GpuHeldTime,
            ..key(Subject::JobGpu(JobId(7), 0), Metric::GpuHeldTime)
        };
        assert_eq!(second.get(&held), Some(&Value::Count(job.gpus[0].held_us)));
        made.acked(1);
        assert_eq!(made.after(0, 9).1.len(), 1);
    }
}
