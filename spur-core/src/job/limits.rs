//! Limits of partitions. As in Slurm without `EnforcePartLimits`, a job above most of them is taken and waits, with a reason
//! that says which; what can be met by asking for a little more is filled in by admission.

use super::spec::JobSpec;
use super::state::Reason;
use crate::partition::Partition;
use crate::resources::{GpuCount, MemoryRequest};

/// The longest that a job waits for few switches, in seconds: Slurm's `max_switch_wait`.
pub const SWITCH_WAIT_MAX: u64 = 300;

/// What of an admitted request may be above a partition's limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    /// Fewest nodes.
    nodes_min: u32,
    /// Most nodes: by `-N`, or by the number of tasks.
    nodes_max: u32,
    /// MiB that a node of the job has at least; 0 if that depends on the node.
    memory: u64,
}

impl Size {
    /// Of a request.
    #[must_use]
    pub fn of(spec: &JobSpec) -> Self {
        Self {
            nodes_min: spec.nodes_min,
            nodes_max: spec.nodes_max,
            memory: memory_on_a_node(spec),
        }
    }

    /// The limit of the partition that keeps the job waiting for as long as both stay as they are, and a sentence.
    #[must_use]
    pub fn above(&self, partition: &Partition) -> Option<(Reason, String)> {
        let (name, memory) = (&partition.name, self.memory);
        let (fewest, most) = (partition.min_nodes, partition.max_nodes);
        if most > 0 && self.nodes_min > most {
            let asked = self.nodes_min;
            let text = format!(
                "it asks for {asked} nodes, and partition {name} gives a job at most {most}"
            );
            return Some((Reason::PartitionNodeLimit, text));
        }
        let asked = self.nodes_max;
        if asked < fewest {
            let text = format!(
                "it asks for at most {asked} nodes, and partition {name} gives a job at least {fewest}"
            );
            return Some((Reason::PartitionNodeLimit, text));
        }
        let most = partition.max_mem_per_node;
        if most > 0 && memory > most {
            let text = format!(
                "it asks for {memory} MiB on a node, and partition {name} gives a job at most {most}"
            );
            return Some((Reason::MaxMemPerLimit, text));
        }
        None
    }
}

/// CPUs that a node of the job has at least.
#[must_use]
pub fn cpus_on_a_node(spec: &JobSpec) -> u32 {
    let fewest = match spec.nodes_max {
        0 => 1,
        nodes => spec.tasks.div_ceil(nodes).max(1),
    };
    let tasks = if spec.overcommits() {
        1
    } else {
        fewest.max(spec.tasks_per_node.min(spec.tasks.max(1)))
    };
    let gpus = spec.gpus_per_node.as_ref().map_or(0, |gpus| gpus.count);
    tasks
        .saturating_mul(spec.cpus_per_task.max(1))
        .max(spec.mincpus)
        .max(gpus.saturating_mul(spec.cpus_per_gpu))
}

/// Memory in MiB that a node of the job has at least; 0 if that depends on the node.
fn memory_on_a_node(spec: &JobSpec) -> u64 {
    match spec.memory {
        MemoryRequest::Default => 0,
        MemoryRequest::PerNode(mib) => mib,
        MemoryRequest::PerCpu(mib) => mib.saturating_mul(u64::from(cpus_on_a_node(spec))),
        MemoryRequest::PerGpu(mib) => {
            let count = |gpus: &Option<GpuCount>| gpus.as_ref().map_or(0, |gpus| gpus.count);
            let least = count(&spec.gpus_per_node).max(count(&spec.gpus_per_task));
            mib.saturating_mul(u64::from(least.max(1)))
        }
    }
}

/// Fills in the partition's defaults for GPUs, and raises what a request may raise to keep within the limits: nodes to the
/// least that the partition gives, CPUs to what the memory needs at so much for each.
pub(super) fn apply(partition: &Partition, spec: &mut JobSpec) {
    if let Some(switches) = &mut spec.switches {
        let wait = switches.max_wait_secs.unwrap_or(SWITCH_WAIT_MAX);
        switches.max_wait_secs = Some(wait.min(SWITCH_WAIT_MAX));
    }
    raise_nodes(partition.min_nodes, spec);
    let (most, node) = (partition.max_mem_per_cpu, partition.max_mem_per_node);
    match spec.memory {
        MemoryRequest::PerCpu(mib) if most > 0 && mib > most => {
            let times = mib.div_ceil(most);
            let factor = u32::try_from(times).unwrap_or(u32::MAX);
            spec.cpus_per_task = spec.cpus_per_task.saturating_mul(factor);
            spec.memory = MemoryRequest::PerCpu(mib.div_ceil(times));
        }
        MemoryRequest::PerNode(mib) if most > 0 && mib > most => {
            let cpus = u32::try_from(mib.div_ceil(most)).unwrap_or(u32::MAX);
            let tasks = match spec.tasks_per_node {
                0 => spec.tasks.div_ceil(spec.nodes_min.max(1)).max(1),
                tasks => tasks,
            };
            spec.mincpus = spec.mincpus.max(cpus);
            spec.cpus_per_task = spec.cpus_per_task.max(cpus.div_ceil(tasks));
        }
        // All of a node's memory is what the partition gives of it.
        MemoryRequest::PerNode(0) if node > 0 => spec.memory = MemoryRequest::PerNode(node),
        MemoryRequest::PerNode(_)
        | MemoryRequest::PerCpu(_)
        | MemoryRequest::PerGpu(_)
        | MemoryRequest::Default => {}
    }
}

/// A job that may have more nodes gets the least that the partition gives; one without a number of tasks, a task on each.
fn raise_nodes(least: u32, spec: &mut JobSpec) {
    if spec.nodes_min >= least {
        return;
    }
    if !spec.nodes_set && !spec.tasks_set {
        spec.nodes_max = spec.nodes_max.max(least);
    }
    if spec.nodes_max < least {
        return;
    }
    spec.nodes_min = least;
    if !spec.tasks_set {
        spec.tasks = least.saturating_mul(spec.tasks_per_node.max(1));
    }
}

/// Memory and CPUs for each GPU, where the partition has defaults and the job says nothing.
pub(super) fn gpu_defaults(partition: &Partition, spec: &mut JobSpec) {
    let asked = [
        &spec.gpus_total,
        &spec.gpus_per_node,
        &spec.gpus_per_socket,
        &spec.gpus_per_task,
    ];
    let gpus = asked.into_iter().flatten().any(|gpus| gpus.count > 0) || spec.tasks_per_gpu > 0;
    if !gpus {
        return;
    }
    if spec.cpus_per_gpu == 0 && !spec.cpus_per_task_set {
        spec.cpus_per_gpu = partition.def_cpu_per_gpu;
    }
    if spec.memory == MemoryRequest::Default && partition.def_mem_per_gpu > 0 {
        spec.memory = MemoryRequest::PerGpu(partition.def_mem_per_gpu);
    }
}

#[cfg(test)]
mod tests;
