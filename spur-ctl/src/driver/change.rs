//! `scontrol update` of jobs: what the caller may change, and when.

use super::Writer;
use super::commands::refuse;
use super::control::{all_of, per_target};
use super::turn::Turn;
use spur_core::api::{Caller, Refusal, RefusalKind, Reply};
use spur_core::event::Event;
use spur_core::id::JobId;
use spur_core::job::Job;
use spur_core::job::admit;
use spur_core::job::array::JobTarget;
use spur_core::job::change::JobChange;
use spur_core::job::state::JobState;
use spur_core::time::TimeLimit;
use std::sync::Arc;

impl Writer {
    /// Changes jobs; each target is answered for.
    pub(super) fn change_jobs(
        &mut self,
        turn: &mut Turn,
        caller: &Caller,
        targets: Vec<JobTarget>,
        change: &JobChange,
    ) -> Reply {
        per_target(targets, |target| {
            let records = self.records_alone(turn, caller, target)?;
            all_of(records, |job| self.change(turn, caller, job, change))
        })
    }

    /// Changes one record.
    pub(super) fn change(
        &mut self,
        turn: &mut Turn,
        caller: &Caller,
        id: JobId,
        change: &JobChange,
    ) -> Result<(), Refusal> {
        let job = self.job(id)?;
        if job.state.is_terminal() {
            return Err(refuse(RefusalKind::JobFinished, ""));
        }
        if job.cron().is_some() {
            return Err(refuse(RefusalKind::CronJob, ""));
        }
        if !caller.operator {
            may(job, change)?;
        }
        if change.needs_waiting() && job.state != JobState::Pending {
            return Err(refuse(RefusalKind::JobNotPending, ""));
        }
        if change.throttle.is_some() && job.array.is_none() {
            return Err(refuse(
                RefusalKind::InvalidArray,
                format!("{id} is no array"),
            ));
        }
        let mut spec = (*job.spec).clone();
        change.apply(&mut spec)?;
        admit::small_names(&mut spec);
        admit::beside(&self.cluster, &job.spec, &spec, caller.operator)?;
        if change.reshapes() {
            admit::readmit(&self.cluster, &mut spec, turn.at)?;
        }
        admit::in_time(&spec, change, turn.at)?;
        admit::charge(&self.cluster, &mut spec);
        if change.dependency.is_some() {
            admit::dependency(&self.cluster, id, &spec)?;
        }
        let hold = change.priority == Some(0);
        let changed = Event::JobChanged {
            job: id,
            spec: Arc::new(spec),
            priority: change.priority.filter(|_| !hold),
            throttle: change.throttle,
        };
        self.propose(turn, changed)
            .map_err(|why| refuse(RefusalKind::UpdateUnavailable, why))?;
        if hold {
            self.hold(turn, caller, id, caller.operator)?;
        }
        Ok(())
    }
}

/// What an owner may not change, as Slurm has it.
fn may(job: &Job, change: &JobChange) -> Result<(), Refusal> {
    let limit = job.spec.time_limit.unwrap_or(TimeLimit::Unlimited);
    let waits = job.state == JobState::Pending;
    let longer = !waits && change.time_limit.is_some_and(|new| new > limit);
    let higher = change.priority.is_some_and(|new| new > job.priority);
    let nicer = change.nice.is_some_and(|new| new < 0);
    // Notes of operators are theirs.
    let noted = change.admin_comment.is_some();
    let put_off = change.deadline.is_some();
    if longer || higher || nicer || noted || put_off {
        Err(refuse(RefusalKind::AccessDenied, ""))
    } else {
        Ok(())
    }
}
