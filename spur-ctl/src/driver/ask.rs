//! What reaches the writer.

use crate::hooks::HookEnd;
use spur_core::agent::order::{Report, ToAgent};
use spur_core::api::{Caller, JobFilter, Refusal, Reply};
use spur_core::cluster::Cluster;
use spur_core::denial::DenialCount;
use spur_core::event::{Event, NodeHello};
use spur_core::id::{JobId, NodeId, NodeName, StepKind, Uid};
use spur_core::job::array::JobTarget;
use spur_core::job::change::{JobAct, JobChange};
use spur_core::job::spec::{JobSpec, Payload};
use spur_core::job::state::ExitStatus;
use spur_core::job::step::StepSpec;
use spur_core::manage::Manage;
use spur_core::mesh::MeshAsk;
use spur_core::node::{AdminState, FenceState};
use spur_core::partition::PartitionState;
use spur_core::time::Millis;
use spur_core::usage::idle::Idle;
use tokio::sync::{mpsc, oneshot};

/// What a call is answered with.
pub type Answer = Result<Reply, Refusal>;

/// The way to an agent: bounded; an agent that lets it fill up is cut off, and gets everything anew when it returns.
pub type Outbound = mpsc::Sender<ToAgent>;

/// One input of the writer.
#[derive(Debug)]
pub enum Input {
    /// A client asks.
    Ask(Box<Ask>),
    /// A client went away without waiting for its answer.
    CallGone {
        /// Number of the call.
        call: u64,
    },
    /// An agent speaks.
    Agent(AgentInput),
    /// A meter says what the planner is to know.
    Usage(UsageWord),
    /// A program of the operator ended.
    Hook(HookEnd),
    /// Finish this turn and stop.
    Stop,
}

/// What meters say that becomes part of the cluster's state.
#[derive(Debug)]
pub enum UsageWord {
    /// A GPU that a job holds counts as idle, or does so no more.
    Idle {
        /// Where.
        node: NodeName,
        /// Whose.
        job: JobId,
        /// Its index.
        gpu: u32,
        /// The evidence; `None`: it is used again.
        idle: Option<Idle>,
        /// Told when it is durable, or means nothing any more; dropped if it could not be made so.
        done: oneshot::Sender<()>,
    },
    /// How busy GPUs were lately.
    Utilization {
        /// Where.
        node: NodeName,
        /// (index, thousandths).
        gpus: Vec<(u32, u16)>,
    },
}

/// A command that the service has found to be allowed and within bounds.
#[derive(Debug)]
pub struct Ask {
    /// Number of the call, unique while the controller runs.
    pub call: u64,
    /// Who asks.
    pub caller: Caller,
    /// What.
    pub command: Command,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Answer>,
}

/// What a client may want of the writer.
#[derive(Debug)]
pub enum Command {
    /// Something to do now.
    Act(Act),
    /// Something to wait for.
    Await(Await),
}

impl From<Act> for Command {
    fn from(act: Act) -> Self {
        Self::Act(act)
    }
}

impl From<Await> for Command {
    fn from(what: Await) -> Self {
        Self::Await(what)
    }
}

/// What calls wait for, in jobs that are the caller's own, or anybody's for an operator.
#[derive(Debug)]
pub enum Await {
    /// See [`spur_core::api::Request::Run`].
    Run {
        /// What is asked for.
        spec: Box<JobSpec>,
        /// Its step.
        step: Box<StepSpec>,
        /// Seconds to wait.
        immediate: Option<u64>,
    },
    /// See [`spur_core::api::Request::RunHet`].
    RunHet {
        /// What is asked for by each component.
        specs: Vec<JobSpec>,
        /// Its part of the step.
        steps: Vec<StepSpec>,
        /// Seconds to wait.
        immediate: Option<u64>,
    },
    /// Wait for an allocation.
    Allocation(JobId),
    /// Wait for a job's end.
    End(JobId),
    /// Wait until nothing is left of it besides.
    Cleaned(JobId),
    /// Wait for a step in a job that runs.
    Step(Asked),
}

/// A step that is asked for in a job.
#[derive(Clone, Debug)]
pub enum Asked {
    /// In this job.
    One(JobId, Box<StepSpec>),
    /// Over components of the heterogeneous job with this leader.
    Het(JobId, Vec<(u32, StepSpec)>),
}

/// Commands that are answered in the turn that takes them. Jobs in them are the caller's own, or the caller is an operator.
#[derive(Debug)]
pub enum Act {
    /// See [`spur_core::api::Request::Submit`]; the owner is filled in.
    Submit(Box<JobSpec>, Option<Payload>),
    /// See [`spur_core::api::Request::SubmitHet`]; the owners are filled in.
    SubmitHet(Vec<JobSpec>, Option<Payload>),
    /// See [`spur_core::api::Request::SetCrontab`]; the owners are filled in.
    SetCrontab(Uid, Option<String>, Vec<(JobSpec, Payload)>),
    /// Grant a step.
    Step(Asked),
    /// Say how to reach a step that runs.
    Attach(JobId, StepKind),
    /// See [`spur_core::api::Request::Submission`].
    Submission(u64),
    /// Give an allocation back.
    Finish(JobId, ExitStatus),
    /// End or signal jobs; each is answered for.
    Cancel {
        /// Which jobs; those that carry a refusal already are only passed through.
        jobs: Vec<(JobId, Option<Refusal>)>,
        /// Besides, jobs that are named one by one: whose they are is looked up by the writer.
        named: Option<Box<JobFilter>>,
        /// Signal; `None` ends the job or step.
        signal: Option<u8>,
        /// With a signal: the batch shell only.
        batch_only: bool,
        /// Only this step.
        step: Option<StepKind>,
        /// With a signal to the batch shell: to its children too.
        children: bool,
    },
    /// Read a script.
    Script(JobId),
    /// Hold jobs.
    Hold(Vec<(JobId, Option<Refusal>)>),
    /// Release jobs.
    Release(Vec<(JobId, Option<Refusal>)>),
    /// Put a job back into the queue.
    Requeue(JobId),
    /// Change a job.
    UpdateJob(JobId, Box<JobChange>),
    /// Do something to jobs and tasks of arrays; whose they are is looked up by the writer.
    Control(Vec<JobTarget>, JobAct),
    /// Change them.
    ChangeJobs(Vec<JobTarget>, Box<JobChange>),
    /// Change nodes.
    UpdateNode {
        /// Which.
        nodes: Vec<NodeName>,
        /// Wanted state.
        admin: Option<AdminState>,
        /// Reason.
        reason: Option<String>,
    },
    /// Change a partition.
    UpdatePartition(String, PartitionState),
    /// See [`spur_core::api::Request::Manage`].
    Manage(Box<Manage>),
    /// See [`spur_core::api::Request::Mesh`].
    Mesh(MeshAsk),
    /// Set the counters to zero.
    ResetStats,
    /// Take over a configuration that was read again, without what was changed of the old one.
    Configure(Box<Event>),
    /// Hand out a copy of the state, with the time, as this turn has it.
    State(oneshot::Sender<(Millis, Box<Cluster>)>),
}

/// What an agent's stream brings.
#[derive(Debug)]
pub enum AgentInput {
    /// It connected and showed the token.
    Connected {
        /// Number of the stream, unique while the controller runs.
        session: u64,
        /// What it says of its node.
        hello: Box<NodeHello>,
        /// The way back.
        out: Outbound,
        /// Told its id once that is durable, or why not.
        admitted: oneshot::Sender<Result<NodeId, String>>,
    },
    /// It says something.
    Said {
        /// Which node.
        node: NodeId,
        /// On which stream.
        session: u64,
        /// What.
        word: AgentWord,
    },
    /// The stream ended.
    Gone {
        /// Which node.
        node: NodeId,
        /// Which stream.
        session: u64,
        /// For want of any word, for as long as makes a node lost: nothing more is waited for.
        silent: bool,
    },
}

/// What an agent says after its greeting.
#[derive(Debug)]
pub enum AgentWord {
    /// A numbered fact, acknowledged once durable.
    Report {
        /// Number.
        number: u64,
        /// The fact.
        report: Report,
    },
    /// It lives; not logged.
    Heartbeat {
        /// Load times 100.
        load_x100: u32,
        /// Free MiB.
        free_mib: u64,
    },
    /// Totals of refusals per job.
    Denials {
        /// Totals since each job started there.
        counts: Vec<(JobId, DenialCount)>,
    },
    /// The fence changed.
    Fence {
        /// Condition.
        state: FenceState,
        /// Why.
        note: String,
        /// Whether it is what the node requires.
        suffices: Option<bool>,
        /// GPUs that must not be granted.
        gpus_sick: Option<spur_core::resources::IdSet>,
        /// Why each of them must not be.
        gpu_notes: Vec<spur_core::node::GpuNote>,
        /// Jobs that do not end.
        stuck: Vec<spur_core::node::StuckJob>,
    },
}
