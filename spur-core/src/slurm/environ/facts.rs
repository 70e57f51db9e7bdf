//! What the environment tells of a job, taken from an agent's order or from a client's view.

use crate::agent::order::{AllocatedNode, JobOrder};
use crate::api::JobView;
use crate::id::JobId;
use crate::job::array::ArrayTask;
use crate::job::spec::Owner;
use crate::resources::MemoryRequest;
use crate::slurm::hostlist;
use crate::time::{Millis, TimeLimit};

/// How long a job without a limit is said to last, as in Slurm: a year.
const NO_LIMIT_SECS: u64 = 365 * 86_400;

/// See the module.
pub(super) struct Facts<'a> {
    pub(super) id: JobId,
    pub(super) cluster: &'a str,
    pub(super) owner: &'a Owner,
    pub(super) name: &'a str,
    pub(super) account: &'a str,
    pub(super) partition: &'a str,
    pub(super) qos: &'a str,
    pub(super) nodes: &'a [AllocatedNode],
    pub(super) tasks: u32,
    pub(super) tasks_set: bool,
    pub(super) tasks_per_node: u32,
    pub(super) cpus_per_task: u32,
    pub(super) cpus_per_task_set: bool,
    pub(super) mem_per_cpu: Option<u64>,
    pub(super) mem_per_node: Option<u64>,
    pub(super) work_dir: &'a str,
    pub(super) submit_host: &'a str,
    pub(super) started: Millis,
    pub(super) time_limit: TimeLimit,
    pub(super) restarts: u32,
    pub(super) licenses: &'a str,
    pub(super) array: Option<ArrayTask>,
    /// Variables that describe all components of a heterogeneous job.
    pub(super) components: &'a [String],
}

impl<'a> From<&'a JobOrder> for Facts<'a> {
    fn from(order: &'a JobOrder) -> Self {
        Self {
            id: order.het.as_ref().map_or(order.job, |het| het.leader),
            cluster: &order.cluster,
            owner: &order.owner,
            name: &order.name,
            account: &order.account,
            partition: &order.partition,
            qos: &order.qos,
            nodes: &order.nodes,
            tasks: order.tasks,
            tasks_set: order.tasks_set,
            tasks_per_node: order.tasks_per_node,
            cpus_per_task: order.cpus_per_task,
            cpus_per_task_set: order.cpus_per_task_set,
            mem_per_cpu: order.mem_per_cpu,
            mem_per_node: order.mem_per_node,
            work_dir: &order.work_dir,
            submit_host: &order.submit_host,
            started: order.started,
            time_limit: order.time_limit,
            restarts: order.restarts,
            licenses: &order.licenses,
            array: order.array,
            components: order.het.as_ref().map_or(&[], |het| &het.variables),
        }
    }
}

impl<'a> Facts<'a> {
    pub(super) fn of_view(view: &'a JobView, cluster: &'a str) -> Self {
        let spec = &view.spec;
        let (mem_per_cpu, mem_per_node) = match spec.memory {
            MemoryRequest::PerCpu(mib) => (Some(mib), None),
            MemoryRequest::PerNode(mib) => (None, Some(mib)),
            MemoryRequest::Default | MemoryRequest::PerGpu(_) => (None, None),
        };
        Self {
            id: view.id,
            cluster,
            owner: &spec.owner,
            name: &spec.name,
            account: &spec.account,
            partition: &spec.partition,
            qos: &spec.qos,
            nodes: &view.nodes,
            tasks: spec.tasks,
            tasks_set: spec.tasks_set,
            tasks_per_node: spec.tasks_per_node,
            cpus_per_task: spec.cpus_per_task,
            cpus_per_task_set: spec.cpus_per_task_set,
            mem_per_cpu,
            mem_per_node,
            work_dir: &spec.work_dir,
            submit_host: &spec.submit_host,
            started: view.started.unwrap_or(view.submitted),
            time_limit: spec.time_limit.unwrap_or(TimeLimit::Unlimited),
            restarts: view.restarts,
            licenses: &spec.extras().licenses,
            // Allocations are no arrays.
            array: None,
            components: &[],
        }
    }

    pub(super) fn nodelist(&self) -> String {
        let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        hostlist::compress(&names)
    }

    pub(super) fn cpus(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().map(|node| node.share.cpus.len())
    }

    /// Tasks on each node. Where there are more than have CPUs (`--overcommit`), they are spread evenly.
    pub(super) fn tasks_here(&self) -> impl Iterator<Item = u32> {
        let placed: u32 = self.nodes.iter().map(|node| node.share.tasks).sum();
        let nodes = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX).max(1);
        let even = (self.tasks_set && self.tasks > placed)
            .then_some((self.tasks / nodes, self.tasks % nodes));
        let each = self.nodes.iter().zip(0..);
        each.map(move |(node, at)| match even {
            Some((whole, more)) => whole + u32::from(at < more),
            None => node.share.tasks,
        })
    }

    /// When it must end, in seconds since the epoch.
    pub(super) fn end_secs(&self) -> u64 {
        let span = match self.time_limit {
            TimeLimit::Secs(secs) => secs,
            TimeLimit::Unlimited => NO_LIMIT_SECS,
        };
        self.started.secs().saturating_add(span)
    }
}
