//! Carrying the reconciler's actions out.

use super::{Around, Machine};
use crate::queue::Happening;
use spur_core::agent::order::{JobOrder, Report, StepOrder};
use spur_core::agent::reconcile::{Action, JobPhase, StepPhase};
use spur_core::id::{Generation, JobId};

impl Machine {
    pub(super) fn act(&mut self, action: Action, around: &mut Around<'_>) {
        match action {
            Action::Prepare(order) => self.prepare(&order, around),
            Action::Prolog { job, generation } => {
                let ready = (generation, JobPhase::Ready);
                self.observed.jobs.insert(job, ready);
            }
            Action::Launch(order) => self.launch(&order, StepPhase::Running, around),
            Action::Expect(order) => self.launch(&order, StepPhase::Waiting, around),
            Action::Kill { job } => self.kill(job, around),
            Action::Clean { job, generation } => {
                self.observed.jobs.remove(&job);
                self.observed.shares.remove(&job);
                self.observed.steps.retain(|(of, _), _| *of != job);
                self.report_cleaned(job, generation, around);
            }
            Action::ReportCleaned { job, generation } => {
                self.report_cleaned(job, generation, around);
            }
        }
    }

    fn prepare(&mut self, order: &JobOrder, around: &mut Around<'_>) {
        let (job, generation) = (order.job, order.generation);
        let faults = &around.params.faults;
        let bad = self.at < faults.bad_nodes as usize;
        if around.stormy && (bad || around.rng.chance(faults.launch_failure_permille)) {
            self.observed.failed.insert(job, generation);
            let (why, node_fault) = ("simulated".to_owned(), bad || around.rng.chance(500));
            self.report(
                Report::LaunchFailed {
                    job,
                    generation,
                    why,
                    node_fault,
                },
                around,
            );
            return;
        }
        let Some(here) = order.here() else { return };
        around.oracle.prepared(
            self.at,
            (job, generation),
            &here.share,
            &self.observed.shares,
        );
        self.observed
            .jobs
            .insert(job, (generation, JobPhase::Prepared));
        self.observed.shares.insert(job, here.share.clone());
    }

    fn launch(&mut self, order: &StepOrder, phase: StepPhase, around: &mut Around<'_>) {
        self.observed.steps.insert((order.job, order.step), phase);
        let Some(part) = self.part(order.job) else {
            return;
        };
        match phase {
            StepPhase::Waiting => {
                let wait = around.rng.between(1, 2_000);
                around
                    .queue
                    .after(wait, Happening::Client(part, order.step));
            }
            StepPhase::Running | StepPhase::Ended => self.run_step(part, order.step, around),
        }
    }

    /// The kernel is told once; processes go when they go, agent or not.
    fn kill(&mut self, job: JobId, around: &mut Around<'_>) {
        let Some(part) = self.part(job) else { return };
        self.observed
            .jobs
            .insert(job, (part.generation, JobPhase::Ending));
        let millis = around.rng.between(1, 30_000);
        around.queue.after(millis, Happening::Emptied(part));
    }

    fn report_cleaned(&mut self, job: JobId, generation: Generation, around: &mut Around<'_>) {
        let last = self.cleaned.entry(job).or_default();
        *last = generation.max(*last);
        if let Some(agent) = &mut self.agent {
            agent.desired.cleaned(job, generation);
        }
        self.report(Report::Cleaned { job, generation }, around);
    }
}
