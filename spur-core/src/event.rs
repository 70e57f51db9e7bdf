//! Every input that changes the cluster's state. Persisted: variants and fields are only ever added (`#[serde(default)]`).

use crate::cluster::hooks::{HookKind, Hooks};
use crate::denial::DenialCount;
use crate::id::{Generation, JobId, NodeId, NodeName, StepKind, Uid};
use crate::job::array::TaskSet;
use crate::job::licenses::Licenses;
use crate::job::spec::JobSpec;
use crate::job::state::{ExitStatus, Reason};
use crate::job::step::{Sharing, StepShare};
use crate::manage::Change;
use crate::mesh::MeshEvent;
use crate::node::{AdminState, FenceState, GpuNote, NodeConfig, StuckJob};
use crate::partition::{Partition, PartitionState};
use crate::resources::{IdSet, Inventory, MemoryRequest, NodeShare};
use crate::time::{Millis, TimeLimit};
use crate::topology::Topology;
use crate::usage::idle::Idle;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What an agent says of its node when it connects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHello {
    /// Name.
    pub name: NodeName,
    /// Inventory.
    pub inventory: Inventory,
    /// Boot id; a new one means that nothing from before is alive.
    pub boot_id: String,
    /// When the machine booted.
    pub boot_time: Millis,
    /// When the agent started.
    pub agent_start: Millis,
    /// Fence condition.
    pub fence: FenceState,
    /// Why the fence is not what it could be.
    pub fence_note: String,
    /// Agent version.
    pub version: String,
    /// `uname` line.
    pub os: String,
    /// Host name.
    pub hostname: String,
    /// Where clients reach the agent.
    pub address: String,
    /// Jobs of which it still has anything (cgroup, processes, fence), with the generation it knows.
    pub jobs: Vec<(JobId, Generation)>,
    /// Whether that is what the node's own configuration requires; `None` from agents that do not say: any fence is then.
    #[serde(default)]
    pub fence_suffices: Option<bool>,
    /// GPUs that must not be granted now, by index; `None` from agents that do not say.
    #[serde(default)]
    pub gpus_sick: Option<IdSet>,
    /// Why each of them must not be.
    #[serde(default)]
    pub gpu_notes: Vec<GpuNote>,
    /// Whether the agent lets a GPU that is missing keep its index; `None` from agents that do not say: it does not.
    #[serde(default)]
    pub keeps_gpus: Option<bool>,
    /// Jobs that do not end.
    #[serde(default)]
    pub stuck: Vec<StuckJob>,
}

/// A decision or a fact. The log is a sequence of `(at, Event)`.
#[expect(
    clippy::large_enum_variant,
    reason = "the largest comes once for each connection of a node"
)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// Partitions and defaults, from the configuration.
    Configured {
        /// Cluster name.
        cluster: String,
        /// All partitions, in configured order.
        partitions: Vec<Partition>,
        /// Seconds that an ended job stays visible (Slurm's `MinJobAge`, 300).
        min_job_age: u64,
        /// Seconds without a sign of life after which a node is down (`SlurmdTimeout`, 300).
        node_timeout: u64,
        /// What is configured of nodes, by name.
        #[serde(default)]
        node_config: BTreeMap<NodeName, NodeConfig>,
        /// Which nodes are near one another.
        #[serde(default)]
        topology: Topology,
        /// `MaxArraySize`: one more than the greatest index of an array's task; 0: Slurm's default.
        #[serde(default)]
        max_array_size: u32,
        /// Memory of jobs that ask for none, in partitions that say nothing of it.
        #[serde(default)]
        default_memory: MemoryRequest,
        /// How many licenses there are.
        #[serde(default)]
        licenses: Licenses,
    },
    /// An agent connected.
    NodeConnected(NodeHello),
    /// An agent's stream ended.
    NodeDisconnected {
        /// Which node.
        node: NodeId,
    },
    /// A node was silent for too long: its jobs fail or are requeued.
    NodeLost {
        /// Which node.
        node: NodeId,
    },
    /// An operator, or the controller itself (`by` = 0), changed a node.
    NodeUpdated {
        /// Which node.
        node: NodeId,
        /// Wanted state.
        admin: AdminState,
        /// Reason; empty clears it.
        reason: String,
        /// Who.
        by: Uid,
    },
    /// An operator changed a partition's state.
    PartitionUpdated {
        /// Name.
        name: String,
        /// New state.
        state: PartitionState,
    },
    /// A job was admitted.
    Submitted {
        /// Its number.
        job: JobId,
        /// What was asked for, defaults filled in.
        spec: Arc<JobSpec>,
        /// Its starting priority; 0 if held.
        priority: u32,
    },
    /// The planner's decision: these devices are this job's from now on. For a batch job this alone also grants the batch
    /// step on the first node ([`StepKind::Batch`] never appears in a [`Event::StepGranted`]).
    Placed {
        /// Which job.
        job: JobId,
        /// What it gets, in node order.
        shares: Vec<NodeShare>,
        /// Generation of this placement; higher than any before.
        generation: Generation,
        /// Whether a job that comes first in its partition waited then.
        #[serde(default)]
        backfilled: bool,
        /// Its limit from now on, at least its `--time-min`; `None`: as it was.
        #[serde(default)]
        time_limit: Option<TimeLimit>,
    },
    /// The planner says why jobs wait; only changes are logged.
    Explained {
        /// (job, reason, sentence).
        reasons: Vec<(JobId, Reason, String)>,
    },
    /// A step was granted within a running job.
    StepGranted {
        /// Which job.
        job: JobId,
        /// Which step.
        step: StepKind,
        /// Name.
        name: String,
        /// Who.
        uid: Uid,
        /// Its shares.
        shares: Vec<StepShare>,
        /// `-c` of the step; 0 means: as the job.
        #[serde(default)]
        cpus_per_task: u32,
        /// Components of a heterogeneous job, in order, whose steps of this number are one; empty: it is one by itself.
        #[serde(default)]
        with: Vec<JobId>,
        /// The request that it came of; 0 if that had no number.
        #[serde(default)]
        request_id: u64,
        /// What it shares with other steps of the job.
        #[serde(default)]
        sharing: Sharing,
    },
    /// A node reports that its part of a step ended.
    StepEnded {
        /// Which job.
        job: JobId,
        /// Which step.
        step: StepKind,
        /// Which node.
        node: NodeId,
        /// Generation of the placement that this report is about.
        generation: Generation,
        /// Highest status of the tasks there.
        exit: ExitStatus,
        /// The kernel's out-of-memory killer struck there.
        oom: bool,
    },
    /// A node could not start the job: nothing of it ran there.
    LaunchFailed {
        /// Which job.
        job: JobId,
        /// Which node.
        node: NodeId,
        /// Generation.
        generation: Generation,
        /// What went wrong, for people.
        why: String,
        /// The node is at fault (fence, disk, cgroups). Otherwise the job is (bad directory, no such user).
        node_fault: bool,
        /// The node rests and the job is tried elsewhere. In logs from before that, the node was drained and the job held.
        #[serde(default)]
        rests: bool,
    },
    /// A node reports that nothing of the job is left there and no process holds its devices.
    Cleaned {
        /// Which job.
        job: JobId,
        /// Which node.
        node: NodeId,
        /// Generation.
        generation: Generation,
    },
    /// An owner or operator wants the job ended; or its client went away.
    Cancelled {
        /// Which job.
        job: JobId,
        /// Who.
        by: Uid,
    },
    /// A client gave its allocation back (`salloc` ended, `srun` done).
    Finished {
        /// Which job.
        job: JobId,
        /// Status to record.
        exit: ExitStatus,
    },
    /// A job reached its limit.
    TimedOut {
        /// Which job.
        job: JobId,
    },
    /// A job was held; `by_admin` decides who may release it.
    Held {
        /// Which job.
        job: JobId,
        /// Held by an operator.
        by_admin: bool,
    },
    /// A held job was released, or a launch failure forgiven.
    Released {
        /// Which job.
        job: JobId,
    },
    /// A job goes back to the queue.
    Requeued {
        /// Which job.
        job: JobId,
    },
    /// A job's attributes were changed.
    JobUpdated {
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
        /// New priority (operators only).
        priority: Option<u32>,
    },
    /// Totals of refusals on a node.
    Denials {
        /// Which job.
        job: JobId,
        /// Which node.
        node: NodeId,
        /// Totals since the job started there.
        count: DenialCount,
    },
    /// A node's fence changed its condition while its agent was connected.
    FenceChanged {
        /// Which node.
        node: NodeId,
        /// New condition.
        fence: FenceState,
        /// Why it is not what it could be; empty if all is well.
        note: String,
        /// Whether it is what the node requires; `None` from agents that do not say: any fence is then.
        #[serde(default)]
        suffices: Option<bool>,
        /// GPUs that must not be granted now, by index; `None`: as before.
        #[serde(default)]
        gpus_sick: Option<IdSet>,
        /// Why each of them must not be.
        #[serde(default)]
        gpu_notes: Vec<GpuNote>,
        /// Jobs that do not end.
        #[serde(default)]
        stuck: Vec<StuckJob>,
    },
    /// Ended jobs that are older than the minimum age are forgotten.
    Purged {
        /// Which jobs.
        jobs: Vec<JobId>,
    },
    /// A node says that a GPU which a job holds counts as idle, or does so no more.
    GpuIdle {
        /// Which node.
        node: NodeId,
        /// Which job.
        job: JobId,
        /// Which GPU, by its index there.
        gpu: u32,
        /// The evidence; `None`: it is used again.
        idle: Option<Idle>,
    },
    /// How busy GPUs of a node were lately. Logged at most once a minute for a node, and only when something moved.
    Utilization {
        /// Which node.
        node: NodeId,
        /// (index, busy share in thousandths).
        gpus: Vec<(u32, u16)>,
    },
    /// A node has rested long enough after launches failed there.
    NodeRested {
        /// Which node.
        node: NodeId,
    },
    /// A waiting task of an array gets a record of its own.
    TaskSplit {
        /// The record that stands for it.
        job: JobId,
        /// Its index.
        task: u32,
        /// Its number from now on.
        new: JobId,
    },
    /// The same for several, which get one record together.
    ArraySplit {
        /// The record that stands for them.
        job: JobId,
        /// Their indices.
        tasks: TaskSet,
        /// Their number from now on.
        new: JobId,
    },
    /// A job is to be as if this had been asked for.
    JobChanged {
        /// Which job.
        job: JobId,
        /// What is asked for now, whole.
        spec: Arc<JobSpec>,
        /// New priority.
        priority: Option<u32>,
        /// Most tasks of its array that run at once from now on; 0: no limit.
        throttle: Option<u32>,
    },
    /// A running job's processes are stopped.
    Suspended {
        /// Which job.
        job: JobId,
    },
    /// They run on.
    Resumed {
        /// Which job.
        job: JobId,
    },
    /// An operator changed a partition, a node, a reservation or an account; or a reservation's time is over.
    Managed(Change),
    /// A job's limit nears, and its `--signal` is sent.
    Warned {
        /// Which job.
        job: JobId,
    },
    /// A program that is run before or after jobs failed on a node, which takes no more jobs until somebody has looked at it.
    ProgramFailed {
        /// For which job.
        job: JobId,
        /// Which node.
        node: NodeId,
        /// Generation of its placement.
        generation: Generation,
        /// The one that is run after it.
        epilog: bool,
        /// What went wrong, for people.
        why: String,
    },
    /// Which programs the controller runs around allocations.
    HooksConfigured {
        /// Those.
        hooks: Hooks,
    },
    /// A program that was due for a job on the controller's host ended, or was given up.
    HookEnded {
        /// For which job.
        job: JobId,
        /// Of which placement.
        generation: Generation,
        /// Before or after.
        kind: HookKind,
        /// What went wrong, for people; `None`: all was well.
        trouble: Option<String>,
    },
    /// A user set a crontab or took it away: the jobs of the one before end or do not begin again, those of the new one are admitted.
    CrontabSet {
        /// Whose.
        uid: Uid,
        /// The table as written; `None`: there is none.
        table: Option<String>,
        /// Its entries, numbered on from the next number: what was asked for, defaults filled in, and the starting priority.
        jobs: Vec<(JobId, Arc<JobSpec>, u32)>,
    },
    /// A job of a crontab is over, and waits for its next time.
    CronAgain {
        /// Which job.
        job: JobId,
        /// When, by the controller's clock; if not said, by what that clock was when the table was set.
        #[serde(default)]
        next: Option<Millis>,
    },
    /// A waiting job can no longer end by its deadline.
    DeadlineMissed {
        /// Which job.
        job: JobId,
    },
    /// A job has used a share of its limit of which its owner wants to hear.
    LimitNears {
        /// Which job.
        job: JobId,
        /// The share in percent: 50, 80 or 90.
        percent: u8,
    },
    /// A heterogeneous job was admitted.
    HetSubmitted {
        /// The number of its first component; those of the others follow.
        job: JobId,
        /// What was asked for by each component, defaults filled in, and its starting priority; 0 if held.
        parts: Vec<(Arc<JobSpec>, u32)>,
    },
    /// The planner's decision for all components of a heterogeneous job that are left: they start together. As with
    /// [`Event::Placed`], the leader's batch step is granted with it.
    HetPlaced {
        /// Each component with what it gets, in node order.
        parts: Vec<(JobId, Vec<NodeShare>)>,
        /// Generation of the first component's placement, higher than any before; those of the others follow.
        generation: Generation,
    },
    /// Somebody came into the mesh or left it, changed a key or is elsewhere, or may join.
    Mesh(MeshEvent),
}
