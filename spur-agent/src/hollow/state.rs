//! What one hollow node holds, by the same rules as a real one: the core says what to do, and here it is done at once.

use super::made::Made;
use super::meter::Metering;
use crate::node::now as wall;
use spur_core::agent::order::{FromAgent, Report, ToAgent};
use spur_core::agent::reconcile::{Action, Desired, JobPhase, Observed, StepPhase, reconcile};
use spur_core::event::NodeHello;
use spur_core::id::{Generation, JobId, StepKind};
use spur_core::job::state::ExitStatus;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Rounds of asking the core after one message; each does something, and a job needs three at most.
const ROUNDS_MAX: u32 = 16;

/// One node.
#[derive(Debug)]
pub(super) struct State {
    hello: Arc<NodeHello>,
    desired: Desired,
    observed: Observed,
    /// When running steps end.
    ends: BTreeMap<(JobId, StepKind), Instant>,
    /// Reports without an acknowledgement.
    reports: BTreeMap<u64, Report>,
    next_report: u64,
    sent: u64,
    metering: Arc<Metering>,
}

impl State {
    pub(super) fn new(hello: Arc<NodeHello>) -> Self {
        let made = Made::new(Arc::clone(&hello), crate::meter::fresh_id());
        Self {
            metering: Arc::new(Metering::new(made)),
            hello,
            desired: Desired::default(),
            observed: Observed::default(),
            ends: BTreeMap::new(),
            reports: BTreeMap::new(),
            next_report: 1,
            sent: 0,
        }
    }

    /// What it says of itself.
    pub(super) fn hello(&self) -> &NodeHello {
        &self.hello
    }

    /// The same, to be kept.
    pub(super) fn shared_hello(&self) -> &Arc<NodeHello> {
        &self.hello
    }

    /// What its jobs are said to use.
    pub(super) fn metering(&self) -> &Arc<Metering> {
        &self.metering
    }

    /// Jobs that it has, for its Hello.
    pub(super) fn jobs(&self) -> Vec<(JobId, Generation)> {
        self.observed
            .jobs
            .iter()
            .map(|(job, (generation, _))| (*job, *generation))
            .collect()
    }

    /// A new link has carried nothing yet.
    pub(super) fn forget_sent(&mut self) {
        self.sent = 0;
    }

    /// Follows an order.
    pub(super) fn take(&mut self, order: &ToAgent, now: Instant, lasts: Option<Duration>) {
        self.desired.absorb(order);
        if let ToAgent::Ack { report } = order {
            self.reports = self.reports.split_off(&(report + 1));
        }
        self.settle(now, lasts);
    }

    /// When the next step ends by itself.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.ends.values().min().copied()
    }

    /// Ends the steps whose time has come.
    pub(super) fn end_due(&mut self, now: Instant, lasts: Option<Duration>) {
        let due: Vec<_> = self
            .ends
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(key, _)| *key)
            .collect();
        for key in due {
            self.end_step(key, ExitStatus::default());
        }
        self.settle(now, lasts);
    }

    /// What was not sent over this link yet.
    pub(super) fn take_unsent(&mut self) -> Vec<FromAgent> {
        let new = self.reports.range(self.sent + 1..);
        let messages = new
            .map(|(number, report)| FromAgent::Report {
                number: *number,
                report: report.clone(),
            })
            .collect();
        self.sent = self.next_report - 1;
        messages
    }

    fn settle(&mut self, now: Instant, lasts: Option<Duration>) {
        for _ in 0..ROUNDS_MAX {
            let actions = reconcile(&self.desired, &self.observed);
            if actions.is_empty() {
                return;
            }
            for action in actions {
                self.act(action, now, lasts);
            }
        }
    }

    fn act(&mut self, action: Action, now: Instant, lasts: Option<Duration>) {
        match action {
            Action::Prepare(order) => {
                self.observed
                    .jobs
                    .insert(order.job, (order.generation, JobPhase::Prepared));
                if let Some(here) = order.here() {
                    let share = here.share.clone();
                    self.metering
                        .with(|made| made.job_begins(order.job, order.generation, share, wall()));
                }
                self.observed
                    .shares
                    .extend(order.here().map(|here| (order.job, here.share.clone())));
            }
            Action::Prolog { job, generation } => {
                let ready = (generation, JobPhase::Ready);
                self.observed.jobs.insert(job, ready);
            }
            Action::Launch(step) => {
                let key = (step.job, step.step);
                self.observed.steps.insert(key, StepPhase::Running);
                self.metering
                    .with(|made| made.step_begins(step.job, step.step, wall()));
                self.ends.extend(lasts.map(|lasts| (key, now + lasts)));
            }
            Action::Expect(step) => {
                self.observed
                    .steps
                    .insert((step.job, step.step), StepPhase::Waiting);
            }
            Action::Kill { job } => {
                let steps = self.observed.steps.iter();
                let running: Vec<_> = steps
                    .filter(|(key, phase)| key.0 == job && **phase == StepPhase::Running)
                    .map(|(key, _)| *key)
                    .collect();
                for key in running {
                    self.end_step(
                        key,
                        ExitStatus {
                            code: 0,
                            signal: 15,
                        },
                    );
                }
                if let Some((_, phase)) = self.observed.jobs.get_mut(&job) {
                    *phase = JobPhase::Gone;
                }
            }
            Action::Clean { job, generation } => {
                self.metering.with(|made| made.job_ends(job, wall()));
                self.observed.jobs.remove(&job);
                self.observed.shares.remove(&job);
                self.observed.steps.retain(|key, _| key.0 != job);
                self.cleaned(job, generation);
            }
            Action::ReportCleaned { job, generation } => self.cleaned(job, generation),
        }
    }

    fn cleaned(&mut self, job: JobId, generation: Generation) {
        self.report(Report::Cleaned { job, generation });
        self.desired.cleaned(job, generation);
    }

    fn end_step(&mut self, (job, step): (JobId, StepKind), exit: ExitStatus) {
        self.ends.remove(&(job, step));
        self.metering.with(|made| made.step_ends(job, step, wall()));
        self.observed.steps.insert((job, step), StepPhase::Ended);
        self.desired.step_ended(job, step);
        if let Some((generation, _)) = self.observed.jobs.get(&job).copied() {
            self.report(Report::StepEnded {
                job,
                step,
                generation,
                exit,
                oom: false,
            });
        }
    }

    fn report(&mut self, report: Report) {
        self.reports.insert(self.next_report, report);
        self.next_report += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job_order, step_order};
    use spur_core::agent::order::BatchOrder;
    use spur_core::id::NodeId;
    use spur_core::job::spec::Payload;

    fn reports(state: &mut State) -> Vec<Report> {
        let of = |message| {
            let FromAgent::Report { report, .. } = message else {
                panic!("{message:?}")
            };
            report
        };
        state.take_unsent().into_iter().map(of).collect()
    }

    #[test]
    fn a_job_is_held_run_and_cleaned() {
        let mut state = State::new(Arc::new(crate::testing::hello()));
        let (start, lasts) = (Instant::now(), Some(Duration::from_secs(5)));
        let welcome = ToAgent::Welcome {
            node: NodeId(0),
            generation: Generation(0),
            jobs: vec![],
            steps: vec![],
            programs: None,
            ticket_key: None,
        };
        state.take(&welcome, start, lasts);
        let job = job_order(7, 1, &[0]);
        let mut step = step_order(&job, StepKind::Batch);
        let (stdin, stdout, stderr) = (String::new(), "/o".into(), "/o".into());
        step.batch = Some(Arc::new(BatchOrder {
            payload: Payload::default(),
            stdin,
            stdout,
            stderr,
            append: false,
        }));
        state.take(&ToAgent::Assign(job.clone()), start, lasts);
        state.take(&ToAgent::Launch(step), start, lasts);
        assert_eq!(state.next_end(), Some(start + Duration::from_secs(5)));
        state.end_due(start + Duration::from_secs(4), lasts);
        assert!(reports(&mut state).is_empty());
        state.end_due(start + Duration::from_secs(5), lasts);
        assert!(matches!(
            reports(&mut state)[..],
            [Report::StepEnded {
                exit: ExitStatus { code: 0, signal: 0 },
                ..
            }]
        ));
        state.take(
            &ToAgent::Revoke {
                job: job.job,
                generation: job.generation,
            },
            start,
            lasts,
        );
        assert!(matches!(reports(&mut state)[..], [Report::Cleaned { .. }]));
        assert!(state.jobs().is_empty());
        state.forget_sent();
        assert_eq!(reports(&mut state).len(), 2, "until they are acknowledged");
        state.take(&ToAgent::Ack { report: 2 }, start, lasts);
        state.forget_sent();
        assert!(reports(&mut state).is_empty());
    }
}
