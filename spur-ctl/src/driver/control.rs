//! What `scontrol` and `scancel` do to jobs and to tasks of arrays. A task that is touched alone gets a record of its own first.

use super::Writer;
use super::commands::{Signalling, refuse};
use super::turn::Turn;
use spur_core::agent::order::ToAgent;
use spur_core::api::{Caller, JobFilter, Refusal, RefusalKind, Reply};
use spur_core::event::Event;
use spur_core::id::{JobId, NodeId};
use spur_core::job::Job;
use spur_core::job::array::{JobTarget, TaskSet};
use spur_core::job::change::JobAct;
use spur_core::job::spec::JobKind;
use spur_core::job::state::{JobState, Reason};
use spur_core::view;

/// Most tasks that get a record each when they are touched together; more get one record for all.
const ALONE_MAX: u32 = 1000;

/// Into which records tasks are split that are touched alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Split {
    /// One for each, as Slurm does.
    Each,
    /// One for all.
    Together,
    /// They stay where they are.
    Not,
}

impl Writer {
    /// Does something to jobs; each target is answered for.
    pub(super) fn control(
        &mut self,
        turn: &mut Turn,
        caller: &Caller,
        targets: Vec<JobTarget>,
        act: JobAct,
    ) -> Reply {
        per_target(targets, |target| {
            let records = self.records_alone(turn, caller, target)?;
            let records = self.acted_on(records, act)?;
            all_of(records, |job| self.control_one(turn, caller, job, act))
        })
    }

    fn control_one(
        &mut self,
        turn: &mut Turn,
        caller: &Caller,
        id: JobId,
        act: JobAct,
    ) -> Result<(), Refusal> {
        match act {
            JobAct::Hold => self.hold(turn, caller, id, caller.operator),
            JobAct::HoldByUser => self.hold(turn, caller, id, false),
            JobAct::Release => self.release(turn, caller, id),
            JobAct::Requeue => self.requeue(turn, id),
            JobAct::RequeueHold => {
                if self.job(id)?.state != JobState::Pending {
                    self.requeue(turn, id)?;
                }
                self.hold(turn, caller, id, caller.operator)
            }
            JobAct::Suspend => self.suspend(turn, caller, id),
            JobAct::Resume => self.resume(turn, caller, id),
            JobAct::Top => self.top(turn, caller, id),
        }
    }

    fn suspend(&mut self, turn: &mut Turn, caller: &Caller, id: JobId) -> Result<(), Refusal> {
        if !caller.operator {
            return Err(refuse(RefusalKind::AccessDenied, ""));
        }
        let job = self.job(id)?;
        if job.state == JobState::Pending {
            return Err(refuse(RefusalKind::JobPending, ""));
        }
        if job.state.is_terminal() {
            return Err(refuse(RefusalKind::JobFinished, ""));
        }
        if job.suspended.is_some() {
            return Err(refuse(RefusalKind::JobSuspended, ""));
        }
        self.propose(turn, Event::Suspended { job: id })
            .map_err(|why| refuse(RefusalKind::JobNotRunning, why))?;
        self.freeze(turn, id, true);
        Ok(())
    }

    fn resume(&mut self, turn: &mut Turn, caller: &Caller, id: JobId) -> Result<(), Refusal> {
        if !caller.operator {
            return Err(refuse(RefusalKind::AccessDenied, ""));
        }
        let job = self.job(id)?;
        if job.state == JobState::Pending {
            return Err(refuse(RefusalKind::JobPending, ""));
        }
        if job.state.is_terminal() {
            return Err(refuse(RefusalKind::JobFinished, ""));
        }
        self.propose(turn, Event::Resumed { job: id })
            .map_err(|why| refuse(RefusalKind::JobNotRunning, why))?;
        self.freeze(turn, id, false);
        Ok(())
    }

    fn freeze(&self, turn: &mut Turn, id: JobId, frozen: bool) {
        for id in self.cluster.together(id) {
            let held = self.cluster.jobs.get(&id).map(|job| job.allocation.iter());
            for share in held.into_iter().flatten() {
                let order = ToAgent::Freeze { job: id, frozen };
                turn.direct.push((share.node, order));
            }
        }
    }

    /// An agent that comes back is told again which of its jobs are stopped, and which no more: it may have missed it.
    pub(super) fn stopped_on(&self, node: NodeId) -> Vec<ToAgent> {
        let there = self.cluster.nodes.get(&node).map(|node| &node.jobs);
        let known = |id: &JobId| self.cluster.jobs.get(id);
        let jobs = there.into_iter().flatten().filter_map(known);
        let once = jobs.filter(|job| job.suspended.is_some() || job.suspended_ms > 0);
        let order = |job: &Job| ToAgent::Freeze {
            job: job.id,
            frozen: job.suspended.is_some(),
        };
        once.map(order).collect()
    }

    /// A waiting job comes before all others of its owner in its partition.
    fn top(&mut self, turn: &mut Turn, caller: &Caller, id: JobId) -> Result<(), Refusal> {
        if !caller.operator {
            return Err(refuse(RefusalKind::AccessDenied, ""));
        }
        let job = self.job(id)?;
        if job.state != JobState::Pending {
            return Err(refuse(RefusalKind::JobNotPending, ""));
        }
        let like = |other: &&Job| {
            other.id != id
                && other.spec.owner.uid == job.spec.owner.uid
                && other.spec.partition == job.spec.partition
        };
        let highest = self.cluster.pending().filter(like).map(|job| job.priority);
        let highest = highest.max().unwrap_or_default();
        if job.priority > highest {
            return Ok(());
        }
        let changed = Event::JobChanged {
            job: id,
            spec: job.spec.clone(),
            priority: Some(highest.saturating_add(1)),
            throttle: None,
        };
        self.propose(turn, changed)
            .map_err(|why| refuse(RefusalKind::UpdateUnavailable, why))
    }

    /// The records that a target means, the caller's own; tasks that wait with others are split off as told.
    fn records(
        &mut self,
        turn: &mut Turn,
        caller: &Caller,
        target: &JobTarget,
        split: Split,
    ) -> Result<Vec<JobId>, Refusal> {
        let unknown = || refuse(RefusalKind::InvalidJobId, target.to_string());
        let mut records: Vec<JobId> = self.cluster.members(target.job).collect();
        if records.is_empty() && target.tasks.is_none() {
            records = match target.offset {
                None => self.led_by(target.job),
                Some(offset) => self.component(target.job, offset).into_iter().collect(),
            };
        }
        let first = records.first().and_then(|id| self.cluster.jobs.get(id));
        let owner = first.ok_or_else(unknown)?.spec.owner.uid;
        if !caller.operator && owner != caller.uid {
            return Err(refuse(RefusalKind::AccessDenied, target.to_string()));
        }
        let Some(tasks) = &target.tasks else {
            return Ok(records);
        };
        let mut meant = Vec::new();
        for id in records {
            let job = self.cluster.jobs.get(&id);
            let Some(part) = job.and_then(|job| job.array.as_ref()) else {
                continue;
            };
            let here = part.view.all().common(tasks);
            let whole = here.len() == part.view.len();
            match split {
                _ if here.is_empty() => {}
                Split::Each | Split::Together if !whole => {
                    meant.extend(self.split(turn, id, &here, split)?);
                }
                Split::Each | Split::Together | Split::Not => meant.push(id),
            }
        }
        if meant.is_empty() {
            return Err(unknown());
        }
        Ok(meant)
    }

    /// The records that a target means, with one for each task that is named.
    pub(super) fn records_alone(
        &mut self,
        turn: &mut Turn,
        caller: &Caller,
        target: &JobTarget,
    ) -> Result<Vec<JobId>, Refusal> {
        self.records(turn, caller, target, Split::Each)
    }

    /// Gives some of the tasks that a record stands for records of their own.
    fn split(
        &mut self,
        turn: &mut Turn,
        id: JobId,
        tasks: &TaskSet,
        how: Split,
    ) -> Result<Vec<JobId>, Refusal> {
        if self.state(id)? != JobState::Pending {
            // Cancelled together: there is nothing to do to them.
            return Ok(vec![id]);
        }
        let used_up = || refuse(RefusalKind::Busy, "every job number was used");
        let refused = |why| refuse(RefusalKind::UpdateUnavailable, why);
        if how == Split::Together && tasks.len() > 1 || tasks.len() > ALONE_MAX {
            let new = self.cluster.next_job_id().ok_or_else(used_up)?;
            let tasks = tasks.clone();
            let event = Event::ArraySplit {
                job: id,
                tasks,
                new,
            };
            self.propose(turn, event).map_err(refused)?;
            return Ok(vec![new]);
        }
        let mut records = Vec::new();
        for task in tasks.iter() {
            let new = self.cluster.next_job_id().ok_or_else(used_up)?;
            let event = Event::TaskSplit { job: id, task, new };
            self.propose(turn, event).map_err(refused)?;
            records.push(new);
        }
        Ok(records)
    }

    /// Ends or signals jobs that are named one by one, if they also pass the rest of the filter.
    pub(super) fn cancel_named(
        &mut self,
        turn: &mut Turn,
        caller: &Caller,
        filter: &JobFilter,
        how: Signalling,
    ) -> Vec<(JobId, Option<Refusal>)> {
        let rest = JobFilter {
            ids: Vec::new(),
            targets: Vec::new(),
            all_states: filter.all_states || filter.states.is_empty(),
            ..filter.clone()
        };
        let anything = JobFilter {
            all_states: true,
            ..JobFilter::default()
        };
        let split = if how.ends() {
            Split::Together
        } else {
            Split::Not
        };
        let ids = filter.ids.iter().copied().map(JobTarget::from);
        let mut outcome = Vec::new();
        for target in ids.chain(filter.targets.iter().cloned()) {
            let mut records = match self.records(turn, caller, &target, split) {
                Ok(records) => records,
                Err(refusal) => {
                    outcome.push((target.job, Some(refusal)));
                    continue;
                }
            };
            let job = |id: &JobId| self.cluster.jobs.get(id);
            let alive = |id: &JobId| job(id).is_some_and(|job| !job.state.is_terminal());
            let led = |id: &JobId| job(id).is_some_and(|job| job.het.is_some());
            if records.iter().any(alive) {
                records.retain(alive);
            } else {
                records.truncate(1);
            }
            // The end of the leader is that of all.
            if how.ends() && records.len() > 1 && records.first().is_some_and(led) {
                records.truncate(1);
            }
            if rest != anything {
                let view = |id: &JobId| Some(view::job_view(&self.cluster, job(id)?));
                records.retain(|id| view(id).is_some_and(|view| rest.matches(&view)));
            }
            for id in records {
                outcome.push((id, self.cancel(turn, caller, id, how).err()));
            }
        }
        outcome
    }

    /// An operator's hold stays one, whatever its owner does: only operators lift it or make it the owner's.
    pub(super) fn hold(
        &mut self,
        turn: &mut Turn,
        caller: &Caller,
        job: JobId,
        by_admin: bool,
    ) -> Result<(), Refusal> {
        let held = self.job(job)?;
        if held.state.is_terminal() {
            return Err(refuse(RefusalKind::JobFinished, ""));
        }
        if held.state != JobState::Pending {
            return Err(refuse(RefusalKind::JobNotPending, ""));
        }
        if held.reason == Reason::JobHeldAdmin && !caller.operator {
            return Ok(());
        }
        self.propose(turn, Event::Held { job, by_admin })
            .map_err(|why| refuse(RefusalKind::JobNotPending, why))
    }

    pub(super) fn release(
        &mut self,
        turn: &mut Turn,
        caller: &Caller,
        id: JobId,
    ) -> Result<(), Refusal> {
        let job = self.job(id)?;
        if job.state.is_terminal() {
            return Err(refuse(RefusalKind::JobFinished, ""));
        }
        if job.state != JobState::Pending {
            return Err(refuse(RefusalKind::JobNotPending, ""));
        }
        if job.reason == Reason::JobHeldAdmin && !caller.operator {
            return Err(refuse(RefusalKind::AccessDenied, "held by an operator"));
        }
        if job.priority != 0 {
            return Ok(());
        }
        self.propose(turn, Event::Released { job: id })
            .map_err(|why| refuse(RefusalKind::JobNotPending, why))
    }

    pub(super) fn requeue(&mut self, turn: &mut Turn, id: JobId) -> Result<(), Refusal> {
        let job = self.job(id)?;
        if job.spec.kind != JobKind::Batch {
            return Err(refuse(RefusalKind::BatchOnly, ""));
        }
        if job.state == JobState::Pending {
            return Err(refuse(RefusalKind::JobPending, ""));
        }
        if !job.spec.requeue {
            return Err(refuse(RefusalKind::UpdateUnavailable, ""));
        }
        if job.tasks() > 1 {
            let text = "tasks that were cancelled while they waited cannot be requeued";
            return Err(refuse(RefusalKind::UpdateUnavailable, text));
        }
        self.propose(turn, Event::Requeued { job: id })
            .map_err(|why| refuse(RefusalKind::UpdateUnavailable, why))
    }
}

/// Answers for each target.
pub(super) fn per_target(
    targets: Vec<JobTarget>,
    mut act: impl FnMut(&JobTarget) -> Result<(), Refusal>,
) -> Reply {
    let outcome = |target: JobTarget| {
        let refusal = act(&target).err();
        (target, refusal)
    };
    Reply::PerTarget(targets.into_iter().map(outcome).collect())
}

/// Acts on every record; refused only if none was for it.
pub(super) fn all_of(
    records: Vec<JobId>,
    mut act: impl FnMut(JobId) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let (mut done, mut refused) = (false, None);
    for record in records {
        match act(record) {
            Ok(()) => done = true,
            Err(refusal) => drop(refused.get_or_insert(refusal)),
        }
    }
    match refused {
        Some(refusal) if !done => Err(refusal),
        Some(_) | None => Ok(()),
    }
}
