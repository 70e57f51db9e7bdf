//! The whole interface of the controller, whatever carries it (messages on a Unix socket now, REST later): one request enum, one reply enum, one
//! refusal. Fronts translate and decide nothing.

mod accounts;
mod crontab;
mod filter;
mod grant;
mod job;
mod lines;
mod node;
mod refusal;
mod stats;
mod why;
mod written;

pub use accounts::{
    AccountFilter, AccountedJob, GpuNow, IdleGpu, NodeEvent, RunKey, SeriesKind, SeriesPoint,
    SeriesView, UsageReport,
};
pub use crontab::SetCrontab;
pub use filter::JobFilter;
pub use grant::{Grant, GrantNode, WouldStart};
pub use job::{JobView, StepView};
pub use lines::{JobLines, LinesMaker};
pub use node::NodeView;
pub use refusal::{Refusal, RefusalKind};
pub use stats::{RequestCount, Stats};
pub use why::{Explanation, NodeRows, Release, StartBasis, StartEstimate, Stop, Stopped};
pub use written::Written;

use crate::denial::Denial;
use crate::id::{Gid, JobId, NodeName, StepKind, Uid};
use crate::job::array::JobTarget;
use crate::job::change::{JobAct, JobChange};
use crate::job::spec::{JobSpec, Payload};
use crate::job::state::ExitStatus;
use crate::job::step::StepSpec;
use crate::manage::accounts::Accounts;
use crate::manage::reservation::Reservation;
use crate::manage::{Manage, Setting};
use crate::mesh::{MeshAsk, MeshBook};
use crate::node::AdminState;
use crate::partition::{Partition, PartitionState};
use crate::time::{Millis, TimeLimit};
use crate::topology::Topology;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Who asks, as the kernel says (`SO_PEERCRED`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// User.
    pub uid: Uid,
    /// Group.
    pub gid: Gid,
    /// Process, on this host.
    pub pid: u32,
    /// Whether this user is an operator (root, or listed in the configuration).
    pub operator: bool,
}

/// One kind of license.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LicenseView {
    /// Name.
    pub name: String,
    /// How many there are.
    pub total: u32,
    /// How many jobs hold; more than there are after the configuration took some away.
    pub used: u32,
}

/// What a client may ask. The owner inside a [`JobSpec`] is overwritten by the controller, whatever a client puts there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Is anybody there?
    Ping,
    /// Queue a job. `payload` for batch jobs only.
    Submit {
        /// What is asked for.
        spec: Box<JobSpec>,
        /// Script and environment.
        payload: Option<Payload>,
    },
    /// Queue a job for `srun` and, once it is placed, grant its one step: answered when it runs or cannot.
    Run {
        /// What is asked for.
        spec: Box<JobSpec>,
        /// Its step.
        step: StepSpec,
        /// Give up when it has not started within this many seconds (`--immediate`); `None` waits.
        immediate: Option<u64>,
    },
    /// Queue a heterogeneous job: one request for each component. `payload` for batch jobs only; the first component runs it.
    SubmitHet {
        /// What is asked for.
        specs: Vec<JobSpec>,
        /// Script and environment.
        payload: Option<Payload>,
    },
    /// As [`Request::Run`], for a heterogeneous job: one step over all its components.
    RunHet {
        /// What is asked for by each component.
        specs: Vec<JobSpec>,
        /// Its part of the step.
        steps: Vec<StepSpec>,
        /// As with [`Request::Run`].
        immediate: Option<u64>,
    },
    /// Grant one step over several components of a running heterogeneous job of one's own.
    StepHet {
        /// Its leader.
        job: JobId,
        /// Which components.
        offsets: Vec<u32>,
        /// The part of the step in each.
        steps: Vec<StepSpec>,
    },
    /// The job of one's own that was made of an earlier request whose answer was lost; refused as an unknown job if there is none.
    Submission {
        /// The request's number.
        request_id: u64,
    },
    /// Wait until a job of one's own holds an allocation or has ended (`salloc`).
    AwaitAllocation {
        /// Which job.
        job: JobId,
    },
    /// Grant a step in a running job of one's own.
    Step {
        /// Which job.
        job: JobId,
        /// What is asked for.
        step: StepSpec,
    },
    /// Tickets for joining a step of one's own that runs (`sattach`).
    Attach {
        /// Which job.
        job: JobId,
        /// Which step of it.
        step: StepKind,
    },
    /// A client gives its allocation back.
    Finish {
        /// Which job.
        job: JobId,
        /// Status to record.
        exit: ExitStatus,
    },
    /// Wait until a job has ended.
    AwaitEnd {
        /// Which job.
        job: JobId,
    },
    /// Wait until a job has ended and nothing of it is left anywhere (`sbatch --wait`, which reads what it wrote).
    AwaitCleaned {
        /// Which job.
        job: JobId,
    },
    /// End jobs, or send them a signal. Jobs that are not the caller's are refused one by one.
    Cancel {
        /// Which.
        filter: JobFilter,
        /// Signal; `None` ends the job (TERM, then KILL).
        signal: Option<u8>,
        /// With a signal: the batch shell only (`--batch`).
        batch_only: bool,
        /// Only this step.
        step: Option<StepKind>,
        /// With a signal to the batch shell: to its children too (`--full`).
        children: bool,
    },
    /// List jobs.
    Jobs {
        /// Which.
        filter: JobFilter,
    },
    /// List jobs as short lines ([`JobLines`]).
    JobLines {
        /// Which.
        filter: JobFilter,
        /// Whether the lines may be folded ([`JobLines::fold`]): older clients cannot read that.
        #[serde(default)]
        folded: bool,
    },
    /// List nodes.
    Nodes,
    /// List partitions.
    Partitions,
    /// Refusals by the fence; one's own jobs', or everybody's for an operator.
    Denials {
        /// One job, or all that the caller may see.
        job: Option<JobId>,
        /// At most this many, newest last.
        limit: u32,
        /// Only lines with a higher number than this.
        after: u64,
        /// Only what an operator wants to know ([`Denial::is_alarm`]).
        alarms: bool,
        /// Answer when there is at least one, or after half a minute with none.
        wait: bool,
    },
    /// Refusals of a job by kind, on each of its nodes (owner or operator).
    DenialRows {
        /// Which job.
        job: JobId,
    },
    /// The stored script of a batch job (owner or operator).
    Script {
        /// Which job.
        job: JobId,
    },
    /// Hold jobs. An owner's hold is released by the owner, an operator's by an operator.
    Hold {
        /// Which.
        jobs: Vec<JobId>,
    },
    /// Release jobs.
    Release {
        /// Which.
        jobs: Vec<JobId>,
    },
    /// Put a job back into the queue.
    Requeue {
        /// Which.
        job: JobId,
    },
    /// Change a job.
    UpdateJob {
        /// Which job.
        job: JobId,
        /// New limit.
        time_limit: Option<TimeLimit>,
        /// New name.
        name: Option<String>,
        /// New comment.
        comment: Option<String>,
        /// New partition.
        partition: Option<String>,
        /// New priority.
        priority: Option<u32>,
    },
    /// Change nodes (operators).
    UpdateNode {
        /// Which.
        nodes: Vec<NodeName>,
        /// Wanted state.
        admin: Option<AdminState>,
        /// Reason; required to drain or down.
        reason: Option<String>,
    },
    /// Change a partition (operators).
    UpdatePartition {
        /// Which.
        name: String,
        /// New state.
        state: PartitionState,
    },
    /// Counters of the controller, for `sdiag` and benchmarks.
    Stats,
    /// Stop the controller cleanly (operators).
    Shutdown,
    /// What a job used (owner or operator).
    Usage {
        /// Which job.
        job: JobId,
        /// Have its nodes measure ten times a second for a while.
        watch: bool,
        /// With events and series.
        details: bool,
    },
    /// Jobs of the accounting record; one's own, or everybody's for an operator.
    Accounting {
        /// Which.
        filter: Box<AccountFilter>,
        /// Only those after this one, in the record's order.
        after: Option<RunKey>,
        /// At most this many.
        limit: u32,
    },
    /// Jobs that hold GPUs and do not use them; one's own, or everybody's for an operator.
    IdleGpus,
    /// Why a job waits (owner or operator; others learn what `squeue` shows).
    Explain {
        /// Which job.
        job: JobId,
    },
    /// Which nodes are near one another.
    Topology,
    /// The whole state as it stands (operators), for questions about the future.
    State,
    /// Do something to jobs; each is answered for.
    Control {
        /// Which.
        jobs: Vec<JobTarget>,
        /// What.
        act: JobAct,
    },
    /// Change jobs; each is answered for.
    ChangeJobs {
        /// Which.
        jobs: Vec<JobTarget>,
        /// What.
        change: Box<JobChange>,
    },
    /// When and where a job would start if it were submitted now (`--test-only`); nothing is queued.
    TestOnly {
        /// What is asked for.
        spec: Box<JobSpec>,
    },
    /// Make, change or take away a partition, a node's settings, a reservation or an account (operators).
    Manage(Box<Manage>),
    /// Licenses, how many there are and how many jobs hold.
    Licenses,
    /// List reservations.
    Reservations,
    /// What the configuration says, as far as everybody may know.
    Configuration,
    /// All accounts, users and qualities of service.
    Accounts,
    /// What the caller had `scrontab` keep; another user's for root.
    Crontab {
        /// Whose; `None`: the caller's.
        user: Option<Uid>,
    },
    /// Keep another crontab, or none; its entries become jobs. All is taken or nothing.
    SetCrontab(Box<SetCrontab>),
    /// Look at the mesh or change it (operators; everybody may see its members).
    Mesh(Box<MeshAsk>),
    /// Set the counters to zero (operators).
    ResetStats,
    /// Read the configuration file again (operators). What was changed of partitions and nodes since is dropped.
    Reconfigure,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Done.
    Done,
    /// Alive.
    Pong {
        /// Cluster name.
        cluster: String,
        /// Version of the controller.
        version: String,
        /// Host of the controller.
        host: String,
        /// Since when it runs.
        started: Millis,
    },
    /// Queued.
    Submitted {
        /// Its number.
        job: JobId,
        /// What whoever submits should know of it; a sentence each.
        #[serde(default)]
        notices: Vec<String>,
    },
    /// A step was granted.
    Granted(Box<Grant>),
    /// A step over several components was granted: its part in each, in order. Numbers of tasks go on from part to part.
    GrantedHet(Vec<Grant>),
    /// A user's crontab.
    Crontab {
        /// As written; `None`: there is none.
        table: Option<String>,
    },
    /// An allocation was made.
    Allocated {
        /// The job as it stands.
        job: Box<JobView>,
    },
    /// A job ended.
    Ended {
        /// The job as it stands.
        job: Box<JobView>,
    },
    /// Per job, what came of a request about several.
    PerJob(Vec<(JobId, Option<Refusal>)>),
    /// Jobs in order of id.
    Jobs(Vec<Arc<JobView>>),
    /// Jobs as lines, in order of id.
    JobLines(Box<JobLines>),
    /// Nodes in order of name as registered.
    Nodes(Vec<Arc<NodeView>>),
    /// Partitions in configured order.
    Partitions(Vec<Partition>),
    /// Refusals, in order of their numbers.
    Denials(Vec<Denial>),
    /// Refusals by kind, in order of nodes' names.
    DenialRows(Vec<NodeRows>),
    /// A script.
    Script(Vec<u8>),
    /// Counters.
    Stats(Stats),
    /// What a job used.
    Usage(Box<UsageReport>),
    /// Jobs of the accounting record, in its order.
    Accounting(Vec<AccountedJob>),
    /// Why a job waits.
    Explanation(Box<Explanation>),
    /// Which nodes are near one another, as configured.
    Topology(Topology),
    /// The time and the cluster as it stands, a pair in the encoding of the controller's store (`MessagePack`, with names of fields).
    State(Vec<u8>),
    /// Per thing named in the request, what came of it: the first refusal, if there was one.
    PerTarget(Vec<(JobTarget, Option<Refusal>)>),
    /// When and where a job would start.
    WouldStart(Box<WouldStart>),
    /// Names of what was made, changed or taken away.
    Managed(Vec<String>),
    /// Licenses.
    Licenses(Vec<LicenseView>),
    /// Reservations, in order of name.
    Reservations(Vec<Reservation>),
    /// Keys of the configuration with their values.
    Configuration(Vec<Setting>),
    /// All accounts, users and qualities of service.
    Accounts(Box<Accounts>),
    /// Members and open tokens of the mesh: all, or those that were changed.
    Mesh(Box<MeshBook>),
}
