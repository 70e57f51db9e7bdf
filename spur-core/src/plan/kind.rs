//! What is known of a class of jobs in a pass: which nodes they may use, and with which limits they found no room.

use super::ask::{Ask, Need};
use super::bits::Bits;
use super::caps::Cap;
use super::class::Class;
use super::filter;
use super::rooms::Rooms;
use super::search::Known;
use crate::cluster::Cluster;
use crate::id::JobId;
use crate::time::{Millis, TimeLimit};
use std::rc::Rc;

/// Nodes of which all of a job's may be.
pub(super) struct Set {
    pub(super) allowed: Rc<Bits>,
    /// Whether those are all nodes.
    pub(super) all: bool,
    /// How many they are, if none is left out for a while.
    nodes: usize,
    pub(super) known: Known,
}

/// See the module.
pub(super) struct Kind<'a> {
    pub(super) class: &'a Class,
    /// Position of its partition.
    pub(super) partition: usize,
    /// Sets of nodes of which one must hold a job, in order of preference.
    pub(super) sets: Vec<Set>,
    /// How many of the first sets are only preferred: there is another one for the same nodes and more.
    pub(super) preferred: usize,
    /// Of which nodes a job must have how many.
    pub(super) counts: Vec<(Bits, usize)>,
    /// Positions of the nodes of `-w`.
    pub(super) required: Vec<usize>,
    /// The least limit with which it found no room. What is free only shrinks during a pass, so one failure is enough for all
    /// jobs of the class with that limit or a greater one.
    failed: Option<TimeLimit>,
    /// The same for jobs that waited long enough for few switches.
    failed_anywhere: Option<TimeLimit>,
}

impl<'a> Kind<'a> {
    pub(super) fn of(class: &'a Class, partition: usize, required: Vec<usize>) -> Self {
        Self {
            class,
            partition,
            sets: Vec::new(),
            preferred: 0,
            counts: Vec::new(),
            required,
            failed: None,
            failed_anywhere: None,
        }
    }

    /// One more set of nodes, out of so many.
    pub(super) fn add_set(&mut self, allowed: Rc<Bits>, nodes: usize) {
        let own = allowed.len();
        self.sets.push(Set {
            all: own == nodes,
            nodes: own,
            allowed,
            known: Known::default(),
        });
    }

    /// The least limit with which such a job found no room. One that has waited long enough for few switches takes any number:
    /// the ask is changed to that.
    pub(super) fn failed_for(
        &self,
        ask: &mut Ask<'_>,
        (job, at): (JobId, Millis),
        cluster: &Cluster,
    ) -> Option<TimeLimit> {
        if ask.switches == 0 {
            return self.failed;
        }
        let eligible = cluster.jobs.get(&job).map(|job| job.eligible);
        if eligible.is_some_and(|eligible| eligible.plus_secs(self.class.switch_wait) <= at) {
            ask.switches = 0;
            return self.failed_anywhere;
        }
        self.failed
    }

    /// A job with this ask and limit found no room.
    pub(super) fn fails(&mut self, ask: &Ask<'_>, limit: TimeLimit) {
        if ask.switches < self.class.ask().switches {
            self.failed_anywhere = Some(limit);
        } else {
            self.failed = Some(limit);
        }
    }

    /// Nodes on which devices may be kept for a job, and those that it must get; `None` if it cannot get those.
    pub(super) fn place_for_later(
        &mut self,
        (rooms, cap): (&Rooms<'_>, Option<&Cap>),
        ask: &Ask<'_>,
        barred: Option<&Bits>,
    ) -> Option<(Rc<Bits>, Vec<usize>)> {
        let sets = self.sets.iter_mut().skip(self.preferred);
        let set = sets.max_by_key(|set| set.allowed.len())?;
        let whole = set.without(barred);
        let fits = |at: usize, need: Need| {
            let slot = rooms.empty(at);
            slot.is_some_and(|slot| Cap::empty(cap, slot).fits(ask, need))
        };
        let required = set.with_kinds((&self.required, &self.counts), ask, fits);
        let allowed = Rc::clone(&set.allowed);
        set.restore(whole);
        Some((allowed, required?))
    }

    /// Whether fewer of the nodes that a job may use take jobs now than it needs.
    pub(super) fn has_too_few(&self, nodes: u32) -> bool {
        let few = |set: &Set| set.nodes < nodes as usize;
        self.sets.iter().all(few)
    }

    /// Whether leaving out these nodes leaves too few, where there were enough.
    pub(super) fn is_barred(&self, barred: &Bits, nodes: u32) -> bool {
        let enough = |count: usize| count >= nodes as usize;
        let left = |set: &Set| {
            let mut left = Bits::clone(&set.allowed);
            left.subtract(barred);
            enough(left.len()) && self.required.iter().all(|at| left.contains(*at))
        };
        self.sets.iter().any(|set| enough(set.allowed.len())) && !self.sets.iter().any(left)
    }
}

/// What a set was before some of its nodes were left out.
pub(super) struct Whole {
    allowed: Rc<Bits>,
    all: bool,
}

impl Set {
    /// Leaves nodes out, until [`Set::restore`].
    pub(super) fn without(&mut self, barred: Option<&Bits>) -> Option<Whole> {
        let barred = barred?;
        let whole = Whole {
            allowed: Rc::clone(&self.allowed),
            all: self.all,
        };
        Rc::make_mut(&mut self.allowed).subtract(barred);
        self.all = false;
        Some(whole)
    }

    /// Has them in again.
    pub(super) fn restore(&mut self, whole: Option<Whole>) {
        if let Some(whole) = whole {
            (self.allowed, self.all) = (whole.allowed, whole.all);
        }
    }

    /// Positions of the nodes that a job must get: those of `-w`, and as many of each kind as its constraint says.
    pub(super) fn required(
        &self,
        (rooms, cap): (&Rooms<'_>, Option<&Cap>),
        named_and_counts: (&[usize], &[(Bits, usize)]),
        (ask, until): (&Ask<'_>, Millis),
    ) -> Option<Vec<usize>> {
        let fits = |at: usize, need: Need| {
            let slot = rooms.slots.get(at);
            slot.is_some_and(|slot| Cap::until(cap, (at, *slot), until).fits(ask, need))
        };
        self.with_kinds(named_and_counts, ask, fits)
    }

    /// Nodes of each kind that fit an equal part, or else the least part.
    fn with_kinds(
        &self,
        (named, counts): (&[usize], &[(Bits, usize)]),
        ask: &Ask<'_>,
        fits: impl Fn(usize, Need) -> bool,
    ) -> Option<Vec<usize>> {
        if !named.iter().all(|at| self.allowed.contains(*at)) {
            return None;
        }
        if counts.is_empty() {
            return Some(named.to_vec());
        }
        let least = counts.iter().map(|(_, count)| *count).sum::<usize>();
        let nodes = ask
            .nodes_min
            .max(u32::try_from(least.max(named.len())).ok()?);
        let of = |need: Need| {
            let open = |at: usize| self.allowed.contains(at) && fits(at, need);
            filter::of_each_kind(counts, open)
        };
        let mut required = of(ask.even_part(nodes)).or_else(|| of(ask.least_part()))?;
        required.extend(named);
        required.sort_unstable();
        required.dedup();
        Some(required)
    }
}
