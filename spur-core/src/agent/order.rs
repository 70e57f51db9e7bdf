//! Orders from the controller and reports back: the words of the agent's stream.

use super::programs::NodePrograms;
use super::roll::Roll;
use crate::denial::{Denial, DenialCount, JobRows};
use crate::event::{Event, NodeHello};
use crate::id::{Generation, JobId, NodeId, NodeName, StepKind};
use crate::job::array::ArrayTask;
use crate::job::spec::{Owner, Payload};
use crate::job::state::ExitStatus;
use crate::resources::{IdSet, NodeShare};
use crate::time::{Millis, TimeLimit};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One node of an allocation, as every member of the job needs to know it for `SLURM_*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatedNode {
    /// Name.
    pub name: NodeName,
    /// What the job holds there.
    pub share: NodeShare,
}

/// "This job has this share on your node": enough to fence it and to build the environment of its tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOrder {
    /// Which job.
    pub job: JobId,
    /// Generation of its placement.
    pub generation: Generation,
    /// Cluster name (`SLURM_CLUSTER_NAME`).
    pub cluster: String,
    /// Whose it is.
    pub owner: Owner,
    /// Job name.
    pub name: String,
    /// Account, empty if none.
    pub account: String,
    /// Partition.
    pub partition: String,
    /// QOS, empty if none.
    pub qos: String,
    /// All nodes of the allocation, in order.
    pub nodes: Roll<AllocatedNode>,
    /// The addressee's position in `nodes` (`SLURM_NODEID`).
    pub index: u32,
    /// Tasks in all, as the job asked.
    pub tasks: u32,
    /// CPUs per task.
    pub cpus_per_task: u32,
    /// Whether `-c` was given (then `SLURM_CPUS_PER_TASK` is set).
    pub cpus_per_task_set: bool,
    /// Whether `-n` was given.
    pub tasks_set: bool,
    /// `--ntasks-per-node`, 0 if not given.
    pub tasks_per_node: u32,
    /// `--mem-per-cpu` in MiB, if that is how memory was asked for or defaulted.
    pub mem_per_cpu: Option<u64>,
    /// `--mem` in MiB.
    pub mem_per_node: Option<u64>,
    /// `-D`.
    pub work_dir: String,
    /// Where it was submitted.
    pub submit_host: String,
    /// When it started.
    pub started: Millis,
    /// Limit.
    pub time_limit: TimeLimit,
    /// How often it was requeued (`SLURM_RESTART_COUNT`, set when above 0).
    pub restarts: u32,
    /// Where it is in its array, if it is part of one (`SLURM_ARRAY_*`).
    #[serde(default)]
    pub array: Option<ArrayTask>,
    /// What it tells its tasks of the other components, if it is one of a heterogeneous job.
    #[serde(default)]
    pub het: Option<HetOrder>,
    /// Seconds of silence after which the controller gives the node up, so that the job may run elsewhere; 0: not known.
    #[serde(default)]
    pub node_timeout: u64,
    /// `--licenses`, as written.
    #[serde(default)]
    pub licenses: String,
}

/// What a component of a heterogeneous job tells its tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HetOrder {
    /// The number by which tasks know the job.
    pub leader: JobId,
    /// Variables that describe all components, as `NAME=VALUE`.
    pub variables: Vec<String>,
}

impl JobOrder {
    /// The addressee's part of the allocation; `None` if `index` is outside `nodes`, which no sound controller sends.
    pub fn here(&self) -> Option<&AllocatedNode> {
        self.nodes.get(self.index as usize)
    }
}

/// "Run your part of this step": follows a [`JobOrder`] of the same generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepOrder {
    /// Which job.
    pub job: JobId,
    /// Which step.
    pub step: StepKind,
    /// Generation of the job's placement.
    pub generation: Generation,
    /// The step's nodes, in order, with each node's number of tasks.
    pub nodes: Roll<(NodeName, u32)>,
    /// The addressee's position in `nodes`.
    pub index: u32,
    /// Its share here.
    pub share: NodeShare,
    /// Global task ids that run here, in local order.
    pub task_ids: Vec<u32>,
    /// Tasks of the step in all.
    pub tasks: u32,
    /// CPUs per task.
    pub cpus_per_task: u32,
    /// For the batch step: what to run, and where its output goes. `None` for `srun`, which brings them itself.
    pub batch: Option<Arc<BatchOrder>>,
}

/// What the batch step runs; file names are already expanded, relative ones are below the working directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchOrder {
    /// Script, arguments, environment.
    pub payload: Payload,
    /// Standard input file.
    pub stdin: String,
    /// Standard output file.
    pub stdout: String,
    /// Standard error file; equal to `stdout` when they share one.
    pub stderr: String,
    /// Append rather than truncate.
    pub append: bool,
}

/// The key of the tickets for one node's steps: who has it can make tickets for that node, and for no other. A secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketKey(pub [u8; 32]);

impl std::fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TicketKey(..)")
    }
}

/// Controller to agent.
#[expect(
    clippy::large_enum_variant,
    reason = "messages are few, short-lived, and mostly of the large kind"
)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToAgent {
    /// First message: who you are here, and everything that you should have. Whatever else you have must go.
    Welcome {
        /// Your id.
        node: NodeId,
        /// Highest generation given out so far.
        generation: Generation,
        /// Jobs that you should hold.
        jobs: Vec<JobOrder>,
        /// Steps that you should be running or have run; those that you already reported are not here.
        steps: Vec<StepOrder>,
        /// What to run around jobs; `None` from controllers that do not say: nothing.
        #[serde(default)]
        programs: Option<NodePrograms>,
        /// By what tickets for steps here are signed; `None`: by the cluster's token, which only agents on the controller's host have.
        #[serde(default)]
        ticket_key: Option<TicketKey>,
    },
    /// Hold this job.
    Assign(JobOrder),
    /// Run this step.
    Launch(StepOrder),
    /// End this job: kill, clean, report `Cleaned`.
    Revoke {
        /// Which job.
        job: JobId,
        /// Placements up to this generation.
        generation: Generation,
    },
    /// Send a signal to a step's tasks, or to all steps' (`step` = `None`). 9 is delivered through `cgroup.kill`.
    Signal {
        /// Which job.
        job: JobId,
        /// Which step; `None` for all but the batch shell.
        step: Option<StepKind>,
        /// Signal number.
        signal: u8,
        /// To all of the tasks' process groups, not to the tasks alone.
        #[serde(default)]
        group: bool,
    },
    /// The report with this number, and all before it, are durable: forget them.
    Ack {
        /// Report number.
        report: u64,
    },
    /// Stop every process of this job where it is, or let all run on.
    Freeze {
        /// Which job.
        job: JobId,
        /// Stop.
        frozen: bool,
    },
}

/// A fact that an agent must not lose: kept in its journal until acknowledged, repeated after a reconnection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// The node's part of a step ended.
    StepEnded {
        /// Which job.
        job: JobId,
        /// Which step.
        step: StepKind,
        /// Generation.
        generation: Generation,
        /// Highest status of its tasks.
        exit: ExitStatus,
        /// Out-of-memory killer struck.
        oom: bool,
    },
    /// The job could not be started here; nothing of it ran.
    LaunchFailed {
        /// Which job.
        job: JobId,
        /// Generation.
        generation: Generation,
        /// For people.
        why: String,
        /// The node's fault rather than the job's.
        node_fault: bool,
    },
    /// Nothing of the job is left here.
    Cleaned {
        /// Which job.
        job: JobId,
        /// Generation.
        generation: Generation,
    },
    /// A program that is run before or after a job failed here. After a prolog, nothing of the job ran.
    ProgramFailed {
        /// Which job.
        job: JobId,
        /// Generation.
        generation: Generation,
        /// The one that is run after it.
        epilog: bool,
        /// For people.
        why: String,
    },
}

impl Report {
    /// The fact as the cluster logs it, told by this node.
    pub fn into_event(self, node: NodeId) -> Event {
        match self {
            Self::StepEnded {
                job,
                step,
                generation,
                exit,
                oom,
            } => Event::StepEnded {
                job,
                step,
                node,
                generation,
                exit,
                oom,
            },
            Self::LaunchFailed {
                job,
                generation,
                why,
                node_fault,
            } => Event::LaunchFailed {
                job,
                node,
                generation,
                why,
                node_fault,
                rests: true,
            },
            Self::Cleaned { job, generation } => Event::Cleaned {
                job,
                node,
                generation,
            },
            Self::ProgramFailed {
                job,
                generation,
                epilog,
                why,
            } => Event::ProgramFailed {
                job,
                node,
                generation,
                epilog,
                why,
            },
        }
    }
}

/// Agent to controller.
#[expect(
    clippy::large_enum_variant,
    reason = "messages are few, short-lived, and mostly of the large kind"
)]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromAgent {
    /// First message.
    Hello {
        /// The shared secret from the token file (until the mesh names nodes by key).
        token: String,
        /// The node.
        hello: NodeHello,
    },
    /// A numbered fact, to be acknowledged once durable. Numbers rise by one within an agent's journal.
    Report {
        /// Number.
        number: u64,
        /// The fact.
        report: Report,
    },
    /// Every few seconds.
    Heartbeat {
        /// Load average times 100.
        load_x100: u32,
        /// Free memory, MiB.
        free_mib: u64,
    },
    /// Refusals: totals per job, and the newest single events (a bounded number).
    Denials {
        /// Totals since each job started here.
        counts: Vec<(JobId, DenialCount)>,
        /// Newest events.
        events: Vec<Denial>,
        /// Totals by kind, of the jobs whose totals changed.
        rows: Vec<JobRows>,
    },
    /// The fence's condition changed.
    Fence {
        /// Condition.
        state: crate::node::FenceState,
        /// Why it is not what it could be.
        note: String,
        /// Whether it is what the node requires; `None` from agents that do not say: any fence is then.
        #[serde(default)]
        suffices: Option<bool>,
        /// GPUs that must not be granted now, by index; `None`: as before.
        #[serde(default)]
        gpus_sick: Option<IdSet>,
        /// Why each of them must not be.
        #[serde(default)]
        gpu_notes: Vec<crate::node::GpuNote>,
        /// Jobs that do not end.
        #[serde(default)]
        stuck: Vec<crate::node::StuckJob>,
    },
}
