//! The whole: a queue of happenings, and who they happen to.

use crate::client;
use crate::controller::Controller;
use crate::machine::{Around, Machine};
use crate::oracle::Oracle;
use crate::outcome::{Failure, Outcome};
use crate::params::Params;
use crate::queue::{At, Fault, Happening, Queue, Stream};
use crate::rng::Rng;
use spur_core::id::JobId;
use spur_core::time::Millis;
use std::collections::{BTreeMap, BTreeSet};

/// Most happenings in one run: a run that needs more is going round in circles.
const MOST: u64 = 20_000_000;

/// A moment to start from; nothing depends on it.
const START: Millis = Millis(1_000_000_000_000);

pub(crate) struct World<'a> {
    params: &'a Params,
    queue: Queue,
    rng: Rng,
    oracle: Oracle,
    controller: Controller,
    machines: Vec<Machine>,
    /// Clients whose request has not reached a controller.
    unsent: u32,
    /// Jobs that clients were told, by client.
    jobs: BTreeMap<usize, JobId>,
    /// Streams that were cut: what arrives on them is lost.
    cut: BTreeSet<Stream>,
    streams: u64,
    stormy: bool,
    outcome: Outcome,
}

impl<'a> World<'a> {
    pub(crate) fn new(seed: u64, params: &'a Params) -> Self {
        let mut queue = Queue::starting(START);
        let mut rng = Rng::new(seed);
        for client in 0..params.jobs as usize {
            let at = rng.between(0, params.span_secs * 1_000);
            queue.after(at, Happening::Submit(client));
        }
        queue.after(0, Happening::ControllerStart);
        for at in 0..params.nodes as usize {
            queue.after(1, Happening::AgentStart(at));
        }
        queue.after(client::OPERATOR_EVERY, Happening::Operator);
        for fault in Fault::ALL {
            fault.schedule(&params.faults, &mut queue, &mut rng);
        }
        queue.after(params.span_secs * 1_000, Happening::Calm);
        Self {
            params,
            queue,
            rng,
            oracle: Oracle::default(),
            controller: Controller::new(),
            machines: (0..params.nodes as usize)
                .map(|at| Machine::new(at, params))
                .collect(),
            unsent: params.jobs,
            jobs: BTreeMap::new(),
            cut: BTreeSet::new(),
            streams: 0,
            stormy: true,
            outcome: Outcome {
                seed,
                ..Outcome::default()
            },
        }
    }

    /// Runs until everything has drained, or a promise is broken.
    pub(crate) fn run(mut self) -> Outcome {
        let deadline = START.plus_secs(self.params.span_secs + self.params.drain_secs);
        let mut count = 0;
        while self.oracle.broken.is_none() && !self.has_drained() {
            let Some(happening) = self.queue.pop() else {
                break;
            };
            count += 1;
            if self.queue.now > deadline || count > MOST {
                break;
            }
            self.happens(happening);
            self.check_grants();
            self.tell_clients();
        }
        self.conclude()
    }

    /// All clients were served, all jobs are over and clean, all machines are empty and at rest.
    fn has_drained(&self) -> bool {
        let quiet = !self.stormy && self.unsent == 0;
        quiet && self.controller.up && self.held() == 0 && {
            let jobs = &self.controller.cluster.jobs;
            jobs.values()
                .all(|job| job.state.is_terminal() && job.leftovers.is_empty())
        }
    }

    fn held(&self) -> usize {
        self.machines
            .iter()
            .map(|machine| machine.observed.jobs.len())
            .sum()
    }

    fn conclude(mut self) -> Outcome {
        if self.oracle.broken.is_none() {
            let held = self.held();
            self.oracle.drained(&self.controller.cluster, held);
        }
        let secs = self.queue.now.secs_since(START);
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.secs = secs;
        outcome.acknowledged = self.oracle.acknowledged.len() as u64;
        outcome.placements = self.oracle.carried_out.len() as u64;
        outcome.launches_failed = self.oracle.launches_failed;
        let (controller, _, mut around) = self.parts();
        controller.settle_accounts(&mut around, &mut outcome);
        let seed = outcome.seed;
        outcome.failure = self.oracle.broken.map(|what| Failure { seed, secs, what });
        outcome
    }

    fn parts(&mut self) -> (&mut Controller, &mut Vec<Machine>, Around<'_>) {
        let around = Around {
            queue: &mut self.queue,
            rng: &mut self.rng,
            oracle: &mut self.oracle,
            params: self.params,
            stormy: self.stormy,
            streams: &mut self.streams,
        };
        (&mut self.controller, &mut self.machines, around)
    }

    /// A device is granted again only when the kernel shows no holder.
    fn check_grants(&mut self) {
        for (job, shares) in std::mem::take(&mut self.controller.granted) {
            for share in shares {
                let at = self.controller.machine_of(share.node);
                let Some(machine) = at.and_then(|at| self.machines.get(at)) else {
                    continue;
                };
                self.oracle.granted(job, &share, &machine.observed.shares);
            }
        }
    }

    fn tell_clients(&mut self) {
        for (client, job) in std::mem::take(&mut self.controller.answered) {
            self.jobs.insert(client, job);
            let (_, _, mut around) = self.parts();
            client::answered(client, &mut around);
        }
    }

    fn happens(&mut self, happening: Happening) {
        if let Happening::ToController(_, stream, _) | Happening::ToAgent(_, stream, _) = &happening
            && self.cut.contains(stream)
        {
            return;
        }
        let job = if let Happening::Meddle(client) = &happening {
            self.jobs.get(client).copied()
        } else {
            None
        };
        let (controller, machines, mut around) = self.parts();
        match happening {
            Happening::Submit(client) => {
                let sent = client::submit(client, controller, &mut around);
                self.unsent -= u32::from(sent);
            }
            Happening::Meddle(_) => {
                if let Some(job) = job {
                    client::meddle(job, controller, &mut around);
                }
            }
            Happening::GiveBack(job) => controller.give_back(job, &mut around),
            Happening::Operator => client::operate(controller, &mut around),
            Happening::Durable(life) => {
                let chance = around.params.faults.crash_while_writing_permille;
                if around.stormy && around.rng.chance(chance) {
                    self.fault(Fault::ControllerCrash);
                } else {
                    controller.durable(life, &mut around);
                }
            }
            Happening::Due(life) => controller.due(life, &mut around),
            Happening::ToController(at, stream, word) => {
                controller.hears(at, stream, word, &mut around);
            }
            Happening::ClosedAtController(at, stream) => controller.closed(at, stream, &mut around),
            Happening::ControllerStart => controller.start(&mut around),
            Happening::ToAgent(at, stream, message) => {
                machines[at].hears(stream, &message, &mut around);
            }
            Happening::ClosedAtAgent(at, stream) => machines[at].closed(stream, &mut around),
            Happening::Connect(at, life) => machines[at].connect(life, controller.up, &mut around),
            Happening::Client(part, step) => {
                machines[part.at].client_arrives(part, step, &mut around);
            }
            Happening::StepEnds(part, step) => {
                machines[part.at].step_ends(part, step, &mut around);
            }
            Happening::Emptied(part) => machines[part.at].emptied(part, &mut around),
            Happening::AgentStart(at) => machines[at].start_agent(&mut around),
            Happening::Calm => self.stormy = false,
            Happening::Fault(fault) => {
                fault.schedule(&self.params.faults, &mut self.queue, &mut self.rng);
                self.fault(fault);
            }
        }
    }

    /// A fault somewhere. None happens after the calm has come.
    fn fault(&mut self, fault: Fault) {
        if !self.stormy {
            return;
        }
        let last = u64::from(self.params.nodes.saturating_sub(1));
        let at = usize::try_from(self.rng.between(0, last)).unwrap_or(0);
        *self.outcome.faults.entry(fault.name()).or_default() += 1;
        match fault {
            Fault::ControllerCrash => self.crash_controller(),
            Fault::AgentCrash => self.crash_agent(at, false),
            Fault::Reboot => self.crash_agent(at, true),
            Fault::Cut => self.cut_stream(at),
        }
    }

    fn crash_controller(&mut self) {
        for at in 0..self.machines.len() {
            self.cut_stream(at);
        }
        let (controller, _, mut around) = self.parts();
        if controller.up {
            controller.crash(&mut around);
            let wait = around.rng.between(100, 40_000);
            around.queue.after(wait, Happening::ControllerStart);
        }
    }

    fn crash_agent(&mut self, at: At, reboot: bool) {
        self.cut_stream(at);
        let machine = &mut self.machines[at];
        let was_up = machine.agent_is_up();
        if reboot {
            machine.reboot();
        } else {
            machine.crash_agent();
        }
        if was_up {
            let longest = if self.rng.chance(200) {
                200_000
            } else {
                20_000
            };
            let wait = self.rng.between(100, longest);
            self.queue.after(wait, Happening::AgentStart(at));
        }
    }

    /// What is under way is lost; both ends notice in their own time.
    fn cut_stream(&mut self, at: At) {
        let Some(stream) = self.machines[at].stream() else {
            return;
        };
        self.cut.insert(stream);
        let (agent, controller) = (self.rng.between(1, 30_000), self.rng.between(1, 30_000));
        self.queue
            .after(agent, Happening::ClosedAtAgent(at, stream));
        self.queue
            .after(controller, Happening::ClosedAtController(at, stream));
    }
}

#[cfg(test)]
mod tests;
