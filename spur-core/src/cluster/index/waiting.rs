//! Waiting jobs, reduced to what a planning pass reads of every one of them.

use crate::id::JobId;
use crate::job::Job;
use crate::job::state::Reason;
use crate::plan::class::{Class, ClassId, Classes};
use crate::plan::policy;
use crate::time::{Millis, TimeLimit};
use std::collections::BTreeMap;

/// A waiting job as the planner first sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) priority: u32,
    pub(crate) nice: i32,
    pub(crate) eligible: Millis,
    pub(crate) time_limit: TimeLimit,
    /// When it is due ([`policy::due`]): orders jobs that tier, priority and niceness leave equal.
    pub(crate) due: Millis,
    pub(crate) class: ClassId,
    /// What the job says already of why it waits.
    pub(crate) reason: Reason,
    /// Whether it says no more than the reason.
    pub(crate) silent: bool,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    pub(crate) jobs: BTreeMap<JobId, Waiting>,
    pub(crate) classes: Classes,
}

impl Queue {
    pub(super) fn enter(&mut self, job: &Job) {
        let class = self.classes.enter(Class::of(job));
        let waiting = Waiting {
            priority: job.priority,
            nice: job.spec.nice,
            eligible: job.eligible,
            time_limit: job.spec.time_limit.unwrap_or(TimeLimit::Unlimited),
            due: policy::due(job),
            class,
            reason: job.reason,
            silent: job.reason_text.is_empty(),
        };
        self.jobs.insert(job.id, waiting);
    }

    pub(super) fn leave(&mut self, job: JobId) {
        if let Some(waiting) = self.jobs.remove(&job) {
            self.classes.leave(waiting.class);
        }
    }

    /// A job was told why it waits; nothing else of it changed.
    pub(in crate::cluster) fn explain(&mut self, job: &Job) {
        if let Some(waiting) = self.jobs.get_mut(&job.id) {
            waiting.reason = job.reason;
            waiting.silent = job.reason_text.is_empty();
        }
    }
}

/// Numbers of classes differ with history; what they stand for does not.
impl PartialEq for Queue {
    fn eq(&self, other: &Self) -> bool {
        let class = |queue: &'_ Self, waiting: &Waiting| queue.classes.get(waiting.class).cloned();
        let same = |(a, b): ((&JobId, &Waiting), (&JobId, &Waiting))| {
            a.0 == b.0
                && Waiting {
                    class: b.1.class,
                    ..*a.1
                } == *b.1
                && class(self, a.1) == class(other, b.1)
        };
        self.jobs.len() == other.jobs.len() && self.jobs.iter().zip(&other.jobs).all(same)
    }
}

impl Eq for Queue {}
