//! Agents: who is connected, what they report, and the way back to them.

use super::ask::{AgentInput, AgentWord, Outbound};
use super::commands::SIGKILL;
use super::turn::Turn;
use super::{DENIALS_EVERY, Writer};
use crate::readers::Pulse;
use spur_core::agent::order::{StepOrder, ToAgent};
use spur_core::event::{Event, NodeHello};
use spur_core::id::{Generation, JobId, NodeId, StepKind};
use spur_core::job::step::StepState;
use std::collections::BTreeMap;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Most (job, node) pairs whose totals of refusals wait to be logged; more wait for the agent's next word.
const TOTALS_MAX: usize = 65_536;

/// Most bytes of scripts, arguments and environments in a welcome; the steps that have more follow one by one.
const WELCOME_MAX: usize = 16 << 20;

/// An agent that connects in this turn.
pub(super) struct Admission {
    node: NodeId,
    session: u64,
    out: Outbound,
    admitted: oneshot::Sender<Result<NodeId, String>>,
}

impl Admission {
    pub(super) fn refuse(self, reason: &str) {
        drop(self.admitted.send(Err(reason.to_owned())));
    }
}

struct Link {
    session: u64,
    out: Outbound,
}

/// Live streams, by node.
#[derive(Default)]
pub(super) struct Links {
    by_node: BTreeMap<NodeId, Link>,
    /// Set when a stream was cut here, so that the next turn logs it.
    cut: bool,
}

impl Links {
    fn is_current(&self, node: NodeId, session: u64) -> bool {
        self.by_node
            .get(&node)
            .is_some_and(|link| link.session == session)
    }

    /// Ends a stream from this side. The agent comes back and is told everything anew.
    pub(super) fn cut(&mut self, node: NodeId) {
        self.cut |= self.by_node.remove(&node).is_some();
    }
}

impl Writer {
    pub(super) fn agent(&mut self, turn: &mut Turn, input: AgentInput) {
        match input {
            AgentInput::Connected {
                session,
                hello,
                out,
                admitted,
            } => {
                self.connected(turn, session, *hello, out, admitted);
            }
            AgentInput::Said {
                node,
                session,
                word,
            } => {
                if self.links.is_current(node, session) {
                    self.said(turn, node, word);
                }
            }
            AgentInput::Gone {
                node,
                session,
                silent,
            } => {
                if self.links.is_current(node, session) {
                    self.links.by_node.remove(&node);
                    self.propose_quietly(turn, Event::NodeDisconnected { node });
                    if silent {
                        self.propose_quietly(turn, Event::NodeLost { node });
                    }
                }
            }
        }
    }

    /// A node says who it is. Its older stream, if there is one, ends here.
    fn connected(
        &mut self,
        turn: &mut Turn,
        session: u64,
        hello: NodeHello,
        out: Outbound,
        admitted: oneshot::Sender<Result<NodeId, String>>,
    ) {
        let name = hello.name.clone();
        if let Err(why) = self.propose(turn, Event::NodeConnected(hello)) {
            drop(admitted.send(Err(why.to_owned())));
            return;
        }
        let Some(node) = self.cluster.node_ids.get(&name).copied() else {
            drop(admitted.send(Err("the node got no number".to_owned())));
            return;
        };
        turn.admissions.push(Admission {
            node,
            session,
            out,
            admitted,
        });
    }

    /// Durable: the agents that connected learn who they are and what they should have.
    pub(super) fn admit(&mut self, turn: &mut Turn) {
        for Admission {
            node,
            session,
            out,
            admitted,
        } in turn.admissions.drain(..)
        {
            let (jobs, steps) = self.cluster.welcome(node, &mut turn.rolls);
            let steps = steps
                .into_iter()
                .filter_map(|step| self.with_payload(&turn.payloads, step));
            let (steps, rest) = those_that_fit(steps);
            let generation = self.cluster.generation;
            // Only what comes after this message may go the normal way.
            turn.effects
                .retain(|effect| super::effects::addressee(effect) != Some(node));
            turn.acks.remove(&node);
            let name = self.cluster.nodes.get(&node).map(|node| &node.name);
            let welcome = ToAgent::Welcome {
                node,
                generation,
                jobs,
                steps,
                programs: Some(self.programs.clone()),
                ticket_key: name.and_then(|name| self.ticket_key(name)),
            };
            self.links.by_node.insert(node, Link { session, out });
            self.send(node, welcome);
            for step in rest {
                self.send(node, ToAgent::Launch(step));
            }
            for stop in self.stopped_on(node) {
                self.send(node, stop);
            }
            for kill in self.kills_on(node) {
                self.send(node, kill);
            }
            drop(admitted.send(Ok(node)));
            tracing::info!(%node, "agent connected");
        }
    }

    /// A step is to be killed: an agent that is away, or whose stream breaks before it hears of it, hears of it when it is back.
    pub(super) fn remember_kill(&mut self, id: JobId, step: StepKind) {
        let jobs = &self.cluster.jobs;
        let to_end = |(id, step): (JobId, StepKind), generation: Generation| {
            let job = jobs.get(&id).filter(|job| job.generation == generation);
            let step = job.and_then(|job| job.steps.get(&step));
            step.is_some_and(|step| step.state == StepState::Running)
        };
        self.kills
            .retain(|key, generation| to_end(*key, *generation));
        if let Some(job) = jobs.get(&id) {
            self.kills.insert((id, step), job.generation);
        }
    }

    /// The word to kill the steps that are to be killed and whose end this node has not reported.
    fn kills_on(&self, node: NodeId) -> Vec<ToAgent> {
        let here = |((id, kind), generation): (&(JobId, StepKind), &Generation)| {
            let job = self.cluster.jobs.get(id)?;
            let step = job.steps.get(kind)?;
            let open = job.generation == *generation
                && step.shares.iter().any(|part| part.share.node == node)
                && !step.reported.contains_key(&node);
            open.then_some(ToAgent::Signal {
                job: *id,
                step: Some(*kind),
                signal: SIGKILL,
                group: false,
            })
        };
        self.kills.iter().filter_map(here).collect()
    }

    /// Sends a message, in order. A full queue means that the agent does not keep up: it is cut off.
    pub(super) fn send(&mut self, node: NodeId, message: ToAgent) {
        let Some(link) = self.links.by_node.get(&node) else {
            return;
        };
        if link.out.try_send(message).is_err() {
            tracing::warn!(%node, "agent does not keep up, or is gone: its stream is cut");
            self.links.cut(node);
        }
    }

    /// Logs the end of streams that were cut on this side, or that a start found open in the log.
    pub(super) fn mark_lost_links(&mut self, turn: &mut Turn) {
        if !std::mem::take(&mut self.links.cut) {
            return;
        }
        let lost = |(id, node): (&NodeId, &spur_core::node::Node)| {
            (node.connected && !self.links.by_node.contains_key(id)).then_some(*id)
        };
        let lost: Vec<NodeId> = self.cluster.nodes.iter().filter_map(lost).collect();
        for node in lost {
            self.propose_quietly(turn, Event::NodeDisconnected { node });
        }
    }

    /// Makes the next turn look for nodes that are connected in the state and not in fact.
    pub(super) fn suspect_links(&mut self) {
        self.links.cut = true;
    }

    fn said(&mut self, turn: &mut Turn, node: NodeId, word: AgentWord) {
        match word {
            AgentWord::Report { number, report } => {
                self.propose_quietly(turn, report.into_event(node));
                let highest = turn.acks.entry(node).or_default();
                *highest = number.max(*highest);
            }
            AgentWord::Heartbeat {
                load_x100,
                free_mib,
            } => {
                self.pulses.insert(
                    node,
                    Pulse {
                        load_x100,
                        free_mib,
                        at: turn.at,
                    },
                );
                turn.touched_nodes.insert(node);
            }
            AgentWord::Denials { counts } => {
                for (job, count) in counts {
                    if self.denial_totals.len() < TOTALS_MAX
                        || self.denial_totals.contains_key(&(job, node))
                    {
                        self.denial_totals.insert((job, node), count);
                    }
                }
                if !self.denial_totals.is_empty() && self.denials_due.is_none() {
                    self.denials_due = Some(Instant::now() + DENIALS_EVERY);
                }
            }
            AgentWord::Fence {
                state,
                note,
                suffices,
                gpus_sick,
                gpu_notes,
                stuck,
            } => {
                self.propose_quietly(
                    turn,
                    Event::FenceChanged {
                        node,
                        fence: state,
                        note,
                        suffices,
                        gpus_sick,
                        gpu_notes,
                        stuck,
                    },
                );
            }
        }
    }

    /// Logs the totals of refusals that came since the last time: one event for each job and node, however many refusals.
    pub(super) fn log_denials(&mut self, turn: &mut Turn) {
        self.denials_due = None;
        for ((job, node), count) in std::mem::take(&mut self.denial_totals) {
            self.propose_quietly(turn, Event::Denials { job, node, count });
        }
    }

    pub(super) fn refuse_agent(&mut self, input: AgentInput, reason: &str) {
        match input {
            AgentInput::Connected { admitted, .. } => drop(admitted.send(Err(reason.to_owned()))),
            AgentInput::Said {
                node,
                session,
                word,
            } => {
                if self.links.is_current(node, session)
                    && !matches!(word, AgentWord::Heartbeat { .. })
                {
                    self.links.cut(node);
                }
            }
            AgentInput::Gone { node, session, .. } => {
                if self.links.is_current(node, session) {
                    self.links.cut(node);
                }
            }
        }
    }
}

/// Parts a node's steps into those of a welcome, which is one message, and those that would make it too large to be read. An
/// agent that hears of a step only after its welcome takes no harm: it ends jobs that it does not hear of, not steps.
fn those_that_fit(steps: impl Iterator<Item = StepOrder>) -> (Vec<StepOrder>, Vec<StepOrder>) {
    let mut room = WELCOME_MAX;
    steps.partition(|step| {
        let Some(batch) = &step.batch else {
            return true;
        };
        let texts = batch.payload.env.iter().chain(&batch.payload.args);
        let size = batch.payload.script.len() + texts.map(String::len).sum::<usize>();
        let left = room.checked_sub(size);
        room = left.unwrap_or(room);
        left.is_some()
    })
}
