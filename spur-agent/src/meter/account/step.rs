//! A step on this node.

use super::Level;
use crate::meter::kernel::Counts;
use crate::meter::read::group::Group;
use serde::{Deserialize, Serialize};
use spur_core::id::{Generation, JobId, NodeName, StepKind};
use spur_core::time::Millis;
use spur_core::usage::metric::{Metric, Quality, SeriesKey, Source, Subject, Value};
use spur_core::usage::summary::{Processes, StepUsage, permille};

/// A step that was looked at for less than this has no peak that looks could find; the kernel's own is taken.
const LOOKS_SUFFICE: u64 = 5_000;

/// What is kept of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// When it began here.
    pub started: Millis,
    /// The same in milliseconds since boot.
    pub started_up: u64,
    /// When it ended here, by both clocks.
    pub ended: Option<(Millis, u64)>,
    /// The kernel's counts.
    pub kernel: Counts,
    /// The same as they stand in the kernel, and what was counted before they began anew.
    kernel_now: Counts,
    kernel_before: Counts,
    /// What the files said last.
    #[serde(skip)]
    pub group: Group,
    /// What the files counted, which stays when they are gone.
    pub files: Counts,
    /// The kernel's own peak of memory.
    pub kernel_peak: Option<u64>,
    /// Memory in use, by the files or estimated, and whether it is estimated.
    #[serde(skip)]
    pub memory: Option<(u64, bool)>,
    /// Memory over time.
    pub level: Level,
    /// Until when it was looked at, milliseconds since boot.
    pub looked: u64,
    /// Time that was measured, ms.
    pub measured: u64,
}

impl Step {
    /// A step that begins now.
    pub fn new(started: Millis, started_up: u64) -> Self {
        Self {
            started,
            started_up,
            looked: started_up,
            ..Self::default()
        }
    }

    /// The kernel's counts. They begin anew when its meter had to be replaced; what was counted before stays.
    pub fn take_kernel(&mut self, counts: Counts) {
        if counts.cpu < self.kernel_now.cpu {
            self.kernel_before = self.kernel;
        }
        self.kernel_now = counts;
        self.kernel = counts.plus(&self.kernel_before);
    }

    /// The files were read.
    pub fn take_group(&mut self, group: Group) {
        self.files = group.counts.or(&self.files);
        self.kernel_peak = group.peak.or(self.kernel_peak);
        if let Some(bytes) = group.memory {
            self.memory = Some((bytes, false));
        }
        let last = self.group;
        // What is read seldom stays until it is read again.
        self.group = Group {
            peak: group.peak.or(last.peak),
            limit: group.limit.or(last.limit),
            pressure_cpu: group.pressure_cpu.or(last.pressure_cpu),
            pressure_memory: group.pressure_memory.or(last.pressure_memory),
            pressure_io: group.pressure_io.or(last.pressure_io),
            ..group
        };
    }

    /// Pressure is not read any more.
    pub fn forget_pressure(&mut self) {
        self.group.pressure_cpu = None;
        self.group.pressure_memory = None;
        self.group.pressure_io = None;
    }

    /// A look at `now` (milliseconds since boot) is complete. Gives the time since the one before, 0 after a gap longer than `gap`.
    pub fn looked(&mut self, now: u64, gap: u64) -> u64 {
        let millis = now.saturating_sub(self.looked);
        self.looked = self.looked.max(now);
        if millis > gap {
            return 0;
        }
        self.measured = self.measured.saturating_add(millis);
        if let Some((bytes, _)) = self.memory {
            self.level.add(bytes, millis);
        }
        millis
    }

    /// What was counted, from the better source where there are two.
    pub fn counts(&self) -> Counts {
        self.kernel.or(&self.files)
    }

    /// What its processes used until now.
    pub fn used(&self) -> Processes {
        let counts = self.counts();
        let short = self.level.millis() < LOOKS_SUFFICE;
        let peak = if short {
            self.kernel_peak.or(self.level.peak())
        } else {
            self.level.peak()
        };
        Processes {
            cpu_us: counts.cpu.unwrap_or(0),
            user_us: counts.user,
            system_us: counts.system,
            runqueue_us: counts.runqueue,
            major_faults: counts.major_faults,
            read_bytes: counts.read_bytes,
            write_bytes: counts.write_bytes,
            processes: counts.starts,
            oom_kills: counts.oom_kills,
            memory_peak: peak,
            memory_mean: self.level.mean(),
        }
    }

    /// Its record.
    pub fn record(
        &self,
        job: JobId,
        step: StepKind,
        generation: Generation,
        node: &NodeName,
    ) -> StepUsage {
        let (ended, ended_up) = self.ended.unwrap_or((self.started, self.looked));
        StepUsage {
            job,
            step,
            generation,
            node: node.clone(),
            started: self.started,
            ended,
            used: self.used(),
            coverage: coverage(self.measured, ended_up.saturating_sub(self.started_up)),
        }
    }

    /// Its series, in the order of metrics.
    pub fn series(&self, job: JobId, step: StepKind, into: &mut Vec<(SeriesKey, Value)>) {
        let subject = Subject::Step(job, step);
        let mut tell = |metric, (source, quality), value| {
            let key = SeriesKey {
                subject,
                metric,
                source,
                quality,
            };
            into.push((key, value));
        };
        for ((metric, counted), (_, read)) in self.kernel.each().into_iter().zip(self.files.each())
        {
            match (counted, read) {
                (Some(value), _) => tell(
                    metric,
                    (Source::Bpf, event_quality(metric, self.kernel.guessed_io)),
                    Value::Count(value),
                ),
                (None, Some(value)) => tell(
                    metric,
                    (Source::Cgroup, file_quality(metric)),
                    Value::Count(value),
                ),
                (None, None) => {}
            }
        }
        let files = (Source::Cgroup, Quality::Sampled);
        let exact = (Source::Cgroup, Quality::Exact);
        let mut level = |metric, how, value: Option<u64>| {
            if let Some(value) = value.and_then(|value| i64::try_from(value).ok()) {
                tell(metric, how, Value::level(value));
            }
        };
        if let Some((bytes, estimated)) = self.memory {
            let how = if estimated {
                (Source::Sysfs, Quality::Estimated)
            } else {
                files
            };
            level(Metric::Memory, how, Some(bytes));
        }
        let group = &self.group;
        level(Metric::MemoryPeak, exact, group.peak);
        level(Metric::MemoryLimit, exact, group.limit);
        level(Metric::Pids, files, group.pids);
        let pressures = [
            (Metric::PressureCpu, group.pressure_cpu),
            (
                Metric::PressureMemory,
                group.pressure_memory.map(|both| both.0),
            ),
            (Metric::PressureIo, group.pressure_io.map(|both| both.0)),
            (
                Metric::PressureMemoryFull,
                group.pressure_memory.map(|both| both.1),
            ),
            (Metric::PressureIoFull, group.pressure_io.map(|both| both.1)),
        ];
        for (metric, value) in pressures {
            if let Some(value) = value {
                tell(metric, exact, Value::Count(value));
            }
        }
    }
}

/// Events are exact, but for block I/O whose owner is guessed, and for the division of CPU time, which the kernel samples.
fn event_quality(metric: Metric, guessed_io: bool) -> Quality {
    let io = [
        Metric::DiskReadBytes,
        Metric::DiskWriteBytes,
        Metric::DiskReads,
        Metric::DiskWrites,
    ];
    if guessed_io && io.contains(&metric) {
        Quality::Estimated
    } else if [Metric::CpuUserTime, Metric::CpuSystemTime].contains(&metric) {
        Quality::Sampled
    } else {
        Quality::Exact
    }
}

/// Counts of files are exact when they are read; CPU time is called sampled, since it grows in steps of the scheduler's tick.
fn file_quality(metric: Metric) -> Quality {
    if [Metric::CpuTime, Metric::CpuUserTime, Metric::CpuSystemTime].contains(&metric) {
        Quality::Sampled
    } else {
        Quality::Exact
    }
}

/// Measured time of elapsed time in thousandths; all of no time.
pub fn coverage(measured: u64, elapsed: u64) -> u16 {
    let share = permille(measured, elapsed).unwrap_or(1000).min(1000);
    u16::try_from(share).unwrap_or(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GAP: u64 = 15_000;

    #[test]
    fn the_better_source_wins_and_what_was_read_stays() {
        let mut step = Step::new(Millis(50_000), 1_000);
        let files = Counts {
            cpu: Some(90),
            oom_kills: Some(1),
            ..Counts::default()
        };
        step.take_group(Group {
            counts: files,
            memory: Some(300),
            ..Group::default()
        });
        step.looked(2_000, GAP);
        step.kernel = Counts {
            cpu: Some(100),
            starts: Some(3),
            ..Counts::default()
        };
        step.take_group(Group::default());
        step.looked(3_000, GAP);
        let used = step.used();
        assert_eq!(
            (used.cpu_us, used.oom_kills, used.processes),
            (100, Some(1), Some(3))
        );
        assert_eq!(
            (used.memory_peak, used.memory_mean, used.user_us),
            (Some(300), Some(300), None)
        );
        let mut series = Vec::new();
        step.series(JobId(1), StepKind::Batch, &mut series);
        let keys: Vec<_> = series.iter().map(|(key, _)| *key).collect();
        assert!(keys.is_sorted(), "{keys:?}");
        assert!(
            series
                .iter()
                .any(|(key, value)| key.metric == Metric::CpuTime
                    && key.source == Source::Bpf
                    && *value == Value::Count(100))
        );
    }

    #[test]
    fn the_peak_of_a_short_step_is_the_kernels() {
        let mut step = Step::new(Millis(0), 0);
        step.take_group(Group {
            memory: Some(10),
            peak: Some(999),
            ..Group::default()
        });
        step.looked(1_000, GAP);
        assert_eq!(step.used().memory_peak, Some(999));
        step.looked(6_000, GAP);
        assert_eq!(step.used().memory_peak, Some(10));
    }

    #[test]
    fn a_kernel_that_begins_anew_loses_nothing() {
        let mut step = Step::new(Millis(0), 0);
        for cpu in [100, 150, 20, 30] {
            step.take_kernel(Counts {
                cpu: Some(cpu),
                ..Counts::default()
            });
        }
        assert_eq!((step.used().cpu_us, step.used().oom_kills), (180, None));
    }

    #[test]
    fn a_gap_is_not_covered() {
        let mut step = Step::new(Millis(0), 0);
        assert_eq!(step.looked(10_000, GAP), 10_000);
        assert_eq!(step.looked(40_000, GAP), 0);
        step.ended = Some((Millis(40_000), 40_000));
        let record = step.record(
            JobId(1),
            StepKind::Batch,
            Generation(1),
            &NodeName::new("n1").unwrap(),
        );
        assert_eq!((record.coverage, record.used.cpu_us), (250, 0));
    }
}
