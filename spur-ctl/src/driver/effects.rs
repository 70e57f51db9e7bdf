//! Effects as orders: identities become messages, looked up in the state as it is now.

use super::Writer;
use super::turn::Turn;
use spur_core::agent::order::{BatchOrder, StepOrder, ToAgent};
use spur_core::effect::Effect;
use spur_core::id::{JobId, NodeId, StepKind};
use spur_core::job::Job;
use spur_core::job::spec::Payload;
use spur_core::slurm::filename::{self, Names};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The node that an effect is for, if it is for one.
pub(super) fn addressee(effect: &Effect) -> Option<NodeId> {
    match effect {
        Effect::Assign { node, .. }
        | Effect::Launch { node, .. }
        | Effect::Signal { node, .. }
        | Effect::Revoke { node, .. } => Some(*node),
        Effect::Notify { .. }
        | Effect::DropPayload { .. }
        | Effect::Mail(_)
        | Effect::Hook { .. } => None,
    }
}

impl Writer {
    /// Sends what the turn decided, in order. What the turn itself overtook (placed and cancelled at once) is not sent.
    pub(super) fn send_effects(&mut self, turn: &mut Turn) {
        for effect in std::mem::take(&mut turn.effects) {
            let message = match effect {
                Effect::Assign { node, job } => self
                    .cluster
                    .job_order(job, node, &mut turn.rolls)
                    .map(|o| (node, ToAgent::Assign(o))),
                Effect::Launch { node, job, step } => {
                    let order = self.cluster.step_order((job, step), node, &mut turn.rolls);
                    let order = order.and_then(|order| self.with_payload(&turn.payloads, order));
                    order.map(|order| (node, ToAgent::Launch(order)))
                }
                Effect::Revoke {
                    node,
                    job,
                    generation,
                } => Some((node, ToAgent::Revoke { job, generation })),
                Effect::Signal {
                    node,
                    job,
                    step,
                    signal,
                } => {
                    let group = false;
                    let message = ToAgent::Signal {
                        job,
                        step,
                        signal,
                        group,
                    };
                    Some((node, message))
                }
                Effect::Notify { .. }
                | Effect::DropPayload { .. }
                | Effect::Mail(_)
                | Effect::Hook { .. } => None,
            };
            if let Some((node, message)) = message {
                self.send(node, message);
            }
        }
        for (node, message) in std::mem::take(&mut turn.direct) {
            self.send(node, message);
        }
    }

    /// Adds what a batch step runs. `None`, and a line in the log, if it cannot be read.
    pub(super) fn with_payload(
        &self,
        fresh: &BTreeMap<JobId, Payload>,
        mut order: StepOrder,
    ) -> Option<StepOrder> {
        if order.step != StepKind::Batch {
            return Some(order);
        }
        let job = self.cluster.jobs.get(&order.job)?;
        let kept = job.payload();
        let payload = match fresh.get(&kept) {
            Some(payload) => Some(payload.clone()),
            None => self.store.payload(kept).unwrap_or_else(|e| {
                tracing::error!(job = %order.job, "its script cannot be read: {e}");
                None
            }),
        };
        let host = order
            .nodes
            .get(order.index as usize)
            .map_or("", |(name, _)| name.as_str());
        order.batch = Some(Arc::new(batch_order(job, payload?, host)));
        Some(order)
    }
}

/// What the batch step runs, with its file names expanded as Slurm does.
fn batch_order(job: &Job, payload: Payload, host: &str) -> BatchOrder {
    let spec = &job.spec;
    let part = job.array.as_ref().map(|array| &array.view);
    let array = part.and_then(|view| Some((view.job.0, view.task?)));
    let default = match array {
        Some(_) => filename::DEFAULT_ARRAY_OUTPUT,
        None => filename::DEFAULT_OUTPUT,
    };
    let names = Names {
        job: job.id.0,
        array,
        step: StepKind::Batch,
        task: 0,
        node: 0,
        host,
        name: &spec.name,
        user: &spec.owner.user,
    };
    let expand = |pattern: &str, default: &str| {
        filename::expand(if pattern.is_empty() { default } else { pattern }, &names)
    };
    let stdout = expand(&spec.stdout, default);
    let stderr = if spec.stderr.is_empty() {
        stdout.clone()
    } else {
        expand(&spec.stderr, "")
    };
    BatchOrder {
        payload,
        stdin: expand(&spec.stdin, "/dev/null"),
        stdout,
        stderr,
        append: spec.append,
    }
}
