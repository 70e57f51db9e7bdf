//! Looking at control groups.

use super::{GAP, OpenGroup, SECOND, Sampler};
use crate::meter::account::gpu::MemoryTold;
use crate::meter::account::step::Step;
use crate::meter::governor::Part;
use crate::meter::read::group::Depth;
use spur_core::id::{JobId, StepKind};
use spur_core::usage::metric::{Quality, Source};
use spur_core::usage::words::UsageEventKind;
use std::collections::BTreeMap;
use std::path::Path;

/// Pressure is read once in so many seconds: it is a counter, which loses nothing.
const PRESSURE_EVERY: u64 = 5;

/// `memory.stat` is read once in so many seconds.
const STAT_EVERY: u64 = 10;

/// Most processes whose memory is added up in a second, over the time.
const RESIDENT_A_SECOND: u64 = 100;

/// Least and most milliseconds between two sums of a group's processes.
const RESIDENT_MIN: u64 = 4_000;
const RESIDENT_MAX: u64 = 60_000;

impl Sampler {
    /// Takes the kernel's counts.
    pub(super) fn read_kernel(&mut self, now: u64, millis: u64) {
        self.counts.clear();
        self.kernel.read(&mut self.counts);
        self.counts.sort_unstable_by_key(|(cgroup, _)| *cgroup);
        for present in self.jobs.values_mut() {
            for (kind, group) in &present.groups {
                let counts = self
                    .counts
                    .binary_search_by_key(&group.cgroup, |(cgroup, _)| *cgroup)
                    .ok()
                    .and_then(|at| self.counts.get(at));
                if let (Some((_, counts)), Some(step)) = (counts, present.job.steps.get_mut(kind)) {
                    step.take_kernel(*counts);
                }
            }
        }
        self.read_work(now, millis);
    }

    /// The step of each group.
    pub(super) fn owners(&self) -> BTreeMap<u64, (JobId, StepKind)> {
        let groups = self.jobs.iter().flat_map(|(job, present)| {
            present
                .groups
                .iter()
                .map(|(step, group)| (group.cgroup, (*job, *step)))
        });
        groups.collect()
    }

    /// Reads the files of all groups, as deep as is due.
    pub(super) fn read_groups(&mut self, now: u64) {
        let pressure = self.governor.does(Part::Pressure);
        let counted = self.kernel.counts_cpu();
        let mut turn = self.times.seconds;
        let mut gaps = Vec::new();
        let mut dmem = BTreeMap::new();
        for (job, present) in &mut self.jobs {
            for (kind, step) in &mut present.job.steps {
                let Some(group) = present.groups.get_mut(kind) else {
                    continue;
                };
                turn += 1;
                let depth = Depth {
                    cpu: !counted,
                    io: step.kernel.read_bytes.is_none(),
                    kills: step.kernel.oom_kills.is_none(),
                    pressure: pressure && (!group.seen || turn.is_multiple_of(PRESSURE_EVERY)),
                    stat: !group.seen || turn.is_multiple_of(STAT_EVERY),
                };
                group.seen = true;
                if !pressure {
                    step.forget_pressure();
                }
                step.take_group(group.files().read(depth, &mut self.buffer));
                if !group.files().has_memory() && now >= group.resident_at {
                    estimate(step, group, (&self.setup.proc, &mut self.buffer), now);
                }
                for (region, bytes) in group.files().device_memory(&mut self.buffer) {
                    let device = region.split('/').nth(1);
                    let gpu = device.and_then(|device| self.setup.regions.get(device));
                    if let Some(gpu) = gpu {
                        *dmem.entry((*job, *gpu)).or_insert(0u64) += bytes;
                    }
                }
                if step.ended.is_none() {
                    step.looked(now, GAP);
                }
            }
            gaps.extend(present.job.looked(now, GAP).map(|gap| (*job, gap)));
        }
        self.take_dmem(now, dmem);
        for (job, millis) in gaps {
            let why = "the node stood still".into();
            self.event(Some(job), None, UsageEventKind::Gap { millis, why });
        }
    }

    fn take_dmem(&mut self, now: u64, dmem: BTreeMap<(JobId, u32), u64>) {
        for ((job, gpu), bytes) in dmem {
            let present = self.jobs.get_mut(&job);
            if let Some(part) = present.and_then(|present| present.job.gpus.get_mut(&gpu)) {
                let told = MemoryTold {
                    bytes,
                    source: Source::Dmem,
                    quality: Quality::Exact,
                };
                part.take_memory(now, SECOND, told);
            }
        }
    }
}

/// A step's memory where no file tells it; the more processes there are, the less often they are asked.
fn estimate(
    step: &mut Step,
    group: &mut OpenGroup,
    (proc, buffer): (&Path, &mut Vec<u8>),
    now: u64,
) {
    let told = group.processes.read(proc, buffer);
    let processes = told.map_or(0, |told| told.processes as u64);
    let pause = processes.saturating_mul(1000) / RESIDENT_A_SECOND;
    group.resident_at = now + pause.clamp(RESIDENT_MIN, RESIDENT_MAX);
    step.memory = told.map(|told| (told.bytes, true));
}
