//! The agent's one loop. It owns what is wanted and what is there, asks the core what to do, hands that to [`crate::act`] on
//! threads of their own, and writes down what came of it. It decides nothing itself.

mod fences;
mod jobs;
mod observe;
mod programs;
mod refusals;
mod reports;
mod room;
mod steps;

use crate::act::{Failure, Left};
use crate::audit;
use crate::clients::Visitor;
use crate::journal::{self, Journal};
use crate::keys::Keys;
use crate::launch::Supervisor;
use crate::node::{Condition, Node};
use crate::watchdog::Repaired;
use programs::Ran;
use spur_core::agent::order::{FromAgent, Report, ToAgent};
use spur_core::agent::programs::NodePrograms;
use spur_core::agent::reconcile::{Action, Desired, Observed, reconcile};
use spur_core::id::{Generation, JobId, StepKind};
use spur_ebpf::{Counters, JobFence};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Inputs that may wait for the loop; senders wait when it is full.
pub const INPUTS_MAX: usize = 1024;

/// Clients that may wait for their step's order.
const EARLY_MAX: usize = 1024;

/// How long a client waits for its step's order.
pub const EARLY_PATIENCE: Duration = Duration::from_secs(10);

/// How often the controller hears that this node lives.
const BEAT: Duration = Duration::from_secs(5);

/// A step of a job.
pub type StepKey = (JobId, StepKind);

/// Everything that can happen to the agent.
#[derive(Debug)]
pub enum Input {
    /// The link to the controller is up; what is sent here goes out.
    LinkUp(mpsc::Sender<FromAgent>),
    /// It is down.
    LinkDown,
    /// The controller's word.
    Order(Box<ToAgent>),
    /// A step's client, its ticket checked.
    Visitor(Box<Visitor>),
    /// The client of this step, if it still waits, has waited long enough.
    VisitorLate(StepKey),
    /// A job's set-up ended.
    Prepared {
        /// Which job.
        job: JobId,
        /// Its generation.
        generation: Generation,
        /// What came of it.
        outcome: Result<Option<JobFence>, Failure>,
    },
    /// A supervisor was started, or not.
    Started {
        /// Which step.
        key: StepKey,
        /// What came of it.
        outcome: Result<Supervisor, Failure>,
    },
    /// A supervisor ended.
    SupervisorEnded(StepKey),
    /// The grace of an ending job is over.
    GraceOver(JobId, Generation),
    /// Time for another round of ending a job.
    RoundDue(JobId, u32),
    /// A round of ending a job is over.
    Round {
        /// Which job.
        job: JobId,
        /// How many rounds there were.
        rounds: u32,
        /// What is left.
        left: Left,
    },
    /// An ended job was removed, or not.
    Cleaned {
        /// Which job.
        job: JobId,
        /// Generation to report.
        generation: Generation,
        /// Its refusals, or why it could not be removed.
        outcome: Result<Counters, Failure>,
    },
    /// The prolog of a job is over.
    PrologOver(JobId, Generation, Ran),
    /// The epilog of a job is over.
    EpilogOver(JobId, Generation, Ran),
    /// Time for a health check.
    HealthDue,
    /// It is over.
    HealthOver(Ran),
    /// Refusals are in the audit's buffer.
    Refusals,
    /// Time to try again to remove an ended job.
    CleanDue(JobId),
    /// The fence was proven again, after so many losses.
    Proven(Condition, u64),
    /// A fence was taken off, in words; it is being put back.
    FenceLost(String),
    /// What came of that.
    FenceBack(Box<Repaired>),
    /// Devices came or went.
    DevicesChanged,
    /// A GPU was taken from a job: why the job had to be ended, or nothing.
    CutOff(JobId, Result<Option<String>, String>),
    /// Time for a sign of life, and to try again what failed.
    Beat,
    /// Stop, leaving jobs as they are.
    Stop,
}

/// A running step.
#[derive(Debug)]
struct Running {
    supervisor: Arc<Supervisor>,
}

/// The agent.
#[derive(Debug)]
pub struct Agent {
    node: Arc<Node>,
    condition: Condition,
    keys: Arc<Keys>,
    journal: Journal,
    desired: Desired,
    observed: Observed,
    /// Jobs with an action under way: nothing else is begun on them.
    busy: BTreeSet<JobId>,
    /// Steps whose supervisor is being started.
    starting: BTreeSet<StepKey>,
    running: BTreeMap<StepKey, Running>,
    fences: BTreeMap<JobId, JobFence>,
    /// What is left of jobs that do not end, in words.
    stuck: BTreeMap<JobId, String>,
    /// Clients that came before their step's order.
    early: BTreeMap<StepKey, Visitor>,
    link: Option<mpsc::Sender<FromAgent>>,
    /// Highest report sent over the present link.
    sent: u64,
    /// Reports that could not be journalled yet (a full disk).
    unwritten: VecDeque<Report>,
    refusals: audit::Buffer,
    /// Refusals that the jobs' own fences do not count, and lines that were cut.
    extra: BTreeMap<JobId, audit::report::Extra>,
    /// The fence is being proven.
    proving: bool,
    /// It was lost and is being put back: nothing is started meanwhile.
    repairing: bool,
    /// How often it was lost.
    losses: u64,
    /// The audit ring is read.
    audited: bool,
    /// The last loss and what came of it.
    last_loss: Option<String>,
    /// Jobs that were ended because a GPU or their fence was taken from them, with the reason.
    cut_off: BTreeMap<JobId, String>,
    /// GPUs that came after the start.
    appeared: Vec<String>,
    /// What to run around jobs.
    programs: Arc<NodePrograms>,
    /// A health check runs, or is due some time.
    checking: bool,
    /// The disk under the state's folder is full, in words.
    full: Option<String>,
    inputs: mpsc::Sender<Input>,
}

/// Why the agent stopped or could not start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] journal::JournalError),
    /// The folder of cgroups cannot be read.
    #[error(transparent)]
    Cgroup(#[from] crate::cgroup::CgroupError),
}

impl Agent {
    /// Takes over what an earlier agent left. Give the result to [`Self::run`].
    pub fn adopt(
        node: Arc<Node>,
        condition: Condition,
        keys: Arc<Keys>,
        refusals: audit::Buffer,
        inputs: mpsc::Sender<Input>,
    ) -> Result<Self, AgentError> {
        let journal = Journal::open(&node.config.state_dir, &node.boot_id)?;
        let mut agent = Self {
            node,
            condition,
            keys,
            journal,
            desired: Desired::default(),
            observed: Observed::default(),
            busy: BTreeSet::new(),
            starting: BTreeSet::new(),
            running: BTreeMap::new(),
            fences: BTreeMap::new(),
            stuck: BTreeMap::new(),
            early: BTreeMap::new(),
            link: None,
            sent: 0,
            unwritten: VecDeque::new(),
            refusals,
            extra: BTreeMap::new(),
            proving: false,
            repairing: false,
            losses: 0,
            audited: false,
            last_loss: None,
            cut_off: BTreeMap::new(),
            appeared: Vec::new(),
            programs: Arc::default(),
            checking: false,
            full: None,
            inputs,
        };
        agent.look_at_room();
        agent.shelve();
        agent.observe()?;
        agent.read_refusals();
        Ok(agent)
    }

    /// Takes inputs until told to stop.
    pub async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        let beat = self.inputs.clone();
        tokio::spawn(async move {
            let mut interval = tokio::time::interval(BEAT);
            interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                interval.tick().await;
                if beat.send(Input::Beat).await.is_err() {
                    return;
                }
            }
        });
        while let Some(input) = inputs.recv().await {
            if matches!(input, Input::Stop) {
                break;
            }
            self.take(input);
            self.act();
        }
        tracing::info!(
            jobs = self.observed.jobs.len(),
            "the agent stops; jobs go on, fenced"
        );
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::LinkUp(link) => self.link_up(link),
            Input::LinkDown => self.link = None,
            Input::Order(order) => self.order(&order),
            Input::Visitor(visitor) => self.visitor(*visitor),
            Input::VisitorLate(key) => self.visitor_late(key),
            Input::Prepared {
                job,
                generation,
                outcome,
            } => self.prepared(job, generation, outcome),
            Input::Started { key, outcome } => self.started(key, outcome),
            Input::SupervisorEnded(key) => self.supervisor_ended(key),
            Input::GraceOver(job, generation) => self.grace_over(job, generation),
            Input::RoundDue(job, rounds) => self.round_due(job, rounds),
            Input::CleanDue(job) => drop(self.busy.remove(&job)),
            Input::Round { job, rounds, left } => self.round_over(job, rounds, left),
            Input::Cleaned {
                job,
                generation,
                outcome,
            } => self.job_cleaned(job, generation, outcome),
            Input::PrologOver(job, generation, ran) => self.prolog_over(job, generation, ran),
            Input::EpilogOver(job, generation, ran) => self.epilog_over(job, generation, ran),
            Input::HealthDue => self.health_due(),
            Input::HealthOver(ran) => self.health_over(ran),
            Input::Refusals => self.send_refusals(),
            Input::Proven(condition, losses) => self.proven(condition, losses),
            Input::FenceLost(what) => self.fence_lost(what),
            Input::FenceBack(repaired) => self.fence_back(*repaired),
            Input::DevicesChanged => self.devices_changed(),
            Input::CutOff(job, outcome) => self.was_cut_off(job, outcome),
            Input::Beat => self.beat(),
            Input::Stop => {}
        }
    }

    fn order(&mut self, order: &ToAgent) {
        let absorbed = self.desired.absorb(order);
        for refused in absorbed.refused {
            tracing::warn!(job = %refused.job, generation = %refused.generation, why = %refused.why, "an order is not followed");
        }
        match order {
            ToAgent::Ack { report } => self.acked(*report),
            ToAgent::Signal {
                job,
                step,
                signal,
                group,
            } => self.signal((*job, *step), *signal, *group),
            ToAgent::Freeze { job, frozen } => self.freeze(*job, *frozen),
            ToAgent::Welcome {
                node,
                generation,
                jobs,
                steps,
                programs,
                ticket_key,
            } => {
                tracing::info!(%node, %generation, jobs = jobs.len(), steps = steps.len(), "the controller welcomes this node");
                self.keys.given(ticket_key.clone());
                self.take_programs(programs.clone());
            }
            ToAgent::Assign(_) | ToAgent::Launch(_) | ToAgent::Revoke { .. } => {}
        }
    }

    /// Asks the core what to do and begins it.
    fn act(&mut self) {
        for action in reconcile(&self.desired, &self.observed) {
            match action {
                // Until a lost fence is back, nothing is begun; it is asked for again then.
                Action::Prepare(_)
                | Action::Prolog { .. }
                | Action::Launch(_)
                | Action::Expect(_)
                    if self.repairing => {}
                Action::Prepare(order) if !self.busy.contains(&order.job) => self.prepare(order),
                Action::Prolog { job, generation } if !self.busy.contains(&job) => {
                    self.begin_prolog(job, generation);
                }
                Action::Launch(order) if !self.busy.contains(&order.job) => self.launch(&order),
                Action::Expect(order) if !self.busy.contains(&order.job) => self.expect(&order),
                Action::Kill { job } if !self.busy.contains(&job) => self.kill(job),
                Action::Clean { job, generation } if !self.busy.contains(&job) => {
                    self.clean(job, generation)
                }
                Action::ReportCleaned { job, generation } if !self.busy.contains(&job) => {
                    self.report_cleaned(job, generation);
                }
                Action::Prepare(_)
                | Action::Prolog { .. }
                | Action::Launch(_)
                | Action::Expect(_)
                | Action::Kill { .. }
                | Action::Clean { .. }
                | Action::ReportCleaned { .. } => {}
            }
        }
    }

    /// Runs something slow on a thread of its own and takes what is told of its outcome as an input. Also where it panics: a job waits
    /// for each of them.
    fn off_loop<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
        tell: impl FnOnce(Result<T, Failure>) -> Input + Send + 'static,
    ) {
        let inputs = self.inputs.clone();
        let asked = std::time::Instant::now();
        tokio::spawn(async move {
            let outcome = tokio::task::spawn_blocking(work).await;
            tracing::debug!(took_us = asked.elapsed().as_micros(), "done off the loop");
            let outcome = outcome.map_err(|error| Failure::defect(&error));
            // A closed queue means that the agent stops; the next one looks for itself.
            drop(inputs.send(tell(outcome)).await);
        });
    }

    /// Sends an input after a while.
    fn later(&self, delay: Duration, input: Input) {
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            drop(inputs.send(input).await);
        });
    }
}
