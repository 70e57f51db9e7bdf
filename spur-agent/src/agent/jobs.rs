//! A job's life on this node: set up, ended, removed.

use super::{Agent, Input};
use crate::act::{self, Failure, Left};
use crate::journal::Phase;
use crate::launch::EndReason;
use crate::node::now;
use spur_core::agent::order::{JobOrder, Report};
use spur_core::agent::reconcile::{JobPhase, StepPhase};
use spur_core::id::{Generation, JobId};
use spur_core::resources::IdSet;
use spur_core::time::{Millis, TimeLimit};
use spur_ebpf::{Counters, JobFence};
use std::sync::Arc;
use std::time::Duration;

/// Longest pause between two rounds of ending a job that does not end.
const ROUND_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Rounds without a process of the job after which supervisors are killed.
const PATIENT_ROUNDS: u32 = 4;

/// Pause between two attempts to remove an ended job.
const CLEAN_PAUSE: Duration = Duration::from_secs(3);

/// How long after a supervisor's own deadline the agent kills for it.
const GRACE_SLACK: Duration = Duration::from_secs(2);

impl Agent {
    pub(super) fn prepare(&mut self, order: Arc<JobOrder>) {
        let (job, generation) = (order.job, order.generation);
        if let Err(error) = self.journal.begin_job(&order) {
            self.observed.failed.insert(job, generation);
            let why = format!("this node cannot write its journal: {error}");
            return self.report(Report::LaunchFailed {
                job,
                generation,
                why,
                node_fault: true,
            });
        }
        // Counts as here from now on, so that nothing that it holds is given to another meanwhile.
        self.observed
            .jobs
            .insert(job, (generation, JobPhase::Prepared));
        self.observed
            .shares
            .extend(order.here().map(|here| (job, here.share.clone())));
        self.busy.insert(job);
        let (node, state) = (Arc::clone(&self.node), self.condition.state);
        self.off_loop(
            move || act::prepare(&node, &order, state),
            move |outcome| Input::Prepared {
                job,
                generation,
                outcome: outcome.and_then(|outcome| outcome),
            },
        );
    }

    pub(super) fn prepared(
        &mut self,
        job: JobId,
        generation: Generation,
        outcome: Result<Option<JobFence>, Failure>,
    ) {
        self.busy.remove(&job);
        match outcome {
            Ok(fence) => {
                let fenced = fence.is_some();
                self.fences.extend(fence.map(|fence| (job, fence)));
                if self.programs.prolog.is_empty() {
                    self.journalled(|journal| journal.job_ready(job, fenced));
                    self.observed
                        .jobs
                        .insert(job, (generation, JobPhase::Ready));
                } else {
                    self.journalled(|journal| journal.job_prepared(job, fenced));
                }
            }
            Err(Failure { why, node_fault }) => {
                tracing::error!(%job, why, "the job cannot be started here");
                self.turn_all_away(job, super::steps::NOT_SET_UP);
                self.forget(job);
                self.journalled(|journal| journal.forget(job));
                self.observed.failed.insert(job, generation);
                self.report(Report::LaunchFailed {
                    job,
                    generation,
                    why,
                    node_fault,
                });
                if node_fault {
                    self.prove_again();
                }
            }
        }
    }

    /// Begins to end a job: TERM to its steps, KILL when the grace is over; at once where no step runs.
    pub(super) fn kill(&mut self, job: JobId) {
        let Some((generation, phase)) = self.observed.jobs.get_mut(&job) else {
            return;
        };
        let generation = *generation;
        *phase = JobPhase::Ending;
        self.note_phase(job, Phase::Ending);
        // What is stopped hears no request to end.
        self.freeze(job, false);
        let grace = Duration::from_secs(self.node.config.kill_wait);
        let reason = if self.is_over_time(job) {
            EndReason::TimeLimit
        } else {
            EndReason::Cancelled
        };
        // The batch shell last: it takes its srun with it, which would kill its step before that was asked to end.
        for (_, step) in self.running.range(super::steps::of_job(job)).rev() {
            if let Err(error) = step.supervisor.end(grace, reason) {
                tracing::warn!(%job, %error, "a step's supervisor takes no order; its cgroup is killed when the grace is over");
            }
        }
        if self.has_supervisors(job) {
            self.later(grace + GRACE_SLACK, Input::GraceOver(job, generation));
        } else {
            self.begin_round(job, 0);
        }
    }

    fn is_over_time(&self, job: JobId) -> bool {
        let Some(entry) = self.journal.jobs().get(&job) else {
            return false;
        };
        match entry.order.time_limit {
            TimeLimit::Secs(secs) => now() >= Millis(entry.order.started.plus_secs(secs).0),
            TimeLimit::Unlimited => false,
        }
    }

    fn is_ending(&self, job: JobId) -> bool {
        matches!(self.observed.jobs.get(&job), Some((_, JobPhase::Ending)))
    }

    pub(super) fn grace_over(&mut self, job: JobId, generation: Generation) {
        let same = self
            .observed
            .jobs
            .get(&job)
            .is_some_and(|(held, _)| *held == generation);
        if same {
            self.round_due(job, 0);
        }
    }

    pub(super) fn round_due(&mut self, job: JobId, rounds: u32) {
        if self.is_ending(job) && !self.busy.contains(&job) {
            self.begin_round(job, rounds);
        }
    }

    /// A round of ending, see [`act::end`].
    pub(super) fn begin_round(&mut self, job: JobId, rounds: u32) {
        self.busy.insert(job);
        let gpus = self
            .observed
            .shares
            .get(&job)
            .map_or_else(IdSet::new, |share| share.gpus.clone());
        let node = Arc::clone(&self.node);
        self.off_loop(
            move || act::end(&node, job, &gpus),
            move |left| {
                let left = left.map_err(|failure| failure.why);
                let left = left.and_then(|left| left.map_err(|error| error.to_string()));
                let left = left.unwrap_or_else(Left::Something);
                Input::Round { job, rounds, left }
            },
        );
    }

    pub(super) fn round_over(&mut self, job: JobId, rounds: u32, left: Left) {
        if !self.is_ending(job) {
            return;
        }
        self.busy.remove(&job);
        match left {
            Left::Nothing => {
                self.stuck.remove(&job);
                self.end_lost_steps(job);
                if self.has_supervisors(job) {
                    // Its processes are gone. A supervisor is about to say how they ended, or hangs on a client that does not
                    // read; how they ended is in its exit record by then.
                    if rounds >= PATIENT_ROUNDS {
                        self.kill_supervisors(job);
                    }
                    return self.again(job, rounds);
                }
                if let Some((_, phase)) = self.observed.jobs.get_mut(&job) {
                    *phase = JobPhase::Gone;
                }
            }
            Left::Something(what) => {
                tracing::warn!(%job, rounds, what, "the job does not end; its devices stay held");
                self.stuck.insert(job, what);
                self.send_condition();
                self.again(job, rounds);
            }
        }
    }

    /// Whether a step of the job has a supervisor, or is about to.
    pub(super) fn has_supervisors(&self, job: JobId) -> bool {
        let steps = super::steps::of_job(job);
        self.running.range(steps.clone()).next().is_some()
            || self.starting.range(steps).next().is_some()
    }

    fn kill_supervisors(&self, job: JobId) {
        for (key, step) in self.running.range(super::steps::of_job(job)) {
            let signal = rustix::process::Signal::KILL;
            if let Err(error) = rustix::process::pidfd_send_signal(step.supervisor.pidfd(), signal)
            {
                tracing::warn!(%job, step = %key.1, %error, "cannot kill a supervisor");
            }
        }
    }

    fn again(&self, job: JobId, rounds: u32) {
        let pause = Duration::from_millis(50 << rounds.min(10)).min(ROUND_PAUSE_MAX);
        self.later(pause, Input::RoundDue(job, rounds + 1));
    }

    pub(super) fn clean(&mut self, job: JobId, generation: Generation) {
        self.busy.insert(job);
        self.send_refusals();
        let (node, fence) = (Arc::clone(&self.node), self.fences.get(&job).cloned());
        self.off_loop(
            move || act::clean(&node, job, fence.as_ref()),
            move |outcome| Input::Cleaned {
                job,
                generation,
                outcome: outcome.and_then(|outcome| outcome),
            },
        );
    }

    pub(super) fn job_cleaned(
        &mut self,
        job: JobId,
        generation: Generation,
        outcome: Result<Counters, Failure>,
    ) {
        match outcome {
            Ok(counters) => {
                self.busy.remove(&job);
                self.send_final_count(job, counters);
                if self.begin_epilog(job, generation) {
                    return;
                }
                self.forget(job);
                self.report_cleaned(job, generation);
            }
            Err(Failure { why, .. }) => {
                tracing::warn!(%job, why, "the ended job cannot be removed yet");
                self.stuck.insert(job, why);
                self.send_condition();
                // Still busy until the pause is over: then the core asks for it again.
                self.later(CLEAN_PAUSE, Input::CleanDue(job));
            }
        }
    }

    pub(super) fn report_cleaned(&mut self, job: JobId, generation: Generation) {
        self.report(Report::Cleaned { job, generation });
        self.desired.cleaned(job, generation);
        if self
            .observed
            .failed
            .get(&job)
            .is_some_and(|failed| *failed <= generation)
        {
            self.observed.failed.remove(&job);
        }
    }

    /// Forgets everything about a job but its place in the journal.
    pub(super) fn forget(&mut self, job: JobId) {
        self.observed.jobs.remove(&job);
        self.observed.shares.remove(&job);
        self.observed.steps.retain(|(of, _), _| *of != job);
        self.fences.remove(&job);
        self.extra.remove(&job);
        self.refusals.forget(job);
        let told = self.stuck.remove(&job).is_some() | self.cut_off.remove(&job).is_some();
        if told {
            self.send_condition();
        }
        self.turn_all_away(job, "job is not here any more");
    }

    /// Steps of a job without processes whose supervisor is not there either: they ended without a word.
    fn end_lost_steps(&mut self, job: JobId) {
        let lost: Vec<_> = self
            .observed
            .steps
            .range(super::steps::of_job(job))
            .filter(|(key, phase)| {
                **phase == StepPhase::Running
                    && !self.running.contains_key(key)
                    && !self.starting.contains(key)
            })
            .map(|(key, _)| *key)
            .collect();
        for key in lost {
            self.step_over(key);
        }
    }

    /// Writes a job's phase down. When that fails the phase is only in memory, and a restarted agent would look for itself.
    pub(super) fn note_phase(&mut self, job: JobId, phase: Phase) {
        self.journalled(|journal| journal.job_phase(job, phase));
    }
}
