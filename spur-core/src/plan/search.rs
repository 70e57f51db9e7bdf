//! Where a job can start now: nodes in order of preference, found without looking at every node.
//!
//! Only the tightest groups that fit are scored, up to [`WINDOW`] of them: what leaves the least behind is nearly always among
//! them, and the score is what costs.

use super::ask::{Ask, Need};
use super::bits::Bits;
use super::caps::Cap;
use super::devices;
use super::fit::Source;
use super::frag::{self, Models, Scorer, State};
use super::layout::Closeness;
use super::rooms::Rooms;
use super::slot::Slot;
use super::topology::Fabric;
use crate::cluster::Cluster;
use crate::time::Millis;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Groups of equal nodes that are scored for a part, of all that fit.
const WINDOW: usize = 48;

/// How good a place is; lower is better: the node's weight, how close its GPUs are to one another, what the placement leaves useless,
/// and what the node's other GPUs lose of their links to one another.
pub(super) type Score = (u32, Closeness, i64, u64);

/// Scores places in this pass.
pub(super) struct Judge {
    models: Models,
    scorer: Scorer,
}

impl Judge {
    /// By what jobs ask for in this cluster.
    pub(super) fn of(cluster: &Cluster, rooms: &Rooms<'_>) -> Self {
        let models = Models::of_shapes(rooms.groups.families().iter().map(|family| family.shape));
        Self {
            scorer: Scorer::new(&cluster.mix, &models),
            models,
        }
    }

    /// How good a place a slot is, if the part fits there.
    fn score(&self, slot: &Slot<'_>, weight: u32, ask: &Ask<'_>, need: Need) -> Option<Score> {
        if !slot.fits(ask, need) {
            return None;
        }
        let quality = devices::quality(slot, ask, need)?;
        let state = State::of_slot(slot, &self.models);
        let part = frag::Part::of_ask(ask, need, &self.models);
        let score = self.scorer.score(&state, &part).unwrap_or(i64::MAX);
        Some((weight, quality.closeness, score, quality.loss))
    }
}

/// What is known of a class: scores of its equal part by group, once the group was looked at.
#[derive(Default)]
pub(super) struct Known {
    /// Numbers of groups plus one, 0 for none, by their low bits; the length is a power of two and more than twice their count.
    scores: Vec<(u32, Option<Score>)>,
    count: usize,
}

/// What is known of a class with one limit: nodes with reservations that fit its equal part.
#[derive(Default)]
pub(super) struct Holes {
    /// Changes of such nodes that were looked at.
    changes: usize,
    /// Score, position, version of the node.
    best: BinaryHeap<Reverse<(Score, u32, u32)>>,
}

/// What a search is about.
#[derive(Clone, Copy)]
pub(super) struct Sought<'s> {
    pub(super) ask: &'s Ask<'s>,
    pub(super) need: Need,
    pub(super) allowed: &'s Bits,
    /// Whether every node is allowed.
    pub(super) all: bool,
    /// Its partition, as groups have it; all bits if they do not tell.
    pub(super) partition: u128,
    /// When the job's limit ends it.
    pub(super) until: Millis,
    /// What its partition's jobs may have of a node together.
    pub(super) cap: Option<&'s Cap>,
}

impl Sought<'_> {
    /// Whether the node at a position may be used, if it has room.
    fn is_open(&self, rooms: &Rooms<'_>, position: usize) -> bool {
        let capped = || {
            let slot = rooms.slot_until(position, self.until)?;
            Some(Cap::until(self.cap, (position, slot), self.until))
        };
        (self.all || self.allowed.contains(position))
            && (self.cap.is_none() || capped().is_some_and(|slot| slot.fits(self.ask, self.need)))
    }
}

impl Known {
    fn score(
        &mut self,
        (rooms, judge): (&Rooms<'_>, &Judge),
        number: u32,
        sought: Sought<'_>,
    ) -> Option<Score> {
        let group = rooms.groups.get(number)?;
        let elsewhere = sought.partition != u128::MAX && group.partitions & sought.partition == 0;
        if elsewhere {
            return None;
        }
        if self.count * 2 >= self.scores.len() {
            self.grow();
        }
        let at = self.place(number);
        let entry = self.scores.get_mut(at)?;
        if entry.0 == 0 {
            let score = judge.score(&group.slot, group.weight, sought.ask, sought.need);
            *entry = (number + 1, score);
            self.count += 1;
        }
        entry.1
    }

    /// Where a group is, or would be.
    fn place(&self, number: u32) -> usize {
        let mut at = number as usize & (self.scores.len() - 1);
        while let Some((other, _)) = self.scores.get(at)
            && *other != 0
            && *other != number + 1
        {
            at = (at + 1) & (self.scores.len() - 1);
        }
        at
    }

    fn grow(&mut self) {
        let len = (self.scores.len() * 2).max(64);
        let old = std::mem::replace(&mut self.scores, vec![(0, None); len]);
        for entry in old.into_iter().filter(|(number, _)| *number != 0) {
            let at = self.place(entry.0 - 1);
            self.scores[at] = entry;
        }
    }

    /// Nodes of groups that fit, tightest group first: all of the lowest weight that has any, in a window that holds at least so many
    /// nodes. One of each group is enough if one is wanted.
    fn window(
        &mut self,
        (rooms, judge): (&Rooms<'_>, &Judge),
        sought: Sought<'_>,
        wanted: Wanted,
    ) -> Vec<(Score, u32)> {
        let mut found = Vec::new();
        let mut groups = 0;
        let families = rooms.groups.families();
        let mut done = 0;
        while let Some(weight) = families.get(done).map(|family| family.weight) {
            let alike = families.iter().skip(done);
            let alike = alike.take_while(|family| family.weight == weight).count();
            let here = families.get(done..done + alike).unwrap_or_default();
            done += alike;
            let end = here
                .iter()
                .map(|family| family.gpus_end())
                .max()
                .unwrap_or(0);
            for gpus in sought.need.gpus as usize..end {
                let cpus = sought.ask.cpus_for(sought.need);
                for number in here.iter().flat_map(|family| family.with(gpus, cpus)) {
                    let Some(score) = self.score((rooms, judge), number, sought) else {
                        continue;
                    };
                    let nodes = rooms
                        .groups
                        .get(number)
                        .into_iter()
                        .flat_map(|group| &group.nodes);
                    let open = |at: &&u32| sought.is_open(rooms, **at as usize);
                    let nodes = nodes.filter(open).map(|at| (score, *at));
                    let before = found.len();
                    match wanted {
                        Wanted::One => found.extend(nodes.take(1)),
                        Wanted::Some(_) | Wanted::All => found.extend(nodes),
                    }
                    groups += usize::from(found.len() > before);
                    if groups >= WINDOW && wanted.is_met(found.len()) {
                        return found;
                    }
                }
            }
            if !found.is_empty() && wanted.is_met(found.len()) {
                return found;
            }
        }
        found
    }
}

/// How many nodes a search is for.
#[derive(Clone, Copy)]
enum Wanted {
    One,
    Some(usize),
    All,
}

impl Wanted {
    fn is_met(self, found: usize) -> bool {
        match self {
            Self::One => found >= 1,
            Self::Some(count) => found >= count,
            Self::All => false,
        }
    }
}

impl Holes {
    fn catch_up(&mut self, rooms: &Rooms<'_>, judge: &Judge, sought: Sought<'_>) {
        for at in rooms.changed.get(self.changes..).unwrap_or_default() {
            let position = *at as usize;
            if !sought.allowed.contains(position) {
                continue;
            }
            let now = rooms.slots.get(position);
            if now.is_none_or(|slot| slot.free.gpus.count_ones() < sought.need.gpus) {
                continue;
            }
            let Some(slot) = rooms.slot_until(position, sought.until) else {
                continue;
            };
            let weight = rooms.weight(position);
            let score = judge.score(&slot, weight, sought.ask, sought.need);
            let version = rooms.versions.get(position).copied().unwrap_or(0);
            self.best
                .extend(score.map(|score| Reverse((score, *at, version))));
        }
        self.changes = rooms.changed.len();
    }

    fn is_true(rooms: &Rooms<'_>, at: u32, version: u32) -> bool {
        rooms.versions.get(at as usize) == Some(&version)
    }

    fn first(&mut self, rooms: &Rooms<'_>, sought: Sought<'_>) -> Option<(Score, u32)> {
        while let Some(Reverse((score, at, version))) = self.best.peek().copied() {
            if Self::is_true(rooms, at, version) && sought.is_open(rooms, at as usize) {
                return Some((score, at));
            }
            self.best.pop();
        }
        None
    }

    fn all(&self, rooms: &Rooms<'_>, sought: Sought<'_>, into: &mut Vec<(Score, u32)>) {
        let current = self.best.iter();
        let current = current.filter(|Reverse((_, at, version))| {
            Self::is_true(rooms, *at, *version) && sought.is_open(rooms, *at as usize)
        });
        into.extend(current.map(|Reverse((score, at, _))| (*score, *at)));
    }
}

/// The best node for an equal part.
pub(super) fn best(
    rooms: &Rooms<'_>,
    judge: &Judge,
    (known, holes): (&mut Known, &mut Holes),
    sought: Sought<'_>,
) -> Option<usize> {
    holes.catch_up(rooms, judge, sought);
    let open = known.window((rooms, judge), sought, Wanted::One);
    let hole = holes.first(rooms, sought);
    let (_, at) = open.into_iter().chain(hole).min()?;
    Some(at as usize)
}

/// Nodes for jobs of several.
pub(super) struct Choice<'c, 'a> {
    rooms: &'c Rooms<'a>,
    sought: Sought<'c>,
    required: &'c [usize],
    /// Nodes that fit an equal part, best first.
    fitting: Vec<usize>,
}

impl<'c, 'a> Choice<'c, 'a> {
    pub(super) fn new(
        rooms: &'c Rooms<'a>,
        judge: &Judge,
        (known, holes): (&mut Known, &mut Holes),
        (sought, required): (Sought<'c>, &'c [usize]),
    ) -> Self {
        holes.catch_up(rooms, judge, sought);
        let near = rooms.fabric().is_some() || sought.ask.contiguous || !required.is_empty();
        let wanted = if near || sought.ask.widen {
            Wanted::All
        } else {
            Wanted::Some(sought.ask.nodes_min as usize)
        };
        let mut fitting = known.window((rooms, judge), sought, wanted);
        holes.all(rooms, sought, &mut fitting);
        fitting.sort_unstable();
        fitting.dedup();
        let fitting = fitting.into_iter().map(|(_, at)| at as usize);
        Self {
            rooms,
            sought,
            required,
            fitting: fitting.collect(),
        }
    }
}

impl<'a> Source<'a> for Choice<'_, 'a> {
    fn candidates(&self, _: &Ask<'_>, need: Need) -> impl Iterator<Item = usize> {
        let equal = need == self.sought.need;
        let fitting = self.fitting.iter().copied().filter(move |_| equal);
        let others = self.sought.allowed.iter().filter(move |_| !equal);
        fitting.chain(others)
    }

    fn slot(&self, position: usize) -> Slot<'a> {
        let until = self.sought.until;
        let slot = self.rooms.slot_until(position, until);
        let slot = slot.unwrap_or(self.rooms.slots[position]);
        Cap::until(self.sought.cap, (position, slot), until)
    }

    fn required(&self) -> &[usize] {
        self.required
    }

    fn fabric(&self) -> Option<&Fabric> {
        self.rooms.fabric()
    }

    fn leaf(&self, position: usize) -> Option<usize> {
        self.rooms.leaf(position)
    }

    fn rank(&self, position: usize) -> usize {
        self.rooms.rank(position)
    }

    fn weight(&self, position: usize) -> u32 {
        self.rooms.weight(position)
    }
}
