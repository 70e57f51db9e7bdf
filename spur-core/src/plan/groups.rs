//! Nodes that are alike, told from one another by nothing that decides where a job goes: a job is matched against each group once,
//! however many nodes are in it. Groups are found by what they have free, tightest first.

use super::shape::Shape;
use super::slot::{Free, Slot};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Nodes that are alike.
#[derive(Clone, Debug)]
pub(super) struct Group<'a> {
    pub(super) slot: Slot<'a>,
    /// Weight of its nodes; lower ones are used first.
    pub(super) weight: u32,
    /// Partitions of its nodes.
    pub(super) partitions: u128,
    family: usize,
    /// Positions of its nodes, rising; may be empty.
    pub(super) nodes: VecDeque<u32>,
}

/// Groups of one weight with GPUs of the same models.
#[derive(Debug)]
pub(super) struct Family<'a> {
    /// Weight of its nodes; lower ones are used first.
    pub(super) weight: u32,
    /// One of its shapes.
    pub(super) shape: &'a Shape,
    /// By free GPUs: free CPUs and number of groups that have nodes.
    by_gpus: Vec<BTreeSet<(u32, u32)>>,
}

impl Family<'_> {
    /// Groups that have so many free GPUs and at least so many free CPUs, those with the fewest CPUs first.
    pub(super) fn with(&self, gpus: usize, cpus: u32) -> impl Iterator<Item = u32> {
        let set = self.by_gpus.get(gpus).into_iter();
        set.flat_map(move |set| set.range((cpus, 0)..).map(|(_, group)| *group))
    }

    /// The most free GPUs of any group, plus one.
    pub(super) fn gpus_end(&self) -> usize {
        self.by_gpus.len()
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Groups<'a> {
    all: Vec<Group<'a>>,
    /// By weight.
    families: Vec<Family<'a>>,
    /// Families of shapes and weights; only looked up.
    kinds: BTreeMap<(u32, usize), usize>,
    /// Numbers of groups plus one, by hash; 0 is free. The length is a power of two and more than twice that of `all`.
    table: Vec<u32>,
    /// Group of each position, if it is in one.
    of: Vec<Option<u32>>,
}

impl<'a> Groups<'a> {
    /// Without nodes, for positions below a bound, of these shapes and weights.
    pub(super) fn none(positions: usize, kinds: impl Iterator<Item = (&'a Shape, u32)>) -> Self {
        let mut groups = Self {
            table: vec![0; (positions * 4).next_power_of_two().max(64)],
            of: vec![None; positions],
            ..Self::default()
        };
        let mut seen: Vec<(u32, &'a Shape)> = Vec::new();
        let mut known = BTreeSet::new();
        for (shape, weight) in kinds {
            if known.insert(kind(shape, weight)) {
                seen.push((weight, shape));
            }
        }
        seen.sort_by_key(|(weight, _)| *weight);
        for (weight, shape) in seen {
            groups.see(shape, weight);
        }
        groups
    }

    fn see(&mut self, shape: &'a Shape, weight: u32) {
        let mut families = self.families.iter();
        let known = families
            .position(|family| family.weight == weight && family.shape.models().eq(shape.models()));
        let family = known.unwrap_or_else(|| {
            self.families.push(Family {
                weight,
                shape,
                by_gpus: Vec::new(),
            });
            self.families.len() - 1
        });
        self.kinds.insert(kind(shape, weight), family);
    }

    /// All families, those of lower weight first.
    pub(super) fn families(&self) -> &[Family<'a>] {
        &self.families
    }

    /// A group by its number.
    pub(super) fn get(&self, group: u32) -> Option<&Group<'a>> {
        self.all.get(group as usize)
    }

    /// Puts a node that is in no group into the one that it belongs to.
    pub(super) fn join(&mut self, position: u32, kind: (u32, u128), slot: Slot<'a>) {
        let number = self.find(kind, slot);
        if let Some(of) = self.of.get_mut(position as usize) {
            *of = Some(number);
        }
        let Some(group) = self.all.get_mut(number as usize) else {
            return;
        };
        match group.nodes.back() {
            Some(last) if *last > position => {
                let at = group.nodes.partition_point(|other| *other < position);
                group.nodes.insert(at, position);
            }
            Some(_) | None => group.nodes.push_back(position),
        }
        if group.nodes.len() == 1
            && let Some(family) = self.families.get_mut(group.family)
        {
            let gpus = slot.free.gpus.count_ones() as usize;
            if family.by_gpus.len() <= gpus {
                family.by_gpus.resize_with(gpus + 1, BTreeSet::new);
            }
            if let Some(set) = family.by_gpus.get_mut(gpus) {
                set.insert((slot.cpus(), number));
            }
        }
    }

    /// Takes a node out of its group.
    pub(super) fn leave(&mut self, position: u32) {
        let group = self.of.get_mut(position as usize).and_then(Option::take);
        let Some((number, group)) = group.and_then(|at| Some((at, self.all.get_mut(at as usize)?)))
        else {
            return;
        };
        if let Ok(at) = group.nodes.binary_search(&position) {
            group.nodes.remove(at);
        }
        if group.nodes.is_empty()
            && let Some(family) = self.families.get_mut(group.family)
        {
            let gpus = group.slot.free.gpus.count_ones() as usize;
            if let Some(set) = family.by_gpus.get_mut(gpus) {
                set.remove(&(group.slot.cpus(), number));
            }
        }
    }

    fn find(&mut self, (weight, partitions): (u32, u128), slot: Slot<'a>) -> u32 {
        let mut at = hash(&slot.free) & (self.table.len() - 1);
        while let Some(known) = self.table.get(at).copied().and_then(|id| id.checked_sub(1)) {
            let same = self.all.get(known as usize).is_some_and(|group| {
                group.slot.free == slot.free
                    && std::ptr::eq(group.slot.shape, slot.shape)
                    && group.weight == weight
                    && group.partitions == partitions
            });
            if same {
                return known;
            }
            at = (at + 1) & (self.table.len() - 1);
        }
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let family = self.kinds.get(&kind(slot.shape, weight)).copied();
        self.all.push(Group {
            slot,
            weight,
            partitions,
            family: family.unwrap_or(0),
            nodes: VecDeque::new(),
        });
        if let Some(entry) = self.table.get_mut(at) {
            *entry = number.saturating_add(1);
        }
        if self.all.len() * 2 > self.table.len() {
            self.grow();
        }
        number
    }

    fn grow(&mut self) {
        let mut table = vec![0; self.table.len() * 2];
        for (group, number) in self.all.iter().zip(1u32..) {
            let mut at = hash(&group.slot.free) & (table.len() - 1);
            while table.get(at).is_some_and(|entry| *entry != 0) {
                at = (at + 1) & (table.len() - 1);
            }
            if let Some(entry) = table.get_mut(at) {
                *entry = number;
            }
        }
        self.table = table;
    }
}

/// A shape, which is kept once, and a weight, to look up by.
fn kind(shape: &Shape, weight: u32) -> (u32, usize) {
    (weight, std::ptr::from_ref(shape).addr())
}

/// Spreads what is free over a table. Where things lie in the table decides nothing.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a hash may lose its high bits"
)]
fn hash(free: &Free) -> usize {
    let gpus = (free.gpus as u64) ^ ((free.gpus >> 64) as u64).rotate_left(17);
    let mut hash = gpus.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ free.memory;
    for cpus in free.cpus {
        hash = hash.rotate_left(7).wrapping_mul(0xff51_afd7_ed55_8ccd) ^ u64::from(cpus);
    }
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(free.idle);
    (hash ^ (hash >> 29)) as usize
}
