//! The real state machine and the real planner on a virtual clock. What is simulated is around them: machines that do at once
//! what they are told, unless a fault says otherwise, and jobs that run for as long as they are known to.

use super::faults::{Fault, What};
use super::log::Log;
use super::measure::Measure;
use spur_core::cluster::Cluster;
use spur_core::effect::{Effect, Effects};
use spur_core::event::{Event, NodeHello};
use spur_core::id::{Generation, JobId, NodeId, StepKind, Uid};
use spur_core::job::admit::admit;
use spur_core::job::spec::JobSpec;
use spur_core::job::state::{ExitStatus, JobState, Reason};
use spur_core::node::{AdminState, FenceState};
use spur_core::plan::{Budget, plan};
use spur_core::resources::IdSet;
use spur_core::time::Millis;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Seconds after which somebody releases a job that was held because it could not be started.
const RELEASED_AFTER: u64 = 300;

/// Most moments of a replay: one that needs more is going round in circles.
const MOST_MOMENTS: u64 = 1_000_000_000;

/// A job that will be submitted.
pub(super) struct Arrival {
    pub(super) at: Millis,
    pub(super) spec: JobSpec,
    pub(super) run_secs: u64,
}

/// What happens at a moment.
#[derive(Debug)]
enum Happening {
    Ends(JobId, Generation),
    Cleaned(JobId, NodeId, Generation),
    LaunchFails(JobId, NodeId, Generation),
    Release(JobId),
    Fault(Fault),
}

/// A node's machine.
#[derive(Debug)]
struct Machine {
    id: NodeId,
    up: bool,
    boots: u32,
    hello: NodeHello,
    sick: IdSet,
    launch_fails: bool,
    kill_secs: u64,
}

/// See the module.
pub(super) struct Drive<'w> {
    pub(super) cluster: Cluster,
    pub(super) now: Millis,
    pub(super) measure: Measure,
    log: Log<'w>,
    happenings: BTreeMap<(Millis, u64), Happening>,
    happened: u64,
    machines: BTreeMap<String, Machine>,
    names: BTreeMap<NodeId, String>,
    /// How long jobs run, in seconds; a job that is not here never ends by itself.
    run_secs: BTreeMap<JobId, u64>,
    /// Jobs that will be released.
    releases: BTreeSet<JobId>,
    replan: bool,
    /// Placements made, and planning passes.
    pub(super) placed: u64,
    pub(super) passes: u64,
    /// Jobs that admission refused.
    pub(super) refused: u64,
}

impl<'w> Drive<'w> {
    /// Takes over a cluster as it stands at `now`.
    pub(super) fn new(cluster: Cluster, now: Millis, log: Log<'w>) -> Self {
        Self {
            cluster,
            now,
            measure: Measure::new(now),
            log,
            happenings: BTreeMap::new(),
            happened: 0,
            machines: BTreeMap::new(),
            names: BTreeMap::new(),
            run_secs: BTreeMap::new(),
            releases: BTreeSet::new(),
            replan: true,
            placed: 0,
            passes: 0,
            refused: 0,
        }
    }

    /// A machine connects.
    pub(super) fn connect(&mut self, hello: NodeHello) {
        let name = hello.name.to_string();
        self.decide(Event::NodeConnected(hello.clone()));
        let Some(id) = self.cluster.node_ids.get(&hello.name).copied() else {
            return;
        };
        self.adopt(id, &name, hello);
    }

    /// A machine that is connected already.
    pub(super) fn adopt(&mut self, id: NodeId, name: &str, hello: NodeHello) {
        self.log.name(id, name);
        self.names.insert(id, name.to_owned());
        if let Some(node) = self.cluster.nodes.get(&id) {
            self.measure.node(node);
        }
        let machine = Machine {
            id,
            up: true,
            boots: 1,
            hello,
            sick: IdSet::new(),
            launch_fails: false,
            kill_secs: 0,
        };
        self.machines.insert(name.to_owned(), machine);
    }

    /// What an already running job needs until it ends, from `at` on.
    pub(super) fn ends_at(&mut self, job: JobId, generation: Generation, at: Millis) {
        self.at(at, Happening::Ends(job, generation));
    }

    /// Something still held on a node comes free at `at`.
    pub(super) fn clean_at(
        &mut self,
        job: JobId,
        node: NodeId,
        generation: Generation,
        at: Millis,
    ) {
        self.at(at, Happening::Cleaned(job, node, generation));
    }

    /// How long a job will run once it starts.
    pub(super) fn will_run(&mut self, job: JobId, secs: u64) {
        self.run_secs.insert(job, secs);
    }

    /// A fault, so many seconds from now.
    pub(super) fn fault(&mut self, fault: Fault) {
        let at = self.now.plus_secs(fault.after_secs);
        self.at(at, Happening::Fault(fault));
    }

    fn at(&mut self, at: Millis, what: Happening) {
        self.happened += 1;
        self.happenings.insert((at, self.happened), what);
    }

    /// Runs until nothing happens any more, `stop` says so after a moment, or too much happened.
    pub(super) fn run(
        &mut self,
        arrivals: &mut dyn Iterator<Item = Arrival>,
        mut stop: impl FnMut(&Self) -> bool,
    ) {
        let mut next = arrivals.next();
        self.plan();
        for _ in 0..MOST_MOMENTS {
            if stop(self) {
                return;
            }
            let due = self.cluster.next_deadline(self.now).map(|(at, _)| at);
            let coming = self.happenings.first_key_value().map(|((at, _), _)| *at);
            let arriving = next.as_ref().map(|arrival| arrival.at);
            let Some(at) = [due, coming, arriving].into_iter().flatten().min() else {
                return;
            };
            let before = self.now;
            self.now = at.max(before);
            self.measure.moves_to(self.now);
            self.replan |= self.cluster.begins_within(before, self.now);
            self.settle();
            while let Some(arrival) = next.take_if(|arrival| arrival.at <= self.now) {
                self.submit(arrival);
                next = arrivals.next();
            }
            self.plan();
        }
    }

    /// All that happens at this moment, and what follows from it at once.
    fn settle(&mut self) {
        loop {
            let mut busy = false;
            while let Some(entry) = self.happenings.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let what = entry.remove();
                self.happens(what);
                busy = true;
            }
            for event in self.cluster.expired(self.now) {
                self.decide(event);
                busy = true;
            }
            if !busy {
                return;
            }
        }
    }

    /// A client submits; what admission refuses is counted.
    fn submit(&mut self, mut arrival: Arrival) {
        let admitted = admit(&self.cluster, &mut arrival.spec, self.now);
        let (Ok(admitted), Some(job)) = (admitted, self.cluster.next_job_id()) else {
            self.refused += 1;
            return;
        };
        self.run_secs.insert(job, arrival.run_secs);
        self.decide(Event::Submitted {
            job,
            spec: Arc::new(arrival.spec),
            priority: admitted.priority,
        });
    }

    /// Plans until a pass has looked at everything.
    fn plan(&mut self) {
        while std::mem::take(&mut self.replan) {
            let found = plan(&self.cluster, self.now, Budget::default());
            self.passes += 1;
            self.placed += found.placements.len() as u64;
            self.replan = found.cut_short;
            for event in self.cluster.plan_events(found) {
                self.decide(event);
            }
        }
    }

    /// Decides: applies, writes down, does what follows.
    pub(super) fn decide(&mut self, event: Event) {
        let Effects {
            effects,
            ignored,
            replan,
            touched_jobs,
            touched_nodes,
        } = self.cluster.apply(self.now, &event);
        if ignored.is_some() {
            return;
        }
        self.log.event(self.now, &event);
        self.replan |= replan;
        if !matches!(event, Event::Explained { .. }) {
            for id in &touched_jobs {
                if let Some(job) = self.cluster.jobs.get(id) {
                    self.measure.job(job, self.now);
                }
                self.release_later(*id);
            }
        }
        for id in &touched_nodes {
            if let Some(node) = self.cluster.nodes.get(id) {
                self.measure.node(node);
            }
        }
        // Components of a heterogeneous job end with their leader, the first.
        let placed = if let Event::Placed {
            job, generation, ..
        } = &event
        {
            Some((*job, *generation))
        } else if let Event::HetPlaced { parts, generation } = &event {
            parts.first().map(|(job, _)| (*job, *generation))
        } else {
            None
        };
        if let Some((job, generation)) = placed
            && let Some(secs) = self.run_secs.get(&job)
        {
            let at = self.now.plus_secs(*secs);
            self.at(at, Happening::Ends(job, generation));
        }
        for effect in effects {
            self.carry_out(&effect);
        }
    }

    fn release_later(&mut self, id: JobId) {
        let held = self.cluster.jobs.get(&id).is_some_and(|job| {
            job.state == JobState::Pending && job.reason == Reason::LaunchFailedHeld
        });
        if held && self.releases.insert(id) {
            let at = self.now.plus_secs(RELEASED_AFTER);
            self.at(at, Happening::Release(id));
        }
    }

    fn machine(&self, node: NodeId) -> Option<&Machine> {
        self.machines.get(self.names.get(&node)?)
    }

    fn carry_out(&mut self, effect: &Effect) {
        match *effect {
            Effect::Assign { node, job } => {
                let fails = self
                    .machine(node)
                    .is_some_and(|machine| machine.launch_fails);
                if let Some(job) = self.cluster.jobs.get(&job).filter(|_| fails) {
                    let failure = Happening::LaunchFails(job.id, node, job.generation);
                    self.at(self.now, failure);
                }
            }
            Effect::Revoke {
                node,
                job,
                generation,
            } => {
                let machine = self.machine(node).filter(|machine| machine.up);
                if let Some(secs) = machine.map(|machine| machine.kill_secs) {
                    let at = self.now.plus_secs(secs);
                    self.at(at, Happening::Cleaned(job, node, generation));
                }
            }
            Effect::Launch { .. }
            | Effect::Signal { .. }
            | Effect::Notify { .. }
            | Effect::DropPayload { .. }
            | Effect::Hook { .. }
            | Effect::Mail(_) => {}
        }
    }

    fn happens(&mut self, what: Happening) {
        match what {
            Happening::Ends(job, generation) => self.ends(job, generation),
            Happening::Cleaned(job, node, generation) => {
                if self.machine(node).is_some_and(|machine| machine.up) {
                    self.decide(Event::Cleaned {
                        job,
                        node,
                        generation,
                    });
                }
            }
            Happening::LaunchFails(job, node, generation) => self.decide(Event::LaunchFailed {
                job,
                node,
                generation,
                why: "the fault script says so".to_owned(),
                node_fault: true,
                rests: true,
            }),
            Happening::Release(job) => {
                self.releases.remove(&job);
                self.decide(Event::Released { job });
            }
            Happening::Fault(fault) => self.strikes(&fault),
        }
    }

    /// A job's program ends by itself, if this placement still runs and all its machines live.
    fn ends(&mut self, id: JobId, generation: Generation) {
        let Some(job) = self.cluster.jobs.get(&id) else {
            return;
        };
        let runs = job.state == JobState::Running && job.generation == generation;
        let alive = |node: NodeId| self.machine(node).is_some_and(|machine| machine.up);
        let Some(first) = job.allocation.first().map(|share| share.node) else {
            return;
        };
        if !runs || !job.allocation.iter().all(|share| alive(share.node)) {
            return;
        }
        let exit = ExitStatus { code: 0, signal: 0 };
        let event = if job.steps.contains_key(&StepKind::Batch) {
            Event::StepEnded {
                job: id,
                step: StepKind::Batch,
                node: first,
                generation,
                exit,
                oom: false,
            }
        } else {
            Event::Finished { job: id, exit }
        };
        self.decide(event);
    }

    fn strikes(&mut self, fault: &Fault) {
        let Some(machine) = self.machines.get_mut(&fault.node) else {
            return;
        };
        let (node, by) = (machine.id, Uid(0));
        let updated = |admin, reason: &str| Event::NodeUpdated {
            node,
            admin,
            reason: reason.to_owned(),
            by,
        };
        let event = match fault.what {
            What::Lost => {
                machine.up = false;
                Event::NodeDisconnected { node }
            }
            What::Back => {
                machine.up = true;
                machine.boots += 1;
                machine.hello.boot_id = format!("boot-{}", machine.boots);
                machine.hello.gpus_sick = Some(machine.sick.clone());
                Event::NodeConnected(machine.hello.clone())
            }
            What::Drain => updated(AdminState::Drain, "fault script"),
            What::Resume => updated(AdminState::Up, ""),
            What::Sick(gpu) => {
                machine.sick.insert(gpu);
                sickness(node, &machine.sick)
            }
            What::Well(gpu) => {
                machine.sick.remove(gpu);
                sickness(node, &machine.sick)
            }
            What::LaunchFails => {
                machine.launch_fails = true;
                return;
            }
            // Whoever repairs a node puts it back into service.
            What::LaunchWorks => {
                machine.launch_fails = false;
                updated(AdminState::Up, "")
            }
            What::KillTakes(secs) => {
                machine.kill_secs = secs;
                return;
            }
        };
        self.decide(event);
    }

    /// Ends the log: its hash, and what went wrong with writing it.
    pub(super) fn finish(self) -> (Measure, u64, Option<std::io::Error>) {
        let (hash, failed) = self.log.finish();
        (self.measure, hash, failed)
    }
}

fn sickness(node: NodeId, sick: &IdSet) -> Event {
    Event::FenceChanged {
        node,
        fence: FenceState::Guarded,
        note: String::new(),
        suffices: None,
        gpus_sick: Some(sick.clone()),
        gpu_notes: Vec::new(),
        stuck: Vec::new(),
    }
}
