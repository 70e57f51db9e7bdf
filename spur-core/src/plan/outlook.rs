//! When waiting jobs will probably start. A pass reserves devices for some jobs and touches few others, so what it leaves behind is a
//! summary from which any waiting job's start can be told when somebody asks.
//!
//! A reservation says when a job starts at the latest, as long as nothing fails and nothing more important comes. For other jobs
//! there is an estimate: the jobs before it take what running jobs leave, in order; once that is used up, the work ahead flows
//! through the partition at full speed. Both go by expected run times.

use super::policy::Key;
use super::predict::gpus_of;
use super::timeline::SOMEDAY;
use crate::id::{JobId, NodeId};
use crate::job::spec::JobSpec;
use crate::resources::NodeShare;
use crate::time::Millis;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Devices that are kept for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// From when.
    pub start: Millis,
    /// Which, in node order.
    pub shares: Vec<NodeShare>,
}

impl Reserved {
    /// From when; `None` while they are kept until jobs end that have no time limit.
    pub fn known_start(&self) -> Option<Millis> {
        Some(self.start).filter(|start| *start < SOMEDAY)
    }
}

/// What an expected start goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// Devices are reserved.
    Reserved,
    /// The work ahead, and how fast it goes.
    Estimated,
    /// Nothing that is known lets it start.
    Never,
}

/// When a job will probably start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// When, if that can be told.
    pub start: Option<Millis>,
    /// What that goes by.
    pub basis: Basis,
    /// Where, if devices are reserved.
    pub nodes: Vec<NodeId>,
}

/// A waiting job, as far as its place in the queue goes.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Its number.
    pub job: JobId,
    /// What it asks for.
    pub spec: &'a JobSpec,
    /// Its priority.
    pub priority: u32,
    /// Not before.
    pub eligible: Millis,
    /// When it is due ([`crate::api::JobView::due`]).
    pub due: Millis,
    /// Where it stands among jobs that a summary does not tell from it ([`Outlook::ranks`]), if that is known.
    pub rank: Option<Rank>,
}

/// How many of the jobs in the same place of a summary are before one, of how many others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Before it.
    pub before: u32,
    /// In all, without it.
    pub others: u32,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// When the pass was.
    pub at: Millis,
    /// Jobs that have a reservation.
    pub reserved: BTreeMap<JobId, Reserved>,
    /// By partition, with its tier.
    pub(crate) pools: BTreeMap<String, (Pool, u32)>,
}

/// GPUs and CPUs, or seconds of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) gpus: u64,
    pub(crate) cpus: u64,
}

impl Amount {
    /// What a request asks for, of so many GPUs.
    pub(crate) fn asked(spec: &JobSpec, gpus: u64) -> Self {
        let tasks = u64::from(spec.placed_tasks().max(spec.nodes_min).max(1));
        let by_task = tasks.saturating_mul(u64::from(spec.cpus_per_task.max(1)));
        Self {
            gpus,
            cpus: by_task.max(gpus.saturating_mul(u64::from(spec.cpus_per_gpu))),
        }
    }

    /// Adds another.
    pub(crate) fn add(&mut self, other: Self) {
        self.gpus = self.gpus.saturating_add(other.gpus);
        self.cpus = self.cpus.saturating_add(other.cpus);
    }

    /// Takes back what was added.
    pub(crate) fn subtract(&mut self, other: Self) {
        self.gpus = self.gpus.saturating_sub(other.gpus);
        self.cpus = self.cpus.saturating_sub(other.cpus);
    }

    /// For so many seconds.
    pub(crate) fn times(self, secs: u64) -> Self {
        Self {
            gpus: self.gpus.saturating_mul(secs),
            cpus: self.cpus.saturating_mul(secs),
        }
    }

    /// The one that matters to a job: GPUs if it asks for any.
    fn of(self, gpus: bool) -> u64 {
        if gpus { self.gpus } else { self.cpus }
    }
}

/// A partition's future, summed up: each entry of a list has the sum up to there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pool {
    capacity: Amount,
    /// What is free, then what running jobs will have left by a time; and how many seconds of it could be used until then.
    left: Vec<(Millis, Amount, Amount)>,
    /// Up to and with a place in the queue: what is asked for, and seconds of it.
    queue: Vec<(Place, Amount, Amount)>,
}

/// A place in the queue, coarse enough that there are few of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    tier: Reverse<u32>,
    priority: Reverse<u32>,
    nice: i32,
    due: u64,
    job: u32,
}

impl Place {
    /// Jobs due within about a quarter of an hour, and within some thousand numbers, have one place.
    pub(crate) fn of(key: Key) -> Self {
        Self {
            tier: key.tier,
            priority: key.priority,
            nice: key.nice,
            due: key.due.0 >> 20,
            job: key.job.0 >> 12,
        }
    }
}

impl Pool {
    /// Sums up what is free at a moment, what running jobs will leave, and what waits.
    pub(crate) fn of(
        (at, capacity, free): (Millis, Amount, Amount),
        ends: impl Iterator<Item = (Millis, Amount)>,
        waiting: impl Iterator<Item = (Place, Amount, Amount)>,
    ) -> Self {
        let mut pool = Self {
            capacity,
            left: vec![(at, free, Amount::default())],
            ..Self::default()
        };
        let mut returns: Vec<(Millis, Amount)> =
            ends.map(|(end, width)| (later(end, at), width)).collect();
        returns.sort_by_key(|(end, _)| *end);
        let (mut left, mut usable, mut last) = (free, Amount::default(), at);
        for (end, width) in returns {
            usable.add(left.times(end.secs_since(last)));
            left.add(width);
            pool.left.push((end, left, usable));
            last = end;
        }
        let (mut width, mut work) = (Amount::default(), Amount::default());
        for (place, more_width, more_work) in waiting {
            width.add(more_width);
            work.add(more_work);
            pool.queue.push((place, width, work));
        }
        pool
    }

    /// When a job in a place may start that asks for so much.
    fn start(&self, place: Place, asks: Amount, rank: Option<Rank>) -> Option<Millis> {
        let gpus = asks.gpus > 0;
        let (capacity, asks) = (self.capacity.of(gpus), asks.of(gpus));
        if asks > capacity || capacity == 0 {
            return None;
        }
        let before = self.queue.partition_point(|(other, ..)| *other < place);
        let sums = |at: Option<usize>| {
            let entry = at.and_then(|at| self.queue.get(at));
            entry.map_or((0, 0), |(_, width, work)| (width.of(gpus), work.of(gpus)))
        };
        let (mut width, mut work) = sums(before.checked_sub(1));
        if self
            .queue
            .get(before)
            .is_some_and(|(other, ..)| *other == place)
        {
            let (all_width, all_work) = sums(Some(before));
            let here = all_width.saturating_sub(width);
            let others = here.saturating_sub(asks);
            // Of those in the same place half are before it, unless it is known how many.
            let before = match rank {
                Some(Rank {
                    before,
                    others: all,
                }) if all > 0 => others.saturating_mul(before.into()) / u64::from(all),
                Some(_) | None => others / 2,
            };
            work += all_work.saturating_sub(work) / here.max(1) * before;
            width += before;
        }
        let at_once = self.first_with(width.saturating_add(asks), gpus);
        // Or when the work before it is done, by what is left of one moment and the next, and it has room.
        let by_then = self
            .left
            .partition_point(|(.., usable)| usable.of(gpus) <= work);
        let (from, left, usable) = by_then.checked_sub(1).and_then(|at| self.left.get(at))?;
        let rest = work.saturating_sub(usable.of(gpus));
        let done = match left.of(gpus) {
            0 => self.left.get(by_then).map(|(next, ..)| *next),
            left => Some(from.plus_secs(rest / left)),
        };
        let in_turn = done.zip(self.first_with(asks, gpus));
        let in_turn = in_turn.map(|(done, room)| done.max(room));
        at_once.into_iter().chain(in_turn).min()
    }

    /// When running jobs will have left so much.
    fn first_with(&self, amount: u64, gpus: bool) -> Option<Millis> {
        let first = self
            .left
            .partition_point(|(_, left, _)| left.of(gpus) < amount);
        self.left.get(first).map(|(when, ..)| *when)
    }
}

/// A job that outlived what was expected of it will probably run about as long again as it did since.
fn later(end: Millis, at: Millis) -> Millis {
    if end > at {
        end
    } else {
        at.plus_secs(at.secs_since(end).max(60))
    }
}

impl Outlook {
    fn place(&self, asked: &Asked<'_>) -> Option<Place> {
        let (_, tier) = self.pools.get(&asked.spec.partition)?;
        Some(Place::of(Key {
            tier: Reverse(*tier),
            priority: Reverse(asked.priority),
            nice: asked.spec.nice,
            due: asked.due,
            job: asked.job,
        }))
    }

    /// Where each of these waiting jobs stands in its place of the summary. For somebody who asks about many jobs: the estimates
    /// of jobs that came together then differ from one another.
    pub fn ranks<'a>(&self, waiting: impl Iterator<Item = Asked<'a>>) -> BTreeMap<JobId, Rank> {
        let mut places: BTreeMap<(&str, Place), Vec<(Millis, JobId)>> = BTreeMap::new();
        for asked in waiting {
            if let Some(place) = self.place(&asked) {
                let here = places.entry((&asked.spec.partition, place));
                here.or_default().push((asked.due, asked.job));
            }
        }
        let mut ranks = BTreeMap::new();
        for mut jobs in places.into_values() {
            jobs.sort_unstable();
            let others = u32::try_from(jobs.len() - 1).unwrap_or(u32::MAX);
            let each = jobs.into_iter().zip(0..);
            ranks.extend(each.map(|((_, job), before)| (job, Rank { before, others })));
        }
        ranks
    }

    /// When a waiting job will probably start.
    pub fn expected(&self, asked: &Asked<'_>) -> Expected {
        if let Some(reserved) = self.reserved.get(&asked.job) {
            return Expected {
                start: reserved
                    .known_start()
                    .map(|start| start.max(asked.eligible)),
                basis: Basis::Reserved,
                nodes: reserved.shares.iter().map(|share| share.node).collect(),
            };
        }
        let pool = self.pools.get(&asked.spec.partition);
        let start = pool.filter(|_| asked.priority > 0).and_then(|pool| {
            let place = self.place(asked)?;
            let asks = Amount::asked(asked.spec, gpus_of(asked.spec));
            pool.0.start(place, asks, asked.rank)
        });
        Expected {
            start: start.map(|start| start.max(asked.eligible)),
            basis: start.map_or(Basis::Never, |_| Basis::Estimated),
            nodes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
