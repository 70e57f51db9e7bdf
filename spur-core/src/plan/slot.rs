//! What one node has left, in a few words of memory, so that nodes that are alike can be told by comparing them.

use super::ask::{Ask, GpuAsk, Need};
use super::devices;
use super::shape::{DOMAINS, Mask, Shape, mask_of};
use crate::node::Node;
use crate::resources::{IdSet, MemoryRequest, NodeShare};

/// What is free on a node. Whatever decides whether a job fits, apart from the node's [`Shape`], is here: jobs are matched once
/// against all nodes of one shape that have the same free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Free {
    pub(crate) gpus: Mask,
    /// MiB.
    pub(crate) memory: u64,
    /// CPUs by NUMA domain.
    pub(crate) cpus: [u16; DOMAINS],
    /// Nothing is held here.
    pub(crate) idle: bool,
}

impl Free {
    /// All of a node.
    pub(crate) fn all(shape: &Shape) -> Self {
        Self {
            gpus: shape.all_gpus(),
            memory: shape.memory_mib,
            cpus: shape.cpus_without(&IdSet::new()),
            idle: true,
        }
    }

    /// A node as it is now.
    pub(crate) fn now(shape: &Shape, node: &Node) -> Self {
        let taken = mask_of(&node.gpus_used) | mask_of(&node.gpus_sick);
        Self {
            gpus: shape.all_gpus() & !shape.layout().closure(taken),
            memory: shape.memory_mib.saturating_sub(node.memory_used),
            cpus: shape.cpus_without(&node.cpus_used),
            idle: node.jobs.is_empty(),
        }
    }

    /// Takes a share out of what is free; all of it is.
    pub(crate) fn take(&mut self, shape: &Shape, share: &NodeShare) {
        self.gpus &= !shape.layout().closure(mask_of(&share.gpus));
        for (free, domain) in self.cpus.iter_mut().zip(shape.domains()) {
            let taken = u16::try_from(domain.common(&share.cpus)).unwrap_or(u16::MAX);
            *free = free.saturating_sub(taken);
        }
        self.memory = self.memory.saturating_sub(share.memory_mib);
        self.idle = false;
    }

    /// Free CPUs in all.
    pub(crate) fn all_cpus(&self) -> u32 {
        self.cpus.iter().map(|cpus| u32::from(*cpus)).sum()
    }
}

/// A node's shape and what of it is free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<'a> {
    pub(crate) shape: &'a Shape,
    pub(crate) free: Free,
    /// No more of its CPUs than this, whatever is free: what the partition may give of it.
    pub(crate) most: u32,
}

impl<'a> Slot<'a> {
    /// A node of that shape as it would be if nothing ran and nothing were sick.
    pub(crate) fn empty(shape: &'a Shape) -> Self {
        Self::of(shape, Free::all(shape))
    }

    /// A node of that shape of which so much is free.
    pub(crate) fn of(shape: &'a Shape, free: Free) -> Self {
        let most = u32::MAX;
        Self { shape, free, most }
    }

    /// The same with no more than so many CPUs, if that is bounded.
    pub(crate) fn at_most(self, cpus: Option<u32>) -> Self {
        let most = cpus.unwrap_or(u32::MAX);
        Self { most, ..self }
    }

    /// Free CPUs that a job may have.
    pub(crate) fn cpus(&self) -> u32 {
        self.free.all_cpus().min(self.most)
    }

    /// Free memory that a job with this ask may have, MiB.
    pub(super) fn memory(&self, ask: &Ask<'_>) -> u64 {
        match ask.memory_most {
            0 => self.free.memory,
            most => self.free.memory.min(most),
        }
    }

    /// Free GPUs of a model (any, if empty) that can all be held at once.
    pub(crate) fn free_gpus(&self, model: &str) -> Mask {
        let of_model = self.free.gpus & self.shape.gpus_of(model);
        self.shape.layout().apart(of_model)
    }

    /// How many GPUs this ask could use here.
    pub(crate) fn gpu_room(&self, ask: &Ask<'_>) -> u32 {
        let mut room = self.free_gpus(ask.model).count_ones();
        if room == 0 {
            return 0;
        }
        if let Some(by_cpus) = self.cpus().checked_div(ask.cpus_per_gpu) {
            room = room.min(by_cpus);
        }
        let each = match ask.memory {
            MemoryRequest::PerGpu(mib) => mib,
            MemoryRequest::PerCpu(mib) if !ask.exclusive => {
                mib.saturating_mul(u64::from(ask.cpus_per_gpu))
            }
            MemoryRequest::PerCpu(_) | MemoryRequest::PerNode(_) | MemoryRequest::Default => 0,
        };
        match self.memory(ask).checked_div(each) {
            Some(by_memory) => room.min(u32::try_from(by_memory).unwrap_or(u32::MAX)),
            None => room,
        }
    }

    /// How many tasks of this ask fit here; 0: the node is of no use to it.
    pub(crate) fn task_room(&self, ask: &Ask<'_>) -> u32 {
        let tasks = self.task_count(ask);
        if tasks == 0 || !ask.is_bound() {
            return tasks;
        }
        match ask.gpus {
            // More GPUs lie near more CPUs, so any number of them may be the one with which most tasks lie as they should.
            GpuAsk::Total(total) => {
                let with = 1..=self.gpu_room(ask).min(total);
                let with = with.map(|gpus| self.tasks_with(ask, gpus));
                with.max().unwrap_or(0)
            }
            GpuAsk::PerTask(_) => {
                let bound = |tasks: &u32| devices::are_bound(self, ask, ask.least_with(*tasks));
                (1..=tasks).rev().find(bound).unwrap_or(0)
            }
            GpuAsk::PerNode(gpus) => self.tasks_with(ask, gpus),
            GpuAsk::No => self.tasks_with(ask, 0),
        }
    }

    /// How many tasks of this ask fit here if the job gets so many GPUs.
    pub(crate) fn tasks_with(&self, ask: &Ask<'_>, gpus: u32) -> u32 {
        let tasks = self.task_count(ask);
        if tasks == 0 || !ask.is_bound() {
            return tasks;
        }
        // With the same GPUs, what holds some tasks holds fewer as well, so the border is found by halving.
        let (mut fits, mut fails) = (0, tasks.saturating_add(1));
        while fails - fits > 1 {
            let middle = fits + (fails - fits) / 2;
            let need = Need {
                tasks: middle,
                gpus,
            };
            if devices::are_bound(self, ask, need) {
                fits = middle;
            } else {
                fails = middle;
            }
        }
        fits
    }

    /// The same by counts alone.
    fn task_count(&self, ask: &Ask<'_>) -> u32 {
        let cpus = self.cpus();
        let out = (ask.exclusive && !(self.free.idle && self.shape.cpus <= self.most))
            || cpus < ask.mincpus
            || self.shape.sockets < ask.sockets
            || !self.memory_fits(ask);
        if out {
            return 0;
        }
        let mut tasks = cpus / ask.cpus_per_task;
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
                tasks.min(u32::try_from(self.memory(ask) / each).unwrap_or(u32::MAX))
            }
            MemoryRequest::PerCpu(_)
            | MemoryRequest::PerGpu(_)
            | MemoryRequest::PerNode(_)
            | MemoryRequest::Default => tasks,
        }
    }

    /// Whether the memory suffices that does not depend on the number of tasks. `--mem=0` wants all of the node's.
    fn memory_fits(&self, ask: &Ask<'_>) -> bool {
        let free = self.memory(ask);
        match ask.memory {
            MemoryRequest::PerNode(0) => self.free.memory == self.shape.memory_mib,
            MemoryRequest::PerNode(mib) => free >= mib,
            MemoryRequest::PerCpu(mib) if ask.exclusive => free >= mib,
            MemoryRequest::PerCpu(mib) => free >= mib.saturating_mul(u64::from(ask.mincpus)),
            MemoryRequest::PerGpu(_) | MemoryRequest::Default => true,
        }
    }

    /// Whether this part of the ask fits here. The cheapest test comes first: most nodes of a busy cluster fail it.
    pub(crate) fn fits(&self, ask: &Ask<'_>, need: Need) -> bool {
        self.free.gpus.count_ones() >= need.gpus
            && self.task_count(ask) >= need.tasks
            && (need.gpus == 0 || self.gpu_room(ask) >= need.gpus)
            && (!ask.is_bound() || devices::are_bound(self, ask, need))
    }
}
