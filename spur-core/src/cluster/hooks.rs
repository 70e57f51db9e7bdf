//! Programs of the operator on the controller's host around allocations (`PrologSlurmctld`, `EpilogSlurmctld`): which are due, and what
//! follows from how they ended.
//!
//! A job whose prolog runs is `Running` for the reason `Prolog`: it holds what it was given, no node hears of it (see
//! [`super::orders`]), and steps wait; components of a heterogeneous job begin together. What is due is part of the state, so that a controller that starts again runs it again.

use super::end::Ending;
use super::{Cluster, Taken};
use crate::effect::{Effect, Effects};
use crate::id::{Generation, JobId, Uid};
use crate::job::Job;
use crate::job::spec::JobKind;
use crate::job::state::{Cause, ExitStatus, JobState, Reason};
use crate::time::Millis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Seconds that a job waits after its prolog failed, as in Slurm: what ails the controller's host is not cured by trying at once.
pub(super) const REST_SECS: u64 = 120;

/// Most jobs that wait for programs; what ends beyond them is not followed by one.
pub(super) const DUE_MAX: usize = 65_536;

/// Most programs that are due for one job, which may be put back again and again, before it goes without an epilog.
pub(super) const EACH_MAX: usize = 16;

/// Which programs the controller runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hooks {
    /// Before a job starts.
    pub prolog: bool,
    /// After a job has left its allocation.
    pub epilog: bool,
}

/// When a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HookKind {
    /// Before the job starts.
    Prolog,
    /// After it has left its allocation, also to be queued again.
    Epilog,
}

/// A program that is due for a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// Before or after.
    pub kind: HookKind,
    /// Of which placement.
    pub generation: Generation,
    /// What it is told by its environment.
    pub env: Vec<(String, String)>,
}

impl Cluster {
    pub(super) fn on_hooks_configured(&mut self, hooks: Hooks) -> Taken {
        self.hooks = hooks;
        Ok(())
    }

    /// A job was placed: it waits for its prolog, if there is one.
    pub(super) fn hold_for_prolog(&mut self, id: JobId, fx: &mut Effects) {
        if !self.hooks.prolog {
            return;
        }
        if let Some(job) = self.jobs.get_mut(&id) {
            job.reason = Reason::Prolog;
        }
        self.hook_due(id, HookKind::Prolog, fx);
    }

    /// A job left its allocation.
    pub(super) fn follow_with_epilog(&mut self, id: JobId, fx: &mut Effects) {
        let room = match self.hooks_due.get(&id) {
            Some(due) => due.len() < EACH_MAX,
            None => self.hooks_due.len() < DUE_MAX,
        };
        if self.hooks.epilog && room {
            self.hook_due(id, HookKind::Epilog, fx);
        }
    }

    fn hook_due(&mut self, id: JobId, kind: HookKind, fx: &mut Effects) {
        let Some(job) = self.jobs.get(&id) else {
            return;
        };
        let context = match kind {
            HookKind::Prolog => "prolog_slurmctld",
            HookKind::Epilog => "epilog_slurmctld",
        };
        let mut env = self.job_env(job, kind == HookKind::Epilog);
        env.push(("SLURM_SCRIPT_CONTEXT", context.to_owned()));
        let hook = Hook {
            kind,
            generation: job.generation,
            env: env
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        };
        self.hooks_due.entry(id).or_default().push(hook);
        fx.effects.push(Effect::Hook { job: id });
    }

    /// A program ended, or was given up; `trouble` says why, if all was not well.
    pub(super) fn on_hook_ended(
        &mut self,
        at: Millis,
        id: JobId,
        (generation, kind): (Generation, HookKind),
        trouble: Option<&str>,
        fx: &mut Effects,
    ) -> Taken {
        let due = self
            .hooks_due
            .get_mut(&id)
            .ok_or("no program is due for the job")?;
        let same = |hook: &Hook| (hook.generation, hook.kind) == (generation, kind);
        let at_index = due.iter().position(same).ok_or("that program is not due")?;
        due.remove(at_index);
        if due.is_empty() {
            self.hooks_due.remove(&id);
        } else {
            fx.effects.push(Effect::Hook { job: id });
        }
        let of_now = |job: &&Job| job.generation == generation && job.is_preparing();
        if kind == HookKind::Epilog || self.jobs.get(&id).filter(of_now).is_none() {
            return Ok(());
        }
        if let Some(why) = trouble {
            return self.not_prepared(at, id, why, fx);
        }
        self.begin_together(id, fx);
        Ok(())
    }

    /// Begins a job and its other components, if the prologs of all that wait are over.
    fn begin_together(&mut self, id: JobId, fx: &mut Effects) {
        let mut waiting = self.together(id);
        waiting.retain(|id| self.is_preparing(*id));
        if !waiting.iter().any(|id| self.prolog_is_due(*id)) {
            for id in waiting {
                self.begin(id, fx);
            }
        }
    }

    /// Begins components that waited for one that left alone.
    pub(super) fn begin_without(&mut self, left: &BTreeSet<JobId>, fx: &mut Effects) {
        for id in left {
            let alone = self.het_part(*id).is_some() && !self.is_preparing(*id);
            if alone {
                self.begin_together(*id, fx);
            }
        }
    }

    /// Whether the prolog of the job's present placement is still to end.
    fn prolog_is_due(&self, id: JobId) -> bool {
        let due = self.hooks_due.get(&id).map_or(&[][..], Vec::as_slice);
        self.jobs.get(&id).is_some_and(|job| {
            due.iter()
                .any(|hook| (hook.generation, hook.kind) == (job.generation, HookKind::Prolog))
        })
    }

    /// The prologs of all its components are over: the job's nodes hear of it.
    fn begin(&mut self, id: JobId, fx: &mut Effects) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        job.reason = Reason::None;
        for share in &job.allocation {
            fx.effects.push(Effect::Assign {
                node: share.node,
                job: id,
            });
        }
        for step in job.steps.values() {
            for part in &step.shares {
                fx.effects.push(Effect::Launch {
                    node: part.share.node,
                    job: id,
                    step: step.kind,
                });
            }
        }
        fx.touched_jobs.insert(id);
        fx.effects.push(Effect::Notify { job: id });
    }

    /// Its prolog failed: a batch job goes back to the queue, for a while; one that cannot, and one that somebody waits for, is over.
    fn not_prepared(&mut self, at: Millis, id: JobId, why: &str, fx: &mut Effects) -> Taken {
        let text = format!("PrologSlurmctld failed: {why}");
        let job = self.jobs.get(&id).ok_or("no such job")?;
        if job.spec.kind == JobKind::Batch && job.spec.requeue {
            self.requeue_together(at, id, None, None, fx)?;
            for id in self.together(id) {
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.eligible = at.plus_secs(REST_SECS);
                    job.reason = Reason::BeginTime;
                    job.reason_text.clone_from(&text);
                    fx.touched_jobs.insert(id);
                }
            }
            return Ok(());
        }
        for id in self.together(id) {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.cancelled_by = Some(Uid(0));
            }
        }
        let ending = Ending {
            cause: Cause::Cancelled,
            reason: Reason::None,
            text,
            exit: ExitStatus { code: 0, signal: 9 },
        };
        self.end_together(at, id, &ending, None, fx)
    }

    /// Whether a job waits for its prolog, or for that of another component.
    pub fn is_preparing(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(Job::is_preparing)
    }

    /// Programs that are due, by job: of each job one after another.
    pub fn hooks_due(&self) -> impl Iterator<Item = (JobId, &[Hook])> {
        self.hooks_due
            .iter()
            .map(|(job, due)| (*job, due.as_slice()))
    }

    /// The program that is due for a job next.
    pub fn hook_of(&self, id: JobId) -> Option<&Hook> {
        self.hooks_due.get(&id)?.first()
    }
}

impl Job {
    /// Whether it was placed and waits for the controller's prolog.
    pub fn is_preparing(&self) -> bool {
        self.state == JobState::Running && self.reason == Reason::Prolog
    }
}
