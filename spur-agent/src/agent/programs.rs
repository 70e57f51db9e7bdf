//! Programs of the operator: when they run, and what comes of it.

use super::{Agent, Input};
use crate::act::Failure;
use crate::journal::{self, Phase};
use crate::programs::{self, ProgramError, left};
use spur_core::agent::order::{JobOrder, Report};
use spur_core::agent::programs::NodePrograms;
use spur_core::agent::reconcile::JobPhase;
use spur_core::id::{Generation, JobId};
use std::sync::Arc;
use std::time::Duration;

/// Seconds that a health check may take, as in Slurm.
const HEALTH_SECS: u64 = 60;

/// Slurm's words for the occasions.
const PROLOG: &str = "prolog_slurmd";
const EPILOG: &str = "epilog_slurmd";

/// What came of running a program off the loop.
pub(super) type Ran = Result<Result<(), ProgramError>, Failure>;

/// Why it failed, if it did.
fn trouble(ran: Ran) -> Option<String> {
    match ran {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(Failure { why, .. }) => Some(why),
    }
}

impl Agent {
    /// The controller says what to run.
    pub(super) fn take_programs(&mut self, programs: Option<NodePrograms>) {
        self.programs = Arc::new(programs.unwrap_or_default());
        if self.programs.health.is_some() && !self.checking {
            self.checking = true;
            self.later(Duration::ZERO, Input::HealthDue);
        }
    }

    /// Before anything of a job starts: its prolog, if there is one.
    pub(super) fn begin_prolog(&mut self, job: JobId, generation: Generation) {
        let Some(entry) = self.journal.jobs().get(&job) else {
            return;
        };
        let (programs, order) = (Arc::clone(&self.programs), Arc::clone(&entry.order));
        let mark = self.mark(&order, PROLOG);
        self.busy.insert(job);
        self.off_loop(
            move || {
                let mut env = programs::env(&order, PROLOG);
                env.push(mark);
                programs::run_all(&programs.prolog, &env, programs.prolog_timeout)
            },
            move |ran| Input::PrologOver(job, generation, ran),
        );
    }

    /// A job is ready, or is taken down again before anything of it ran.
    pub(super) fn prolog_over(&mut self, job: JobId, generation: Generation, ran: Ran) {
        self.busy.remove(&job);
        let Some(why) = trouble(ran) else {
            self.observed
                .jobs
                .insert(job, (generation, JobPhase::Ready));
            return self.note_phase(job, Phase::Ready);
        };
        tracing::error!(%job, why, "the prolog failed: the job does not start here");
        self.observed.failed.insert(job, generation);
        self.turn_all_away(job, super::steps::NOT_SET_UP);
        self.report(Report::ProgramFailed {
            job,
            generation,
            epilog: false,
            why,
        });
    }

    fn mark(&self, order: &JobOrder, context: &str) -> (&'static str, String) {
        let mark = left::mark(&self.node.config.state_dir, order, context);
        (left::MARK, mark)
    }

    /// What an earlier agent began for jobs, and did not see end, is run again: until then it is not to go on.
    pub(super) fn end_left_programs(&self) {
        let begun = |entry: &journal::Job| {
            let context = match entry.phase {
                Phase::Preparing => PROLOG,
                Phase::Ready => return None,
                Phase::Ending => EPILOG,
            };
            Some(self.mark(&entry.order, context).1)
        };
        left::end(&self.journal.jobs().values().filter_map(begun).collect());
    }

    /// When nothing of a job is left but its place in the journal: its epilog, if there is one. Whether there is.
    pub(super) fn begin_epilog(&mut self, job: JobId, generation: Generation) -> bool {
        let Some(entry) = self.journal.jobs().get(&job) else {
            return false;
        };
        if self.programs.epilog.is_empty() {
            return false;
        }
        let (programs, order) = (Arc::clone(&self.programs), Arc::clone(&entry.order));
        let mark = self.mark(&order, EPILOG);
        self.busy.insert(job);
        self.off_loop(
            move || {
                let mut env = programs::env(&order, EPILOG);
                env.push(mark);
                programs::run_all(&programs.epilog, &env, programs.epilog_timeout)
            },
            move |ran| Input::EpilogOver(job, generation, ran),
        );
        true
    }

    pub(super) fn epilog_over(&mut self, job: JobId, generation: Generation, ran: Ran) {
        self.busy.remove(&job);
        if let Some(why) = trouble(ran) {
            tracing::error!(%job, why, "the epilog failed");
            self.report(Report::ProgramFailed {
                job,
                generation,
                epilog: true,
                why,
            });
        }
        self.forget(job);
        self.report_cleaned(job, generation);
    }

    /// Time to see whether the node is well, if it is in a state for that. What is to be done about it the program does itself.
    pub(super) fn health_due(&mut self) {
        let Some(health) = self.programs.health.clone() else {
            self.checking = false;
            return;
        };
        let held = self.observed.shares.values().map(|share| share.cpus.len());
        let all = self.node.machine.inventory.cpus;
        if !health.is_for(held.sum(), all) {
            let pause = Duration::from_secs(health.interval.max(1));
            return self.later(pause, Input::HealthDue);
        }
        let name = self.node.config.node.to_string();
        self.off_loop(
            move || {
                let env = [("SLURMD_NODENAME", name)];
                programs::run_all(&[health.program], &env, HEALTH_SECS)
            },
            Input::HealthOver,
        );
    }

    pub(super) fn health_over(&mut self, ran: Ran) {
        if let Some(why) = trouble(ran) {
            tracing::warn!(why, "the health check failed");
        }
        let interval = self
            .programs
            .health
            .as_ref()
            .map_or(1, |health| health.interval);
        self.later(Duration::from_secs(interval.max(1)), Input::HealthDue);
    }
}
