//! A job on this node.

use super::Level;
use super::gpu::JobGpu;
use super::step::{Step, coverage};
use serde::{Deserialize, Serialize};
use spur_core::id::{Generation, JobId, NodeName, StepKind};
use spur_core::time::Millis;
use spur_core::usage::summary::{JobUsage, Processes};
use std::collections::BTreeMap;

/// What is kept of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Generation of its placement.
    pub generation: Generation,
    /// When it began here.
    pub started: Millis,
    /// The same in milliseconds since boot.
    pub started_up: u64,
    /// CPUs that it holds.
    pub cpus: u32,
    /// Memory that it was given, MiB; 0 for all.
    pub memory_mib: u64,
    /// Steps without a record.
    pub steps: BTreeMap<StepKind, Step>,
    /// What the steps used that have one.
    pub ended: Processes,
    /// GPUs that it holds.
    pub gpus: BTreeMap<u32, JobGpu>,
    /// Memory of all steps together over time.
    pub level: Level,
    /// Until when it was looked at, milliseconds since boot.
    pub looked: u64,
    /// Time that was measured, ms.
    pub measured: u64,
}

impl Job {
    /// A look at `now` (milliseconds since boot) is complete, its steps' and GPUs' included. Gives the length of the gap before it if it was
    /// longer than `gap`.
    pub fn looked(&mut self, now: u64, gap: u64) -> Option<u64> {
        let millis = now.saturating_sub(self.looked);
        self.looked = self.looked.max(now);
        if millis > gap {
            return Some(millis);
        }
        self.measured = self.measured.saturating_add(millis);
        let known = self.steps.values().filter_map(|step| step.memory);
        let memory = known.map(|(bytes, _)| bytes).reduce(u64::saturating_add);
        if let Some(memory) = memory {
            self.level.add(memory, millis);
        }
        None
    }

    /// What all of its processes used until now. Its peak of memory is that of all of its steps together, where that was looked at.
    pub fn used(&self) -> Processes {
        let mut used = self.ended.clone();
        for step in self.steps.values() {
            used.add(&step.used());
        }
        used.memory_peak = used.memory_peak.max(self.level.peak());
        used.memory_mean = self.level.mean().or(used.memory_mean);
        used
    }

    /// A step has its record.
    pub fn step_over(&mut self, step: StepKind) {
        if let Some(step) = self.steps.remove(&step) {
            self.ended.add(&step.used());
        }
    }

    /// Its record, as of `ended` (by both clocks).
    pub fn record(
        &self,
        job: JobId,
        node: &NodeName,
        (ended, ended_up): (Millis, u64),
    ) -> JobUsage {
        JobUsage {
            job,
            generation: self.generation,
            node: node.clone(),
            started: self.started,
            ended,
            cpus: self.cpus,
            memory_mib: self.memory_mib,
            used: self.used(),
            gpus: self
                .gpus
                .iter()
                .map(|(index, gpu)| gpu.record(*index))
                .collect(),
            coverage: coverage(self.measured, ended_up.saturating_sub(self.started_up)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::kernel::Counts;
    use crate::meter::read::group::Group;

    #[test]
    fn a_job_used_what_its_steps_did() {
        let mut job = Job {
            looked: 0,
            ..Job::default()
        };
        for number in 0..2 {
            let mut step = Step::new(Millis(0), 0);
            step.kernel = Counts {
                cpu: Some(100),
                read_bytes: Some(5),
                ..Counts::default()
            };
            step.take_group(Group {
                memory: Some(70),
                ..Group::default()
            });
            step.looked(1000, 9000);
            job.steps.insert(StepKind::Numbered(number), step);
        }
        assert_eq!(job.looked(1000, 9000), None);
        job.step_over(StepKind::Numbered(0));
        assert_eq!(job.looked(2000, 9000), None);
        let used = job.used();
        assert_eq!(
            (used.cpu_us, used.read_bytes, used.user_us),
            (200, Some(10), None)
        );
        assert_eq!((used.memory_peak, used.memory_mean), (Some(140), Some(105)));
        assert_eq!(job.looked(50_000, 9000), Some(48_000));
        let record = job.record(
            JobId(1),
            &NodeName::new("n1").unwrap(),
            (Millis(50_000), 50_000),
        );
        assert_eq!(record.coverage, 40);
    }
}
