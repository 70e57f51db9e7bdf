//! A step's life on this node: expected or launched, watched, reported.

use super::{Agent, EARLY_MAX, EARLY_PATIENCE, Input, Running, StepKey};
use crate::act::{self, Failure};
use crate::clients::Visitor;
use crate::compose::Source;
use crate::journal::Step;
use crate::launch::{self, ExitRecord, Supervisor, step_dir};
use spur_core::agent::order::{JobOrder, Report, StepOrder};
use spur_core::agent::reconcile::{JobPhase, StepPhase};
use spur_core::id::{Generation, JobId, StepId, StepKind};
use spur_core::job::state::ExitStatus;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

/// SIGKILL, by which a step without an exit record ended.
const KILLED: u8 = 9;

/// What clients of a job hear whose set-up or prolog failed.
pub(super) const NOT_SET_UP: &str = "job could not be set up on this node";

/// Keys of all of a job's steps.
pub(super) fn of_job(job: JobId) -> RangeInclusive<StepKey> {
    (job, StepKind::Batch)..=(job, StepKind::Numbered(u32::MAX))
}

impl Agent {
    /// Starts a batch step.
    pub(super) fn launch(&mut self, step: &Arc<StepOrder>) {
        let Some(order) = self.order_of(step) else {
            return;
        };
        if self.note_start(&order, step) {
            let (node, state, step) = (
                Arc::clone(&self.node),
                self.condition.state,
                Arc::clone(step),
            );
            let key = (step.job, step.step);
            let work = move || match &step.batch {
                Some(batch) => {
                    act::start(&node, (&order, &step), Source::Batch(batch), None, state)
                }
                None => Err(Failure {
                    why: "the batch step has no script".into(),
                    node_fault: true,
                }),
            };
            self.off_loop(work, move |outcome| started(key, outcome));
        }
    }

    /// Lets the client of a numbered step in, when it comes or if it is here already.
    pub(super) fn expect(&mut self, step: &Arc<StepOrder>) {
        let key = (step.job, step.step);
        self.observed.steps.insert(key, StepPhase::Waiting);
        if let Some(visitor) = self.early.remove(&key) {
            self.visitor(visitor);
        }
    }

    /// A client came.
    pub(super) fn visitor(&mut self, visitor: Visitor) {
        let key = (visitor.ticket.step.job, visitor.ticket.step.step);
        if visitor.ticket.attach {
            return self.attach(key, visitor);
        }
        match self.observed.steps.get(&key) {
            Some(StepPhase::Waiting) => {}
            Some(StepPhase::Running | StepPhase::Ended) => {
                return visitor.refuse("step has been started already");
            }
            None if self.has_failed(key.0, visitor.ticket.generation) => {
                return visitor.refuse(NOT_SET_UP);
            }
            None if self.early.len() >= EARLY_MAX => {
                return visitor.refuse("too many clients wait for their steps; try again");
            }
            None => {
                match self.early.insert(key, visitor) {
                    Some(older) => older.refuse("another client came for this step"),
                    None => self.later(EARLY_PATIENCE, Input::VisitorLate(key)),
                }
                return;
            }
        }
        let Some(step) = self.desired.steps.get(&key).cloned() else {
            return visitor.refuse("step is not wanted any more");
        };
        if step.generation != visitor.ticket.generation {
            return visitor.refuse("ticket is for another placement of the job");
        }
        let Some(order) = self.order_of(&step) else {
            return visitor.refuse("job is not here");
        };
        if !self.note_start(&order, &step) {
            return visitor.refuse("node cannot write its journal");
        }
        let (node, state) = (Arc::clone(&self.node), self.condition.state);
        let work = move || {
            visitor.start(|open, client| {
                act::start(
                    &node,
                    (&order, &step),
                    Source::Client(open),
                    Some(client),
                    state,
                )
            })
        };
        self.off_loop(work, move |outcome| started(key, outcome));
    }

    /// A client came for a step that runs.
    fn attach(&self, key: StepKey, visitor: Visitor) {
        let placed = self.observed.jobs.get(&key.0);
        if placed.is_some_and(|(generation, _)| *generation != visitor.ticket.generation) {
            return visitor.refuse("ticket is for another placement of the job");
        }
        match self.running.get(&key) {
            Some(Running { supervisor }) => visitor.attach(|client| supervisor.attach(client)),
            None => visitor.refuse("step does not run here"),
        }
    }

    /// A client has waited for long. Once its step is ordered it waits on for its job to be set up, which takes as long as the
    /// operator's programs do.
    pub(super) fn visitor_late(&mut self, key: StepKey) {
        let Some(visitor) = self.early.get(&key) else {
            return;
        };
        let generation = visitor.ticket.generation;
        let ordered = self.desired.steps.get(&key);
        if ordered.is_some_and(|step| step.generation == generation) {
            return self.later(EARLY_PATIENCE, Input::VisitorLate(key));
        }
        self.turn_away(key, "the controller has not ordered this step");
    }

    /// Whether this placement of the job could not be set up here.
    fn has_failed(&self, job: JobId, generation: Generation) -> bool {
        let failed = self.observed.failed.get(&job);
        failed.is_some_and(|failed| *failed >= generation)
    }

    /// The client that waits for this step, if there is one, waits in vain.
    fn turn_away(&mut self, key: StepKey, why: &str) {
        if let Some(visitor) = self.early.remove(&key) {
            visitor.refuse(why);
        }
    }

    /// The same for every step of a job.
    pub(super) fn turn_all_away(&mut self, job: JobId, why: &str) {
        let waiting: Vec<_> = self.early.range(of_job(job)).map(|(key, _)| *key).collect();
        for key in waiting {
            self.turn_away(key, why);
        }
    }

    fn order_of(&self, step: &StepOrder) -> Option<Arc<JobOrder>> {
        let order = self.desired.jobs.get(&step.job)?;
        (order.generation == step.generation).then(|| Arc::clone(order))
    }

    /// Writes down that a supervisor is about to be started; `false` if that cannot be written.
    fn note_start(&mut self, order: &JobOrder, step: &StepOrder) -> bool {
        let key = (step.job, step.step);
        let tasks = u32::try_from(step.task_ids.len()).unwrap_or(u32::MAX);
        let state = Step {
            tasks,
            narrow: act::is_narrow(order, step),
            ended: false,
        };
        if let Err(error) = self.journal.step(step.job, step.step, state) {
            tracing::error!(job = %step.job, step = %step.step, %error, "the step cannot be started");
            self.observed.steps.insert(key, StepPhase::Ended);
            let why = format!("this node cannot write its journal: {error}");
            self.report_failed_start(
                key,
                step.generation,
                Failure {
                    why,
                    node_fault: true,
                },
            );
            return false;
        }
        self.observed.steps.insert(key, StepPhase::Running);
        self.starting.insert(key);
        true
    }

    pub(super) fn started(&mut self, key: StepKey, outcome: Result<Supervisor, Failure>) {
        self.starting.remove(&key);
        let phase = self.observed.jobs.get(&key.0).copied();
        match outcome {
            Ok(supervisor) => {
                self.watch(key, supervisor);
                if matches!(phase, Some((_, JobPhase::Ending))) {
                    self.kill(key.0);
                }
            }
            Err(failure) => {
                tracing::error!(job = %key.0, step = %key.1, why = failure.why, "the step cannot be started");
                let generation = phase.map_or(Generation(0), |(generation, _)| generation);
                self.observed.steps.insert(key, StepPhase::Ended);
                self.meter_step_ended(key);
                self.report_failed_start(key, generation, failure);
                self.end_job_if_last(key.0);
            }
        }
    }

    /// A step that never ran: the whole job failed to launch if that is the node's fault or the step is all there is of it.
    fn report_failed_start(
        &mut self,
        (job, step): StepKey,
        generation: Generation,
        failure: Failure,
    ) {
        let Failure { why, node_fault } = failure;
        if node_fault || step == StepKind::Batch {
            self.report(Report::LaunchFailed {
                job,
                generation,
                why,
                node_fault,
            });
        } else {
            let exit = ExitStatus { code: 1, signal: 0 };
            self.report(Report::StepEnded {
                job,
                step,
                generation,
                exit,
                oom: false,
            });
        }
        self.desired.step_ended(job, step);
        if node_fault {
            self.prove_again();
        }
    }

    /// Watches a supervisor for its end.
    pub(super) fn watch(&mut self, key: StepKey, supervisor: Supervisor) {
        let supervisor = Arc::new(supervisor);
        self.running.insert(
            key,
            Running {
                supervisor: Arc::clone(&supervisor),
            },
        );
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            if let Err(error) = crate::sys::ready::readable(supervisor.pidfd()).await {
                tracing::error!(job = %key.0, step = %key.1, %error, "cannot watch a supervisor");
            }
            drop(inputs.send(Input::SupervisorEnded(key)).await);
        });
    }

    pub(super) fn supervisor_ended(&mut self, key: StepKey) {
        let Some(Running { supervisor }) = self.running.remove(&key) else {
            return;
        };
        if let Err(error) = supervisor.reap() {
            tracing::warn!(job = %key.0, step = %key.1, %error, "cannot reap a supervisor");
        }
        self.step_over(key);
        self.end_job_if_last(key.0);
    }

    /// A step without a supervisor: whatever of it lives is killed, and its end is reported from the exit record.
    pub(super) fn step_over(&mut self, key: StepKey) {
        let (job, step) = key;
        self.kill_step(key);
        self.meter_step_ended(key);
        let Some((generation, _)) = self.observed.jobs.get(&job).copied() else {
            return;
        };
        self.observed.steps.insert(key, StepPhase::Ended);
        let record = match launch::exit_record(&self.step_dir(key)) {
            Ok(record) => record,
            Err(error) => {
                tracing::error!(%job, %step, %error, "the step's exit record is lost");
                None
            }
        };
        match record {
            // The controller gives the job up, or is about to: it hears that nothing is left of it, and not how the step ended.
            Some(ExitRecord { orphaned: true, .. }) => {
                tracing::warn!(%job, %step, "it ended while this agent was away for too long");
                if !matches!(self.observed.jobs.get(&job), Some((_, JobPhase::Ending))) {
                    self.kill(job);
                }
            }
            Some(ExitRecord {
                failure: Some(why),
                node_fault,
                ..
            }) => {
                tracing::error!(%job, %step, why, "the step could not be run");
                self.report_failed_start(key, generation, Failure { why, node_fault });
            }
            record => {
                let ExitRecord { exit, oom, .. } = record.unwrap_or_else(|| {
                    tracing::error!(%job, %step, "the step's supervisor was killed");
                    ExitRecord {
                        exit: ExitStatus {
                            code: 0,
                            signal: KILLED,
                        },
                        ..ExitRecord::default()
                    }
                });
                self.report(Report::StepEnded {
                    job,
                    step,
                    generation,
                    exit,
                    oom,
                });
                self.desired.step_ended(job, step);
            }
        }
    }

    fn meter_step_ended(&self, (job, step): StepKey) {
        if let Some(meter) = self.node.meter() {
            meter.step_ended(job, step);
        }
    }

    /// An ending job whose last supervisor ended needs no more grace.
    fn end_job_if_last(&mut self, job: JobId) {
        let ending = matches!(self.observed.jobs.get(&job), Some((_, JobPhase::Ending)));
        let more = self.has_supervisors(job);
        if ending && !more && !self.busy.contains(&job) {
            self.begin_round(job, 0);
        }
    }

    /// Kills what is in a step's cgroup.
    fn kill_step(&self, (job, step): StepKey) {
        let cgroup = self
            .node
            .root
            .job(job)
            .map(|job| job.map(|job| job.step_path(step)));
        let cgroup = cgroup.and_then(|path| path.map(crate::cgroup::Cgroup::open).transpose());
        let killed =
            cgroup.and_then(|cgroup| cgroup.flatten().map(|cgroup| cgroup.kill()).transpose());
        if let Err(error) = killed {
            tracing::warn!(%job, %step, %error, "cannot kill a step");
        }
    }

    /// Stops every process of a job, or lets all run on. The supervisors are outside and take what comes meanwhile.
    pub(super) fn freeze(&self, job: JobId, frozen: bool) {
        let group = self.node.root.job(job);
        let done = group.and_then(|group| group.map_or(Ok(()), |group| group.freeze(frozen)));
        if let Err(error) = done {
            tracing::warn!(%job, frozen, %error, "cannot stop a job's processes, or let them run on");
        }
        let of_job = self.running.iter().filter(|((of, _), _)| *of == job);
        for ((_, step), running) in of_job {
            if let Err(error) = running.supervisor.pause(frozen) {
                tracing::warn!(%job, %step, frozen, %error, "cannot stop a step's clock, or let it go on");
            }
        }
    }

    /// A signal from the controller; with `group`, for the tasks' children too.
    pub(super) fn signal(
        &mut self,
        (job, step): (JobId, Option<StepKind>),
        signal: u8,
        group: bool,
    ) {
        let chosen = |key: &StepKey| step.map_or(key.1 != StepKind::Batch, |step| step == key.1);
        let keys: Vec<StepKey> = self
            .running
            .range(of_job(job))
            .map(|(key, _)| *key)
            .filter(chosen)
            .collect();
        for key in keys {
            if signal == KILLED {
                self.kill_step(key);
            } else if let Some(Running { supervisor }) = self.running.get(&key)
                && let Err(error) = supervisor.signal(signal, group)
            {
                tracing::warn!(%job, step = %key.1, signal, %error, "a step's supervisor takes no signal");
            }
        }
        if signal == KILLED {
            self.end_waiting(job, chosen);
        }
    }

    /// Steps whose client has not come, or whose job is still being set up, are over without having begun.
    fn end_waiting(&mut self, job: JobId, chosen: impl Fn(&StepKey) -> bool) {
        let Some((generation, _)) = self.observed.jobs.get(&job).copied() else {
            return;
        };
        let begun = &self.observed.steps;
        let wait = begun
            .range(of_job(job))
            .filter(|(_, phase)| **phase == StepPhase::Waiting);
        let ordered = self.desired.steps.range(of_job(job));
        let to_come =
            ordered.filter(|(key, step)| step.generation == generation && !begun.contains_key(key));
        let wait = wait.map(|(key, _)| *key);
        let wait: Vec<_> = wait.chain(to_come.map(|(key, _)| *key)).collect();
        for key in wait.into_iter().filter(chosen) {
            self.turn_away(key, "step was killed before it began");
            self.observed.steps.insert(key, StepPhase::Ended);
            let exit = ExitStatus {
                code: 0,
                signal: KILLED,
            };
            self.report(Report::StepEnded {
                job,
                step: key.1,
                generation,
                exit,
                oom: false,
            });
            self.desired.step_ended(job, key.1);
        }
    }

    /// The folder of a step.
    pub(super) fn step_dir(&self, (job, step): StepKey) -> PathBuf {
        step_dir(&self.node.config.state_dir, StepId { job, step })
    }
}

fn started(key: StepKey, outcome: Result<Result<Supervisor, Failure>, Failure>) -> Input {
    let outcome = outcome.and_then(|outcome| outcome);
    Input::Started { key, outcome }
}
