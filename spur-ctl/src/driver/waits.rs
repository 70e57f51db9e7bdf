//! Calls that wait, and the leases of jobs that live only as long as their client.
//!
//! A `Run` or `Alloc` job whose owner has had no waiting call open for [`LEASE`] is ended: its client is gone for good. After a
//! restart every such job starts with a fresh lease, so a client has that long to come back.

use super::ask::{Answer, Asked};
use super::turn::Turn;
use super::{Input, Writer};
use spur_core::api::{Caller, Refusal, RefusalKind, Reply};
use spur_core::cluster::Cluster;
use spur_core::event::Event;
use spur_core::id::{JobId, Uid};
use spur_core::job::Job;
use spur_core::job::spec::JobKind;
use spur_core::job::state::JobState;
use spur_core::job::step::StepSpec;
use spur_core::view;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// How long a job outlives its client's last waiting call.
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// Most calls that wait at once; more are told that the controller is busy.
pub(super) const WAITS_MAX: usize = 65_536;

/// Most of one user other than root, once half of all places are taken: one user must not keep the others out.
const USER_WAITS_MAX: usize = WAITS_MAX / 4;

/// A call that waits.
pub(super) struct Wait {
    /// Its number.
    pub(super) call: u64,
    /// Who waits.
    pub(super) caller: Caller,
    /// For what.
    pub(super) kind: WaitKind,
    /// Where the answer goes.
    pub(super) reply: oneshot::Sender<Answer>,
    /// Turn in which it came.
    born: u64,
}

/// What a call waits for.
pub(super) enum WaitKind {
    /// The allocation, and then a step in it.
    Run {
        /// The step; of a heterogeneous job its part in each component.
        steps: Vec<StepSpec>,
        /// When to give up.
        deadline: Option<Instant>,
    },
    /// The allocation.
    Allocation,
    /// The end.
    End,
    /// The end, and that nothing is left of it on any node.
    Cleaned,
    /// Room for a step.
    Step(Asked),
}

impl WaitKind {
    /// Whether a job of a client's lives while the call is open: whoever waits for a step of it may be anybody's child.
    fn keeps(&self) -> bool {
        !matches!(self, Self::Step(_))
    }
}

/// A waiting call and what it will be told once the turn is durable.
pub(super) struct Answered {
    /// The job it waited for.
    pub(super) job: JobId,
    /// The call.
    pub(super) wait: Wait,
    /// Its answer.
    pub(super) answer: Answer,
}

#[derive(Default)]
pub(super) struct Waits {
    by_job: BTreeMap<JobId, Vec<Wait>>,
    jobs: BTreeMap<u64, JobId>,
    /// When `Run` calls give up.
    deadlines: BTreeSet<(Instant, JobId)>,
    /// Jobs whose client is away, and until when they live.
    away: BTreeMap<JobId, Instant>,
    away_order: BTreeSet<(Instant, JobId)>,
    /// Calls that ended while the store failed.
    gone: Vec<u64>,
}

impl Waits {
    /// Whether there is no place for another call of this caller.
    pub(super) fn is_full(&self, caller: &Caller) -> bool {
        // Counted only when it matters: callers are many and places are plenty.
        if self.jobs.len() < WAITS_MAX / 2 || caller.uid == Uid(0) {
            return self.jobs.len() >= WAITS_MAX;
        }
        let waits = self.by_job.values().flatten();
        let own = waits.filter(|wait| wait.caller.uid == caller.uid).count();
        self.jobs.len() >= WAITS_MAX || own >= USER_WAITS_MAX
    }

    pub(super) fn add(
        &mut self,
        job: JobId,
        turn: u64,
        ask: (u64, Caller, oneshot::Sender<Answer>),
        kind: WaitKind,
    ) {
        let (call, caller, reply) = ask;
        self.put_back(
            job,
            Wait {
                call,
                caller,
                kind,
                reply,
                born: turn,
            },
        );
    }

    pub(super) fn put_back(&mut self, job: JobId, wait: Wait) {
        if let WaitKind::Run {
            deadline: Some(deadline),
            ..
        } = wait.kind
        {
            self.deadlines.insert((deadline, job));
        }
        if wait.kind.keeps() {
            self.back(job);
        }
        self.jobs.insert(wait.call, job);
        // In the order in which they came, also what is put back.
        let waits = self.by_job.entry(job).or_default();
        let at = waits.partition_point(|other| other.call < wait.call);
        waits.insert(at, wait);
    }

    /// Takes a call out, whether it is answered or gone.
    fn take(&mut self, call: u64) -> Option<(JobId, Wait)> {
        let job = self.jobs.remove(&call)?;
        let waits = self.by_job.get_mut(&job)?;
        let at = waits.iter().position(|wait| wait.call == call)?;
        // In order: steps are granted to those who came first.
        let wait = waits.remove(at);
        if waits.is_empty() {
            self.by_job.remove(&job);
        }
        if let WaitKind::Run {
            deadline: Some(deadline),
            ..
        } = wait.kind
        {
            self.deadlines.remove(&(deadline, job));
        }
        Some((job, wait))
    }

    /// Calls of the job that wait.
    pub(super) fn of(&self, job: JobId) -> impl Iterator<Item = &Wait> {
        self.by_job.get(&job).into_iter().flatten()
    }

    /// The client is there.
    fn back(&mut self, job: JobId) {
        if let Some(until) = self.away.remove(&job) {
            self.away_order.remove(&(until, job));
        }
    }

    /// The client is away from now on, unless it still has a call open.
    pub(super) fn leave(&mut self, job: &Job) {
        let leased =
            matches!(job.spec.kind, JobKind::Run | JobKind::Alloc) && !job.state.is_terminal();
        let owner = job.spec.owner.uid;
        // The client of a heterogeneous job waits for its leader.
        let follows = job.het.is_some_and(|part| !part.leads());
        if !leased
            || follows
            || self.away.contains_key(&job.id)
            || self
                .of(job.id)
                .any(|wait| wait.kind.keeps() && wait.caller.uid == owner)
        {
            return;
        }
        let until = Instant::now() + LEASE;
        self.away.insert(job.id, until);
        self.away_order.insert((until, job.id));
    }

    /// When the next lease or wait ends.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let first = |set: &BTreeSet<(Instant, JobId)>| set.first().map(|(when, _)| *when);
        [first(&self.away_order), first(&self.deadlines)]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn remember_gone(&mut self, call: u64) {
        if self.jobs.contains_key(&call) {
            self.gone.push(call);
        }
    }

    /// After a turn that never was: the calls that it brought, and those whose job it brought.
    pub(super) fn roll_back(&mut self, turn: u64, cluster: &Cluster) -> Vec<Wait> {
        let lost = |(job, waits): (&JobId, &Vec<Wait>)| {
            let known = cluster.jobs.contains_key(job);
            waits
                .iter()
                .filter(|wait| !known || wait.born == turn)
                .map(|wait| wait.call)
                .collect::<Vec<_>>()
        };
        let calls: Vec<u64> = self.by_job.iter().flat_map(lost).collect();
        let lost = calls
            .into_iter()
            .filter_map(|call| self.take(call))
            .map(|(_, wait)| wait)
            .collect();
        for job in cluster.jobs.values() {
            self.leave(job);
        }
        lost
    }
}

impl Writer {
    /// Lets a call wait for a job.
    pub(super) fn wait(
        &mut self,
        job: JobId,
        ask: (u64, Caller, oneshot::Sender<Answer>),
        kind: WaitKind,
    ) {
        self.waits.add(job, self.turn, ask, kind);
    }

    /// A client went away. If it waited for a job of its own to start, the job goes with it.
    pub(super) fn call_gone(&mut self, turn: &mut Turn, call: u64) {
        let Some((job, wait)) = self.waits.take(call) else {
            return;
        };
        if matches!(wait.kind, WaitKind::Run { .. }) {
            self.propose_quietly(
                turn,
                Event::Cancelled {
                    job,
                    by: wait.caller.uid,
                },
            );
        }
        if let Some(job) = self.cluster.jobs.get(&job) {
            self.waits.leave(job);
        }
    }

    /// Ends jobs whose client stayed away.
    pub(super) fn end_leases(&mut self, turn: &mut Turn, now: Instant) {
        for call in std::mem::take(&mut self.waits.gone) {
            self.call_gone(turn, call);
        }
        while let Some((_, job)) = self
            .waits
            .away_order
            .first()
            .copied()
            .filter(|(until, _)| *until <= now)
        {
            self.waits.back(job);
            let Some(owner) = self.cluster.jobs.get(&job).map(|job| job.spec.owner.uid) else {
                continue;
            };
            tracing::info!(%job, "its client is gone: ended");
            self.propose_quietly(turn, Event::Cancelled { job, by: owner });
        }
    }

    /// Ends jobs that did not start within the time that their client gives them.
    pub(super) fn end_immediates(&mut self, turn: &mut Turn, now: Instant) {
        while let Some((deadline, job)) = self
            .waits
            .deadlines
            .first()
            .copied()
            .filter(|(when, _)| *when <= now)
        {
            self.waits.deadlines.remove(&(deadline, job));
            let waiting = self
                .waits
                .of(job)
                .find(|wait| matches!(wait.kind, WaitKind::Run { .. }));
            let Some((call, by)) = waiting.map(|wait| (wait.call, wait.caller.uid)) else {
                continue;
            };
            self.propose_quietly(turn, Event::Cancelled { job, by });
            let refusal = Refusal {
                kind: RefusalKind::CannotStartImmediately,
                text: String::new(),
            };
            self.answer_wait(turn, call, Err(refusal));
        }
    }

    /// Answers the calls whose job has come to what they wait for; grants the steps of `Run` calls.
    pub(super) fn settle(&mut self, turn: &mut Turn) {
        // A grant notifies its own job; nothing is left to settle for it then, so this ends.
        while let Some(job) = turn.notified.pop_first() {
            let others = self.waits.of(job).filter(|wait| wait.kind.keeps());
            let calls: Vec<u64> = others.map(|wait| wait.call).collect();
            for call in calls {
                if let Some(answer) = self.outcome(turn, job, call) {
                    self.answer_wait(turn, call, answer);
                }
            }
            self.grant_waiting(turn, job);
            match self.cluster.jobs.get(&job) {
                Some(known) if !known.state.is_terminal() => self.waits.leave(known),
                Some(_) | None => self.waits.back(job),
            }
        }
    }

    /// What a waiting call can be told now.
    fn outcome(&mut self, turn: &mut Turn, job: JobId, call: u64) -> Option<Answer> {
        let wait = self.waits.of(job).find(|wait| wait.call == call)?;
        let end = matches!(wait.kind, WaitKind::End | WaitKind::Cleaned);
        if let (true, Some(array)) = (end, self.cluster.arrays.get(&job)) {
            return array.is_over().then(|| self.array_ended(job));
        }
        let Some(state) = self.cluster.jobs.get(&job).map(|job| job.state) else {
            return Some(Err(Refusal {
                kind: RefusalKind::InvalidJobId,
                text: job.to_string(),
            }));
        };
        match (&wait.kind, state) {
            (WaitKind::Run { .. } | WaitKind::Allocation, JobState::Pending) => None,
            (WaitKind::Run { .. } | WaitKind::Allocation, JobState::Running)
                if self.cluster.is_preparing(job) =>
            {
                None
            }
            (WaitKind::Allocation, JobState::Running) => Some(self.allocated(job)),
            (WaitKind::Run { steps, .. }, JobState::Running) => {
                let (steps, caller) = (steps.clone(), wait.caller.clone());
                Some(self.grant_first(turn, job, steps, &caller))
            }
            (WaitKind::End | WaitKind::Cleaned, JobState::Pending | JobState::Running) => None,
            (WaitKind::Cleaned, _) if !self.is_cleaned(job) => None,
            (WaitKind::End | WaitKind::Cleaned, _) => Some(self.ended(job)),
            (WaitKind::Run { .. } | WaitKind::Allocation, _) => Some(Err(self.ended_early(job))),
            // See `grant_waiting`.
            (WaitKind::Step(_), _) => None,
        }
    }

    /// Whether nothing is left of a job anywhere.
    fn is_cleaned(&self, job: JobId) -> bool {
        let known = self.cluster.jobs.get(&job);
        known.is_none_or(|job| job.leftovers.is_empty())
    }

    pub(super) fn answer_wait(&mut self, turn: &mut Turn, call: u64, answer: Answer) {
        if let Some((job, wait)) = self.waits.take(call) {
            turn.answered.push(Answered { job, wait, answer });
        }
    }

    /// The answer to a call that waited for an allocation.
    pub(super) fn allocated(&self, job: JobId) -> Answer {
        self.view(job).map(|job| Reply::Allocated { job })
    }

    /// The answer to a call that waited for the end.
    pub(super) fn ended(&self, job: JobId) -> Answer {
        self.view(job).map(|job| Reply::Ended { job })
    }

    /// The same for an array, of which every task has ended: one of its records, with the worst status of all.
    fn array_ended(&self, array: JobId) -> Answer {
        let record = self.cluster.members(array).next().unwrap_or(array);
        let mut view = self.view(record)?;
        let worst = self.cluster.arrays.get(&array).map(|array| array.worst);
        view.exit = worst.unwrap_or(view.exit);
        Ok(Reply::Ended { job: view })
    }

    /// Why a job that somebody waited for will not start.
    pub(super) fn ended_early(&self, job: JobId) -> Refusal {
        let text = self
            .cluster
            .jobs
            .get(&job)
            .map(|job| job.reason_text.clone())
            .unwrap_or_default();
        Refusal {
            kind: RefusalKind::JobEnded,
            text,
        }
    }

    fn view(&self, job: JobId) -> Result<Box<spur_core::api::JobView>, Refusal> {
        let found = self.cluster.jobs.get(&job);
        found
            .map(|job| Box::new(view::job_view(&self.cluster, job)))
            .ok_or_else(|| Refusal {
                kind: RefusalKind::InvalidJobId,
                text: job.to_string(),
            })
    }
}

/// Tells the writer that a call is over when it is dropped unanswered.
#[derive(Debug)]
pub struct Watch {
    call: u64,
    inbox: Option<tokio::sync::mpsc::Sender<Input>>,
}

impl Watch {
    /// Watches a call.
    pub fn new(call: u64, inbox: tokio::sync::mpsc::Sender<Input>) -> Self {
        Self {
            call,
            inbox: Some(inbox),
        }
    }

    /// It was answered.
    pub fn answered(mut self) {
        self.inbox = None;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(inbox) = self.inbox.take() else {
            return;
        };
        let gone = Input::CallGone { call: self.call };
        // The inbox may be full; this message must not be lost, and dropping cannot wait. There is at most one for each call.
        if let (Err(full), Ok(runtime)) =
            (inbox.try_send(gone), tokio::runtime::Handle::try_current())
        {
            drop(runtime.spawn(async move { inbox.send(full.into_inner()).await.ok() }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spur_core::id::Gid;

    #[test]
    fn one_user_s_calls_do_not_keep_others_from_waiting() {
        let caller = |uid| Caller {
            uid: Uid(uid),
            gid: Gid(uid),
            pid: 1,
            operator: false,
        };
        let mut waits = Waits::default();
        let mut call = 0;
        while !waits.is_full(&caller(7)) {
            let (reply, _) = oneshot::channel();
            let ask = (call, caller(7), reply);
            // Many on one job would be slow to take out, and are not what this is about.
            let job = JobId(u32::try_from(call).unwrap());
            waits.add(job, 1, ask, WaitKind::End);
            call += 1;
        }
        assert_eq!(waits.jobs.len(), WAITS_MAX / 2);
        assert!(!waits.is_full(&caller(8)) && !waits.is_full(&caller(0)));
        for call in call / 2 - 1..call {
            waits.take(call);
        }
        assert!(!waits.is_full(&caller(7)), "places come back");
    }
}
