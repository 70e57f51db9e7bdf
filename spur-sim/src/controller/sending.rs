//! What is done and said once it is durable.

use super::{Controller, Out};
use crate::machine::Around;
use crate::queue::{At, Happening, Stream};
use spur_core::agent::order::{BatchOrder, StepOrder, ToAgent};
use spur_core::cluster::orders::Rolls;
use spur_core::effect::Effect;
use spur_core::id::{NodeId, StepKind};
use spur_core::job::spec::Payload;
use spur_core::time::Millis;
use std::sync::Arc;

impl Controller {
    pub(super) fn release(&mut self, out: Out, around: &mut Around<'_>) {
        match out {
            Out::Acknowledge(client, job) => {
                around.oracle.acknowledge(job);
                self.answered.push((client, job));
            }
            Out::Welcome(at, stream) => {
                let Some(node) = self.node(at) else { return };
                let (jobs, steps) = self.cluster.welcome(node, &mut Rolls::default());
                let steps = steps.into_iter().map(with_script).collect();
                let generation = self.cluster.generation;
                self.send(
                    at,
                    stream,
                    ToAgent::Welcome {
                        node,
                        generation,
                        jobs,
                        steps,
                        programs: None,
                        ticket_key: None,
                    },
                    around,
                );
            }
            Out::Ack(at, stream, report) => self.send(at, stream, ToAgent::Ack { report }, around),
            Out::Effect(effect) => self.send_effect(&effect, around),
        }
    }

    pub(super) fn send_effect(&mut self, effect: &Effect, around: &mut Around<'_>) {
        let mut rolls = Rolls::default();
        let (node, message) = match effect {
            Effect::Assign { node, job } => (
                *node,
                self.cluster
                    .job_order(*job, *node, &mut rolls)
                    .map(ToAgent::Assign),
            ),
            Effect::Launch { node, job, step } => {
                let order = self.cluster.step_order((*job, *step), *node, &mut rolls);
                (
                    *node,
                    order.map(|order| ToAgent::Launch(with_script(order))),
                )
            }
            Effect::Revoke {
                node,
                job,
                generation,
            } => (
                *node,
                Some(ToAgent::Revoke {
                    job: *job,
                    generation: *generation,
                }),
            ),
            Effect::Signal {
                node,
                job,
                step,
                signal,
            } => (
                *node,
                Some(ToAgent::Signal {
                    job: *job,
                    step: *step,
                    signal: *signal,
                    group: false,
                }),
            ),
            // No programs are configured here.
            Effect::Notify { .. }
            | Effect::DropPayload { .. }
            | Effect::Mail(_)
            | Effect::Hook { .. } => return,
        };
        let Some(at) = self.machine_of(node) else {
            return;
        };
        if let (Some(message), Some((stream, _))) = (message, self.streams.get(&at).copied()) {
            self.send(at, stream, message, around);
        }
    }

    /// The machine of a node.
    pub(crate) fn machine_of(&self, node: NodeId) -> Option<At> {
        position(self.cluster.nodes.get(&node)?.name.as_str())
    }

    /// Messages of a stream arrive in order.
    fn send(&mut self, at: At, stream: Stream, message: ToAgent, around: &mut Around<'_>) {
        let delay = around.delay();
        let Some((_, last)) = self
            .streams
            .get_mut(&at)
            .filter(|(known, _)| *known == stream)
        else {
            return;
        };
        let arrival = Millis(around.queue.now.0 + delay).max(*last);
        *last = arrival;
        around
            .queue
            .at(arrival, Happening::ToAgent(at, stream, Box::new(message)));
    }
}

/// The machine of a name, the inverse of [`name`].
fn position(name: &str) -> Option<At> {
    name.strip_prefix('n')?
        .parse::<usize>()
        .ok()?
        .checked_sub(1)
}

fn with_script(mut order: StepOrder) -> StepOrder {
    if order.step == StepKind::Batch {
        order.batch = Some(Arc::new(BatchOrder {
            payload: Payload::default(),
            stdin: String::new(),
            stdout: String::new(),
            stderr: String::new(),
            append: false,
        }));
    }
    order
}
