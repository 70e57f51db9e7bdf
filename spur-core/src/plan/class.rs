//! Classes of jobs: everything that decides where a job may fit. Jobs of one class fit or fail together, so a pass looks for
//! room once for each class, however many jobs wait.

use super::ask::Ask;
use crate::id::{JobId, NodeId};
use crate::job::Job;
use crate::job::licenses::Licenses;
use crate::job::limits::Size;
use crate::job::spec::Switches;
use crate::time::{Millis, TimeLimit};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Class {
    pub(crate) partition: String,
    /// The ask without its model, which is below because it is owned here.
    bare: Ask<'static>,
    model: String,
    pub(crate) nodelist: Vec<String>,
    pub(crate) exclude: Vec<String>,
    /// Features that its nodes must have, and should have, as written.
    pub(crate) constraint: String,
    pub(crate) prefer: String,
    /// How long a job waits for the number of switches that it wants, in seconds.
    pub(crate) switch_wait: u64,
    /// What may be above the partition's limits.
    pub(crate) size: Size,
    /// Reservations of which it may use one, as written.
    pub(crate) reservation: String,
    /// Nodes where the job failed to start, or where its last run is not cleaned up.
    pub(crate) shunned: BTreeSet<NodeId>,
    /// Nodes where something of its last run may go on: they have not said that they are clean.
    pub(crate) unclean: BTreeSet<NodeId>,
    /// Licenses that each of its jobs takes.
    pub(crate) licenses: Licenses,
    /// The heterogeneous job that its only job leads.
    pub(crate) leads: Option<JobId>,
    /// The limit with which its jobs may start at the least, if not only with their own.
    time_min: Option<TimeLimit>,
    /// By when they must end, if that may shorten their limit.
    deadline: Option<Millis>,
}

impl Class {
    /// The class of a waiting job.
    pub(crate) fn of(job: &Job) -> Self {
        let spec = &job.spec;
        let (ask, time_min) = (Ask::of(spec), job.time_min());
        Self {
            partition: spec.partition.clone(),
            model: ask.model.to_owned(),
            bare: Ask { model: "", ..ask },
            nodelist: spec.nodelist.clone(),
            exclude: spec.exclude.clone(),
            constraint: spec.constraint.clone(),
            prefer: spec.prefer.clone(),
            switch_wait: spec.switches.map_or(0, |switches| switch_wait(&switches)),
            size: Size::of(spec),
            reservation: spec.extras().reservation.clone(),
            shunned: job.avoid.union(&job.uncleaned).copied().collect(),
            unclean: job.uncleaned.clone(),
            licenses: spec.licenses(),
            leads: job.het.filter(|part| part.leads()).map(|part| part.leader),
            time_min,
            deadline: spec.extras().deadline.filter(|_| time_min.is_some()),
        }
    }

    /// The longest and the least limit with which its jobs of such a limit may start at a moment, in a partition with so long a
    /// limit. They are equal where there is nothing to choose.
    pub(crate) fn limits(
        &self,
        limit: TimeLimit,
        (at, partition): (Millis, TimeLimit),
    ) -> (TimeLimit, TimeLimit) {
        let Some(least) = self.time_min else {
            return (limit, limit);
        };
        let left = self.deadline.map_or(TimeLimit::Unlimited, |deadline| {
            TimeLimit::Secs(deadline.0.saturating_sub(at.0) / 60_000 * 60)
        });
        (limit.min(left).min(partition).max(least), least)
    }

    /// What its jobs ask for.
    pub(crate) fn ask(&self) -> Ask<'_> {
        Ask {
            model: &self.model,
            ..self.bare
        }
    }
}

/// How long a job waits for few switches at the most, in seconds: Slurm's default for `max_switch_wait`.
const SWITCH_WAIT_MAX: u64 = 300;

/// How long a job waits for the number of switches that it wants, in seconds.
pub(crate) fn switch_wait(switches: &Switches) -> u64 {
    let wanted = switches.max_wait_secs.unwrap_or(SWITCH_WAIT_MAX);
    wanted.min(SWITCH_WAIT_MAX)
}

/// A class's number: small, used again when its last job is gone, and of no meaning outside one index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassId(u32);

impl ClassId {
    /// As a position in a table of all classes.
    pub(crate) fn position(self) -> usize {
        self.0 as usize
    }
}

/// The classes of all waiting jobs, each kept once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classes {
    ids: BTreeMap<Arc<Class>, ClassId>,
    /// By number: the class and how many jobs are of it.
    slots: Vec<Option<(Arc<Class>, u32)>>,
    free: Vec<ClassId>,
}

impl Classes {
    /// Counts one more job of this class.
    pub(crate) fn enter(&mut self, class: Class) -> ClassId {
        if let Some(id) = self.ids.get(&class).copied() {
            if let Some(Some((_, jobs))) = self.slots.get_mut(id.position()) {
                *jobs += 1;
            }
            return id;
        }
        let class = Arc::new(class);
        let fresh = Some((Arc::clone(&class), 1));
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            ClassId(u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX))
        });
        if let Some(slot) = self.slots.get_mut(id.position()) {
            *slot = fresh;
        }
        self.ids.insert(class, id);
        id
    }

    /// Counts one job less.
    pub(crate) fn leave(&mut self, id: ClassId) {
        let Some(slot) = self.slots.get_mut(id.position()) else {
            return;
        };
        match slot {
            Some((_, jobs)) if *jobs > 1 => *jobs -= 1,
            Some((class, _)) => {
                self.ids.remove(class);
                *slot = None;
                self.free.push(id);
            }
            None => {}
        }
    }

    /// The class of a number.
    pub(crate) fn get(&self, id: ClassId) -> Option<&Class> {
        self.at(id.position())
    }

    /// The class at a position of a table of all classes, if that number is in use.
    pub(crate) fn at(&self, position: usize) -> Option<&Class> {
        let (class, _) = self.slots.get(position)?.as_ref()?;
        Some(class)
    }

    /// How long a table of all classes must be.
    pub(crate) fn table_len(&self) -> usize {
        self.slots.len()
    }

    /// Classes that have jobs, with their number of jobs.
    #[cfg(test)]
    fn used(&self) -> Vec<(&Class, u32)> {
        self.slots
            .iter()
            .flatten()
            .map(|(class, jobs)| (&**class, *jobs))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{World, batch, gang};

    #[test]
    fn numbers_are_used_again_and_equal_classes_share_one() {
        let mut world = World::new(2, 8);
        let (one, two) = (world.submit(gang(1, 1)), world.submit(batch()));
        let class = |job| Class::of(world.job(job));
        let mut classes = Classes::default();
        let (a, b) = (classes.enter(class(one)), classes.enter(class(two)));
        assert_ne!(a, b);
        assert_eq!(classes.enter(class(one)), a);
        classes.leave(a);
        assert_eq!(classes.get(a), Some(&class(one)));
        classes.leave(a);
        assert_eq!(classes.get(a), None);
        assert_eq!(classes.enter(class(two)), b);
        assert_eq!(
            classes.enter(Class {
                model: "x".to_owned(),
                ..class(one)
            }),
            a
        );
        assert_eq!((classes.table_len(), classes.used().len()), (2, 2));
    }
}
