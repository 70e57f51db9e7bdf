//! What one node has left during a pass.

use super::ask::{Ask, GpuAsk, Need};
use crate::node::Node;
use crate::resources::{IdSet, MemoryRequest, NodeShare};
use std::borrow::Cow;

/// A node and what of it is free.
#[derive(Clone, Debug)]
pub(crate) struct Slot<'a> {
    pub(crate) node: &'a Node,
    /// Free CPUs, memory in MiB, GPUs.
    pub(crate) cpus: u32,
    pub(crate) memory: u64,
    pub(crate) gpus: u32,
    /// Nothing is held here.
    pub(crate) idle: bool,
    /// The model of all GPUs, if they are alike.
    model: Option<&'a str>,
    cpus_used: Cow<'a, IdSet>,
    gpus_used: Cow<'a, IdSet>,
}

impl<'a> Slot<'a> {
    /// The node as it is now.
    pub(crate) fn now(node: &'a Node) -> Self {
        let mut gpus_used = Cow::Borrowed(&node.gpus_used);
        if !node.gpus_sick.is_empty() {
            gpus_used.to_mut().union_with(&node.gpus_sick);
        }
        let all = gpu_count(node);
        Self {
            node,
            cpus: node.inventory.cpus.saturating_sub(node.cpus_used.len()),
            memory: node.inventory.memory_mib.saturating_sub(node.memory_used),
            gpus: all.saturating_sub(gpus_used.len()),
            idle: node.jobs.is_empty(),
            model: common_model(node),
            cpus_used: Cow::Borrowed(&node.cpus_used),
            gpus_used,
        }
    }

    /// The node as it would be if nothing ran and nothing were sick.
    pub(crate) fn empty(node: &'a Node) -> Self {
        Self {
            node,
            cpus: node.inventory.cpus,
            memory: node.inventory.memory_mib,
            gpus: gpu_count(node),
            idle: true,
            model: common_model(node),
            cpus_used: Cow::Owned(IdSet::new()),
            gpus_used: Cow::Owned(IdSet::new()),
        }
    }

    /// Free GPUs of a model (any, if empty).
    pub(crate) fn gpus_of(&self, model: &str) -> u32 {
        match self.model {
            _ if model.is_empty() => self.gpus,
            Some(common) if common == model => self.gpus,
            Some(_) => 0,
            None => u32::try_from(self.free_gpus(model).count()).unwrap_or(u32::MAX),
        }
    }

    /// Indices of free GPUs of a model (any, if empty), rising.
    pub(crate) fn free_gpus<'b>(&'b self, model: &'b str) -> impl Iterator<Item = u32> + 'b {
        let gpus = self.node.inventory.gpus.iter();
        let free = move |index: &u32| !self.gpus_used.contains(*index);
        gpus.filter(move |gpu| model.is_empty() || gpu.model == model)
            .map(|gpu| gpu.index)
            .filter(free)
    }

    /// Free CPU ids, rising.
    pub(crate) fn free_cpus(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.node.inventory.cpus).filter(|cpu| !self.cpus_used.contains(*cpu))
    }

    /// How many GPUs this ask could use here.
    pub(crate) fn gpu_room(&self, ask: &Ask<'_>) -> u32 {
        let free = self.gpus_of(ask.model);
        match ask.memory {
            MemoryRequest::PerGpu(mib) if mib > 0 => {
                free.min(u32::try_from(self.memory / mib).unwrap_or(u32::MAX))
            }
            MemoryRequest::PerGpu(_)
            | MemoryRequest::PerCpu(_)
            | MemoryRequest::PerNode(_)
            | MemoryRequest::Default => free,
        }
    }

    /// How many tasks of this ask fit here; 0: the node is of no use to it.
    pub(crate) fn task_room(&self, ask: &Ask<'_>) -> u32 {
        if (ask.exclusive && !self.idle) || !self.memory_fits(ask) {
            return 0;
        }
        let mut tasks = self.cpus / ask.cpus_per_task;
        if ask.tasks_per_node > 0 {
            tasks = tasks.min(ask.tasks_per_node);
        }
        match ask.gpus {
            GpuAsk::No | GpuAsk::PerTask(0) => {}
            GpuAsk::PerNode(count) if self.gpu_room(ask) < count => return 0,
            GpuAsk::Total(count) if count > 0 && self.gpu_room(ask) == 0 => return 0,
            GpuAsk::PerNode(_) | GpuAsk::Total(_) => {}
            GpuAsk::PerTask(count) => tasks = tasks.min(self.gpu_room(ask) / count),
        }
        match ask.memory {
            MemoryRequest::PerCpu(mib) if mib > 0 && !ask.exclusive => {
                let each = mib.saturating_mul(u64::from(ask.cpus_per_task));
                tasks.min(u32::try_from(self.memory / each).unwrap_or(u32::MAX))
            }
            MemoryRequest::PerCpu(_)
            | MemoryRequest::PerGpu(_)
            | MemoryRequest::PerNode(_)
            | MemoryRequest::Default => tasks,
        }
    }

    /// Whether the memory suffices that does not depend on the number of tasks. `--mem=0` wants all of the node's.
    fn memory_fits(&self, ask: &Ask<'_>) -> bool {
        match ask.memory {
            MemoryRequest::PerNode(0) => self.memory == self.node.inventory.memory_mib,
            MemoryRequest::PerNode(mib) => self.memory >= mib,
            MemoryRequest::PerCpu(mib) if ask.exclusive => self.memory >= mib,
            MemoryRequest::PerCpu(_) | MemoryRequest::PerGpu(_) | MemoryRequest::Default => true,
        }
    }

    /// Whether this part of the ask fits here.
    pub(crate) fn fits(&self, ask: &Ask<'_>, need: Need) -> bool {
        self.task_room(ask) >= need.tasks && (need.gpus == 0 || self.gpu_room(ask) >= need.gpus)
    }

    /// Takes a share out of what is free.
    pub(crate) fn take(&mut self, share: &NodeShare) {
        self.cpus_used.to_mut().union_with(&share.cpus);
        self.gpus_used.to_mut().union_with(&share.gpus);
        self.cpus = self.cpus.saturating_sub(share.cpus.len());
        self.gpus = self.gpus.saturating_sub(share.gpus.len());
        self.memory = self.memory.saturating_sub(share.memory_mib);
        self.idle = false;
    }
}

fn gpu_count(node: &Node) -> u32 {
    u32::try_from(node.inventory.gpus.len()).unwrap_or(u32::MAX)
}

/// The model of all GPUs; empty if there are none, `None` if they differ.
fn common_model(node: &Node) -> Option<&str> {
    let mut models = node.inventory.gpus.iter().map(|gpu| gpu.model.as_str());
    let first = models.next().unwrap_or_default();
    models.all(|model| model == first).then_some(first)
}
