//! What time alone makes due.

use super::Cluster;
use super::index::Due;
use crate::event::Event;
use crate::id::JobId;
use crate::job::Job;
use crate::manage::Change;
use crate::manage::reservation::Reservation;
use crate::time::Millis;
use std::ops::Bound;

/// Most entries that one call of [`Cluster::expired`] answers with; the next call gives the rest.
const BATCH: usize = 10_000;

impl Cluster {
    /// Events that time alone makes due by `at`: limits reached, deadlines missed, nodes lost, nodes that rested
    /// long enough, ended jobs to forget. Empty once all that it
    /// named was applied.
    pub fn expired(&self, at: Millis) -> Vec<Event> {
        let mut events = Vec::new();
        let mut purged = Vec::new();
        let due = self.index.due.iter().take_while(|(when, _)| *when <= at);
        for (_, what) in due.take(BATCH) {
            match *what {
                Due::Limit(job) => events.push(Event::TimedOut { job }),
                Due::Warning(job) => events.push(Event::Warned { job }),
                Due::Lost(node) => events.push(Event::NodeLost { node }),
                Due::Purge(job) => purged.push(job),
                Due::Rested(node) => events.push(Event::NodeRested { node }),
                Due::CronAgain(job) => events.push(Event::CronAgain { job, next: None }),
                Due::Nears(job, percent) => events.push(Event::LimitNears { job, percent }),
                Due::TooLate(job) => events.push(Event::DeadlineMissed { job }),
                Due::Begin(_) => {}
            }
        }
        for reservation in self.managed.reservations.values() {
            if reservation.end <= at {
                events.extend(self.overrun(reservation, at));
                let over = Change::ReservationOver(reservation.name.clone());
                events.push(Event::Managed(over));
            }
        }
        if !purged.is_empty() {
            events.push(Event::Purged { jobs: purged });
        }
        events
    }

    /// When to look again: the next moment at which [`Self::expired`] says something (which may have passed) or a waiting
    /// job may begin (always later than `at`), and what that is.
    pub fn next_deadline(&self, at: Millis) -> Option<(Millis, &'static str)> {
        let due = self
            .index
            .due
            .first()
            .map(|(when, what)| (*when, label(*what)));
        let later = (Bound::Excluded((at, JobId(u32::MAX))), Bound::Unbounded);
        let begin = self
            .index
            .begins
            .range(later)
            .next()
            .map(|(when, _)| (*when, "begin time"));
        let reservations = self.managed.reservations.values();
        let turns = reservations.flat_map(|known| {
            let start = (known.start > at).then_some(known.start);
            start.into_iter().chain([known.end])
        });
        let turn = turns.min().map(|when| (when, "reservation"));
        due.into_iter().chain(begin).chain(turn).min()
    }

    /// Jobs of a reservation that run on when it is over: they end with it.
    fn overrun<'a>(
        &'a self,
        over: &'a Reservation,
        at: Millis,
    ) -> impl Iterator<Item = Event> + 'a {
        let uses = |job: &&Job| {
            let named = &job.spec.extras().reservation;
            named.split(',').any(|name| name == over.name)
        };
        let jobs = self.running().filter(uses).filter(|_| !over.has("FLEX"));
        // Those at their own limit are named for that already.
        let jobs = jobs.filter(move |job| job.ended.is_none_or(|end| end > at));
        jobs.map(|job| Event::TimedOut { job: job.id })
    }

    /// Whether the begin time of a waiting job lies after the one moment and not after the other: worth a planning pass.
    pub fn begins_within(&self, after: Millis, until: Millis) -> bool {
        let span = (
            Bound::Excluded((after, JobId(u32::MAX))),
            Bound::Included((until, JobId(u32::MAX))),
        );
        let begins = |known: &Reservation| after < known.start && known.start <= until;
        after < until
            && (self.index.begins.range(span).next().is_some()
                || self.managed.reservations.values().any(begins))
    }
}

fn label(due: Due) -> &'static str {
    match due {
        Due::Limit(_) => "time limit",
        Due::Warning(_) => "signal before the time limit",
        Due::Lost(_) => "silent node",
        Due::Purge(_) => "ended job",
        Due::Begin(_) => "begin time",
        Due::Rested(_) => "resting node",
        Due::TooLate(_) => "deadline",
        Due::CronAgain(_) => "entry of a crontab",
        Due::Nears(..) => "share of a time limit",
    }
}
