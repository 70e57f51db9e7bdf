//! Step grants: the event, and what the client needs to reach the agents.

use super::Writer;
use super::ask::Answer;
use super::turn::Turn;
use spur_core::agent::order::TicketKey;
use spur_core::api::{Caller, Grant, GrantNode, Refusal, RefusalKind, Reply};
use spur_core::event::Event;
use spur_core::id::{JobId, NodeName, StepId, StepKind};
use spur_core::job::Job;
use spur_core::job::het::HetPart;
use spur_core::job::step::{Step, StepSpec, StepState, grant};
use spur_core::mesh::Role;
use spur_core::view;
use spur_proto::ticket::{self, Ticket};

/// How long a client may take to present its tickets, in seconds. The step itself ends with its job.
const TICKET_SECS: u64 = 300;

impl Writer {
    /// Grants a step in a running job and says how to reach it.
    pub(super) fn grant_step(
        &mut self,
        turn: &mut Turn,
        id: JobId,
        spec: &StepSpec,
        caller: &Caller,
    ) -> Answer {
        let mut grants = self.grant_steps(turn, &[(id, spec)], caller)?;
        let grant = grants.pop().ok_or_else(|| unknown(id))?;
        Ok(Reply::Granted(Box::new(grant)))
    }

    /// Grants a step in one job, or one step over several components of a heterogeneous job: its parts have one number, and the
    /// numbers of its tasks go on from part to part.
    pub(super) fn grant_steps(
        &mut self,
        turn: &mut Turn,
        parts: &[(JobId, &StepSpec)],
        caller: &Caller,
    ) -> Result<Vec<Grant>, Refusal> {
        if let Some(step) = self.granted_before(parts, caller) {
            let grants = parts.iter();
            let grants =
                grants.map(|(id, _)| self.describe_grant(turn, (*id, step), caller, false));
            return grants.collect();
        }
        let (mut number, mut first, mut asked) = (0, 0, Vec::new());
        for (id, spec) in parts {
            let job = self.cluster.jobs.get(id).ok_or_else(|| unknown(*id))?;
            let mut shares = grant(&self.cluster, job, spec)?;
            let tasks = shares.iter().map(|part| part.share.tasks).sum::<u32>();
            let ids = shares.iter_mut().flat_map(|part| &mut part.task_ids);
            ids.for_each(|task| *task += first);
            first += tasks;
            number = job.next_step.max(number);
            asked.push(shares);
        }
        let step = StepKind::Numbered(number);
        let together = if parts.len() > 1 { parts } else { &[] };
        let with: Vec<JobId> = together.iter().map(|(id, _)| *id).collect();
        for ((id, spec), shares) in parts.iter().zip(asked) {
            let granted = Event::StepGranted {
                job: *id,
                step,
                name: spec.name.clone(),
                uid: caller.uid,
                shares,
                cpus_per_task: spec.cpus_per_task,
                with: with.clone(),
                request_id: spec.request_id,
                sharing: spec.sharing,
            };
            self.propose(turn, granted).map_err(|why| Refusal {
                kind: RefusalKind::Invalid,
                text: format!("step {step} of job {id}: {why}"),
            })?;
        }
        let grants = parts.iter();
        let grants = grants.map(|(id, _)| self.describe_grant(turn, (*id, step), caller, false));
        grants.collect()
    }

    /// Says how to join a step that runs.
    pub(super) fn attach(&self, turn: &Turn, id: JobId, kind: StepKind, caller: &Caller) -> Answer {
        let job = self.cluster.jobs.get(&id).ok_or_else(|| unknown(id))?;
        let step = job.steps.get(&kind);
        if step.is_none_or(|step| step.state != StepState::Running) {
            return Err(unknown(id));
        }
        let grant = self.describe_grant(turn, (id, kind), caller, true)?;
        Ok(Reply::Granted(Box::new(grant)))
    }

    /// The step that this request was granted already, to a client that did not get the answer and asks again.
    fn granted_before(&self, parts: &[(JobId, &StepSpec)], caller: &Caller) -> Option<StepKind> {
        let (id, spec) = parts.first().filter(|(_, spec)| spec.request_id != 0)?;
        let mut steps = self.cluster.jobs.get(id)?.steps.values();
        let same = |step: &&Step| step.request_id == spec.request_id && step.uid == caller.uid;
        steps.find(same).map(|step| step.kind)
    }

    /// The job that this request made already.
    pub(super) fn submission(&self, request: u64, caller: &Caller) -> Answer {
        // The newest first: what is looked for was just made.
        let mut jobs = self.cluster.jobs.values().rev();
        let same = |job: &&Job| {
            let first = job.het.is_none_or(HetPart::leads);
            first && job.spec.request_id == request && job.spec.owner.uid == caller.uid
        };
        let found = jobs.find(same).filter(|_| request != 0);
        let job = found.ok_or_else(|| unknown(JobId(0)))?;
        let job = job.array.as_ref().map_or(job.id, |array| array.view.job);
        let notices = Vec::new();
        Ok(Reply::Submitted { job, notices })
    }

    /// By what tickets for a node are signed, if that is a member of the mesh: such a one does not have the cluster's token.
    pub(super) fn ticket_key(&self, node: &NodeName) -> Option<TicketKey> {
        let member = self.cluster.mesh.named(node)?;
        (member.role == Role::Node).then(|| ticket::key_of(&self.key, node))
    }

    /// How to reach a step: to start it, or to join it.
    fn describe_grant(
        &self,
        turn: &Turn,
        (id, kind): (JobId, StepKind),
        caller: &Caller,
        attach: bool,
    ) -> Result<Grant, Refusal> {
        let unknown = || unknown(id);
        let job = self.cluster.jobs.get(&id).ok_or_else(unknown)?;
        let step = job.steps.get(&kind).ok_or_else(unknown)?;
        let expires = turn.at.plus_secs(TICKET_SECS);
        let nodes = step.shares.iter().filter_map(|part| {
            let node = self.cluster.nodes.get(&part.share.node)?;
            let says = Ticket {
                node: node.name.clone(),
                step: StepId {
                    job: id,
                    step: kind,
                },
                uid: caller.uid,
                generation: job.generation,
                expires,
                attach,
            };
            Some(GrantNode {
                name: node.name.clone(),
                address: node.address.clone(),
                task_ids: part.task_ids.clone(),
                ticket: match self.ticket_key(&node.name) {
                    Some(own) => ticket::sign(&own.0, &says),
                    None => ticket::sign(&self.key, &says),
                },
            })
        });
        Ok(Grant {
            step: StepId {
                job: id,
                step: kind,
            },
            nodes: nodes.collect(),
            cpus_per_task: step.cpus_per_task,
            job: view::job_view(&self.cluster, job),
        })
    }
}

pub(super) fn unknown(job: JobId) -> Refusal {
    Refusal {
        kind: RefusalKind::InvalidJobId,
        text: job.to_string(),
    }
}
