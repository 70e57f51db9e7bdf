//! A job's request, reduced to what decides where it fits: equal asks fit or fail together.

use crate::job::spec::JobSpec;
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

/// See the module.
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
    pub(crate) cpus_per_task: u32,
    pub(crate) memory: MemoryRequest,
    pub(crate) gpus: GpuAsk,
    /// Empty: any model.
    pub(crate) model: &'a str,
    pub(crate) exclusive: bool,
}

impl<'a> Ask<'a> {
    /// Reads an admitted request.
    pub(crate) fn of(spec: &'a JobSpec) -> Self {
        let (gpus, model) = gpu_ask(spec);
        let nodes_min = spec.nodes_min.max(1);
        let tasks = (spec.tasks_set || !spec.nodes_set).then_some(spec.tasks.max(1));
        let nodes_max = tasks.unwrap_or(u32::MAX).min(spec.nodes_max).max(nodes_min);
        Self {
            nodes_min,
            nodes_max,
            widen: spec.nodes_set && nodes_max > nodes_min,
            tasks,
            tasks_per_node: spec.tasks_per_node,
            cpus_per_task: spec.cpus_per_task.max(1),
            memory: spec.memory,
            gpus,
            model,
            exclusive: spec.exclusive,
        }
    }

    /// Tasks in all if the job gets this many nodes.
    pub(crate) fn tasks_on(&self, nodes: u32) -> u32 {
        self.tasks
            .unwrap_or_else(|| nodes.saturating_mul(self.tasks_per_node.max(1)))
    }

    /// Tasks and GPUs that each of so many nodes needs if all carry the same.
    pub(crate) fn even_part(&self, nodes: u32) -> Need {
        let tasks = self.tasks_on(nodes).div_ceil(nodes).max(1);
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
        let gpus = match self.gpus {
            GpuAsk::No => 0,
            GpuAsk::PerNode(count) | GpuAsk::PerTask(count) => count,
            GpuAsk::Total(count) => count.min(1),
        };
        Need { tasks: 1, gpus }
    }

    /// Least memory in MiB that a node with such a part must have free.
    pub(crate) fn memory_for(&self, need: Need) -> u64 {
        let cpus = u64::from(need.tasks) * u64::from(self.cpus_per_task);
        match self.memory {
            MemoryRequest::Default => 0,
            MemoryRequest::PerNode(mib) => mib,
            MemoryRequest::PerCpu(mib) if self.exclusive => mib,
            MemoryRequest::PerCpu(mib) => mib.saturating_mul(cpus),
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

/// Admission lets at most one way of asking through, apart from redundant ones.
fn gpu_ask(spec: &JobSpec) -> (GpuAsk, &str) {
    let given = |count: &'_ Option<GpuCount>| count.as_ref().map_or(0, |gpus| gpus.count);
    let model = [&spec.gpus_per_task, &spec.gpus_per_node, &spec.gpus_total]
        .into_iter()
        .flatten()
        .map(|gpus| gpus.model.as_str())
        .find(|model| !model.is_empty());
    let ask = match (
        given(&spec.gpus_per_task),
        given(&spec.gpus_per_node),
        given(&spec.gpus_total),
    ) {
        (0, 0, 0) => GpuAsk::No,
        (0, 0, total) => GpuAsk::Total(total),
        (0, per_node, _) => GpuAsk::PerNode(per_node),
        (per_task, _, _) => GpuAsk::PerTask(per_task),
    };
    (ask, model.unwrap_or_default())
}
