//! A job's request, reduced to what decides where it fits: equal asks fit or fail together.

use crate::job::spec::JobSpec;
use crate::partition::Partition;
use crate::resources::{GpuCount, MemoryRequest};

/// How many GPUs, in one of Slurm's ways of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GpuAsk {
    /// None.
    No,
    /// This many on every node.
    PerNode(u32),
    /// This many for every task.
    PerTask(u32),
    /// This many in all, at least one on every node.
    Total(u32),
}

/// How CPUs go with GPUs (`--gres-flags`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Binding {
    /// CPUs near the GPUs if there are some.
    #[default]
    Prefer,
    /// Only CPUs near the GPUs, and GPUs on as few NUMA nodes as the node allows: the job waits for that.
    Enforce,
    /// Any CPUs.
    Off,
}

/// See the module. Tasks are counted in bundles: what is called a task here stands for `bundle` tasks of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ask<'a> {
    pub(crate) nodes_min: u32,
    pub(crate) nodes_max: u32,
    /// Take as many nodes up to `nodes_max` as there are (`-N min-max`).
    pub(crate) widen: bool,
    /// Tasks in all; `None`: `tasks_per_node` (or one) on whatever nodes it gets.
    pub(crate) tasks: Option<u32>,
    /// Most tasks on a node; 0: no bound.
    pub(crate) tasks_per_node: u32,
    /// Most tasks on a socket; 0: no bound.
    pub(crate) tasks_per_socket: u32,
    /// Tasks of the job that go together with one GPU (`--ntasks-per-gpu`); 1 without.
    pub(crate) bundle: u32,
    pub(crate) cpus_per_task: u32,
    /// At least so many CPUs for each GPU; 0: no matter.
    pub(crate) cpus_per_gpu: u32,
    /// At least so many CPUs on every node.
    pub(crate) mincpus: u32,
    /// At least so many sockets on every node.
    pub(crate) sockets: u32,
    pub(crate) memory: MemoryRequest,
    /// Most MiB of a node that the partition gives a job; 0: no bound.
    pub(crate) memory_most: u64,
    pub(crate) gpus: GpuAsk,
    /// Of a node's GPUs exactly so many on each of as many sockets as that takes; 0: wherever.
    pub(crate) gpus_per_socket: u32,
    pub(crate) binding: Binding,
    /// Empty: any model.
    pub(crate) model: &'a str,
    pub(crate) exclusive: bool,
    /// Most leaf switches; 0: no matter.
    pub(crate) switches: u32,
    /// Nodes that must be in one block, group after group; 0: all.
    pub(crate) segment: u32,
    /// Nodes that follow one another.
    pub(crate) contiguous: bool,
}

impl<'a> Ask<'a> {
    /// Reads an admitted request.
    pub(crate) fn of(spec: &'a JobSpec) -> Self {
        let (gpus, model) = gpu_ask(spec);
        let nodes_min = spec.nodes_min.max(1);
        // Admission lets GPUs that are more than one node has be on several; then each has a task.
        let spread = !spec.nodes_set && spec.nodes_max > spec.nodes_min;
        let counted = spec.tasks_set || !(spec.nodes_set || spread);
        let asked = counted.then_some(spec.tasks.max(1));
        let nodes_max = asked.unwrap_or(u32::MAX).min(spec.nodes_max).max(nodes_min);
        // Tasks that share CPUs ask for none of their own.
        let own = !spec.overcommits();
        let tasks = asked.filter(|_| own);
        let plain = Self {
            nodes_min,
            nodes_max,
            widen: spec.nodes_set && nodes_max > nodes_min && !spec.extras().use_min_nodes,
            tasks,
            tasks_per_node: if own { spec.tasks_per_node } else { 0 },
            tasks_per_socket: if own { spec.tasks_per_socket } else { 0 },
            bundle: 1,
            cpus_per_task: spec.cpus_per_task.max(1),
            cpus_per_gpu: spec.cpus_per_gpu,
            mincpus: spec.mincpus,
            sockets: spec.sockets_per_node,
            memory: spec.memory,
            memory_most: 0,
            gpus,
            gpus_per_socket: count(&spec.gpus_per_socket),
            binding: binding(spec),
            model,
            exclusive: spec.exclusive,
            switches: spec.switches.map_or(0, |switches| switches.count),
            segment: spec.segment,
            contiguous: spec.contiguous,
        };
        match spec.tasks_per_gpu {
            0 => plain,
            bundle if spec.tasks_set => plain.bundled(bundle),
            bundle => Self {
                tasks: None,
                ..plain
            }
            .bundled(bundle),
        }
    }

    /// The same on no more nodes, and with no more memory of one, than the partition gives a job. One that needs more nodes waits,
    /// and says so.
    pub(crate) fn within(self, partition: &Partition) -> Self {
        let most = match partition.max_nodes {
            0 => u32::MAX,
            most => most,
        };
        let nodes_max = self.nodes_max.min(most).max(self.nodes_min);
        Self {
            nodes_max,
            memory_most: partition.max_mem_per_node,
            widen: self.widen && nodes_max > self.nodes_min,
            ..self
        }
    }

    /// The same with as many tasks for each GPU: each GPU with its tasks becomes one task that is as big.
    fn bundled(self, bundle: u32) -> Self {
        let whole = self.tasks.map(|tasks| tasks.div_ceil(bundle));
        let (tasks, tasks_per_node) = match self.gpus {
            GpuAsk::Total(total) => (Some(total), self.tasks_per_node.div_ceil(bundle)),
            // Without a number of tasks, as many as there are GPUs on the nodes.
            GpuAsk::PerNode(count) => (whole, count),
            GpuAsk::No | GpuAsk::PerTask(_) => (whole, self.tasks_per_node.div_ceil(bundle)),
        };
        let nodes_max = tasks.unwrap_or(u32::MAX).min(self.nodes_max);
        let nodes_max = nodes_max.max(self.nodes_min);
        Self {
            tasks,
            tasks_per_node,
            bundle,
            nodes_max,
            widen: self.widen && nodes_max > self.nodes_min,
            tasks_per_socket: self.tasks_per_socket.div_ceil(bundle),
            cpus_per_task: self.cpus_per_task.saturating_mul(bundle),
            gpus: GpuAsk::PerTask(1),
            ..self
        }
    }

    /// Whether more than counts decides: CPUs and GPUs must lie to one another in a certain way.
    pub(crate) fn is_bound(&self) -> bool {
        (self.binding == Binding::Enforce && self.gpus != GpuAsk::No)
            || self.gpus_per_socket > 0
            || self.tasks_per_socket > 0
    }

    /// Tasks in all if the job gets this many nodes.
    pub(crate) fn tasks_on(&self, nodes: u32) -> u32 {
        self.tasks
            .unwrap_or_else(|| nodes.saturating_mul(self.tasks_per_node.max(1)))
    }

    /// Tasks and GPUs that each of so many nodes needs if all carry the same.
    pub(crate) fn even_part(&self, nodes: u32) -> Need {
        self.part(self.tasks_on(nodes).div_ceil(nodes).max(1), nodes)
    }

    /// What a node with so many tasks needs, if the job is on so many nodes.
    fn part(&self, tasks: u32, nodes: u32) -> Need {
        let gpus = match self.gpus {
            GpuAsk::No => 0,
            GpuAsk::PerNode(count) => count,
            GpuAsk::PerTask(count) => count.saturating_mul(tasks),
            GpuAsk::Total(count) => count.div_ceil(nodes),
        };
        Need { tasks, gpus }
    }

    /// Tasks and GPUs without which a node is of no use.
    pub(crate) fn least_part(&self) -> Need {
        self.least_with(1)
    }

    /// Least that a node with so many tasks needs.
    pub(crate) fn least_with(&self, tasks: u32) -> Need {
        let gpus = match self.gpus {
            GpuAsk::No => 0,
            GpuAsk::PerNode(count) => count,
            GpuAsk::PerTask(count) => count.saturating_mul(tasks),
            GpuAsk::Total(count) => count.min(1),
        };
        Need { tasks, gpus }
    }

    /// CPUs that a node with such a part must give.
    pub(crate) fn cpus_for(&self, need: Need) -> u32 {
        let by_task = need.tasks.saturating_mul(self.cpus_per_task);
        let by_gpu = need.gpus.saturating_mul(self.cpus_per_gpu);
        by_task.max(by_gpu).max(self.mincpus)
    }

    /// Least memory in MiB that a node with such a part must have free.
    pub(crate) fn memory_for(&self, need: Need) -> u64 {
        match self.memory {
            MemoryRequest::Default => 0,
            MemoryRequest::PerNode(mib) => mib,
            MemoryRequest::PerCpu(mib) if self.exclusive => mib,
            MemoryRequest::PerCpu(mib) => mib.saturating_mul(u64::from(self.cpus_for(need))),
            MemoryRequest::PerGpu(mib) => mib.saturating_mul(u64::from(need.gpus)),
        }
    }
}

/// A part of a job on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) tasks: u32,
    pub(crate) gpus: u32,
}

fn count(gpus: &Option<GpuCount>) -> u32 {
    gpus.as_ref().map_or(0, |gpus| gpus.count)
}

/// Admission lets at most one way of asking through, apart from redundant ones.
fn gpu_ask(spec: &JobSpec) -> (GpuAsk, &str) {
    let model = [
        &spec.gpus_per_task,
        &spec.gpus_per_node,
        &spec.gpus_per_socket,
        &spec.gpus_total,
    ]
    .into_iter()
    .flatten()
    .map(|gpus| gpus.model.as_str())
    .find(|model| !model.is_empty());
    let per_socket = count(&spec.gpus_per_socket).saturating_mul(spec.sockets_per_node.max(1));
    let ask = match (
        count(&spec.gpus_per_task),
        count(&spec.gpus_per_node).max(per_socket),
        count(&spec.gpus_total),
    ) {
        (0, 0, 0) => GpuAsk::No,
        (0, 0, total) => GpuAsk::Total(total),
        (0, per_node, _) => GpuAsk::PerNode(per_node),
        (per_task, _, _) => GpuAsk::PerTask(per_task),
    };
    (ask, model.unwrap_or_default())
}

fn binding(spec: &JobSpec) -> Binding {
    match spec.gres_flags {
        flags if flags.enforce_binding => Binding::Enforce,
        flags if flags.disable_binding => Binding::Off,
        _ => Binding::Prefer,
    }
}
