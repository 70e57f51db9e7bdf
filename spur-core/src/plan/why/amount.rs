//! How much a job wants on a node, and how much a node has of that.

use crate::node::Node;
use crate::partition::Partition;
use crate::plan::ask::{Ask, GpuAsk};
use crate::resources::{IdSet, MemoryRequest, NodeShare};

/// GPUs (of one model, or of any), CPUs, MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) gpus: u32,
    pub(super) cpus: u32,
    pub(super) memory: u64,
    /// CPUs that the partition's jobs may have of it together; `None`: as many as there are.
    pub(super) allowed: Option<u32>,
}

/// What there is too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    Gpus,
    Cpus,
    /// The partition gives no more of them there.
    Allowed,
    Memory,
}

impl Amount {
    /// All that a node has.
    pub(super) fn whole(node: &Node, model: &str) -> Self {
        Self::without(node, model, &IdSet::new(), &IdSet::new(), 0)
    }

    /// All of it that is in order.
    pub(super) fn well(node: &Node, model: &str) -> Self {
        Self::without(node, model, &node.gpus_sick, &IdSet::new(), 0)
    }

    /// What of it nobody holds.
    pub(super) fn free(node: &Node, model: &str) -> Self {
        let mut gone = node.gpus_sick.clone();
        gone.union_with(&node.gpus_used);
        Self::without(node, model, &gone, &node.cpus_used, node.memory_used)
    }

    fn without(node: &Node, model: &str, gpus: &IdSet, cpus: &IdSet, memory: u64) -> Self {
        let all: IdSet = node.inventory.gpus.iter().map(|gpu| gpu.index).collect();
        Self {
            gpus: of_model(node, model, &all, gpus),
            cpus: node.inventory.cpus.saturating_sub(cpus.len()),
            memory: node.inventory.memory_mib.saturating_sub(memory),
            allowed: None,
        }
    }

    /// What of a share a job that wants this model can use.
    pub(super) fn of_share(node: &Node, model: &str, share: &NodeShare) -> Self {
        Self {
            gpus: of_model(node, model, &share.gpus, &node.gpus_sick),
            cpus: share.cpus.len(),
            memory: share.memory_mib,
            allowed: None,
        }
    }

    /// The same where the partition may give so many CPUs more.
    pub(super) fn capped(self, allowed: Option<u32>) -> Self {
        Self { allowed, ..self }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.gpus = self.gpus.saturating_add(other.gpus);
        self.cpus = self.cpus.saturating_add(other.cpus);
        self.memory = self.memory.saturating_add(other.memory);
        let allowed = self.allowed.zip(other.allowed);
        self.allowed = allowed
            .map(|(mine, more)| mine.saturating_add(more))
            .or(self.allowed);
    }
}

/// How many of these GPUs, without those, are of a model (any, if empty).
fn of_model(node: &Node, model: &str, among: &IdSet, without: &IdSet) -> u32 {
    let gpus = among.iter().filter(|index| !without.contains(*index));
    let fits = |index: &u32| {
        model.is_empty()
            || node
                .inventory
                .gpus
                .get(*index as usize)
                .is_some_and(|gpu| gpu.model == model)
    };
    u32::try_from(gpus.filter(fits).count()).unwrap_or(u32::MAX)
}

/// What a job wants on each node: all of it where its nodes are given, else the least that makes a node of use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want<'a> {
    pub(super) each: Amount,
    pub(super) model: &'a str,
    pub(super) nodes_min: u32,
    pub(super) exclusive: bool,
    /// The job takes unequal parts of several nodes, so that no single one decides.
    pub(super) spreads: bool,
    all_memory: bool,
    /// Most CPUs of a node that the partition's jobs have together, and its name.
    pub(super) cap: Option<(u32, &'a str)>,
}

impl<'a> Want<'a> {
    pub(super) fn of(ask: &Ask<'a>, partition: Option<&'a Partition>) -> Self {
        let cap = partition.and_then(|partition| {
            let most = partition.cpus_of_a_node()?;
            Some((most, partition.name.as_str()))
        });
        let spreads = ask.nodes_max > ask.nodes_min;
        let need = if spreads {
            ask.least_part()
        } else {
            ask.even_part(ask.nodes_min)
        };
        let each = Amount {
            gpus: need.gpus,
            cpus: ask.cpus_for(need),
            memory: ask.memory_for(need),
            allowed: None,
        };
        Self {
            each,
            model: ask.model,
            nodes_min: ask.nodes_min,
            exclusive: ask.exclusive,
            spreads,
            all_memory: ask.memory == MemoryRequest::PerNode(0),
            cap,
        }
    }

    /// The first thing of which this is too little.
    pub(super) fn lacks(&self, amount: &Amount) -> Option<Lack> {
        if amount.gpus < self.each.gpus {
            return Some(Lack::Gpus);
        }
        if amount.cpus < self.each.cpus {
            return Some(Lack::Cpus);
        }
        if amount.allowed.is_some_and(|most| most < self.each.cpus) {
            return Some(Lack::Allowed);
        }
        (amount.memory < self.each.memory).then_some(Lack::Memory)
    }

    /// GPUs in words: `4 h200`.
    pub(super) fn gpus(&self, count: u32) -> String {
        gpus(self.model, count)
    }

    /// What a node has, where that is too little: `has 2 h200`.
    pub(super) fn has(&self, amount: &Amount, lack: Lack) -> String {
        match lack {
            Lack::Gpus if amount.gpus == 0 => match self.model {
                "" => "has no GPU".to_owned(),
                model => format!("has no {model}"),
            },
            Lack::Gpus => format!("has {}", self.gpus(amount.gpus)),
            Lack::Cpus => format!("has {}", cpus(amount.cpus.into())),
            Lack::Allowed => match self.cap {
                Some((most, name)) => {
                    format!("partition {name} gives at most {} of it", cpus(most.into()))
                }
                None => String::new(),
            },
            Lack::Memory => format!("has {}", memory(amount.memory)),
        }
    }

    /// What is free of all that a node has, where that is too little: `2 of 8 h200 free`.
    pub(super) fn free(&self, free: &Amount, whole: &Amount, lack: Lack) -> String {
        match lack {
            Lack::Gpus => format!("{} of {} free", free.gpus, self.gpus(whole.gpus)),
            Lack::Cpus => format!("{} of {} free", free.cpus, cpus(whole.cpus.into())),
            Lack::Allowed => match self.cap {
                Some((most, name)) => format!(
                    "{} left of the {} that partition {name} gives there",
                    free.allowed.unwrap_or(0),
                    cpus(most.into())
                ),
                None => String::new(),
            },
            Lack::Memory => format!("{} of {} free", memory(free.memory), memory(whole.memory)),
        }
    }

    /// Everything of which this is too little.
    pub(super) fn lacking(&self, amount: &Amount) -> Lacking {
        Lacking {
            gpus: amount.gpus < self.each.gpus,
            cpus: amount.allowed.unwrap_or(amount.cpus).min(amount.cpus) < self.each.cpus,
            memory: amount.memory < self.each.memory,
        }
    }

    /// What of an amount helps a job that lacks so much. If amounts are not what it lacks: the GPUs, else the CPUs.
    pub(super) fn gives(&self, amount: &Amount, lacking: Lacking) -> Option<String> {
        let mut parts = Vec::new();
        if lacking.gpus && amount.gpus > 0 {
            parts.push(self.gpus(amount.gpus));
        }
        if lacking.cpus && amount.cpus > 0 && amount.allowed != Some(0) {
            parts.push(cpus(amount.cpus.into()));
        }
        if lacking.memory && amount.memory > 0 {
            parts.push(memory(amount.memory));
        }
        if parts.is_empty() && (self.exclusive || lacking == Lacking::default()) {
            parts.push(match amount.gpus {
                0 => cpus(amount.cpus.into()),
                count => self.gpus(count),
            });
        }
        (!parts.is_empty()).then(|| listed(&parts))
    }

    /// The whole need: `4 h200, 32 CPUs and 64 GiB on one node`.
    pub(super) fn text(&self, ask: &Ask<'_>) -> String {
        if self.spreads {
            return spread_text(ask);
        }
        let mut parts = Vec::new();
        if self.each.gpus > 0 {
            parts.push(self.gpus(self.each.gpus));
        }
        if self.exclusive {
            return self.whole_text(&parts);
        }
        if self.each.gpus == 0 || self.each.cpus > 1 {
            parts.push(cpus(self.each.cpus.into()));
        }
        if self.all_memory {
            parts.push("all memory".to_owned());
        } else if self.each.memory > 0 {
            parts.push(memory(self.each.memory));
        }
        let where_to = match self.nodes_min {
            1 => "one node".to_owned(),
            nodes => format!("each of {nodes} nodes"),
        };
        format!("{} on {where_to}", listed(&parts))
    }

    /// The need of a job that shares its nodes with no other.
    fn whole_text(&self, parts: &[String]) -> String {
        let with = match parts {
            [] => String::new(),
            parts if self.nodes_min == 1 => format!(" with {}", listed(parts)),
            parts => format!(" with {} each", listed(parts)),
        };
        match self.nodes_min {
            1 => format!("a whole node{with}"),
            nodes => format!("{nodes} whole nodes{with}"),
        }
    }
}

/// What there is too little of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lacking {
    gpus: bool,
    cpus: bool,
    memory: bool,
}

/// The need of a job that takes unequal parts.
fn spread_text(ask: &Ask<'_>) -> String {
    let tasks = ask.tasks_on(ask.nodes_min);
    let mut parts = Vec::new();
    match ask.gpus {
        GpuAsk::No => {}
        GpuAsk::Total(count) => parts.push(gpus(ask.model, count)),
        GpuAsk::PerNode(count) => parts.push(format!("{} a node", gpus(ask.model, count))),
        GpuAsk::PerTask(count) => parts.push(gpus(ask.model, count.saturating_mul(tasks))),
    }
    if ask.gpus == GpuAsk::No || ask.cpus_per_task > 1 || tasks > 1 {
        parts.push(cpus(u64::from(tasks) * u64::from(ask.cpus_per_task)));
    }
    let nodes = match (ask.nodes_min, ask.nodes_max) {
        (least, u32::MAX) => format!("{least} or more nodes"),
        (least, most) => format!("{least} to {most} nodes"),
    };
    format!("{} on {nodes}", listed(&parts))
}

fn gpus(model: &str, count: u32) -> String {
    match (model, count) {
        ("", 1) => "1 GPU".to_owned(),
        ("", count) => format!("{count} GPUs"),
        (model, count) => format!("{count} {model}"),
    }
}

fn cpus(count: u64) -> String {
    format!("{count} CPU{}", if count == 1 { "" } else { "s" })
}

fn memory(mib: u64) -> String {
    match mib {
        0 => "no memory".to_owned(),
        mib if mib % 1024 == 0 => format!("{} GiB", mib / 1024),
        mib => format!("{mib} MiB"),
    }
}

/// `a, b and c`.
pub(super) fn listed<T: AsRef<str>>(parts: &[T]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.as_ref().to_owned(),
        [most @ .., last] => {
            let most: Vec<&str> = most.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", most.join(", "), last.as_ref())
        }
    }
}
