//! A machine: what the kernel holds, the agent's journal, and the agent, which decides by the real reconciler.

mod acts;

use crate::oracle::Oracle;
use crate::params::Params;
use crate::queue::{At, Happening, Part, Queue, Stream, Word};
use crate::rng::Rng;
use spur_core::agent::order::{Report, ToAgent};
use spur_core::agent::reconcile::{Desired, JobPhase, Observed, ROUNDS, StepPhase, reconcile};
use spur_core::event::NodeHello;
use spur_core::id::{Generation, JobId, NodeName, StepKind};
use spur_core::job::state::ExitStatus;
use spur_core::node::FenceState;
use spur_core::resources::{Gpu, GpuVendor, Inventory};
use spur_core::time::Millis;
use std::collections::{BTreeMap, VecDeque};

/// What a machine may touch while something happens to it.
pub(crate) struct Around<'a> {
    pub(crate) queue: &'a mut Queue,
    pub(crate) rng: &'a mut Rng,
    pub(crate) oracle: &'a mut Oracle,
    pub(crate) params: &'a Params,
    /// Faults still happen.
    pub(crate) stormy: bool,
    /// The number of the next stream.
    pub(crate) streams: &'a mut u64,
}

impl Around<'_> {
    /// How long a message takes: FIFO is kept by the caller.
    pub(crate) fn delay(&mut self) -> u64 {
        let slow = self.stormy && self.rng.chance(self.params.faults.slow_message_permille);
        if slow {
            self.rng.between(500, 20_000)
        } else {
            self.rng.between(0, 5)
        }
    }
}

/// Which jobs and steps are there survives the agent, not the machine; reports survive both.
#[derive(Debug)]
pub(crate) struct Machine {
    at: At,
    inventory: Inventory,
    pub(crate) boot: u32,
    /// The kernel's truth, which the journal keeps up with: jobs, their shares, steps. Lost in a reboot.
    pub(crate) observed: Observed,
    /// In the journal: reports that the controller has not acknowledged, by number.
    reports: VecDeque<(u64, Report)>,
    next_report: u64,
    /// In the journal: generations that were reported clean.
    cleaned: BTreeMap<JobId, Generation>,
    /// The agent; `None` while it is dead.
    agent: Option<Agent>,
    /// Counts lives of the agent, so that timers of an earlier one are void.
    life: u32,
}

/// What dies with the agent.
#[derive(Debug, Default)]
struct Agent {
    desired: Desired,
    stream: Option<Stream>,
    /// When the last message that was sent on the stream arrives: the next is not faster.
    last_arrival: Millis,
}

impl Machine {
    pub(crate) fn new(at: At, params: &Params) -> Self {
        Self {
            at,
            inventory: inventory(params),
            boot: 1,
            observed: Observed::default(),
            reports: VecDeque::new(),
            next_report: 1,
            cleaned: BTreeMap::new(),
            agent: None,
            life: 0,
        }
    }

    pub(crate) fn agent_is_up(&self) -> bool {
        self.agent.is_some()
    }

    /// The stream of the agent, if it has one.
    pub(crate) fn stream(&self) -> Option<Stream> {
        self.agent.as_ref()?.stream
    }

    /// The agent starts with its journal and looks for the controller.
    pub(crate) fn start_agent(&mut self, around: &mut Around<'_>) {
        if self.agent.is_some() {
            return;
        }
        let mut agent = Agent::default();
        let held = self
            .observed
            .jobs
            .iter()
            .map(|(job, (generation, _))| (*job, *generation));
        let failed = self
            .observed
            .failed
            .iter()
            .map(|(job, generation)| (*job, *generation));
        for (job, generation) in held.chain(failed) {
            agent.desired.remember(job, generation);
        }
        for (job, generation) in &self.cleaned {
            agent.desired.cleaned(*job, *generation);
        }
        self.agent = Some(agent);
        self.life += 1;
        self.try_later(around);
    }

    /// The agent dies; its supervisors, fences and journal do not.
    pub(crate) fn crash_agent(&mut self) {
        self.agent = None;
    }

    /// Everything that ran is gone; the disk is not.
    pub(crate) fn reboot(&mut self) {
        self.agent = None;
        self.boot += 1;
        self.observed.jobs.clear();
        self.observed.shares.clear();
        self.observed.steps.clear();
    }

    pub(crate) fn try_later(&mut self, around: &mut Around<'_>) {
        let wait = around.rng.between(100, 3_000);
        around
            .queue
            .after(wait, Happening::Connect(self.at, self.life));
    }

    /// Opens a stream, says hello and repeats what was not acknowledged.
    pub(crate) fn connect(&mut self, life: u32, controller_is_up: bool, around: &mut Around<'_>) {
        if life != self.life
            || self
                .agent
                .as_ref()
                .is_none_or(|agent| agent.stream.is_some())
        {
            return;
        }
        if !controller_is_up {
            self.try_later(around);
            return;
        }
        *around.streams += 1;
        let hello = Box::new(self.hello());
        if let Some(agent) = &mut self.agent {
            agent.stream = Some(Stream(*around.streams));
            agent.last_arrival = around.queue.now;
        }
        self.say(Word::Hello(hello), around);
        for (number, report) in self.reports.clone() {
            self.say(Word::Report(number, report), around);
        }
    }

    /// The agent notices that its stream ended.
    pub(crate) fn closed(&mut self, stream: Stream, around: &mut Around<'_>) {
        let mine = self
            .agent
            .as_mut()
            .filter(|agent| agent.stream == Some(stream));
        if let Some(agent) = mine {
            agent.stream = None;
            self.try_later(around);
        }
    }

    fn say(&mut self, word: Word, around: &mut Around<'_>) {
        let delay = around.delay();
        let Some(agent) = &mut self.agent else { return };
        let Some(stream) = agent.stream else { return };
        let arrival = Millis(around.queue.now.0 + delay).max(agent.last_arrival);
        agent.last_arrival = arrival;
        around
            .queue
            .at(arrival, Happening::ToController(self.at, stream, word));
    }

    /// Writes a report into the journal and sends it if there is a stream.
    fn report(&mut self, report: Report, around: &mut Around<'_>) {
        let number = self.next_report;
        self.next_report += 1;
        self.reports.push_back((number, report.clone()));
        self.say(Word::Report(number, report), around);
    }

    /// A message of the controller arrives.
    pub(crate) fn hears(&mut self, stream: Stream, message: &ToAgent, around: &mut Around<'_>) {
        let Some(agent) = self
            .agent
            .as_mut()
            .filter(|agent| agent.stream == Some(stream))
        else {
            return;
        };
        if let ToAgent::Ack { report } = message {
            self.reports.retain(|(number, _)| number > report);
            return;
        }
        agent.desired.absorb(message);
        self.settle(around);
    }

    /// Reconciles until nothing is left to do.
    fn settle(&mut self, around: &mut Around<'_>) {
        // Each set-up that fails is news and begins the rounds anew, so jobs bound the loop as well.
        let bound = ROUNDS
            * (2 + self
                .agent
                .as_ref()
                .map_or(0, |agent| agent.desired.jobs.len()));
        for _ in 0..bound {
            let Some(agent) = &self.agent else { return };
            let actions = reconcile(&agent.desired, &self.observed);
            if actions.is_empty() {
                return;
            }
            for action in actions {
                self.act(action, around);
            }
        }
        around.oracle.breaks(format!(
            "machine {}: reconciling does not come to rest",
            self.at
        ));
    }

    fn part(&self, job: JobId) -> Option<Part> {
        let (generation, _) = *self.observed.jobs.get(&job)?;
        Some(Part {
            at: self.at,
            boot: self.boot,
            job,
            generation,
        })
    }

    fn is_here(&self, part: Part) -> bool {
        self.part(part.job) == Some(part)
    }

    /// A client reaches its step, if the agent lives to let it in; else it tries again.
    pub(crate) fn client_arrives(&mut self, part: Part, step: StepKind, around: &mut Around<'_>) {
        let waits = self.observed.steps.get(&(part.job, step)) == Some(&StepPhase::Waiting);
        if !self.is_here(part) || !waits {
            return;
        }
        if self.agent.is_none() {
            around.queue.after(1_000, Happening::Client(part, step));
            return;
        }
        self.observed
            .steps
            .insert((part.job, step), StepPhase::Running);
        self.run_step(part, step, around);
    }

    fn run_step(&mut self, part: Part, step: StepKind, around: &mut Around<'_>) {
        around
            .oracle
            .launched(self.at, (part.job, part.generation), step);
        let millis = around.rng.between(1, around.params.longest_secs * 1_000);
        around.queue.after(millis, Happening::StepEnds(part, step));
    }

    /// A step's last task ended: its supervisor writes that down whether the agent lives or not; a dead agent reads it when
    /// it starts (and since reports are repeated on connection, writing the report now is the same).
    pub(crate) fn step_ends(&mut self, part: Part, step: StepKind, around: &mut Around<'_>) {
        let runs = self.observed.steps.get(&(part.job, step)) == Some(&StepPhase::Running);
        if !self.is_here(part) || !runs {
            return;
        }
        self.observed
            .steps
            .insert((part.job, step), StepPhase::Ended);
        if let Some(agent) = &mut self.agent {
            agent.desired.step_ended(part.job, step);
        }
        let (job, generation, oom) = (part.job, part.generation, around.rng.chance(20));
        let code = u8::from(around.rng.chance(200) || oom);
        let exit = ExitStatus { code, signal: 0 };
        self.report(
            Report::StepEnded {
                job,
                step,
                generation,
                exit,
                oom,
            },
            around,
        );
        self.settle(around);
    }

    /// The last process of a killed job is gone.
    pub(crate) fn emptied(&mut self, part: Part, around: &mut Around<'_>) {
        if self.is_here(part) {
            self.observed
                .jobs
                .insert(part.job, (part.generation, JobPhase::Gone));
            self.settle(around);
        }
    }

    fn hello(&self) -> NodeHello {
        let name = name(self.at);
        NodeHello {
            hostname: name.to_string(),
            name,
            inventory: self.inventory.clone(),
            boot_id: format!("boot-{}", self.boot),
            boot_time: Millis(0),
            agent_start: Millis(0),
            fence: FenceState::Guarded,
            fence_note: String::new(),
            version: String::new(),
            os: String::new(),
            address: String::new(),
            jobs: self
                .observed
                .jobs
                .iter()
                .map(|(job, (generation, _))| (*job, *generation))
                .collect(),
            fence_suffices: None,
            gpus_sick: None,
            gpu_notes: Vec::new(),
            keeps_gpus: Some(true),
            stuck: Vec::new(),
        }
    }
}

/// The name of a machine.
pub(crate) fn name(at: At) -> NodeName {
    NodeName::new(format!("n{}", at + 1)).expect("a letter and digits are a name")
}

fn inventory(params: &Params) -> Inventory {
    let gpu = |index| Gpu {
        index,
        vendor: GpuVendor::Simulated,
        model: "sim".to_owned(),
        uuid: format!("GPU-{index}"),
        pci: String::new(),
        numa: Some(index * 2 / params.gpus.max(1)),
        memory_mib: 1_000,
        files: Vec::new(),
        links: Vec::new(),
        rail: None,
        parent: None,
    };
    Inventory {
        cpus: params.cpus,
        sockets: 1,
        cores_per_socket: params.cpus,
        threads_per_core: 1,
        memory_mib: u64::from(params.cpus) * 1_024,
        gpus: (0..params.gpus).map(gpu).collect(),
        simulated: true,
        cpus_by_numa: Vec::new(),
        features: Vec::new(),
    }
}
