//! What a node will have free when: what running jobs give back by their limits, and what is kept for jobs that wait.
//!
//! Devices that are kept for a job count as its own from now on when another reservation looks for a place, although jobs that end
//! in time may use them until it starts. So what is free on a node only grows with time, and the first moment at which something
//! fits is found by halving.

use super::rooms::Rooms;
use super::shape::{DOMAINS, Mask, Shape, mask_of};
use super::slot::{Free, Slot};
use crate::id::{JobId, NodeId};
use crate::resources::{IdSet, NodeShare};
use crate::time::Millis;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Milliseconds until what should be free and is not counts as free: jobs past their limit, nodes that are cleaned up.
const SOON: u64 = 60_000;

/// When a job without a time limit is over: later than any that has one. What is kept from then on is kept from other jobs without a
/// limit, and from no others.
pub(crate) const SOMEDAY: Millis = Millis(1 << 62);

/// A share that was given in this pass.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    until: Millis,
    share: NodeShare,
}

impl Taken {
    /// Given to a job that ends at a time by its limit.
    pub(super) fn of(share: &NodeShare, until: Millis) -> Self {
        Self {
            until,
            share: share.clone(),
        }
    }
}

/// A share that is kept for a job.
#[derive(Clone, Debug)]
pub(super) struct Booked {
    pub(super) start: Millis,
    /// When its limit ends it.
    pub(super) end: Millis,
    pub(super) share: NodeShare,
}

/// What is kept on one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// By start.
    list: Vec<Booked>,
    /// For each of `list`: its start, and what is free for jobs that end later but not after the next one's.
    profile: Vec<(Millis, Free)>,
}

impl Held {
    /// Keeps one more.
    pub(super) fn add(&mut self, booked: Booked) {
        let at = self
            .list
            .partition_point(|other| other.start <= booked.start);
        self.list.insert(at, booked);
    }

    /// Keeps one no more; whether nothing is left.
    pub(super) fn forget(&mut self, start: Millis, share: &NodeShare) -> bool {
        let is_it = |booked: &Booked| booked.start == start && booked.share == *share;
        if let Some(at) = self.list.iter().position(is_it) {
            self.list.remove(at);
        }
        self.list.is_empty()
    }

    /// All, by start.
    pub(super) fn list(&self) -> &[Booked] {
        &self.list
    }

    /// What of the node's free a job may use that ends at a time by its limit.
    pub(super) fn free_until(&self, free: Free, until: Millis) -> Free {
        let begun = self.profile.partition_point(|(start, _)| *start <= until);
        let last = begun.checked_sub(1).and_then(|at| self.profile.get(at));
        last.map_or(free, |(_, free)| *free)
    }

    /// Works out anew what is free besides.
    pub(super) fn refresh(&mut self, rooms: &Rooms<'_>, at: usize) {
        self.profile.clear();
        let (Some(slot), Some(ids)) = (rooms.slots.get(at), rooms.free_cpus(at)) else {
            return;
        };
        let mut cpus = ids.into_owned();
        let future = rooms.future(at, self);
        let first = self.list.first().map_or(SOMEDAY, |booked| booked.start);
        let spare = free_at(&future, first).map_or(0, |free| free.memory);
        let mut free = Free {
            memory: slot.free.memory.min(spare),
            idle: false,
            ..slot.free
        };
        for booked in &self.list {
            let kept = slot.shape.layout().closure(mask_of(&booked.share.gpus));
            free.gpus &= !kept;
            cpus.subtract(&booked.share.cpus);
            free.cpus = counts(slot.shape, &cpus);
            self.profile.push((booked.start, free));
        }
    }
}

/// What is free from a moment on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) at: Millis,
    pub(super) free: Free,
}

/// What is free at a moment.
pub(super) fn free_at(future: &[Step], at: Millis) -> Option<Free> {
    let begun = future.partition_point(|step| step.at <= at);
    Some(future.get(begun.checked_sub(1)?)?.free)
}

/// CPU ids of a set by NUMA domain.
fn counts(shape: &Shape, cpus: &IdSet) -> [u16; DOMAINS] {
    let mut counts = [0; DOMAINS];
    for (count, domain) in counts.iter_mut().zip(shape.domains()) {
        *count = u16::try_from(domain.common(cpus)).unwrap_or(u16::MAX);
    }
    counts
}

/// Something that comes back.
struct Return<'r> {
    at: Millis,
    gpus: Mask,
    cpus: [u16; DOMAINS],
    /// The same by id, where that matters.
    ids: Option<&'r IdSet>,
    memory: u64,
}

/// What is kept until a moment, but for its CPUs.
struct Kept {
    end: Millis,
    gpus: Mask,
    memory: u64,
}

impl Rooms<'_> {
    /// When a hold is over as far as can be told.
    pub(super) fn over(&self, until: Millis) -> Millis {
        if until > self.at {
            until
        } else {
            Millis(self.at.0.saturating_add(SOON))
        }
    }

    /// What a node has free from now on, without what is kept there.
    pub(super) fn future(&self, at: usize, held: &Held) -> Vec<Step> {
        let mut steps = Vec::new();
        self.future_into(at, held, &mut steps);
        steps
    }

    /// What comes back on a node, by its moment; CPUs by id only where some are kept.
    fn returns(&self, at: usize, held: &Held) -> Option<Vec<Return<'_>>> {
        let shape = self.slots.get(at)?.shape;
        let node = self.id(at).filter(|_| !held.list.is_empty());
        let running = self.rows.get(at)?.holds.iter().map(|hold| Return {
            at: self.over(hold.until),
            gpus: hold.gpus,
            cpus: hold.cpus,
            ids: node.and_then(|node| self.share_of(hold.job, node)),
            memory: hold.memory,
        });
        let taken = self.taken.get(at).into_iter().flatten();
        let started = taken.map(|taken| Return {
            at: taken.until,
            gpus: mask_of(&taken.share.gpus),
            cpus: counts(shape, &taken.share.cpus),
            ids: Some(&taken.share.cpus),
            memory: taken.share.memory_mib,
        });
        let mut returns: Vec<Return<'_>> = running.chain(started).collect();
        returns.sort_by_key(|back| back.at);
        Some(returns)
    }

    fn future_into(&self, at: usize, held: &Held, into: &mut Vec<Step>) {
        let (Some(slot), Some(row)) = (self.slots.get(at), self.rows.get(at)) else {
            return;
        };
        let shape = slot.shape;
        let Some(returns) = self.returns(at, held) else {
            return;
        };
        let kept: Vec<Kept> = held.list.iter().map(kept).collect();
        let mut times = vec![self.at];
        times.extend(returns.iter().map(|back| back.at));
        times.extend(kept.iter().map(|kept| kept.end));
        times.sort_unstable();
        times.dedup();
        let mut left = returns.as_slice();
        let mut free = slot.free;
        // A CPU that is kept and not free yet counts once, so what is kept is told by ids.
        let keeps = !held.list.is_empty();
        let mut ids = keeps
            .then(|| self.free_cpus(at))
            .flatten()
            .map(Cow::into_owned);
        let step = |time: Millis| {
            let back = left.partition_point(|back| back.at <= time);
            let (now, later) = left.split_at(back);
            left = later;
            for back in now {
                for (free, cpus) in free.cpus.iter_mut().zip(back.cpus) {
                    *free = free.saturating_add(cpus);
                }
                free.memory = free.memory.saturating_add(back.memory);
                if let (Some(ids), Some(back)) = (&mut ids, back.ids) {
                    ids.union_with(back);
                }
            }
            let mut busy = later.iter().fold(row.sick, |busy, back| busy | back.gpus);
            let mut here = Free {
                idle: later.is_empty(),
                ..free
            };
            for kept in kept.iter().filter(|kept| kept.end > time) {
                busy |= kept.gpus;
                here.memory = here.memory.saturating_sub(kept.memory);
                here.idle = false;
            }
            if let Some(ids) = &ids {
                here.cpus = counts(shape, &without(ids, held, time));
            }
            here.gpus = shape.all_gpus() & !shape.layout().closure(busy);
            Step {
                at: time,
                free: here,
            }
        };
        into.extend(times.into_iter().map(step));
    }

    /// Adds to each list, by number of GPUs, the moment before which a node does not have as many free.
    pub(super) fn gpus_from(&self, at: usize, into: &mut [Vec<(Millis, u32)>]) -> Option<()> {
        let position = u32::try_from(at).ok()?;
        let slot = self.slots.get(at)?;
        let layout = slot.shape.layout();
        // Rather too many too early: a part of a GPU may come back with another part only, and what was given in this pass, or should
        // be free already, counts as if it were.
        let back = |gpus: Mask| layout.closure(gpus).count_ones();
        let taken = self.taken.get(at)?.iter();
        let given: u32 = taken.map(|taken| back(mask_of(&taken.share.gpus))).sum();
        let now = std::iter::once((self.at, slot.free.gpus.count_ones() + given));
        let holds = self.rows.get(at)?.holds.iter();
        let later = holds.map(|hold| (hold.until.max(self.at), back(hold.gpus)));
        let mut lists = into.iter_mut();
        // No GPU is free at once everywhere.
        lists.next()?.push((self.at, position));
        for (moment, count) in now.chain(later) {
            for list in lists.by_ref().take(count as usize) {
                list.push((moment, position));
            }
        }
        Some(())
    }

    /// CPU ids that a node has free at a moment, without what is kept there then.
    pub(super) fn cpus_at(&self, position: usize, moment: Millis) -> Option<IdSet> {
        let mut cpus = self.free_cpus(position)?.into_owned();
        let node = self.id(position)?;
        for hold in &self.rows.get(position)?.holds {
            if self.over(hold.until) <= moment {
                cpus.union_with(self.share_of(hold.job, node)?);
            }
        }
        for taken in self.taken.get(position)? {
            if taken.until <= moment {
                cpus.union_with(&taken.share.cpus);
            }
        }
        Some(match self.held(position) {
            Some(held) => without(&cpus, held, moment),
            None => cpus,
        })
    }

    /// CPUs that a job holds on a node.
    fn share_of(&self, job: JobId, node: NodeId) -> Option<&IdSet> {
        let job = self.cluster.jobs.get(&job)?;
        let runs = job.allocation.iter().find(|share| share.node == node);
        let left = || job.leftovers.get(&node).map(|left| &left.share);
        runs.or_else(left).map(|share| &share.cpus)
    }
}

fn kept(booked: &Booked) -> Kept {
    Kept {
        end: booked.end,
        gpus: mask_of(&booked.share.gpus),
        memory: booked.share.memory_mib,
    }
}

/// CPUs without those that are kept until after a moment.
fn without(cpus: &IdSet, held: &Held, moment: Millis) -> IdSet {
    let mut left = cpus.clone();
    for booked in held.list.iter().filter(|booked| booked.end > moment) {
        left.subtract(&booked.share.cpus);
    }
    left
}

/// Futures of nodes, each worked out when it is first asked for and again when the node has changed.
pub(super) struct Futures {
    /// Version of the node, and where its steps are.
    known: Vec<Option<(u32, usize, usize)>>,
    steps: Vec<Step>,
}

impl Futures {
    /// Of so many nodes.
    pub(super) fn none(nodes: usize) -> Self {
        Self {
            known: vec![None; nodes],
            steps: Vec::new(),
        }
    }

    /// A node's future.
    pub(super) fn of(&mut self, rooms: &Rooms<'_>, at: usize) -> &[Step] {
        let version = rooms.versions.get(at).copied().unwrap_or(0);
        let Some(entry) = self.known.get_mut(at) else {
            return &[];
        };
        let (_, from, to) = match *entry {
            Some(known) if known.0 == version => known,
            Some(_) | None => {
                let none = Held::default();
                let held = rooms.held(at).unwrap_or(&none);
                let from = self.steps.len();
                rooms.future_into(at, held, &mut self.steps);
                *entry.insert((version, from, self.steps.len()))
            }
        };
        self.steps.get(from..to).unwrap_or_default()
    }

    /// The moment before which a node does not have so many GPUs free, whatever else it lacks.
    pub(super) fn gpus_from(&mut self, rooms: &Rooms<'_>, at: usize, gpus: u32) -> Option<Millis> {
        let steps = self.of(rooms, at);
        let first = steps.partition_point(|step| step.free.gpus.count_ones() < gpus);
        steps.get(first).map(|step| step.at)
    }

    /// The first moment at which something holds of a node that takes so many GPUs, given that it holds ever after.
    pub(super) fn first<'a>(
        &mut self,
        rooms: &Rooms<'a>,
        (at, gpus): (usize, u32),
        holds: impl Fn(&Slot<'a>, Millis) -> bool,
    ) -> Option<Millis> {
        let slot = *rooms.slots.get(at)?;
        let steps = self.of(rooms, at);
        let with = |step: &Step| Slot {
            free: step.free,
            ..slot
        };
        let enough = steps.partition_point(|step| step.free.gpus.count_ones() < gpus);
        let (first, others) = steps.get(enough..)?.split_first()?;
        if holds(&with(first), first.at) {
            return Some(first.at);
        }
        let last = others.last()?;
        if !holds(&with(last), last.at) {
            return None;
        }
        let first = others.partition_point(|step| !holds(&with(step), step.at));
        others.get(first).map(|step| step.at)
    }

    /// Every moment at which something changes on one of these nodes, in order.
    pub(super) fn moments(
        &mut self,
        rooms: &Rooms<'_>,
        nodes: impl Iterator<Item = usize>,
    ) -> Vec<Millis> {
        let mut moments = BTreeSet::new();
        for at in nodes {
            moments.extend(self.of(rooms, at).iter().map(|step| step.at));
        }
        moments.into_iter().collect()
    }
}
