//! Jobs and steps come and go.

use super::{GAP, OpenGroup, Present, Sampler};
use crate::meter::account::gpu::JobGpu;
use crate::meter::account::job::Job;
use crate::meter::account::step::Step;
use crate::meter::input::{JobBegins, StepBegins};
use crate::meter::kernel::GpuWork;
use crate::meter::read::group::{Depth, Files};
use crate::meter::read::rss::Processes;
use crate::meter::state::DONE_MAX;
use crate::node::now as wall;
use spur_core::id::{JobId, StepKind};
use spur_core::time::Millis;
use spur_core::usage::words::{UsageEventKind, UsageRecord};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// How long after a step's end its last processes are waited for, ms.
const SETTLE: u64 = 5_000;

/// A shorter time without a meter is not told, ms.
const GAP_TOLD: u64 = 2_000;

/// Everything that a group's files tell.
const ALL: Depth = Depth {
    cpu: true,
    io: true,
    kills: true,
    pressure: true,
    stat: true,
};

impl Sampler {
    pub(super) fn job_begins(&mut self, begins: &JobBegins, now: u64) {
        let (job, generation) = (begins.job, begins.generation);
        if self.saved.done.contains(&(job, generation)) || self.jobs.contains_key(&job) {
            return;
        }
        let saved = self
            .saved
            .jobs
            .remove(&job)
            .filter(|saved| saved.generation == generation);
        let present = match saved {
            Some(saved) => self.resume(job, saved, now),
            None => self.fresh(begins, now),
        };
        self.jobs.insert(job, present);
        self.save_soon(now);
    }

    fn fresh(&self, begins: &JobBegins, now: u64) -> Present {
        let share = &begins.share;
        let started = begins.started.unwrap_or_else(wall);
        let since = now.saturating_sub(wall().0.saturating_sub(started.0));
        let mut job = Job {
            generation: begins.generation,
            started,
            started_up: since,
            cpus: share.cpus.len(),
            memory_mib: share.memory_mib,
            looked: now,
            ..Job::default()
        };
        for index in share.gpus.iter() {
            let gpu = usize::try_from(index)
                .ok()
                .and_then(|at| self.setup.gpus.get(at));
            let (uuid, model, memory) = gpu.map_or(("", "", 0), |gpu| {
                let uuid = if gpu.uuid.is_empty() {
                    &gpu.pci
                } else {
                    &gpu.uuid
                };
                (uuid.as_str(), gpu.model.as_str(), gpu.memory_mib)
            });
            job.gpus
                .insert(index, JobGpu::new(uuid, model, memory, since));
        }
        Present {
            job,
            ..Present::default()
        }
    }

    /// Goes on with a job that an earlier meter knew.
    fn resume(&mut self, id: JobId, mut job: Job, now: u64) -> Present {
        let gap = now.saturating_sub(job.looked);
        if gap >= GAP_TOLD {
            let what = UsageEventKind::Gap {
                millis: gap,
                why: "no meter ran on the node".into(),
            };
            self.event(Some(id), None, what);
        }
        job.looked = now;
        for gpu in job.gpus.values_mut() {
            gpu.resume(now);
        }
        let mut present = Present {
            job,
            ..Present::default()
        };
        let folder = self.setup.groups.join(format!("job_{id}"));
        for (kind, step) in &mut present.job.steps {
            step.looked = step.looked.max(now);
            let path = folder.join(format!("step_{kind}"));
            if let Some(group) = self.open(&path) {
                present.groups.insert(*kind, group);
            }
        }
        present
    }

    fn open(&self, path: &Path) -> Option<OpenGroup> {
        let cgroup = std::fs::metadata(path).ok()?.ino();
        if let Err(why) = self.kernel.add(cgroup) {
            tracing::warn!(group = %path.display(), why, "the kernel does not count for it");
        }
        Some(OpenGroup {
            path: path.to_owned(),
            cgroup,
            files: Some(Files::open(path)),
            processes: Processes::of(path),
            resident_at: 0,
            seen: false,
        })
    }

    pub(super) fn step_begins(&mut self, begins: &StepBegins, now: u64) {
        let Some(present) = self.jobs.get_mut(&begins.job) else {
            return;
        };
        if present.groups.contains_key(&begins.step) {
            return;
        }
        // One that is taken over without a memory of it began when its group was made.
        let age = group_age(&begins.group).unwrap_or(0);
        let started = Millis(wall().0.saturating_sub(age));
        let step = Step::new(started, now.saturating_sub(age));
        present.job.steps.entry(begins.step).or_insert(step);
        let group = OpenGroup {
            path: begins.group.clone(),
            cgroup: begins.cgroup,
            files: None,
            processes: Processes::of(&begins.group),
            resident_at: 0,
            seen: false,
        };
        present.groups.insert(begins.step, group);
        self.save_soon(now);
    }

    pub(super) fn step_ended(&mut self, job: JobId, step: StepKind, now: u64) {
        let known = self
            .jobs
            .get_mut(&job)
            .and_then(|present| present.job.steps.get_mut(&step));
        let Some(known) = known else { return };
        if known.ended.is_none() {
            known.ended = Some((wall(), now));
        }
        self.settle_step(job, step, now);
    }

    /// Ends steps whose last process is gone, or was waited for long enough.
    pub(super) fn settle_steps(&mut self, now: u64) {
        let ended: Vec<(JobId, StepKind)> = self
            .jobs
            .iter()
            .flat_map(|(job, present)| {
                present
                    .job
                    .steps
                    .iter()
                    .map(|(step, state)| (*job, *step, state.ended))
            })
            .filter_map(|(job, step, ended)| ended.map(|_| (job, step)))
            .collect();
        for (job, step) in ended {
            self.settle_step(job, step, now);
        }
    }

    fn settle_step(&mut self, job: JobId, step: StepKind, now: u64) {
        let Some(present) = self.jobs.get(&job) else {
            return;
        };
        let Some((_, since)) = present.job.steps.get(&step).and_then(|state| state.ended) else {
            return;
        };
        let empty = present
            .groups
            .get(&step)
            .is_none_or(|group| !populated(&group.path));
        if empty || now.saturating_sub(since) >= SETTLE {
            self.end_step(job, step, now);
        }
    }

    /// Reads a step's last numbers and makes its record.
    fn end_step(&mut self, job: JobId, kind: StepKind, now: u64) {
        // Before the kernel forgets what the group's work on GPUs was.
        self.read_work(now, 0);
        let Some(present) = self.jobs.get_mut(&job) else {
            return;
        };
        let Some(step) = present.job.steps.get_mut(&kind) else {
            return;
        };
        if let Some(mut group) = present.groups.remove(&kind) {
            let read = group.files().read(ALL, &mut self.buffer);
            step.take_group(read);
            for (gpu, work) in parts_of(&self.work, &self.setup.names, group.cgroup) {
                if let Some(part) = present.job.gpus.get_mut(&gpu) {
                    part.work_over(work);
                }
            }
            if let Some(counts) = self.kernel.remove(group.cgroup) {
                step.take_kernel(counts);
            }
        }
        let (_, ended) = *step.ended.get_or_insert((wall(), now));
        step.looked(ended, GAP);
        let record = step.record(job, kind, present.job.generation, &self.setup.node);
        present.job.step_over(kind);
        self.save_soon(now);
        self.record(UsageRecord::Step(record));
    }

    /// The job's groups go: its last numbers are read, and its record is made.
    pub(super) fn job_ends(&mut self, job: JobId, now: u64) {
        let Some(present) = self.jobs.get(&job) else {
            return;
        };
        let steps: Vec<StepKind> = present.job.steps.keys().copied().collect();
        for step in steps {
            self.end_step(job, step, now);
        }
        self.read_devices(now);
        self.judge_job(job, now, true);
        let Some(present) = self.jobs.remove(&job) else {
            return;
        };
        let record = present.job.record(job, &self.setup.node, (wall(), now));
        self.saved.done.push_back((job, record.generation));
        while self.saved.done.len() > DONE_MAX {
            self.saved.done.pop_front();
        }
        self.record(UsageRecord::Job(record));
    }
}

/// A group's work on each GPU: busy and waiting time in µs, and jobs.
fn parts_of(
    all: &[GpuWork],
    names: &BTreeMap<String, u32>,
    cgroup: u64,
) -> BTreeMap<u32, (u64, u64, u64)> {
    let mut parts: BTreeMap<u32, (u64, u64, u64)> = BTreeMap::new();
    for work in all.iter().filter(|work| work.cgroup == cgroup) {
        if let Some(gpu) = names.get(&work.device) {
            let part = parts.entry(*gpu).or_default();
            *part = (part.0 + work.busy, part.1 + work.queue, part.2 + work.jobs);
        }
    }
    parts
}

/// Whether a process is left in a group. One that is gone has none.
fn populated(group: &Path) -> bool {
    let text = std::fs::read_to_string(group.join("cgroup.events")).unwrap_or_default();
    text.lines().any(|line| line == "populated 1")
}

/// How long ago a group was made, ms.
fn group_age(group: &Path) -> Option<u64> {
    let made = std::fs::metadata(group).ok()?.modified().ok()?;
    let age = made.elapsed().ok()?;
    u64::try_from(age.as_millis()).ok()
}
