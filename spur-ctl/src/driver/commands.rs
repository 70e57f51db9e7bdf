//! Commands of clients, as events and answers. Whether the caller may is settled before they come here; whether the state
//! allows it is settled here, since only the writer knows it.

use super::Writer;
use super::ask::{Act, Answer, Ask, Await, Command};
use super::turn::Turn;
use super::waits::WaitKind;
use spur_core::agent::order::ToAgent;
use spur_core::api::{Caller, Refusal, RefusalKind, Reply};
use spur_core::event::Event;
use spur_core::id::{JobId, NodeName, StepKind};
use spur_core::job::Job;
use spur_core::job::admit;
use spur_core::job::spec::{JobKind, JobSpec, Payload};
use spur_core::job::state::JobState;
use spur_core::manage::{self, Change, Manage};
use spur_core::node::AdminState;
use spur_core::partition::PartitionState;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The number of `SIGKILL`.
pub(super) const SIGKILL: u8 = 9;

pub(super) fn refuse(kind: RefusalKind, text: impl Into<String>) -> Refusal {
    Refusal {
        kind,
        text: text.into(),
    }
}

impl Writer {
    /// Takes one question: answers it in this turn, or lets it wait.
    pub(super) fn ask(&mut self, turn: &mut Turn, ask: Ask) {
        let Ask {
            call,
            caller,
            command,
            reply,
        } = ask;
        let waits = match command {
            Command::Act(act) => {
                let answer = self.act(turn, &caller, act);
                turn.answers.push((reply, answer));
                return;
            }
            Command::Await(_) if self.waits.is_full(&caller) => {
                Err(refuse(RefusalKind::Busy, "too many calls wait already"))
            }
            Command::Await(Await::Run {
                spec,
                step,
                immediate,
            }) => {
                let deadline = immediate.map(deadline);
                let steps = vec![*step];
                let job = self.submit(turn, *spec, None);
                job.map(|(job, _)| (job, WaitKind::Run { steps, deadline }))
            }
            Command::Await(Await::RunHet {
                specs,
                steps,
                immediate,
            }) => {
                let deadline = immediate.map(deadline);
                let job = self.submit_het(turn, specs, None);
                job.map(|(job, _)| (job, WaitKind::Run { steps, deadline }))
            }
            Command::Await(Await::Allocation(job)) => {
                self.state(job).map(|_| (job, WaitKind::Allocation))
            }
            Command::Await(Await::End(job)) => self.exists(job).map(|()| (job, WaitKind::End)),
            Command::Await(Await::Cleaned(job)) => {
                self.exists(job).map(|()| (job, WaitKind::Cleaned))
            }
            Command::Await(Await::Step(asked)) => {
                Ok((self.waits_at(&asked), WaitKind::Step(asked)))
            }
        };
        match waits {
            Ok((job, kind)) => {
                self.wait(job, (call, caller, reply), kind);
                // It may have come to that already.
                turn.notified.insert(job);
            }
            Err(refusal) => turn.answers.push((reply, Err(refusal))),
        }
    }

    /// The commands that are answered at once.
    fn act(&mut self, turn: &mut Turn, caller: &Caller, act: Act) -> Answer {
        match act {
            Act::Submit(spec, payload) => self
                .submit(turn, *spec, payload)
                .map(|(job, notices)| Reply::Submitted { job, notices }),
            Act::SubmitHet(specs, payload) => self
                .submit_het(turn, specs, payload)
                .map(|(job, notices)| Reply::Submitted { job, notices }),
            Act::SetCrontab(uid, table, jobs) => self.set_crontab(turn, uid, table, jobs),
            Act::Step(asked) => self.grant_in_order(turn, asked, caller),
            Act::Attach(job, step) => self.attach(turn, job, step, caller),
            Act::Submission(request) => self.submission(request, caller),
            Act::Finish(job, exit) => self.finish(turn, job, Event::Finished { job, exit }),
            Act::Cancel {
                jobs,
                named,
                signal,
                batch_only,
                step,
                children,
            } => {
                let how = Signalling {
                    signal,
                    batch_only,
                    step,
                    children,
                };
                let named = named.map(|filter| self.cancel_named(turn, caller, &filter, how));
                let mut outcome = named.unwrap_or_default();
                outcome.extend(each(jobs, |job| self.cancel(turn, caller, job, how)));
                Ok(Reply::PerJob(outcome))
            }
            Act::Script(job) => self.script(turn, job),
            Act::State(tell) => {
                // Whoever asked may have gone away.
                tell.send((super::now(), Box::new(self.cluster.clone())))
                    .ok();
                Ok(Reply::Done)
            }
            Act::Hold(jobs) => {
                let hold = |job| self.hold(turn, caller, job, caller.operator);
                Ok(Reply::PerJob(each(jobs, hold)))
            }
            Act::Release(jobs) => {
                let release = |job| self.release(turn, caller, job);
                Ok(Reply::PerJob(each(jobs, release)))
            }
            Act::Requeue(job) => self.requeue(turn, job).map(|()| Reply::Done),
            Act::UpdateJob(job, change) => self
                .change(turn, caller, job, &change)
                .map(|()| Reply::Done),
            Act::Control(jobs, act) => Ok(self.control(turn, caller, jobs, act)),
            Act::ChangeJobs(jobs, change) => Ok(self.change_jobs(turn, caller, jobs, &change)),
            Act::UpdateNode {
                nodes,
                admin,
                reason,
            } => self.update_nodes(turn, caller, &nodes, admin, reason.as_deref()),
            Act::UpdatePartition(name, state) => self.update_partition(turn, name, state),
            Act::Manage(request) => self.manage(turn, caller, &request),
            Act::Mesh(ask) => self.mesh(turn, caller, ask),
            Act::ResetStats => {
                self.counters.reset(turn.at);
                Ok(Reply::Done)
            }
            Act::Configure(event) => Ok(self.reconfigured(turn, *event)),
        }
    }

    /// Takes over a configuration that was read again.
    fn reconfigured(&mut self, turn: &mut Turn, event: Event) -> Reply {
        self.propose_quietly(turn, Event::Managed(Change::Reset));
        self.propose_quietly(turn, event);
        Reply::Done
    }

    fn update_partition(&mut self, turn: &mut Turn, name: String, state: PartitionState) -> Answer {
        let update = Event::PartitionUpdated {
            name: name.clone(),
            state,
        };
        self.propose(turn, update)
            .map_err(|_| refuse(RefusalKind::InvalidPartition, name))?;
        Ok(Reply::Done)
    }

    /// What an operator makes, changes or takes away.
    fn manage(&mut self, turn: &mut Turn, caller: &Caller, request: &Manage) -> Answer {
        let decision = manage::decide(&self.cluster, turn.at, caller.uid, request)?;
        for event in decision.events {
            self.propose(turn, event)
                .map_err(|why| refuse(RefusalKind::Invalid, why))?;
        }
        Ok(Reply::Managed(decision.names))
    }

    pub(super) fn job(&self, job: JobId) -> Result<&Job, Refusal> {
        self.cluster
            .jobs
            .get(&job)
            .ok_or_else(|| refuse(RefusalKind::InvalidJobId, job.to_string()))
    }

    /// Whether there is such a job or array.
    fn exists(&self, job: JobId) -> Result<(), Refusal> {
        if self.cluster.arrays.contains_key(&job) {
            return Ok(());
        }
        self.state(job).map(drop)
    }

    pub(super) fn state(&self, job: JobId) -> Result<JobState, Refusal> {
        self.job(job).map(|job| job.state)
    }

    fn submit(
        &mut self,
        turn: &mut Turn,
        mut spec: JobSpec,
        payload: Option<Payload>,
    ) -> Result<(JobId, Vec<String>), Refusal> {
        let admitted = admit::admit(&self.cluster, &mut spec, turn.at)?;
        let numbers_used_up = || refuse(RefusalKind::Busy, "every job number was used");
        let job = self.cluster.next_job_id().ok_or_else(numbers_used_up)?;
        let submitted = Event::Submitted {
            job,
            spec: Arc::new(spec),
            priority: admitted.priority,
        };
        self.propose(turn, submitted)
            .map_err(|why| refuse(RefusalKind::Invalid, why))?;
        self.submitted(turn, job, payload);
        Ok((job, admitted.notices))
    }

    /// Keeps the script of a new job; the lease of an allocation begins.
    pub(super) fn submitted(&mut self, turn: &mut Turn, job: JobId, payload: Option<Payload>) {
        if let Some(payload) = payload {
            turn.batch.payloads.push((job, payload.clone()));
            turn.payloads.insert(job, payload);
        }
        if let Some(job) = self
            .cluster
            .jobs
            .get(&job)
            .filter(|job| job.spec.kind == JobKind::Alloc)
        {
            self.waits.leave(job);
        }
    }

    /// An end that only a job which has not ended can have.
    fn finish(&mut self, turn: &mut Turn, job: JobId, event: Event) -> Answer {
        if self.state(job)?.is_terminal() {
            return Err(refuse(RefusalKind::AlreadyDone, ""));
        }
        self.propose(turn, event)
            .map_err(|why| refuse(RefusalKind::AlreadyDone, why))?;
        Ok(Reply::Done)
    }

    pub(super) fn cancel(
        &mut self,
        turn: &mut Turn,
        caller: &Caller,
        id: JobId,
        how: Signalling,
    ) -> Result<(), Refusal> {
        let job = self.job(id)?;
        if job.state.is_terminal() {
            return Err(refuse(RefusalKind::AlreadyDone, ""));
        }
        if how.ends() {
            let alone = job.het.is_some_and(|part| !part.leads());
            if alone && job.state == JobState::Pending {
                return Err(refuse(RefusalKind::NotWholeHetJob, ""));
            }
            let cancelled = Event::Cancelled {
                job: id,
                by: caller.uid,
            };
            return self
                .propose(turn, cancelled)
                .map_err(|why| refuse(RefusalKind::AlreadyDone, why));
        }
        if job.state == JobState::Pending {
            return Err(refuse(RefusalKind::JobPending, ""));
        }
        let step = match how.batch_only {
            // The whole of a job without a script is its steps.
            true if how.children && !job.steps.contains_key(&StepKind::Batch) => None,
            true => Some(StepKind::Batch),
            false => how.step,
        };
        if let Some(step) = step.filter(|step| !job.steps.contains_key(step)) {
            return Err(refuse(RefusalKind::InvalidJobId, format!("{id}.{step}")));
        }
        let signal = how.signal.unwrap_or(SIGKILL);
        for share in &job.allocation {
            turn.direct.push((
                share.node,
                ToAgent::Signal {
                    job: id,
                    step,
                    signal,
                    group: how.children && step.is_some(),
                },
            ));
        }
        if let (Some(step), SIGKILL) = (step, signal) {
            self.remember_kill(id, step);
        }
        Ok(())
    }

    fn script(&self, turn: &Turn, job: JobId) -> Answer {
        let known = self.job(job)?;
        if known.spec.kind != JobKind::Batch {
            return Err(refuse(
                RefusalKind::Invalid,
                format!("job {job} has no batch script"),
            ));
        }
        let kept = known.payload();
        if let Some(payload) = turn.payloads.get(&kept) {
            return Ok(Reply::Script(payload.script.clone()));
        }
        match self.store.payload(kept) {
            Ok(Some(payload)) => Ok(Reply::Script(payload.script)),
            Ok(None) => Err(refuse(
                RefusalKind::Invalid,
                format!("the script of job {job} is not kept any more"),
            )),
            Err(e) => Err(refuse(RefusalKind::NotDurable, e.to_string())),
        }
    }

    /// All nodes or none.
    fn update_nodes(
        &mut self,
        turn: &mut Turn,
        caller: &Caller,
        names: &[NodeName],
        admin: Option<AdminState>,
        reason: Option<&str>,
    ) -> Answer {
        let known = |name: &NodeName| {
            let id = self.cluster.node_ids.get(name).copied();
            id.ok_or_else(|| refuse(RefusalKind::InvalidNode, name.to_string()))
        };
        let ids = names.iter().map(known).collect::<Result<Vec<_>, _>>()?;
        for id in ids {
            let Some(node) = self.cluster.nodes.get(&id) else {
                continue;
            };
            let admin = admin.unwrap_or(node.admin);
            let reason = match reason {
                Some(reason) => reason.to_owned(),
                None if admin == AdminState::Up => String::new(),
                None => node.reason.clone(),
            };
            if admin != AdminState::Up && reason.is_empty() {
                return Err(refuse(
                    RefusalKind::Invalid,
                    "a reason is needed to drain a node or take it down",
                ));
            }
            self.propose_quietly(
                turn,
                Event::NodeUpdated {
                    node: id,
                    admin,
                    reason,
                    by: caller.uid,
                },
            );
        }
        Ok(Reply::Done)
    }
}

/// How a job is told to end, or signalled.
#[derive(Clone, Copy)]
pub(super) struct Signalling {
    signal: Option<u8>,
    batch_only: bool,
    step: Option<StepKind>,
    children: bool,
}

impl Signalling {
    /// Whether it ends jobs as a whole.
    pub(super) fn ends(self) -> bool {
        let whole = self.step.is_none() && !self.batch_only;
        whole && self.signal.is_none_or(|signal| signal == SIGKILL)
    }
}

/// When a call gives up that waits so many seconds.
fn deadline(secs: u64) -> Instant {
    Instant::now() + Duration::from_secs(secs.min(u64::from(u32::MAX)))
}

fn each(
    jobs: Vec<(JobId, Option<Refusal>)>,
    mut act: impl FnMut(JobId) -> Result<(), Refusal>,
) -> Vec<(JobId, Option<Refusal>)> {
    let outcome =
        |(job, refused): (JobId, Option<Refusal>)| (job, refused.or_else(|| act(job).err()));
    jobs.into_iter().map(outcome).collect()
}
