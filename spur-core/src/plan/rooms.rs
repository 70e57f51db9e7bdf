//! All nodes during a pass, with an index by what is free, so that a job looks only at nodes that may fit.

use super::ask::{Ask, Need};
use super::devices::{self, Place};
use super::fit::{Part, Source};
use super::slot::Slot;
use super::topology::Fabric;
use crate::cluster::Cluster;
use crate::id::NodeId;
use crate::node::Node;
use crate::partition::Partition;
use crate::resources::{IdSet, NodeShare};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A set of slot positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    fn none(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    fn set(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }

    pub(super) fn clear(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word &= !(1 << (at % 64));
        }
    }

    pub(super) fn contains(&self, at: usize) -> bool {
        self.0
            .get(at / 64)
            .is_some_and(|word| word & (1 << (at % 64)) != 0)
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

/// Levels above this count are not told apart.
const GPU_LEVELS: usize = 65;
/// One level for each power of two.
const LOG_LEVELS: usize = 48;

/// Slots in node order (names compared as people read them), indexed by least free amount.
pub(crate) struct Rooms<'a> {
    pub(super) slots: Vec<Slot<'a>>,
    /// By position.
    nodes: Vec<&'a Node>,
    /// By position: the node's place among all nodes, and its weight; no weights if all have the same.
    ranks: Vec<usize>,
    weights: Vec<u32>,
    fabric: &'a Fabric,
    positions: BTreeMap<NodeId, usize>,
    /// Free CPU ids of nodes that were given something in this pass.
    cpus_left: BTreeMap<usize, IdSet>,
    gpus: Vec<Bits>,
    cpus: Vec<Bits>,
    memory: Vec<Bits>,
}

impl<'a> Rooms<'a> {
    /// All nodes that take jobs.
    pub(super) fn now(cluster: &'a Cluster) -> Self {
        let (mut slots, mut nodes, mut ranks) = (Vec::new(), Vec::new(), Vec::new());
        let all = cluster.fleet().nodes().zip(0..);
        for ((id, row, shape), rank) in all.filter(|((_, row, _), _)| row.takes) {
            if let Some(node) = cluster.nodes.get(&id) {
                nodes.push(node);
                ranks.push(rank);
                let free = row.free;
                slots.push(Slot { shape, free });
            }
        }
        let none = Bits::none(slots.len());
        let mut rooms = Self {
            positions: nodes.iter().map(|node| node.id).zip(0..).collect(),
            cpus_left: BTreeMap::new(),
            gpus: vec![none.clone(); GPU_LEVELS],
            cpus: vec![none.clone(); LOG_LEVELS],
            memory: vec![none; LOG_LEVELS],
            weights: weights(cluster, &nodes),
            fabric: cluster.fabric(),
            ranks,
            nodes,
            slots,
        };
        for at in 0..rooms.slots.len() {
            rooms.index(at);
        }
        rooms
    }

    /// The shares that the parts of a job become.
    pub(super) fn shares(&self, parts: &[Part], ask: &Ask<'_>) -> Vec<NodeShare> {
        let place = |part: &Part| {
            let (slot, node) = (self.slots.get(part.slot)?, self.nodes.get(part.slot)?);
            let cpus = match self.cpus_left.get(&part.slot) {
                Some(cpus) => Cow::Borrowed(cpus),
                None => Cow::Owned(free_cpus(node)),
            };
            let place = Place {
                node: node.id,
                slot: *slot,
                cpus,
            };
            Some((place, part.need))
        };
        let places: Vec<_> = parts.iter().filter_map(place).collect();
        devices::shares(&places, ask)
    }

    fn index(&mut self, at: usize) {
        let Some(slot) = self.slots.get(at) else {
            return;
        };
        let [gpus, cpus, memory] = levels(slot);
        set_up_to(&mut self.gpus, gpus, at);
        set_up_to(&mut self.cpus, cpus, at);
        set_up_to(&mut self.memory, memory, at);
    }

    /// Takes shares out of what is free.
    pub(super) fn take(&mut self, parts: &[Part], shares: &[NodeShare]) {
        for (part, share) in parts.iter().zip(shares) {
            let Some(slot) = self.slots.get_mut(part.slot) else {
                continue;
            };
            let before = levels(slot);
            let shape = slot.shape;
            slot.free.take(shape, share);
            let node = self.nodes.get(part.slot);
            let cpus = self.cpus_left.entry(part.slot);
            cpus.or_insert_with(|| node.map_or_else(IdSet::new, |node| free_cpus(node)))
                .subtract(&share.cpus);
            let after = levels(slot);
            let tables = [&mut self.gpus, &mut self.cpus, &mut self.memory];
            for (table, (before, after)) in tables.into_iter().zip(before.into_iter().zip(after)) {
                let lost = table.get_mut(after + 1..=before).unwrap_or_default();
                lost.iter_mut().for_each(|bits| bits.clear(part.slot));
            }
        }
    }

    /// The slots of a partition.
    pub(super) fn of_partition(&self, cluster: &Cluster, partition: &Partition) -> Bits {
        let mut bits = Bits::none(self.slots.len());
        match &partition.nodes {
            None => (0..self.slots.len()).for_each(|at| bits.set(at)),
            Some(names) => {
                let ids = names.iter().filter_map(|name| cluster.node_ids.get(name));
                ids.filter_map(|id| self.position(*id))
                    .for_each(|at| bits.set(at));
            }
        }
        bits
    }

    /// The position of a node that takes jobs.
    pub(super) fn position(&self, node: NodeId) -> Option<usize> {
        self.positions.get(&node).copied()
    }
}

/// What one job may choose from.
pub(crate) struct Choice<'r, 'a> {
    pub(super) rooms: &'r Rooms<'a>,
    pub(super) allowed: &'r Bits,
    pub(super) required: &'r [usize],
}

impl<'a> Source<'a> for Choice<'_, 'a> {
    fn candidates(&self, ask: &Ask<'_>, need: Need) -> impl Iterator<Item = usize> {
        let cpus = u64::from(need.tasks) * u64::from(ask.cpus_per_task);
        let gpus = level(&self.rooms.gpus, gpu_level(need.gpus));
        let cpus = level(&self.rooms.cpus, log_level(cpus));
        let memory = level(&self.rooms.memory, log_level(ask.memory_for(need)));
        let words = self.allowed.0.iter().zip(gpus).zip(cpus).zip(memory);
        words
            .zip(0..)
            .flat_map(|((((allowed, gpus), cpus), memory), word)| {
                ones(allowed & gpus & cpus & memory).map(move |bit| word * 64 + bit)
            })
    }

    fn slot(&self, position: usize) -> Slot<'a> {
        self.rooms.slots[position]
    }

    fn required(&self) -> &[usize] {
        self.required
    }

    fn fabric(&self) -> Option<&Fabric> {
        let fabric = self.rooms.fabric;
        fabric.matters().then_some(fabric)
    }

    fn leaf(&self, position: usize) -> Option<usize> {
        let node = self.rooms.nodes.get(position)?;
        self.rooms.fabric.leaf(node.id)
    }

    fn rank(&self, position: usize) -> usize {
        self.rooms.ranks.get(position).copied().unwrap_or(position)
    }

    fn weight(&self, position: usize) -> u32 {
        self.rooms.weights.get(position).copied().unwrap_or(1)
    }
}

/// The weights of nodes; none if all have the same.
fn weights(cluster: &Cluster, nodes: &[&Node]) -> Vec<u32> {
    let mut configured = cluster.node_config.values().map(|config| config.weight);
    if configured.all(|weight| weight == 1) {
        return Vec::new();
    }
    nodes.iter().map(|node| cluster.weight(node)).collect()
}

fn free_cpus(node: &Node) -> IdSet {
    let mut cpus = IdSet::first(node.inventory.cpus);
    cpus.subtract(&node.cpus_used);
    cpus
}

/// The highest levels that a slot reaches.
fn levels(slot: &Slot<'_>) -> [usize; 3] {
    let (cpus, memory) = (u64::from(slot.cpus()), slot.free.memory);
    [gpu_level(slot.gpus()), log_level(cpus), log_level(memory)]
}

fn set_up_to(table: &mut [Bits], level: usize, at: usize) {
    table
        .iter_mut()
        .take(level + 1)
        .for_each(|bits| bits.set(at));
}

fn level(index: &[Bits], level: usize) -> &[u64] {
    index
        .get(level)
        .map(|bits| bits.0.as_slice())
        .unwrap_or_default()
}

fn ones(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(bit)
    })
}

fn gpu_level(count: u32) -> usize {
    (count as usize).min(GPU_LEVELS - 1)
}

/// 0 for nothing, else one more than the logarithm: a slot that has `x` reaches every level of `y <= x`.
fn log_level(amount: u64) -> usize {
    amount
        .checked_ilog2()
        .map_or(0, |log| log as usize + 1)
        .min(LOG_LEVELS - 1)
}

/// Compares names as people read them: `n9` before `n10`.
pub fn natural(a: &str, b: &str) -> std::cmp::Ordering {
    let split = |name: &str| {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        name.len() - digits
    };
    let (at_a, at_b) = (split(a), split(b));
    let number =
        |name: &str, at: usize| name.get(at..).and_then(|digits| digits.parse::<u64>().ok());
    (a.get(..at_a), number(a, at_a), a).cmp(&(b.get(..at_b), number(b, at_b), b))
}
