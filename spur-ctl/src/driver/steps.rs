//! Steps that wait for room in their job: whenever one ends, those that wait are tried in the order in which they came.

use super::Writer;
use super::ask::{Answer, Asked};
use super::turn::Turn;
use super::waits::WaitKind;
use spur_core::api::{Caller, RefusalKind};
use spur_core::id::JobId;
use spur_core::job::step::StepSpec;

impl Asked {
    /// Whether it is to wait while other steps hold what it needs.
    pub fn is_patient(&self) -> bool {
        match self {
            Self::One(_, step) => step.patient,
            Self::Het(_, parts) => parts.iter().any(|(_, step)| step.patient),
        }
    }

    fn job(&self) -> JobId {
        let (Self::One(job, _) | Self::Het(job, _)) = self;
        *job
    }

    /// What it asks for, without what tells it from others that ask for the same.
    fn wants(&self) -> (JobId, Vec<(u32, StepSpec)>) {
        let plain = |(offset, step): &(u32, StepSpec)| {
            let name = String::new();
            let step = StepSpec {
                request_id: 0,
                name,
                ..step.clone()
            };
            (*offset, step)
        };
        match self {
            Self::One(job, step) => (*job, vec![plain(&(0, (**step).clone()))]),
            Self::Het(job, parts) => (*job, parts.iter().map(plain).collect()),
        }
    }
}

impl Writer {
    /// Where those wait that want a step: of a heterogeneous job at its leader, since a step may be over several components.
    pub(super) fn waits_at(&self, asked: &Asked) -> JobId {
        self.leader(asked.job())
    }

    fn leader(&self, job: JobId) -> JobId {
        let part = self.cluster.jobs.get(&job).and_then(|job| job.het);
        part.map_or(job, |part| part.leader)
    }

    /// Grants a step that was just asked for, after those that wait already if this turn made room.
    pub(super) fn grant_in_order(
        &mut self,
        turn: &mut Turn,
        asked: Asked,
        caller: &Caller,
    ) -> Answer {
        let leader = self.waits_at(&asked);
        let together = self.led_by(leader);
        if together.iter().any(|job| turn.notified.contains(job)) {
            self.grant_waiting(turn, leader);
        }
        self.grant_asked(turn, &asked, caller)
    }

    fn grant_asked(&mut self, turn: &mut Turn, asked: &Asked, caller: &Caller) -> Answer {
        match asked {
            Asked::One(job, step) => self.grant_step(turn, *job, step, caller),
            Asked::Het(leader, parts) => self.step_het(turn, *leader, parts, caller),
        }
    }

    /// Something of the job changed: grants what waits for room in it and finds some, the first that came first. What can never be
    /// granted any more, as the job has ended, is refused.
    pub(super) fn grant_waiting(&mut self, turn: &mut Turn, job: JobId) {
        let leader = self.leader(job);
        let waiting = self.waits.of(leader).filter_map(|wait| match &wait.kind {
            WaitKind::Step(asked) => Some((wait.call, wait.caller.clone(), asked.clone())),
            WaitKind::Run { .. } | WaitKind::Allocation | WaitKind::End | WaitKind::Cleaned => None,
        });
        let waiting: Vec<_> = waiting.collect();
        // Hundreds that want the same are common, and one answer is enough for them.
        let mut refused = None;
        for (call, caller, asked) in waiting {
            let wants = Some(asked.wants());
            if refused == wants {
                continue;
            }
            match self.grant_asked(turn, &asked, &caller) {
                Err(no)
                    if matches!(no.kind, RefusalKind::NodesBusy | RefusalKind::JobSuspended) =>
                {
                    refused = wants;
                }
                answer => self.answer_wait(turn, call, answer),
            }
        }
    }
}
