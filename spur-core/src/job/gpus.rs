//! Several ways of asking for GPUs at once become one, or are refused if they contradict one another. The rules and the words
//! are Slurm's: its commands apply them before they ask, and its controller once more, and so do ours.

use super::spec::JobSpec;
use crate::resources::{GpuCount, MemoryRequest};

/// Why GPUs cannot be asked for like this, as Slurm says it before `Invalid generic resource (gres) specification`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadGpus {
    /// Fewer in all than on a node, a socket or for a task.
    #[error("Failed to ensure --gpus >= --gres=gpu/--gpus-per-node >= --gpus-per-socket")]
    Total,
    /// Fewer on a node than on a socket or for a task.
    #[error("Failed to ensure --gpus >= --gpus-per-task")]
    Node,
    /// For each socket, but of how many?
    #[error("--gpus-per-socket option requires --sockets-per-node specification")]
    Sockets,
    /// CPUs for each GPU and for each task.
    #[error("--cpus-per-gpu is mutually exclusive with --cpus-per-task")]
    Cpus,
    /// The total is not shared out evenly to nodes.
    #[error("Failed to validate job spec, --gpus is not multiple of --gres=gpu/--gpus-per-node")]
    TotalPerNode,
    /// The number of nodes that follows is not the one asked for: needed, least, most.
    #[error(
        "Failed to validate job spec. Based on --gpu and --gres=gpu/--gpus-per-node required nodes ({0}) doesn't fall \
         between min_nodes ({1}) and max_nodes ({2}) boundaries."
    )]
    Nodes(u32, u32, u32),
    /// Those of a node are not shared out evenly to sockets.
    #[error(
        "Failed to validate job spec, --gres=gpu/--gpus-per-node not multiple of --gpus-per-socket."
    )]
    NodePerSocket,
    /// The number of sockets that follows is not the one asked for.
    #[error(
        "Failed to validate job spec. Based on --gres=gpu/--gpus-per-node and --gpus-per-socket required number of \
         sockets differ from --sockets-per-node."
    )]
    SocketsDiffer,
    /// Tasks are not shared out evenly to GPUs.
    #[error("Failed to validate job spec, -n/--ntasks has to be a multiple of --ntasks-per-gpu.")]
    TasksPerGpu,
    /// The total is not shared out evenly to tasks.
    #[error("Failed to validate job spec, --gpus not multiple of --gpus-per-task")]
    TotalPerTask,
    /// The number of tasks that follows is not the one asked for.
    #[error(
        "Failed to validate job spec. Based on --gpus and --gpus-per-task number of requested tasks differ from \
         -n/--ntasks."
    )]
    TasksDiffer,
    /// For each task, but of how many?
    #[error(
        "Failed to validate job spec. --gpus-per-task or --tres-per-task used without either --gpus or -n/--ntasks is \
         not allowed."
    )]
    TasksUnknown,
    /// Those of a node are not shared out evenly to tasks.
    #[error(
        "Failed to validate job spec, --gres=gpu/--gpus-per-node not multiple of --gpus-per-task."
    )]
    NodePerTask,
    /// The number of tasks per node that follows is not the one asked for.
    #[error(
        "Failed to validate job spec. Based on --gres=gpu/--gpus-per-node and --gpus-per-task requested number of tasks \
         per node differ from --ntasks-per-node."
    )]
    TasksPerNodeDiffer,
    /// Those of a socket are not shared out evenly to tasks.
    #[error("Failed to validate job spec, --gpus-per-socket not multiple of --gpus-per-task.")]
    SocketPerTask,
    /// The number of tasks per socket that follows is not the one asked for.
    #[error(
        "Failed to validate job spec. Based on --gpus-per-socket and --gpus-per-task requested number of tasks per \
         sockets differ from --ntasks-per-socket."
    )]
    TasksPerSocketDiffer,
    /// The CPUs of a task that follow are not those asked for.
    #[error(
        "Failed to validate job spec. Based on --cpus-per-gpu and --gpus-per-task requested number of cpus differ from \
         -c/--cpus-per-task."
    )]
    CpusDiffer,
    /// Fewer GPUs than nodes.
    #[error("Failed to validate job spec, --gpus < -N")]
    FewerThanNodes,
    /// Tasks for each GPU, but neither GPUs nor tasks nor nodes.
    #[error(
        "gres_job_state_validate: --ntasks-per-tres needs either a GRES GPU specification or a node/ntask specification"
    )]
    NothingPerGpu,
    /// CPUs for each GPU, but no GPU.
    #[error("Requested cpus_per_tres=gres/gpu:{0} but did not request any GPU.")]
    CpusWithoutGpu(u32),
    /// Memory for each GPU, but no GPU.
    #[error("Requested mem_per_tres=gres/gpu:{0} but did not request any GPU.")]
    MemoryWithoutGpu(u64),
    /// With a model and without one; Slurm says this and no more.
    #[error("Invalid GRES specification (with and without type identification)")]
    MixedModels,
    /// Models that differ. Slurm would look for nodes with both.
    #[error("only one GPU type can be requested, not both {0:?} and {1:?}")]
    SeveralModels(String, String),
}

/// How many of each.
struct Counts {
    total: u32,
    node: u32,
    socket: u32,
    task: u32,
}

impl Counts {
    fn of(spec: &JobSpec) -> Self {
        let count = |gpus: &Option<GpuCount>| gpus.as_ref().map_or(0, |gpus| gpus.count);
        Self {
            total: count(&spec.gpus_total),
            node: count(&spec.gpus_per_node),
            socket: count(&spec.gpus_per_socket),
            task: count(&spec.gpus_per_task),
        }
    }

    fn any(&self) -> bool {
        self.total > 0 || self.node > 0 || self.socket > 0 || self.task > 0
    }
}

/// What the ways of asking for GPUs say of nodes, tasks and CPUs is filled in; doing it again changes nothing.
pub fn settle(spec: &mut JobSpec) -> Result<(), BadGpus> {
    same_model(spec)?;
    let mut gpus = Counts::of(spec);
    tasks_per_gpu(spec, &mut gpus)?;
    if !gpus.any() {
        return without(spec);
    }
    ordered(spec, &gpus)?;
    nodes(spec, &gpus)?;
    sockets(spec, &gpus)?;
    tasks(spec, &gpus)?;
    cpus(spec, &gpus)?;
    if gpus.total > 0 && spec.nodes_set {
        if gpus.total < spec.nodes_min {
            return Err(BadGpus::FewerThanNodes);
        }
        spec.nodes_max = spec.nodes_max.min(gpus.total);
    }
    Ok(())
}

/// What only the commands refuse: they know what the user wrote, and the controller takes what it is given.
pub fn written(spec: &JobSpec) -> Result<(), BadGpus> {
    let gpus = Counts::of(spec);
    if gpus.task > 0 && gpus.total == 0 && !spec.tasks_set {
        let fixed = spec.nodes_set && spec.nodes_min == spec.nodes_max;
        let known = spec.tasks_per_node > 0 || !spec.cpus_per_task_set;
        if !(fixed && known) {
            return Err(BadGpus::TasksUnknown);
        }
    }
    if gpus.any() && spec.cpus_per_gpu > 0 && spec.cpus_per_task_set {
        return Err(BadGpus::Cpus);
    }
    Ok(())
}

fn same_model(spec: &JobSpec) -> Result<(), BadGpus> {
    let asked = [
        &spec.gpus_total,
        &spec.gpus_per_node,
        &spec.gpus_per_socket,
        &spec.gpus_per_task,
    ];
    let mut models = asked.into_iter().flatten().filter(|gpus| gpus.count > 0);
    let Some(first) = models.next() else {
        return Ok(());
    };
    match models.find(|gpus| gpus.model != first.model) {
        Some(other) if other.model.is_empty() || first.model.is_empty() => {
            Err(BadGpus::MixedModels)
        }
        Some(other) => Err(BadGpus::SeveralModels(
            first.model.clone(),
            other.model.clone(),
        )),
        None => Ok(()),
    }
}

/// CPUs or memory for each of no GPUs.
fn without(spec: &JobSpec) -> Result<(), BadGpus> {
    if let MemoryRequest::PerGpu(mib) = spec.memory {
        return Err(BadGpus::MemoryWithoutGpu(mib));
    }
    match spec.cpus_per_gpu {
        0 => Ok(()),
        cpus => Err(BadGpus::CpusWithoutGpu(cpus)),
    }
}

/// `--ntasks-per-gpu`: so many tasks for the GPUs that are asked for, or so many GPUs for the tasks.
fn tasks_per_gpu(spec: &mut JobSpec, gpus: &mut Counts) -> Result<(), BadGpus> {
    let per_gpu = spec.tasks_per_gpu;
    if per_gpu == 0 {
        return Ok(());
    }
    let fixed = spec.nodes_set && spec.nodes_min == spec.nodes_max;
    if gpus.any() {
        let nodes = if spec.nodes_set { spec.nodes_min } else { 1 };
        let of_node = gpus
            .node
            .max(gpus.socket.saturating_mul(spec.sockets_per_node.max(1)));
        let of_tasks = gpus.task.saturating_mul(spec.tasks.max(1));
        let all = gpus.total.max(of_node.saturating_mul(nodes)).max(of_tasks);
        (spec.tasks, spec.tasks_set) = (all.saturating_mul(per_gpu), true);
        return Ok(());
    }
    if !spec.tasks_set && fixed {
        (spec.tasks, spec.tasks_set) = (spec.nodes_min.saturating_mul(per_gpu), true);
    }
    if !spec.tasks_set || spec.tasks == 0 {
        return Err(BadGpus::NothingPerGpu);
    }
    if !spec.tasks.is_multiple_of(per_gpu) {
        return Err(BadGpus::TasksPerGpu);
    }
    let count = spec.tasks / per_gpu;
    spec.gpus_total = Some(GpuCount {
        model: String::new(),
        count,
    });
    gpus.total = count;
    Ok(())
}

fn ordered(spec: &JobSpec, gpus: &Counts) -> Result<(), BadGpus> {
    let most = gpus.node.max(gpus.task).max(gpus.socket);
    if gpus.total > 0 && most > gpus.total {
        return Err(BadGpus::Total);
    }
    if gpus.node > 0 && gpus.task.max(gpus.socket) > gpus.node {
        return Err(BadGpus::Node);
    }
    if gpus.socket > 0 && spec.sockets_per_node == 0 {
        return Err(BadGpus::Sockets);
    }
    Ok(())
}

fn nodes(spec: &mut JobSpec, gpus: &Counts) -> Result<(), BadGpus> {
    if gpus.total == 0 || gpus.node == 0 {
        return Ok(());
    }
    if !gpus.total.is_multiple_of(gpus.node) {
        return Err(BadGpus::TotalPerNode);
    }
    let needed = gpus.total / gpus.node;
    if spec.nodes_set && !(spec.nodes_min..=spec.nodes_max).contains(&needed) {
        return Err(BadGpus::Nodes(needed, spec.nodes_min, spec.nodes_max));
    }
    (spec.nodes_min, spec.nodes_max, spec.nodes_set) = (needed, needed, true);
    Ok(())
}

fn sockets(spec: &JobSpec, gpus: &Counts) -> Result<(), BadGpus> {
    if gpus.node == 0 || gpus.socket == 0 {
        return Ok(());
    }
    if !gpus.node.is_multiple_of(gpus.socket) {
        return Err(BadGpus::NodePerSocket);
    }
    if spec.sockets_per_node != gpus.node / gpus.socket {
        return Err(BadGpus::SocketsDiffer);
    }
    Ok(())
}

fn tasks(spec: &mut JobSpec, gpus: &Counts) -> Result<(), BadGpus> {
    if gpus.task == 0 {
        return Ok(());
    }
    if gpus.total > 0 {
        if !gpus.total.is_multiple_of(gpus.task) {
            return Err(BadGpus::TotalPerTask);
        }
        let tasks = gpus.total / gpus.task;
        if spec.tasks_set && spec.tasks != tasks {
            return Err(BadGpus::TasksDiffer);
        }
        (spec.tasks, spec.tasks_set) = (tasks, true);
    }
    if gpus.node > 0 {
        if !gpus.node.is_multiple_of(gpus.task) {
            return Err(BadGpus::NodePerTask);
        }
        let per_node = gpus.node / gpus.task;
        if spec.tasks_per_node > 0 && spec.tasks_per_node != per_node {
            return Err(BadGpus::TasksPerNodeDiffer);
        }
        spec.tasks_per_node = per_node;
    }
    if gpus.socket > 0 {
        if !gpus.socket.is_multiple_of(gpus.task) {
            return Err(BadGpus::SocketPerTask);
        }
        let per_socket = gpus.socket / gpus.task;
        if spec.tasks_per_socket > 0 && spec.tasks_per_socket != per_socket {
            return Err(BadGpus::TasksPerSocketDiffer);
        }
        spec.tasks_per_socket = per_socket;
    }
    Ok(())
}

/// `--cpus-per-gpu` with `--gpus-per-task` says how many CPUs a task has.
fn cpus(spec: &mut JobSpec, gpus: &Counts) -> Result<(), BadGpus> {
    if spec.cpus_per_gpu == 0 || gpus.task == 0 {
        return Ok(());
    }
    let needed = spec.cpus_per_gpu.saturating_mul(gpus.task);
    if spec.cpus_per_task_set && spec.cpus_per_task != needed {
        return Err(BadGpus::CpusDiffer);
    }
    spec.cpus_per_task = needed;
    Ok(())
}

#[cfg(test)]
mod tests;
