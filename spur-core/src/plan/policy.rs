//! Which waiting job comes first, and for which of them devices are reserved.
//!
//! Partition tier, priority and niceness come first, as the operator and the users set them. Among jobs that these leave equal,
//! each has a *due time*: when it came, plus patience in proportion to how long it is expected to run, up to [`LONGEST`]. The
//! earliest due time comes first. So short jobs pass long ones, but only those that came not much later: nobody is passed for
//! longer than [`PATIENCE`] times [`LONGEST`] (two weeks), and the first in order holds a reservation. A due time never changes
//! while a job waits, so the queue stays sorted.
//!
//! Why these numbers, and what else was tried: `docs/decisions/queue-policy.md`.

use super::predict::limit_secs;
use crate::id::JobId;
use crate::job::Job;
use crate::time::Millis;
use std::cmp::Reverse;

/// A job expected to run an hour is due this many hours after it came.
const PATIENCE: u64 = 2;
/// The same for a job of several nodes: room for it is rare, and must not be left to those that fit anywhere.
const PATIENCE_WIDE: u64 = 1;
/// Seconds beyond which an expected run time earns no more patience: bounds how long a job can be passed.
const LONGEST: u64 = 7 * 86_400;

/// Users who need a quarter of what they ask for, or more, are taken at their word: their limits tell jobs apart better than the
/// past does.
const AT_THEIR_WORD: u64 = 4;

/// Order of waiting jobs: the least comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Tier of the partition.
    pub(crate) tier: Reverse<u32>,
    /// Priority of the job.
    pub(crate) priority: Reverse<u32>,
    /// Its niceness.
    pub(crate) nice: i32,
    /// See the module.
    pub(crate) due: Millis,
    /// Age, between equals.
    pub(crate) job: JobId,
}

/// When a job is due; see the module. The same as long as it waits, also when it is requeued.
pub(crate) fn due(job: &Job) -> Millis {
    let came = job
        .spec
        .begin
        .map_or(job.submitted, |begin| begin.max(job.submitted));
    let limit = limit_secs(&job.spec).unwrap_or(u64::MAX);
    let far_less = |secs: &u64| secs.saturating_mul(AT_THEIR_WORD) < limit;
    let secs = job.expected.filter(far_less).unwrap_or(limit);
    let patience = if job.spec.nodes_min > 1 {
        PATIENCE_WIDE
    } else {
        PATIENCE
    };
    came.plus_secs(secs.min(LONGEST).saturating_mul(patience))
}

/// Seconds after which a waiting job is aged: devices are then kept for it from jobs without a time limit even where such jobs run, so
/// that nobody can tell from when on it will have them.
const AGED: u64 = 3_600;

/// Whether a job has waited so long that jobs without a time limit no longer pass it.
pub(crate) fn is_aged(job: Option<&Job>, at: Millis) -> bool {
    job.is_some_and(|job| job.eligible.max(job.submitted).plus_secs(AGED) <= at)
}

/// Reservations given in one pass within one partition.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reserved {
    first: u32,
    wide: u32,
    overdue: u32,
    failed: u32,
}

/// What decides whether a blocked job gets a reservation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// Nodes that it needs.
    pub(crate) nodes: u32,
    /// When it is due.
    pub(crate) due: Millis,
}

/// Blocked jobs at the head of a partition's queue that get a reservation, whatever they are.
const FIRST: u32 = 1;
/// Blocked jobs of several nodes that get one besides.
const WIDE: u32 = 8;
/// Blocked jobs that are past their due time that get one besides.
const OVERDUE: u32 = 8;

/// Blocked jobs for which there is no place at any time, whatever ends: so many are looked at. What they were granted is for others.
const FAILED: u32 = 16;

impl Reserved {
    /// What was granted before stands; a job that was granted one has no place at any time.
    pub(crate) fn fails(&mut self, before: Self) {
        *self = Self {
            failed: before.failed + 1,
            ..before
        };
    }

    /// Whether a blocked job gets a reservation; asked in order of [`Key`], and counted.
    pub(crate) fn grants(&mut self, claim: Claim, at: Millis) -> bool {
        let (count, most) = if self.first < FIRST {
            (&mut self.first, FIRST)
        } else if claim.nodes > 1 {
            (&mut self.wide, WIDE)
        } else if claim.due <= at {
            (&mut self.overdue, OVERDUE)
        } else {
            return false;
        };
        let granted = *count < most;
        *count += u32::from(granted);
        granted
    }

    /// Whether no job can get one any more, so that a pass need not ask.
    pub(crate) fn is_full(&self) -> bool {
        let given = self.first >= FIRST && self.wide >= WIDE && self.overdue >= OVERDUE;
        given || self.failed >= FAILED
    }
}

#[cfg(test)]
mod tests;
