//! The end of a job's series that is not on disk yet: a few entries, at the resolution that the whole will have anyway.

use spur_core::api::SeriesKind;
use spur_core::id::{Generation, JobId, NodeName};
use spur_core::usage::series::{POINTS_MAX, Series};
use std::collections::BTreeMap;

/// Most entries of one series. When they are full, neighbours are joined.
const ENTRIES_MAX: usize = 64;
/// Shortest time between two writes of a job's series, ms.
const WRITE_MIN: u64 = 30_000;
/// Longest, ms.
const WRITE_MAX: u64 = 600_000;

/// Of what a series is.
pub(in crate::usage) type Which = (SeriesKind, Option<u32>);

/// What was seen in a short time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::usage) struct Entry {
    /// Its end, ms from the start of the job.
    pub(in crate::usage) until: u64,
    /// How long it is, ms.
    pub(in crate::usage) millis: u64,
    /// Mean, least, greatest.
    pub(in crate::usage) seen: (i64, i64, i64),
}

impl Entry {
    /// Both, as one that ends with the second.
    fn join(self, other: Self) -> Self {
        let millis = self.millis.saturating_add(other.millis);
        let weighted = |entry: Self| i128::from(entry.seen.0) * i128::from(entry.millis);
        let sum = weighted(self) + weighted(other);
        let mean = i64::try_from(sum / i128::from(millis.max(1))).unwrap_or(i64::MAX);
        Self {
            until: other.until,
            millis,
            seen: (
                mean,
                self.seen.1.min(other.seen.1),
                self.seen.2.max(other.seen.2),
            ),
        }
    }
}

/// A job's series on one node, for the record.
#[derive(Clone, Debug)]
pub(in crate::usage) struct TailBatch {
    /// Which job.
    pub(in crate::usage) job: JobId,
    /// Which placement.
    pub(in crate::usage) generation: Generation,
    /// Where.
    pub(in crate::usage) node: NodeName,
    /// The series.
    pub(in crate::usage) series: BTreeMap<Which, Vec<Entry>>,
}

/// Entries of all series of a job on one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Tail {
    series: BTreeMap<Which, Vec<Entry>>,
    /// Age of the job at the last write and now, ms.
    written: u64,
    now: u64,
}

impl Tail {
    /// Notes what was seen for `millis` up to `until`.
    pub(super) fn add(&mut self, which: Which, until: u64, millis: u64, seen: (i64, i64, i64)) {
        if millis == 0 {
            return;
        }
        self.now = self.now.max(until);
        let step = (until / POINTS_MAX as u64).max(1000);
        let entries = self.series.entry(which).or_default();
        let entry = Entry {
            until,
            millis,
            seen,
        };
        match entries.last_mut() {
            Some(last)
                if last.millis.saturating_add(millis) <= step
                    && until <= last.until.saturating_add(millis.saturating_mul(2))
                    && until > last.until =>
            {
                *last = last.join(entry);
            }
            Some(_) | None => entries.push(entry),
        }
        if entries.len() > ENTRIES_MAX {
            let joined = entries.chunks(2).map(|pair| match pair {
                [a, b] => a.join(*b),
                [a, ..] => *a,
                [] => entry,
            });
            *entries = joined.collect();
        }
    }

    /// Whether it is time to write: the older a job, the seldomer.
    pub(super) fn is_due(&self) -> bool {
        let pause = (self.now / 16).clamp(WRITE_MIN, WRITE_MAX);
        !self.series.is_empty() && self.now >= self.written.saturating_add(pause)
    }

    /// Takes what there is.
    pub(super) fn take(&mut self) -> BTreeMap<Which, Vec<Entry>> {
        self.written = self.now;
        std::mem::take(&mut self.series)
    }

    /// Looks at what there is.
    pub(super) fn entries(&self) -> &BTreeMap<Which, Vec<Entry>> {
        &self.series
    }
}

/// Adds entries to series.
pub(in crate::usage) fn merge(
    into: &mut BTreeMap<Which, Series>,
    series: &BTreeMap<Which, Vec<Entry>>,
) {
    for (which, entries) in series {
        let whole = into.entry(*which).or_insert_with(|| Series::new(1000));
        for entry in entries {
            whole.add(entry.until, entry.millis, entry.seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_that_nobody_takes_stays_short_and_keeps_the_mean() {
        let mut tail = Tail::default();
        let which = (SeriesKind::GpuBusy, Some(0));
        for second in 1..=10_000u64 {
            let share = i64::from(second.is_multiple_of(2)) * 1000;
            tail.add(which, second * 1000, 1000, (share, share, share));
        }
        assert!(tail.is_due());
        let entries = tail.take().remove(&which).unwrap();
        assert!(entries.len() <= ENTRIES_MAX);
        assert_eq!(
            entries.iter().map(|entry| entry.millis).sum::<u64>(),
            10_000_000
        );
        assert!(
            entries
                .iter()
                .all(|entry| (400..=600).contains(&entry.seen.0))
        );
        assert!(!tail.is_due());
        let mut whole = BTreeMap::new();
        merge(&mut whole, &[(which, entries)].into());
        let millis: u64 = whole[&which]
            .points()
            .iter()
            .map(|point| point.millis)
            .sum();
        assert_eq!(millis, 10_000_000);
    }
}
