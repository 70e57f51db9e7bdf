//! Jobs: what was asked for, what state they are in, what they hold.

pub mod admit;
pub mod array;
pub mod change;
pub mod extras;
pub mod gpus;
pub mod het;
pub mod licenses;
pub mod limits;
pub mod spec;
pub mod state;
pub mod step;

use crate::id::{Generation, JobId, NodeId, StepKind, Uid};
use crate::resources::NodeShare;
use crate::slurm::dependency::{After, Dependency, Term};
use crate::slurm::mail::Occasion;
use crate::time::{Millis, TimeLimit};
use crate::usage::idle::Idle;
use array::ArrayPart;
use het::HetPart;
use serde::{Deserialize, Serialize};
use spec::JobSpec;
use state::{ExitStatus, JobState, Reason};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use step::{Step, StepState};

/// A share of a placement that has ended, not yet clean on its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// Generation of the placement.
    pub generation: Generation,
    /// What is still held.
    pub share: NodeShare,
}

/// A job as the controller keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// What was asked for, defaults filled in. Shared with views.
    pub spec: Arc<JobSpec>,
    /// Base state.
    pub state: JobState,
    /// Why it waits, or why it ended as it did.
    pub reason: Reason,
    /// A sentence for people that says more than `reason`; may be empty.
    pub reason_text: String,
    /// Scheduling priority; 0 means held.
    pub priority: u32,
    /// When it was submitted.
    pub submitted: Millis,
    /// From when it may start.
    pub eligible: Millis,
    /// When it started, if it did.
    pub started: Option<Millis>,
    /// When it ended, or must end by its limit, if either is known.
    pub ended: Option<Millis>,
    /// What it holds while it runs; moves to `leftovers` when it ends.
    pub allocation: Vec<NodeShare>,
    /// What it held when it last ran, for views after its end.
    pub last_nodes: Vec<NodeShare>,
    /// Nodes where it is not yet cleaned up. Non-empty in a terminal state means Slurm's COMPLETING.
    pub uncleaned: BTreeSet<NodeId>,
    /// Generation of the current placement.
    pub generation: Generation,
    /// Steps, by kind.
    pub steps: BTreeMap<StepKind, Step>,
    /// Number that the next `srun` step gets.
    pub next_step: u32,
    /// Exit status of the batch script or of the only step.
    pub exit: ExitStatus,
    /// Highest exit status of any step.
    pub derived_exit: ExitStatus,
    /// How often it was requeued.
    pub restarts: u32,
    /// Refusals by the fence, per node.
    pub denials: BTreeMap<NodeId, crate::denial::DenialCount>,
    /// Nodes where it failed to launch; not tried again for this job.
    pub avoid: BTreeSet<NodeId>,
    /// What placements that have ended still hold, until the node reports that it is clean. Its keys are `uncleaned`.
    #[serde(default)]
    pub leftovers: BTreeMap<NodeId, Leftover>,
    /// GPUs that it holds and does not use, by node and index, with the evidence.
    #[serde(default)]
    pub idle: BTreeMap<NodeId, BTreeMap<u32, Idle>>,
    /// Who cancelled it.
    #[serde(default)]
    pub cancelled_by: Option<Uid>,
    /// Seconds that jobs of its kind ran when it was submitted; `None` if nothing was known. Order and estimates go by it.
    #[serde(default)]
    pub expected: Option<u64>,
    /// What it stands for, if it is part of an array.
    #[serde(default)]
    pub array: Option<ArrayPart>,
    /// What it still waits for.
    #[serde(default)]
    pub depends: Dependency,
    /// Since when its processes are stopped.
    #[serde(default)]
    pub suspended: Option<Millis>,
    /// Milliseconds for which they were stopped before: they count against no limit.
    #[serde(default)]
    pub suspended_ms: u64,
    /// When they were last stopped, or last went on.
    #[serde(default)]
    pub turned: Option<Millis>,
    /// Milliseconds that it had run when they were last stopped.
    #[serde(default)]
    pub ran_before_ms: u64,
    /// The placement whose end was foretold by `--signal`.
    #[serde(default)]
    pub warned: Generation,
    /// Which component it is, if it is one of a heterogeneous job.
    #[serde(default)]
    pub het: Option<HetPart>,
    /// Whether a job that comes first in its partition waited when this one started.
    #[serde(default)]
    pub backfilled: bool,
    /// The share of its limit, in percent, of which its owner has heard in this run; 0: none.
    #[serde(default)]
    pub told_percent: u8,
}

impl Job {
    /// Why no planning pass looks at it, if so: it is held, or other jobs keep it waiting.
    #[must_use]
    pub fn kept(&self) -> Option<Reason> {
        if self.priority == 0 {
            return Some(self.reason);
        }
        if !self.depends.is_met() && !self.has_ready_tasks() {
            let hopeless = self.depends.is_hopeless();
            return Some(if hopeless {
                Reason::DependencyNeverSatisfied
            } else {
                Reason::Dependency
            });
        }
        let full = self.array.as_ref().is_some_and(|array| array.full);
        full.then_some(Reason::JobArrayTaskLimit)
    }

    /// Whether it waits for nothing but corresponding tasks of another array, and some of these have completed.
    fn has_ready_tasks(&self) -> bool {
        let corresponding = |term: &Term| term.after == After::Corr;
        let ready = |array: &ArrayPart| {
            let ready = array.ready.as_ref();
            array.view.task.is_none() && ready.is_some_and(|ready| array.view.has_any(ready))
        };
        self.depends.terms.iter().all(corresponding) && self.array.as_ref().is_some_and(ready)
    }

    /// How many tasks of an array it stands for; 1 for other jobs.
    #[must_use]
    pub fn tasks(&self) -> u32 {
        self.array.as_ref().map_or(1, |array| array.view.len())
    }

    /// Under which number its script is kept: tasks share their array's.
    #[must_use]
    pub fn payload(&self) -> JobId {
        self.array.as_ref().map_or(self.id, |array| array.view.job)
    }

    /// Milliseconds for which its processes were stopped, until now.
    #[must_use]
    pub fn stopped_ms(&self, at: Millis) -> u64 {
        let now = self
            .suspended
            .map_or(0, |since| at.0.saturating_sub(since.0));
        self.suspended_ms.saturating_add(now)
    }

    /// Its processes are stopped from now on.
    pub(crate) fn stop(&mut self, at: Millis) {
        if self.suspended.is_some() {
            return;
        }
        let since = self
            .started
            .map_or(0, |started| at.0.saturating_sub(started.0));
        self.ran_before_ms = since.saturating_sub(self.suspended_ms);
        (self.suspended, self.turned) = (Some(at), Some(at));
    }

    /// Its processes are stopped no more, or are no more.
    pub(crate) fn stop_clock(&mut self, at: Millis) {
        let Some(since) = self.suspended else { return };
        self.suspended_ms = self.stopped_ms(at);
        self.suspended = None;
        let running = |step: &&mut Step| step.state == StepState::Running;
        for step in self.steps.values_mut().filter(running) {
            step.stopped_for(since, at);
        }
    }

    /// When `--signal` is to be sent; `None` if it is not asked for, has been sent, or if no limit counts down.
    #[must_use]
    pub fn warning_due(&self) -> Option<Millis> {
        let warning = self.spec.extras().signal?;
        if self.warned == self.generation {
            return None;
        }
        let end = self.limit_end()?;
        Some(Millis(
            end.0.saturating_sub(u64::from(warning.before) * 1000),
        ))
    }

    /// When its owner is to hear that a share of its limit is used up, and which.
    #[must_use]
    pub fn share_due(&self) -> Option<(Millis, u8)> {
        let wanted = &self.spec.extras().mail_type;
        if wanted.is_empty() {
            return None;
        }
        let mut shares = Occasion::SHARES.into_iter();
        let next = |share: &u8| {
            *share > self.told_percent && Occasion::TimeLimit(*share).is_wanted(wanted)
        };
        let share = shares.find(next)?;
        let (end, limit) = (self.limit_end()?, self.spec.time_limit?);
        let TimeLimit::Secs(secs) = limit else {
            return None;
        };
        let left = secs
            .saturating_mul(10)
            .saturating_mul(u64::from(100 - share));
        Some((Millis(end.0.saturating_sub(left)), share))
    }

    /// The least limit with which it may start, if that is less than its limit. Components of heterogeneous jobs start with their
    /// own.
    #[must_use]
    pub fn time_min(&self) -> Option<TimeLimit> {
        let least = self.spec.extras().time_min?;
        let less = self.spec.time_limit.is_none_or(|limit| least < limit);
        (less && self.het.is_none()).then_some(least)
    }

    /// From when on it can no longer end by its deadline, while it waits.
    #[must_use]
    pub fn too_late_from(&self) -> Option<Millis> {
        let deadline = self.spec.extras().deadline?;
        let least = match self.time_min().or(self.spec.time_limit) {
            Some(TimeLimit::Secs(secs)) => secs.saturating_mul(1000),
            Some(TimeLimit::Unlimited) | None => 0,
        };
        let last = deadline.0.saturating_sub(least);
        (self.state == JobState::Pending).then(|| Millis(last.saturating_add(1)))
    }

    /// When its limit ends it; `None` while it does not run, is stopped, or has no limit.
    #[must_use]
    pub fn limit_end(&self) -> Option<Millis> {
        if self.state != JobState::Running || self.suspended.is_some() {
            return None;
        }
        match self.spec.time_limit {
            Some(TimeLimit::Secs(secs)) => {
                let end = self.started?.plus_secs(secs);
                Some(Millis(end.0.saturating_add(self.suspended_ms)))
            }
            Some(TimeLimit::Unlimited) | None => None,
        }
    }
}
