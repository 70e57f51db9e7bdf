//! Reservations: devices that are kept for a job that cannot start now, from the first moment at which it can.
//!
//! Which of the devices that are free by then are kept is decided by their order alone, not by what else is free: so the next pass,
//! which sees the same cluster with the jobs of this one running, keeps the same.

use super::ask::{Ask, Need};
use super::bits::Bits;
use super::caps::Cap;
use super::devices::{self, Place};
use super::fit::{Part, Source, pick};
use super::rooms::Rooms;
use super::shape::{Mask, indices};
use super::slot::Slot;
use super::timeline::{Booked, Futures, SOMEDAY, free_at};
use super::topology::Fabric;
use crate::resources::NodeShare;
use crate::time::{Millis, TimeLimit};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Reservations of one partition in one pass that look at all moments and nodes, because their jobs want more than so many nodes
/// that are alike.
const SEARCHES_MOST: u32 = 8;

/// The same of all partitions together; the first of a partition is looked for in any case.
const SEARCHES_ALL: u32 = 32;

/// Nodes by the first moment at which they fit a part.
struct Earliest {
    need: Need,
    /// Nodes that were looked at, of [`Reserving::bounds`].
    seen: usize,
    /// Moment, position, and the version of the node that it goes by; without one it is not known but that it is not earlier.
    nodes: BinaryHeap<Reverse<(Millis, u32, Option<u32>)>>,
}

/// What reservations need to know, kept through a pass.
pub(super) struct Reserving {
    futures: Futures,
    /// By number of GPUs; empty until asked for.
    bounds: Vec<Bounds>,
    /// By class.
    earliest: Vec<Option<Earliest>>,
    /// By partition: reservations that were found by looking at all moments and nodes.
    searches: BTreeMap<usize, u32>,
}

/// A job that wants a reservation.
pub(super) struct Wanted<'w> {
    pub(super) class: usize,
    /// Position of its partition.
    pub(super) partition: usize,
    pub(super) ask: Ask<'w>,
    pub(super) allowed: &'w Bits,
    pub(super) required: &'w [usize],
    pub(super) limit: TimeLimit,
    /// Whether devices are kept for it until jobs end that have no time limit.
    pub(super) patient: bool,
    /// What its partition's jobs may have of a node together.
    pub(super) cap: Option<&'w Cap>,
}

/// When a job is over that starts at a moment and has such a limit.
pub(super) fn end_of(start: Millis, limit: TimeLimit) -> Millis {
    match limit {
        TimeLimit::Secs(secs) => start.plus_secs(secs),
        TimeLimit::Unlimited => Millis(start.0.saturating_add(1).max(SOMEDAY.0)),
    }
}

impl Reserving {
    /// Nothing yet.
    pub(super) fn new(nodes: usize, classes: usize) -> Self {
        Self {
            futures: Futures::none(nodes),
            bounds: Vec::new(),
            earliest: std::iter::repeat_with(|| None).take(classes).collect(),
            searches: BTreeMap::new(),
        }
    }

    /// Forgets what is known of a class: something of its jobs is kept no more, so that others may fit earlier.
    pub(super) fn forget(&mut self, class: usize) {
        if let Some(entry) = self.earliest.get_mut(class) {
            *entry = None;
        }
    }

    /// Keeps devices for a job from the first moment on at which it fits; `None` if it never does.
    pub(super) fn reserve(
        &mut self,
        rooms: &mut Rooms<'_>,
        wanted: &Wanted<'_>,
    ) -> Option<(Millis, Vec<NodeShare>)> {
        let found = self.place(rooms, wanted);
        let (start, parts) = found.filter(|(start, _)| wanted.patient || *start < SOMEDAY)?;
        let end = end_of(start, wanted.limit);
        let places = parts.iter().filter_map(|part| {
            let slot = *rooms.slots.get(part.slot)?;
            let free = free_at(self.futures.of(rooms, part.slot), start)?;
            let slot = steady(Slot { free, ..slot }, &wanted.ask, part.need);
            let cpus = Cow::Owned(rooms.cpus_at(part.slot, start)?);
            let node = rooms.id(part.slot)?;
            let place = Place {
                node,
                slot,
                cpus,
                steady: true,
            };
            Some((place, part.need))
        });
        let places: Vec<_> = places.collect();
        let shares = devices::shares(&places, &wanted.ask);
        for share in &shares {
            let share = share.clone();
            rooms.book(Booked { start, end, share });
        }
        Some((start, shares))
    }

    fn place(&mut self, rooms: &Rooms<'_>, wanted: &Wanted<'_>) -> Option<(Millis, Vec<Part>)> {
        let ask = &wanted.ask;
        let near = ask.nodes_max > 1 && (rooms.fabric().is_some() || ask.contiguous);
        if wanted.required.is_empty() && !near {
            let found = self.alike(rooms, wanted);
            if found.is_some() || ask.nodes_max == ask.nodes_min {
                return found;
            }
        }
        let own = self.searches.get(&wanted.partition).copied().unwrap_or(0);
        let all: u32 = self.searches.values().sum();
        if own >= SEARCHES_MOST || (own > 0 && all >= SEARCHES_ALL) {
            return None;
        }
        let found = self.search(rooms, wanted)?;
        self.searches.insert(wanted.partition, own + 1);
        Some(found)
    }

    /// So many nodes with equal parts: those that come first in order of all that fit at the first moment at which enough do.
    fn alike(&mut self, rooms: &Rooms<'_>, wanted: &Wanted<'_>) -> Option<(Millis, Vec<Part>)> {
        let ask = &wanted.ask;
        let need = ask.even_part(ask.nodes_min);
        if self.bounds.is_empty() {
            self.bounds = Bounds::of(rooms);
        }
        let bounds = self.bounds.get_mut(need.gpus as usize)?;
        let entry = self.earliest.get_mut(wanted.class)?;
        let earliest = entry.get_or_insert_with(|| Earliest::of(need));
        let (start, nodes) = earliest.first(rooms, (&mut self.futures, bounds), wanted)?;
        let part = |at: u32| Part {
            slot: at as usize,
            need,
        };
        Some((start, nodes.into_iter().map(part).collect()))
    }

    /// Whatever the ask says, at the first moment at which it fits.
    fn search(&mut self, rooms: &Rooms<'_>, wanted: &Wanted<'_>) -> Option<(Millis, Vec<Part>)> {
        let moments = self.futures.moments(rooms, wanted.allowed.iter());
        let mut at = |moment: Millis| {
            let nodes = rooms.slots.iter().enumerate();
            let slots = nodes.map(|(at, slot)| {
                let free = free_at(self.futures.of(rooms, at), moment);
                let slot = Slot {
                    free: free.unwrap_or(slot.free),
                    ..*slot
                };
                Cap::at(wanted.cap, (at, slot), moment)
            });
            Later {
                rooms,
                slots: slots.collect(),
                wanted,
            }
        };
        at(*moments.last()?).parts(wanted.allowed)?;
        let (mut fails, mut fits) = (0, moments.len() - 1);
        while fails < fits {
            let middle = fails + (fits - fails) / 2;
            match at(*moments.get(middle)?).parts(wanted.allowed) {
                Some(_) => fits = middle,
                None => fails = middle + 1,
            }
        }
        let start = *moments.get(fits)?;
        Some((start, at(start).first_parts()?))
    }
}

/// Nodes by a moment before which they do not have so many GPUs free, whatever else they lack. What is given or kept afterwards makes
/// it later, never earlier.
struct Bounds {
    /// The earliest ones, in order.
    first: Vec<(Millis, u32)>,
    rest: Rest,
}

/// What was not put in order yet: all of it, or all that is behind the earliest ones.
enum Rest {
    List(Vec<(Millis, u32)>),
    Heap(BinaryHeap<Reverse<(Millis, u32)>>),
}

impl Bounds {
    /// By number of GPUs.
    fn of(rooms: &Rooms<'_>) -> Vec<Self> {
        let gpus = rooms.slots.iter().map(|slot| slot.shape.gpus.len()).max();
        let mut lists = vec![Vec::new(); gpus.unwrap_or(0) + 1];
        for at in 0..rooms.len() {
            rooms.gpus_from(at, &mut lists);
        }
        let bounds = lists.into_iter().map(|list| Self {
            first: Vec::new(),
            rest: Rest::List(list),
        });
        bounds.collect()
    }

    fn get(&mut self, at: usize) -> Option<(Millis, u32)> {
        if let Rest::List(list) = &mut self.rest {
            let list = std::mem::take(list).into_iter().map(Reverse);
            self.rest = Rest::Heap(list.collect());
        }
        while self.first.len() <= at {
            let Rest::Heap(rest) = &mut self.rest else {
                return None;
            };
            let Reverse(next) = rest.pop()?;
            self.first.push(next);
        }
        self.first.get(at).copied()
    }
}

impl Earliest {
    fn of(need: Need) -> Self {
        Self {
            need,
            seen: 0,
            nodes: BinaryHeap::new(),
        }
    }

    /// The first moment at which enough nodes fit, and the nodes: of all that fit then the first ones, since when each of them fits
    /// changes with what passes.
    fn first(
        &mut self,
        rooms: &Rooms<'_>,
        (futures, bounds): (&mut Futures, &mut Bounds),
        wanted: &Wanted<'_>,
    ) -> Option<(Millis, Vec<u32>)> {
        let count = wanted.ask.nodes_min as usize;
        let mut ready: Vec<(Millis, u32, Option<u32>)> = Vec::new();
        let mut start: Option<Millis> = None;
        let mut last = 0;
        while last < count {
            let Some((moment, at, version)) = self.next(rooms, (futures, bounds), wanted) else {
                break;
            };
            ready.push((moment, at, version));
            if start.is_some_and(|start| moment > start) {
                break;
            }
            if ready.len() >= count {
                start = Some(moment);
                last = ready.iter().filter(|(other, ..)| *other == moment).count();
            }
        }
        self.nodes.extend(ready.iter().map(|entry| Reverse(*entry)));
        let start = start?;
        let then = ready.into_iter().filter(|(moment, ..)| *moment <= start);
        let mut nodes: Vec<u32> = then.map(|(_, at, _)| at).collect();
        nodes.sort_unstable();
        nodes.truncate(count);
        Some((start, nodes))
    }

    /// The next node by the moment at which it fits, of those of the same moment in order.
    fn next(
        &mut self,
        rooms: &Rooms<'_>,
        (futures, bounds): (&mut Futures, &mut Bounds),
        wanted: &Wanted<'_>,
    ) -> Option<(Millis, u32, Option<u32>)> {
        loop {
            let known = self.nodes.peek();
            let known = known.map(|Reverse((moment, at, _))| (*moment, *at));
            let next = bounds.get(self.seen);
            if let Some((_, at)) = next.filter(|next| known.is_none_or(|known| *next < known)) {
                self.seen += 1;
                if wanted.allowed.contains(at as usize) {
                    let bound = futures.gpus_from(rooms, at as usize, self.need.gpus);
                    let bound = bound.map(|bound| Reverse((bound, at, None)));
                    self.nodes.extend(bound);
                }
                continue;
            }
            let Reverse((moment, at, version)) = self.nodes.pop()?;
            let now = rooms.versions.get(at as usize).copied();
            if version.is_some() && version == now {
                return Some((moment, at, version));
            }
            let fits = |slot: &Slot<'_>, moment: Millis| {
                let slot = Cap::at(wanted.cap, (at as usize, *slot), moment);
                slot.fits(&wanted.ask, self.need)
            };
            let moment = futures.first(rooms, (at as usize, self.need.gpus), fits);
            let found = moment.map(|moment| Reverse((moment, at, now)));
            self.nodes.extend(found);
        }
    }
}

/// The slot with no more free GPUs than the part needs: the first ones of the first NUMA node that has enough, else the first of all,
/// if the job can do with them.
fn steady<'a>(slot: Slot<'a>, ask: &Ask<'_>, need: Need) -> Slot<'a> {
    if need.gpus == 0 || ask.exclusive {
        return slot;
    }
    let free = slot.free_gpus(ask.model);
    let islands = slot.shape.layout().islands().iter();
    let sets = islands.map(|island| free & island.gpus).chain([free]);
    let only = |set: Mask| {
        let chosen = indices(set).take(need.gpus as usize);
        let gpus = chosen.fold(0, |set, at| set | 1 << at);
        let mut slot = slot;
        slot.free.gpus = gpus;
        slot
    };
    sets.map(only)
        .find(|slot| slot.fits(ask, need))
        .unwrap_or(slot)
}

/// Nodes as they will be.
struct Later<'l, 'a> {
    rooms: &'l Rooms<'a>,
    slots: Vec<Slot<'a>>,
    wanted: &'l Wanted<'l>,
}

impl Later<'_, '_> {
    /// Parts on some of these nodes.
    fn parts(&self, among: &Bits) -> Option<Vec<Part>> {
        pick(&Among { later: self, among }, &self.wanted.ask)
    }

    /// Parts on the first nodes that hold the job, by their order alone and not by how much room there is: of all sets of nodes that
    /// do that whose last node comes first, then the one before it, and so on. In a fabric, those of the first domain of the lowest
    /// level that holds it.
    fn first_parts(&self) -> Option<Vec<Part>> {
        let near = self.domains().into_iter();
        let mut near = near.filter_map(|among| Some((self.parts(&among)?, among)));
        let (mut parts, among) = match near.next() {
            Some(found) => found,
            None => {
                let all = self.wanted.allowed;
                (self.parts(all)?, all.clone())
            }
        };
        let mut fixed = among.emptied();
        self.wanted.required.iter().for_each(|at| fixed.set(*at));
        let mut open: Vec<usize> = among.iter().filter(|at| !fixed.contains(*at)).collect();
        // Every round fixes a node.
        for _ in 0..=open.len() {
            let used = parts.iter().map(|part| part.slot);
            let last = used.filter(|at| !fixed.contains(*at)).max();
            let Some(last) = last else {
                break;
            };
            let (mut fails, mut fits) = (0, open.partition_point(|at| *at <= last));
            while fails < fits {
                let middle = fails + (fits - fails) / 2;
                let mut among = fixed.clone();
                open.iter().take(middle).for_each(|at| among.set(*at));
                match self.parts(&among) {
                    Some(found) => (fits, parts) = (middle, found),
                    None => fails = middle + 1,
                }
            }
            let Some(needed) = fits.checked_sub(1) else {
                break;
            };
            fixed.set(*open.get(needed)?);
            open.truncate(needed);
        }
        self.parts(&fixed).or(Some(parts))
    }

    /// The nodes of each domain of the fabric, lowest level first.
    fn domains(&self) -> Vec<Bits> {
        let Some(fabric) = self.rooms.fabric() else {
            return Vec::new();
        };
        let mut domains: BTreeMap<(u32, usize), Bits> = BTreeMap::new();
        for at in self.wanted.allowed.iter() {
            for domain in fabric.levels_above(self.rooms.leaf(at)) {
                let bits = domains.entry(domain);
                bits.or_insert_with(|| self.wanted.allowed.emptied())
                    .set(at);
            }
        }
        let least = self.wanted.ask.nodes_min as usize;
        let domains = domains.into_values();
        domains.filter(|bits| bits.len() >= least).collect()
    }
}

/// The same, of which only some nodes may be used.
struct Among<'m, 'l, 'a> {
    later: &'m Later<'l, 'a>,
    among: &'m Bits,
}

impl<'a> Source<'a> for Among<'_, '_, 'a> {
    fn candidates(&self, _: &Ask<'_>, _: Need) -> impl Iterator<Item = usize> {
        self.among.iter()
    }

    fn slot(&self, position: usize) -> Slot<'a> {
        self.later.slots[position]
    }

    fn required(&self) -> &[usize] {
        self.later.wanted.required
    }

    fn fabric(&self) -> Option<&Fabric> {
        self.later.rooms.fabric()
    }

    fn leaf(&self, position: usize) -> Option<usize> {
        self.later.rooms.leaf(position)
    }

    fn rank(&self, position: usize) -> usize {
        self.later.rooms.rank(position)
    }

    fn weight(&self, position: usize) -> u32 {
        self.later.rooms.weight(position)
    }
}
