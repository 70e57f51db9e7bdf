//! What a user asks for, as the controller logs it: options resolved, defaults filled in by admission.
//!
//! The script and the environment of a batch job are not here: they are a [`Payload`], stored beside the log and handed to
//! the agent once, so that a hundred thousand pending jobs cost little memory.

use super::extras::Extras;
use super::licenses::Licenses;
use crate::id::{Gid, Uid};
use crate::resources::{GpuCount, MemoryRequest};
use crate::time::{Millis, TimeLimit};
use serde::{Deserialize, Serialize};

/// How the job came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum JobKind {
    /// `sbatch`: a script, run on the first node.
    Batch,
    /// `srun` outside an allocation: ends with its one step.
    Run,
    /// `salloc`: ends when its client gives it back.
    Alloc,
}

/// Who submitted: from the kernel (`SO_PEERCRED`) and the controller's own user database, never from the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// User id.
    pub uid: Uid,
    /// Primary group id.
    pub gid: Gid,
    /// Supplementary groups.
    pub groups: Vec<Gid>,
    /// Login name (the number as text if the user database has none).
    pub user: String,
    /// Name of the primary group (the number as text if unknown).
    pub group: String,
    /// Home directory; `/` if unknown.
    pub home: String,
    /// Login shell; `/bin/sh` if unknown.
    pub shell: String,
}

/// A request for resources and for how to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// How it came to be.
    pub kind: JobKind,
    /// Whose it is.
    pub owner: Owner,
    /// `-J`.
    pub name: String,
    /// `-A`, empty if none.
    pub account: String,
    /// Partition; after admission never empty.
    pub partition: String,
    /// `--qos`, empty if none.
    pub qos: String,
    /// `--comment`, empty if none.
    pub comment: String,
    /// `-N`: least number of nodes; at least 1 after admission.
    pub nodes_min: u32,
    /// `-N`: greatest number of nodes; at least `nodes_min`.
    pub nodes_max: u32,
    /// Whether `-N` was given.
    pub nodes_set: bool,
    /// `-n`: tasks; at least 1 after admission.
    pub tasks: u32,
    /// Whether `-n` was given.
    pub tasks_set: bool,
    /// `--ntasks-per-node`, 0 if not given.
    pub tasks_per_node: u32,
    /// `-c`: CPUs per task; at least 1.
    pub cpus_per_task: u32,
    /// Whether `-c` was given.
    pub cpus_per_task_set: bool,
    /// Memory.
    pub memory: MemoryRequest,
    /// `--gres=gpu:…` or `--gpus-per-node`: GPUs on every node.
    pub gpus_per_node: Option<GpuCount>,
    /// `--gpus`: GPUs in all.
    pub gpus_total: Option<GpuCount>,
    /// `--gpus-per-task`.
    pub gpus_per_task: Option<GpuCount>,
    /// `-w`: the job must get all of these.
    pub nodelist: Vec<String>,
    /// `-x`: the job gets none of these.
    pub exclude: Vec<String>,
    /// `-C`, as written; empty if none.
    pub constraint: String,
    /// `--exclusive`: whole nodes.
    pub exclusive: bool,
    /// `-t`; `None` until admission fills in the partition's default.
    pub time_limit: Option<TimeLimit>,
    /// `--begin`: not before.
    pub begin: Option<Millis>,
    /// `-H`: submitted held.
    pub hold: bool,
    /// `--nice`, subtracted from the priority.
    pub nice: i32,
    /// `--requeue`: may be started again after a node failure.
    pub requeue: bool,
    /// `-D`: working directory.
    pub work_dir: String,
    /// `-i` as written, empty for the default.
    pub stdin: String,
    /// `-o` as written, empty for the default.
    pub stdout: String,
    /// `-e` as written, empty for "as stdout".
    pub stderr: String,
    /// Append to output files (`--open-mode=append`).
    pub append: bool,
    /// `--export`, as written; empty for the default (ALL).
    pub export: String,
    /// The command as `scontrol show job` shows it: script path, or `(null)`-like empty for `--wrap`.
    pub command: String,
    /// Host where it was submitted.
    pub submit_host: String,
    /// Session id of the submitting process, as Slurm's `AllocNode:Sid`.
    pub submit_sid: u32,
    /// `--gpus-per-socket`: GPUs on every socket that the job uses.
    #[serde(default)]
    pub gpus_per_socket: Option<GpuCount>,
    /// `--ntasks-per-gpu`, 0 if not given.
    #[serde(default)]
    pub tasks_per_gpu: u32,
    /// `--cpus-per-gpu`, 0 if not given; admission fills in the partition's default.
    #[serde(default)]
    pub cpus_per_gpu: u32,
    /// `--gres-flags`.
    #[serde(default)]
    pub gres_flags: GresFlags,
    /// `--switches`.
    #[serde(default)]
    pub switches: Option<Switches>,
    /// `--prefer`, as written; empty if none. Features to have if possible, in the grammar of `constraint`.
    #[serde(default)]
    pub prefer: String,
    /// `--ntasks-per-socket`, 0 if not given.
    #[serde(default)]
    pub tasks_per_socket: u32,
    /// `--sockets-per-node`, 0 if not given: least number of sockets of every node.
    #[serde(default)]
    pub sockets_per_node: u32,
    /// `--mincpus`, 0 if not given: least number of CPUs of the job on every node.
    #[serde(default)]
    pub mincpus: u32,
    /// `--segment`, 0 if not given: nodes of the job that must be in the same block.
    #[serde(default)]
    pub segment: u32,
    /// `--contiguous`: nodes that follow one another.
    #[serde(default)]
    pub contiguous: bool,
    /// `--array` as written ([`crate::slurm::array`]); empty if it is none.
    #[serde(default)]
    pub array: String,
    /// `-d` as written ([`crate::slurm::dependency`]); empty if it waits for no job.
    #[serde(default)]
    pub dependency: String,
    /// `--kill-on-invalid-dep`: whether to cancel it when what it waits for can never come; `None`: as Slurm does, keep it.
    #[serde(default)]
    pub kill_on_invalid_dep: Option<bool>,
    /// What few jobs say; read it by [`JobSpec::extras`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extras: Option<Box<Extras>>,
    /// The submitting command with its arguments.
    #[serde(default)]
    pub submit_line: String,
    /// Drawn at random by the client for each request, so that it can ask again when the answer was lost, and find what was made
    /// of it instead of making it twice. 0: the client will not ask again.
    #[serde(default)]
    pub request_id: u64,
    /// What was said of what admission fills in otherwise; admission notes it.
    #[serde(default)]
    pub given: Given,
    /// Number of the association that it is charged to; 0 if there is none. Filled in by admission.
    #[serde(default)]
    pub association: u32,
}

impl JobSpec {
    /// The licenses that it asks for; none if what is written is no list of such, which is not admitted.
    #[must_use]
    pub fn licenses(&self) -> Licenses {
        Licenses::read(&self.extras().licenses).unwrap_or_default()
    }

    /// What few jobs say; all of it empty for the others.
    pub fn extras(&self) -> &Extras {
        self.extras.as_deref().unwrap_or(Extras::nothing())
    }

    /// The same to be changed.
    pub fn extras_mut(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }

    /// Whether tasks share CPUs (`--overcommit`): then a node of the job has a CPU at least, however many tasks are on it. Tasks that
    /// have GPUs of their own have CPUs too, and of a job of srun's own it is the step that has more tasks than CPUs.
    pub fn overcommits(&self) -> bool {
        let own_gpus = self.gpus_per_task.is_some() || self.tasks_per_gpu > 0;
        self.extras().overcommit && self.kind != JobKind::Run && !own_gpus
    }

    /// Tasks that have CPUs of their own, at least.
    pub fn placed_tasks(&self) -> u32 {
        match self.overcommits() {
            true => self.nodes_min.max(1).min(self.tasks.max(1)),
            false => self.tasks,
        }
    }
}

impl Default for Owner {
    /// Nobody.
    fn default() -> Self {
        Self {
            uid: Uid(u32::MAX),
            gid: Gid(u32::MAX),
            groups: Vec::new(),
            user: String::new(),
            group: String::new(),
            home: "/".to_owned(),
            shell: "/bin/sh".to_owned(),
        }
    }
}

impl Default for JobSpec {
    /// A batch job of nobody's: one task with one CPU on one node, everything else left open.
    fn default() -> Self {
        Self {
            kind: JobKind::Batch,
            owner: Owner::default(),
            name: String::new(),
            account: String::new(),
            partition: String::new(),
            qos: String::new(),
            comment: String::new(),
            nodes_min: 1,
            nodes_max: 1,
            nodes_set: false,
            tasks: 1,
            tasks_set: false,
            tasks_per_node: 0,
            cpus_per_task: 1,
            cpus_per_task_set: false,
            memory: MemoryRequest::Default,
            gpus_per_node: None,
            gpus_total: None,
            gpus_per_task: None,
            nodelist: Vec::new(),
            exclude: Vec::new(),
            constraint: String::new(),
            exclusive: false,
            time_limit: None,
            begin: None,
            hold: false,
            nice: 0,
            requeue: false,
            work_dir: "/".to_owned(),
            stdin: String::new(),
            stdout: String::new(),
            stderr: String::new(),
            append: false,
            export: String::new(),
            command: String::new(),
            submit_host: String::new(),
            submit_sid: 0,
            gpus_per_socket: None,
            tasks_per_gpu: 0,
            cpus_per_gpu: 0,
            gres_flags: GresFlags::default(),
            switches: None,
            prefer: String::new(),
            tasks_per_socket: 0,
            sockets_per_node: 0,
            mincpus: 0,
            segment: 0,
            contiguous: false,
            array: String::new(),
            dependency: String::new(),
            kill_on_invalid_dep: None,
            extras: None,
            submit_line: String::new(),
            request_id: 0,
            given: Given::default(),
            association: 0,
        }
    }
}

/// Which of the things that have a default a request said itself.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Given {
    /// The account.
    pub account: bool,
    /// The partition.
    pub partition: bool,
    /// The quality of service.
    pub qos: bool,
    /// The memory.
    pub memory: bool,
}

impl Given {
    /// What a request says that is not filled in yet.
    #[must_use]
    pub fn of(spec: &JobSpec) -> Self {
        Self {
            account: !spec.account.is_empty(),
            partition: !spec.partition.is_empty(),
            qos: !spec.qos.is_empty(),
            memory: !matches!(
                spec.memory,
                MemoryRequest::Default | MemoryRequest::PerGpu(_)
            ),
        }
    }
}

/// `--gres-flags`: how GPUs go with CPUs and tasks. Slurm's defaults if nothing is set.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct GresFlags {
    /// Only CPUs near the GPUs (`enforce-binding`).
    pub enforce_binding: bool,
    /// Any CPU, near or not (`disable-binding`).
    pub disable_binding: bool,
    /// Each task gets its shares from one GPU (`one-task-per-sharing`).
    pub one_task_per_sharing: bool,
    /// Tasks may have their shares from the same GPU (`multiple-tasks-per-sharing`).
    pub multiple_tasks_per_sharing: bool,
    /// Tasks of a step may see each other's GPUs (`allow-task-sharing`).
    pub allow_task_sharing: bool,
}

/// `--switches=count[@max-time]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Switches {
    /// Most leaf switches that the nodes may hang on; at least 1.
    pub count: u32,
    /// Seconds to wait for that before any number will do; `None` is as long as the controller allows.
    pub max_wait_secs: Option<u64>,
}

/// What is stored beside a batch job's submission and travels to the agent that runs its script.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// The script's bytes, with its interpreter line.
    pub script: Vec<u8>,
    /// Arguments for the script.
    pub args: Vec<String>,
    /// The submitter's environment as `NAME=VALUE` entries, already cut down by `--export`.
    pub env: Vec<String>,
    /// The submitter's umask.
    pub umask: u32,
    /// Soft resource limits to propagate: (`RLIMIT_*` number, value).
    pub rlimits: Vec<(u32, u64)>,
}
