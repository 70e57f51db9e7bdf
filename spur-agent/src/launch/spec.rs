//! What a supervisor is told, as it is kept in the step's folder. Bytes, not text, wherever Linux has bytes.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use spur_core::id::StepId;
use spur_core::job::spec::Owner;
use std::path::PathBuf;

/// Everything about one step on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepLaunch {
    /// Which step.
    pub step: StepId,
    /// Name of this node, for messages and file name patterns.
    pub node: String,
    /// This node's position in the step (`%n` in file names).
    pub node_index: u32,
    /// Name of the job (`%x` in file names).
    pub job_name: String,
    /// The step's cgroup directory; the fence is attached to it or above it already.
    #[serde(with = "super::path")]
    pub cgroup: PathBuf,
    /// A device node that the fence must refuse with `EPERM` before anything of the job runs. `None` only where the
    /// operator requires no fence.
    pub canary: Option<PathBuf>,
    /// As whom to run.
    pub owner: Owner,
    /// File mode creation mask.
    pub umask: u32,
    /// Soft limits to set, each at most the node's hard limit.
    pub rlimits: Vec<Rlimit>,
    /// Working directory; when it cannot be entered, `/tmp` is used with a message, as Slurm does.
    #[serde(with = "super::path")]
    pub work_dir: PathBuf,
    /// Where standard streams go.
    pub stdio: Stdio,
    /// A batch script. It is put into the step's folder, and its path becomes the first argument of every task's `argv`.
    pub script: Option<ByteBuf>,
    /// Environment of every task, as `NAME=VALUE`.
    pub env: Vec<ByteBuf>,
    /// Tasks of this node, at least one.
    pub tasks: Vec<TaskLaunch>,
    /// End the step when a task ends with a status other than 0.
    pub kill_on_bad_exit: bool,
    /// Seconds that its tasks may run; 0: as long as the job.
    #[serde(default)]
    pub time_limit: u64,
    /// Seconds between `SIGTERM` and `SIGKILL` when the client goes away or a task's bad exit ends the step.
    pub kill_wait: u32,
    /// Bytes that were read from the client's connection after its `Open` message, if any.
    pub client_early: ByteBuf,
    /// Character devices that no stream may be, granted or not: a major, and a minor or all.
    #[serde(default)]
    pub fenced: Vec<(u32, Option<u32>)>,
    /// Task 0 gets a terminal of this size on all its streams, and the other tasks `/dev/null`, whatever `stdio` says.
    #[serde(default)]
    pub terminal: Option<Window>,
    /// Programs around each task.
    #[serde(default)]
    pub hooks: Hooks,
    /// By what its agent is seen to be there, and for how long it may be away; `None`: for ever.
    #[serde(default)]
    pub agent: Option<AgentWatch>,
    /// Number of the array that the job is of, and the job's index in it (`%A` and `%a` in file names).
    #[serde(default)]
    pub array: Option<(u32, u32)>,
    /// What tasks are told by MPI's process management interface; `None`: they get none.
    #[serde(default)]
    pub mpi: Option<Mpi>,
}

/// How a step sees whether its node's agent is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentWatch {
    /// The file that the agent holds locked.
    #[serde(with = "super::path")]
    pub lock: PathBuf,
    /// Seconds of the agent's absence after which the node counts as lost.
    pub node_timeout: u64,
}

/// Programs that run as the job's user around each task; empty: none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hooks {
    /// Before it, in its process: what it prints changes the task's environment.
    pub prolog: ByteBuf,
    /// After it has ended.
    pub epilog: ByteBuf,
}

/// The size of a terminal, in characters; 0 is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

impl StepLaunch {
    /// The size of this task's terminal, if it gets one.
    pub fn terminal_of(&self, task: &TaskLaunch) -> Option<Window> {
        self.terminal.filter(|_| task.id == 0)
    }
}

/// The number under which a task finds the socket of its process management interface (`PMI_FD`).
pub const PMI_FD: i32 = 5;

/// A step as its tasks see it by PMI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mpi {
    /// The step's name.
    pub job: String,
    /// Tasks of the whole step.
    pub size: u32,
    /// How many tasks could run.
    pub universe: u32,
    /// Which of several programs the tasks of this node run.
    pub program: u32,
    /// Which task is on which node, as MPICH reads it; empty: not said.
    pub mapping: String,
    /// By PMIx instead.
    #[serde(default)]
    pub pmix: Option<Pmix>,
}

/// A step as its tasks see it by PMIx.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pmix {
    /// Only this major version of the library will do; 0: any.
    pub version: u32,
    /// Every node of the step, in its order.
    pub nodes: Vec<PmixNode>,
}

/// A node of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PmixNode {
    /// Its name.
    pub name: String,
    /// Tasks that run there.
    pub tasks: Vec<u32>,
    /// Which of several programs they run.
    pub program: u32,
}

/// One task (process) of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskLaunch {
    /// Global number within the step (`SLURM_PROCID`, `%t`).
    pub id: u32,
    /// Program and arguments; the program is looked up in the task's `PATH` unless it has a slash. For a script, its arguments.
    pub argv: Vec<ByteBuf>,
    /// Entries of the environment that are its own; they replace those of the same name.
    pub env: Vec<ByteBuf>,
    /// CPUs to bind it to; empty: do not bind (also where CPUs are declared rather than real).
    pub cpus: Vec<u32>,
    /// What it is told of its binding.
    #[serde(default)]
    pub told: Told,
}

/// Lines about a task's binding on its standard error, which were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// How its CPUs were chosen, the beginning of a line; empty: nothing is said of them.
    pub cpus: String,
    /// A line about its GPUs; empty: none.
    pub gpus: String,
}

/// A soft resource limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rlimit {
    /// `RLIMIT_*` number.
    pub resource: u32,
    /// Value; `u64::MAX` is no limit.
    pub soft: u64,
}

/// Where the three standard streams come from and go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stdio {
    /// Standard input.
    pub stdin: Input,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
}

/// Source of standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Input {
    /// `/dev/null`.
    Null,
    /// A file, opened as the user; see [`Output::File`].
    File(ByteBuf),
    /// The client's stream.
    Stream(StdinTo),
}

/// Which tasks get the client's standard input; the others get `/dev/null`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StdinTo {
    /// Every task.
    All,
    /// The task with this global number.
    Task(u32),
}

/// Destination of standard output or error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// `/dev/null`.
    Null,
    /// The client's stream.
    Stream,
    /// A file, opened as the user. Streams and tasks that name the same file share it.
    File {
        /// Absolute, or below the working directory. Slurm's `%` patterns are expanded, except for a batch script, whose
        /// names come expanded.
        path: ByteBuf,
        /// Keep what the file holds.
        append: bool,
    },
}
