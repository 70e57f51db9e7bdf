//! The environment of a task, and of the shell that `salloc` starts.
//!
//! The base is what the client or `sbatch` sent. On it come, in this order: what a login would set (if asked for), the job's
//! `SLURM_*`, the step's, the task's, and the vendors' variables (`vendor.rs`). A base that comes from another job (its
//! `SLURM_JOB_ID` is not ours) first loses that job's variables.
//!
//! The submitting command sets what only it knows, and we keep it: `SLURM_SUBMIT_DIR`, `SLURM_SUBMIT_HOST`,
//! `SLURM_PRIO_PROCESS`, `SLURM_UMASK`, `SLURM_LABELIO`, `SLURM_EXPORT_ENV`, `SLURM_GET_USER_ENV`, `SLURM_DISTRIBUTION`,
//! `SLURM_LAUNCH_NODE_IPADDR`, `SLURM_GPUS`, `SLURM_GPUS_PER_NODE` and its like, `SLURM_TRES_PER_TASK`, `SLURM_TRES_BIND`, and `srun`'s
//! `SLURM_MEM_PER_CPU` or `SLURM_MEM_PER_NODE`. Slurm's own sockets have no counterpart here: `SLURM_SRUN_COMM_PORT` and
//! `SLURM_STEP_LAUNCHER_PORT` are 0. `SLURM_CONF` names a configuration of ours that is there, for programs that look
//! whether it is set.

mod facts;
mod het;
mod vendor;

pub use het::components;

use crate::agent::order::{JobOrder, StepOrder};
use crate::api::JobView;
use crate::id::StepKind;
use crate::resources::{Gpu, IdSet};
use crate::slurm::{bind, hostlist};
use facts::Facts;
use std::collections::BTreeMap;
use std::fmt::Display;

/// What a login sets as `PATH` where nothing else is known.
const LOGIN_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// Variables by which a job, a step or a task is described. Each is set afresh or absent in a new one.
const OF_A_JOB: [&str; 22] = [
    "SLURMD_DEBUG",
    "SLURMD_NODENAME",
    "SLURMD_TRES_BIND",
    "SLURM_CLUSTER_NAME",
    "SLURM_CPUS_ON_NODE",
    "SLURM_CPUS_PER_TASK",
    "SLURM_GPUS_ON_NODE",
    "SLURM_GTIDS",
    "SLURM_JOBID",
    "SLURM_LOCALID",
    "SLURM_NNODES",
    "SLURM_NODEID",
    "SLURM_NODELIST",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_OOM_KILL_STEP",
    "SLURM_PROCID",
    "SLURM_RESTART_COUNT",
    "SLURM_STEPID",
    "SLURM_TASKS_PER_NODE",
    "SLURM_TASK_PID",
];

/// The same by the beginning of the name.
const OF_A_JOB_BY_PREFIX: [&str; 6] = [
    "SLURM_ARRAY_",
    "SLURM_HET_",
    "SLURM_PACK_",
    "SLURM_JOB_",
    "SLURM_STEP_",
    "SLURM_TOPOLOGY_",
];

/// What a submitting command says about the job that it submits; stale in anything submitted from within that job.
const OF_A_SUBMISSION: [&str; 22] = [
    "SLURM_CPUS_PER_GPU",
    "SLURM_DIST_PLANESIZE",
    "SLURM_DISTRIBUTION",
    "SLURM_EXPORT_ENV",
    "SLURM_GET_USER_ENV",
    "SLURM_GPUS",
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_SOCKET",
    "SLURM_GPUS_PER_TASK",
    "SLURM_LABELIO",
    "SLURM_LAUNCH_NODE_IPADDR",
    "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_GPU",
    "SLURM_MEM_PER_NODE",
    "SLURM_NTASKS_PER_GPU",
    "SLURM_NTASKS_PER_SOCKET",
    "SLURM_PRIO_PROCESS",
    "SLURM_SUBMIT_DIR",
    "SLURM_SUBMIT_HOST",
    "SLURM_TRES_BIND",
    "SLURM_TRES_PER_TASK",
    "SLURM_UMASK",
];

fn of_a_job(name: &[u8]) -> bool {
    OF_A_JOB.iter().any(|known| known.as_bytes() == name)
        || OF_A_JOB_BY_PREFIX
            .iter()
            .any(|prefix| name.starts_with(prefix.as_bytes()))
        || het::of_a_component(name)
}

/// The environment with which a command submits a *new* job: without what describes the job that it runs in, if any.
pub fn without_job(env: &[String]) -> Vec<String> {
    let stale = |name: &str| of_a_job(name.as_bytes()) || OF_A_SUBMISSION.contains(&name);
    env.iter()
        .filter(|entry| !stale(super::export::name_of(entry)))
        .cloned()
        .collect()
}

/// A task whose environment is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// Its job.
    pub job: &'a JobOrder,
    /// Its step.
    pub step: &'a StepOrder,
    /// Its position among the step's tasks on this node (`SLURM_LOCALID`), below `step.task_ids.len()`.
    pub local: u32,
    /// Its process, if it exists already; otherwise whoever starts it appends `SLURM_TASK_PID`.
    pub pid: Option<u32>,
    /// All GPUs of the node, by identity.
    pub gpus: &'a [Gpu],
    /// A file of our configuration that is there, for programs that look at `SLURM_CONF`; empty: none.
    pub conf: &'a str,
    /// Whether the numbers of nodes and tasks stay as they are where the step was asked for (`srun --preserve-env`).
    pub preserve: bool,
}

/// What [`Task::preserve`] keeps, where it is set.
const PRESERVED: [&str; 4] = [
    "SLURM_NNODES",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_TASKS_PER_NODE",
];

/// The environment of a task: `NAME=VALUE` entries in order of name, each name once, no NUL inside. Of repeated names in `base`
/// the last counts; what is not `NAME=VALUE` is dropped.
pub fn task<B: AsRef<[u8]>>(task: &Task<'_>, base: &[B]) -> Vec<Vec<u8>> {
    let mut env = Env::from_base(base);
    let facts = Facts::from(task.job);
    let inside = env.get("SLURM_JOB_ID") == Some(facts.id.to_string().as_str());
    if !inside {
        env.0.retain(|name, _| !of_a_job(name));
    }
    // Steps have what their script hands on.
    if task.step.step == StepKind::Batch && env.get("SLURM_GET_USER_ENV") == Some("1") {
        login(&mut env, &facts);
    }
    let preserved = PRESERVED.map(|name| env.get(name).map(str::to_owned));
    job(&mut env, &facts);
    env.default_unless_empty("SLURM_CONF", task.conf);
    match task.step.step {
        StepKind::Batch => batch_step(&mut env, task, &facts),
        StepKind::Numbered(number) => numbered_step(&mut env, task, &facts, number, inside),
    }
    if task.preserve {
        for (name, value) in PRESERVED.iter().zip(preserved) {
            value.into_iter().for_each(|value| env.set(name, value));
        }
    }
    this_task(&mut env, task);
    env.default("TMPDIR", "/tmp");
    env.into_entries()
}

/// The environment of the shell that `salloc` starts for an allocation that it was given; `all` are the components of a heterogeneous
/// job, of which `view` is the first, and nothing for another. `conf` as [`Task::conf`].
pub fn allocation<B: AsRef<[u8]>>(
    view: &JobView,
    all: &[JobView],
    (cluster, conf): (&str, &str),
    base: &[B],
) -> Vec<Vec<u8>> {
    let mut env = Env::from_base(base);
    env.0.retain(|name, _| !of_a_job(name));
    let facts = Facts::of_view(view, cluster);
    job(&mut env, &facts);
    env.default_unless_empty("SLURM_CONF", conf);
    of_the_request(&mut env, &facts);
    if !all.is_empty() {
        env.add(&components(all, cluster));
    }
    // What `salloc` does not set.
    for name in [
        "SLURM_JOB_UID",
        "SLURM_JOB_GID",
        "SLURM_JOB_USER",
        "SLURM_JOB_START_TIME",
        "SLURM_JOB_END_TIME",
        "SLURM_PRIO_PROCESS",
    ] {
        env.remove(name);
    }
    env.into_entries()
}

/// What a login of the user sets, as far as one can know without a login; what the submitter sent wins.
fn login(env: &mut Env, facts: &Facts<'_>) {
    env.default("HOME", &facts.owner.home);
    env.default("SHELL", &facts.owner.shell);
    env.default("USER", &facts.owner.user);
    env.default("LOGNAME", &facts.owner.user);
    env.default("PATH", LOGIN_PATH);
}

/// What holds for the whole job.
fn job(env: &mut Env, facts: &Facts<'_>) {
    let nodelist = facts.nodelist();
    env.set("SLURM_CLUSTER_NAME", facts.cluster);
    env.set("SLURM_JOBID", facts.id);
    env.set("SLURM_JOB_ID", facts.id);
    env.set("SLURM_JOB_NAME", facts.name);
    env.set("SLURM_JOB_UID", facts.owner.uid);
    env.set("SLURM_JOB_GID", facts.owner.gid);
    env.set("SLURM_JOB_USER", &facts.owner.user);
    env.set_unless_empty("SLURM_JOB_ACCOUNT", facts.account);
    env.set_unless_empty("SLURM_JOB_QOS", facts.qos);
    env.set("SLURM_JOB_PARTITION", facts.partition);
    env.set("SLURM_JOB_NODELIST", &nodelist);
    env.set("SLURM_NODELIST", &nodelist);
    env.set("SLURM_JOB_NUM_NODES", facts.nodes.len());
    env.set("SLURM_NNODES", facts.nodes.len());
    env.set("SLURM_JOB_CPUS_PER_NODE", folded(facts.cpus()));
    env.set("SLURM_TASKS_PER_NODE", folded(facts.tasks_here()));
    env.set("SLURM_JOB_START_TIME", facts.started.secs());
    env.set("SLURM_JOB_END_TIME", facts.end_secs());
    env.default("SLURM_SUBMIT_DIR", facts.work_dir);
    env.default("SLURM_SUBMIT_HOST", facts.submit_host);
    env.set_unless_empty("SLURM_JOB_LICENSES", facts.licenses);
    if facts.restarts > 0 {
        env.set("SLURM_RESTART_COUNT", facts.restarts);
    }
    env.add(facts.components);
    if let Some(array) = facts.array {
        env.set("SLURM_ARRAY_JOB_ID", array.job);
        env.set("SLURM_ARRAY_TASK_ID", array.task);
        env.set("SLURM_ARRAY_TASK_COUNT", array.count);
        env.set("SLURM_ARRAY_TASK_MIN", array.min);
        env.set("SLURM_ARRAY_TASK_MAX", array.max);
        env.set("SLURM_ARRAY_TASK_STEP", array.step);
    }
}

/// What the job asked for; steps inherit it from the batch script or the allocation's shell.
fn of_the_request(env: &mut Env, facts: &Facts<'_>) {
    if facts.tasks_set || facts.tasks_per_node > 0 {
        env.set("SLURM_NTASKS", facts.tasks);
        env.set("SLURM_NPROCS", facts.tasks);
    }
    if facts.tasks_per_node > 0 {
        env.set("SLURM_NTASKS_PER_NODE", facts.tasks_per_node);
    }
    if facts.cpus_per_task_set {
        cpus_per_task(env, facts.cpus_per_task);
    }
}

/// The memory that the job has, asked for or not.
fn of_memory(env: &mut Env, facts: &Facts<'_>) {
    for (name, mib) in [
        ("SLURM_MEM_PER_CPU", facts.mem_per_cpu),
        ("SLURM_MEM_PER_NODE", facts.mem_per_node),
    ] {
        match mib {
            Some(mib) => env.set(name, mib),
            None => env.remove(name),
        }
    }
}

fn cpus_per_task(env: &mut Env, cpus: u32) {
    env.set("SLURM_CPUS_PER_TASK", cpus);
    env.default("SLURM_TRES_PER_TASK", &format!("cpu={cpus}"));
}

fn batch_step(env: &mut Env, task: &Task<'_>, facts: &Facts<'_>) {
    of_the_request(env, facts);
    of_memory(env, facts);
    env.remove("SLURM_UMASK");
    env.remove("SLURM_JOB_GROUP");
    let Some(here) = task.job.here() else { return };
    on_node(env, task, &here.share.cpus, &here.share.gpus);
    if !here.share.gpus.is_empty() {
        env.set("SLURM_JOB_GPUS", listed(here.share.gpus.iter()));
    }
    vendor::set(env, &vendor::granted(task.gpus, &here.share.gpus));
}

fn numbered_step(env: &mut Env, task: &Task<'_>, facts: &Facts<'_>, number: u32, inside: bool) {
    let step = task.step;
    let hosts: Vec<&str> = step.nodes.iter().map(|(name, _)| name.as_str()).collect();
    let tasks_per_node = folded(step.nodes.iter().map(|(_, tasks)| *tasks));
    env.set("SLURMD_DEBUG", 2);
    env.set("SLURM_SRUN_COMM_HOST", "127.0.0.1");
    env.set("SLURM_SRUN_COMM_PORT", 0);
    env.set("SLURM_STEP_LAUNCHER_PORT", 0);
    if inside {
        let many = usize::try_from(step.tasks).is_ok_and(|tasks| tasks > hosts.len());
        env.default("SLURM_DISTRIBUTION", if many { "block" } else { "cyclic" });
    }
    env.set("SLURM_STEPID", number);
    env.set("SLURM_STEP_ID", number);
    let list = hostlist::compress(&hosts);
    // A step over several components shows their nodes as those of one job.
    if step.nodes.len() > facts.nodes.len() && !facts.components.is_empty() {
        env.set("SLURM_JOB_NODELIST", &list);
        env.set("SLURM_NODELIST", &list);
    }
    env.set("SLURM_STEP_NODELIST", list);
    env.set("SLURM_STEP_NUM_NODES", hosts.len());
    env.set("SLURM_NNODES", hosts.len());
    env.set("SLURM_STEP_NUM_TASKS", step.tasks);
    env.set("SLURM_NTASKS", step.tasks);
    env.set("SLURM_NPROCS", step.tasks);
    env.set("SLURM_STEP_TASKS_PER_NODE", &tasks_per_node);
    env.set("SLURM_TASKS_PER_NODE", &tasks_per_node);
    if !inside {
        env.set("SLURM_JOB_GROUP", &facts.owner.group);
    }
    if facts.tasks_per_node > 0 && !inside {
        env.set("SLURM_NTASKS_PER_NODE", facts.tasks_per_node);
    }
    if facts.cpus_per_task_set || step.cpus_per_task != facts.cpus_per_task {
        cpus_per_task(env, step.cpus_per_task);
    }
    on_node(env, task, &step.share.cpus, &step.share.gpus);
    let visible = bound(env, task);
    env.remove("SLURM_STEP_GPUS");
    if !visible.is_empty() {
        env.set("SLURM_STEP_GPUS", listed(visible.iter()));
    }
    vendor::set(env, &vendor::granted(task.gpus, &visible));
}

/// What holds on this node.
fn on_node(env: &mut Env, task: &Task<'_>, cpus: &IdSet, gpus: &IdSet) {
    env.remove("SLURM_GPUS_ON_NODE");
    if !gpus.is_empty() {
        env.set("SLURM_GPUS_ON_NODE", gpus.len());
    }
    env.set("SLURM_CPUS_ON_NODE", cpus.len());
    env.set("SLURM_OOM_KILL_STEP", 0);
    env.default("SLURM_PRIO_PROCESS", "0");
    env.set("SLURM_NODEID", task.step.index);
    env.set("SLURM_GTIDS", listed(task.step.task_ids.iter().copied()));
    if let Some(here) = task.job.here() {
        env.set("SLURMD_NODENAME", &here.name);
        env.set("SLURM_TOPOLOGY_ADDR", &here.name);
        env.set("SLURM_TOPOLOGY_ADDR_PATTERN", "node");
    }
}

/// The GPUs that this task sees: all of its step's, or its own by `--gpus-per-task` and `--gpu-bind`, which `srun` hands on as
/// `SLURM_TRES_BIND`. This only steers runtimes; what a task can open is the step's fence.
fn bound(env: &mut Env, task: &Task<'_>) -> IdSet {
    let gpus = &task.step.share.gpus;
    let bind = env.get("SLURM_TRES_BIND").unwrap_or_default().to_owned();
    let Some(own) = bind::gpus(&bind, task.local as usize, gpus) else {
        return gpus.clone();
    };
    env.set("SLURMD_TRES_BIND", &bind);
    own
}

fn this_task(env: &mut Env, task: &Task<'_>) {
    let local = task.local as usize;
    let procid = task.step.task_ids.get(local).copied().unwrap_or(task.local);
    env.set("SLURM_LOCALID", task.local);
    env.set("SLURM_PROCID", procid);
    env.remove("SLURM_TASK_PID");
    if let Some(pid) = task.pid {
        env.set("SLURM_TASK_PID", pid);
    }
}

/// `4(x2),3`: equal neighbours are counted.
pub fn folded<N: Display + PartialEq>(numbers: impl IntoIterator<Item = N>) -> String {
    let mut runs: Vec<(N, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((last, times)) if *last == number => *times += 1,
            _ => runs.push((number, 1)),
        }
    }
    let shown = runs.iter().map(|(number, times)| match times {
        1 => number.to_string(),
        times => format!("{number}(x{times})"),
    });
    shown.collect::<Vec<_>>().join(",")
}

fn listed(numbers: impl Iterator<Item = u32>) -> String {
    numbers.map(|n| n.to_string()).collect::<Vec<_>>().join(",")
}

/// An environment being built, by name.
pub(super) struct Env(BTreeMap<Vec<u8>, Vec<u8>>);

impl Env {
    fn from_base<B: AsRef<[u8]>>(base: &[B]) -> Self {
        let entries = base.iter().filter_map(|entry| {
            let entry = entry.as_ref();
            let at = entry
                .iter()
                .position(|b| *b == b'=')
                .filter(|at| *at > 0 && !entry.contains(&0))?;
            Some((entry[..at].to_vec(), entry[at + 1..].to_vec()))
        });
        Self(entries.collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name.as_bytes())
            .and_then(|value| std::str::from_utf8(value).ok())
    }

    /// NUL bytes cannot be part of a value; they come from no sound peer and are left out.
    pub(super) fn set(&mut self, name: &str, value: impl Display) {
        let value = value.to_string().replace('\0', "");
        let value = super::raw::bytes(&value).into_owned();
        self.0.insert(name.as_bytes().to_vec(), value);
    }

    /// Adds entries as they are.
    fn add(&mut self, entries: &[String]) {
        for (name, value) in entries.iter().filter_map(|entry| entry.split_once('=')) {
            self.set(name, value);
        }
    }

    fn set_unless_empty(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            self.remove(name)
        } else {
            self.set(name, value)
        }
    }

    fn default(&mut self, name: &str, value: &str) {
        if !self.0.contains_key(name.as_bytes()) {
            self.set(name, value);
        }
    }

    fn default_unless_empty(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.default(name, value);
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.0.remove(name.as_bytes());
    }

    fn into_entries(self) -> Vec<Vec<u8>> {
        self.0
            .into_iter()
            .map(|(name, value)| [name, value].join(&b'='))
            .collect()
    }
}

#[cfg(test)]
mod tests;
