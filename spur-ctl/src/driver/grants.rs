//! Step grants: the event, and what the client needs to reach the agents.

use super::Writer;
use super::ask::Answer;
use super::turn::Turn;
use spur_core::api::{Caller, Grant, GrantNode, Refusal, RefusalKind, Reply};
use spur_core::event::Event;
use spur_core::id::{JobId, StepId, StepKind};
use spur_core::job::step::{StepSpec, grant};
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
        let Some(job) = self.cluster.jobs.get(&id) else {
            return Err(Refusal {
                kind: RefusalKind::InvalidJobId,
                text: id.to_string(),
            });
        };
        let shares = grant(&self.cluster, job, spec)?;
        let step = StepKind::Numbered(job.next_step);
        let granted = Event::StepGranted {
            job: id,
            step,
            name: spec.name.clone(),
            uid: caller.uid,
            shares,
            cpus_per_task: spec.cpus_per_task,
        };
        self.propose(turn, granted).map_err(|why| Refusal {
            kind: RefusalKind::Invalid,
            text: format!("step {step} of job {id}: {why}"),
        })?;
        self.describe_grant(turn, id, step, caller)
    }

    fn describe_grant(&self, turn: &Turn, id: JobId, kind: StepKind, caller: &Caller) -> Answer {
        let unknown = || Refusal {
            kind: RefusalKind::InvalidJobId,
            text: id.to_string(),
        };
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
            };
            Some(GrantNode {
                name: node.name.clone(),
                address: node.address.clone(),
                task_ids: part.task_ids.clone(),
                ticket: ticket::sign(&self.key, &says),
            })
        });
        Ok(Reply::Granted(Box::new(Grant {
            step: StepId {
                job: id,
                step: kind,
            },
            nodes: nodes.collect(),
            cpus_per_task: step.cpus_per_task,
            job: view::job_view(&self.cluster, job),
        })))
    }
}
