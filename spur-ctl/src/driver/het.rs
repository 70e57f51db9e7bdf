//! Heterogeneous jobs: submitted and stepped into as one, and told apart where one component is named.

use super::Writer;
use super::ask::Answer;
use super::commands::refuse;
use super::grants::unknown;
use super::turn::Turn;
use spur_core::api::{Caller, Refusal, RefusalKind, Reply};
use spur_core::event::Event;
use spur_core::id::JobId;
use spur_core::job::admit;
use spur_core::job::change::JobAct;
use spur_core::job::spec::{JobSpec, Payload};
use spur_core::job::step::StepSpec;
use std::sync::Arc;

impl Writer {
    /// Queues all components, or none.
    pub(super) fn submit_het(
        &mut self,
        turn: &mut Turn,
        specs: Vec<JobSpec>,
        payload: Option<Payload>,
    ) -> Result<(JobId, Vec<String>), Refusal> {
        let (mut parts, mut notices) = (Vec::new(), Vec::new());
        for mut spec in specs {
            if !spec.array.is_empty() {
                return Err(refuse(
                    RefusalKind::InvalidArray,
                    "a heterogeneous job cannot be an array",
                ));
            }
            let admitted = admit::admit(&self.cluster, &mut spec, turn.at)?;
            notices.extend(admitted.notices);
            parts.push((Arc::new(spec), admitted.priority));
        }
        let used_up = || refuse(RefusalKind::Busy, "every job number was used");
        let job = self.cluster.next_job_id().ok_or_else(used_up)?;
        self.propose(turn, Event::HetSubmitted { job, parts })
            .map_err(|why| refuse(RefusalKind::Invalid, why))?;
        self.submitted(turn, job, payload);
        notices.dedup();
        Ok((job, notices))
    }

    /// Grants one step over components of a job.
    pub(super) fn step_het(
        &mut self,
        turn: &mut Turn,
        leader: JobId,
        parts: &[(u32, StepSpec)],
        caller: &Caller,
    ) -> Answer {
        let mut asked = Vec::new();
        for (offset, spec) in parts {
            let id = self.component(leader, *offset);
            let id = id.ok_or_else(|| {
                let why = format!("job {leader} has no component {offset}");
                refuse(RefusalKind::InvalidJobId, why)
            })?;
            asked.push((id, spec));
        }
        self.grant_steps(turn, &asked, caller)
            .map(Reply::GrantedHet)
    }

    /// Grants the step of an `srun` job that runs now: in a heterogeneous one over all components.
    pub(super) fn grant_first(
        &mut self,
        turn: &mut Turn,
        id: JobId,
        steps: Vec<StepSpec>,
        caller: &Caller,
    ) -> Answer {
        if let [step] = steps.as_slice() {
            return self.grant_step(turn, id, step, caller);
        }
        let parts: Vec<_> = (0..).zip(steps).collect();
        self.step_het(turn, id, &parts, caller)
    }

    /// The component at an offset of the job with this leader.
    pub(super) fn component(&self, leader: JobId, offset: u32) -> Option<JobId> {
        let id = JobId(leader.0.checked_add(offset)?);
        let part = self.cluster.jobs.get(&id)?.het?;
        (part.leader == leader && part.offset == offset).then_some(id)
    }

    /// All components of the job with this leader, or the job alone.
    pub(super) fn led_by(&self, job: JobId) -> Vec<JobId> {
        let part = self.cluster.jobs.get(&job).and_then(|job| job.het);
        match part {
            Some(part) if part.leads() => self.cluster.together(job),
            Some(_) | None => vec![job],
        }
    }

    /// The records to act on: what is done to a component is done to all, so of several the first is enough. What cannot be done to
    /// a component by itself is refused.
    pub(super) fn acted_on(
        &self,
        mut records: Vec<JobId>,
        act: JobAct,
    ) -> Result<Vec<JobId>, Refusal> {
        let first = *records.first().ok_or_else(|| unknown(JobId(0)))?;
        let part = self.cluster.jobs.get(&first).and_then(|job| job.het);
        let Some(part) = part else {
            return Ok(records);
        };
        let whole = match act {
            JobAct::Requeue | JobAct::RequeueHold | JobAct::Suspend | JobAct::Resume => true,
            JobAct::Hold | JobAct::HoldByUser | JobAct::Release | JobAct::Top => false,
        };
        if whole && records.len() == 1 && !part.leads() {
            return Err(refuse(RefusalKind::NotWholeHetJob, ""));
        }
        records.truncate(1);
        Ok(records)
    }
}
