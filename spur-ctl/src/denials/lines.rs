//! Single refusals: the newest few of each job, and so many in all.

use spur_core::denial::Denial;
use spur_core::id::JobId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most refusals kept in all. Beyond, the job with most of them loses its oldest.
pub const ALL_MAX: usize = 50_000;
/// Most refusals kept for one job, so that a flood by one hides nobody else's.
pub const JOB_MAX: usize = 200;

/// Refusals by number and by job.
#[derive(Debug, Default)]
pub(super) struct Lines {
    all: BTreeMap<u64, Denial>,
    by_job: BTreeMap<JobId, VecDeque<u64>>,
    /// Jobs by how many they have.
    by_count: BTreeSet<(usize, JobId)>,
    /// The highest number that was given.
    newest: u64,
}

impl Lines {
    /// The number that the next refusal gets.
    pub(super) fn next(&self) -> u64 {
        self.newest + 1
    }

    /// The highest number that was given.
    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// Numbers below this are used up.
    pub(super) fn continue_from(&mut self, next: u64) {
        self.newest = self.newest.max(next.saturating_sub(1));
    }

    /// Adds a refusal, which has its number; the answer is which had to go for it.
    pub(super) fn push(&mut self, denial: Denial) -> Vec<u64> {
        let (seq, job) = (denial.seq, denial.job);
        self.newest = self.newest.max(seq);
        self.all.insert(seq, denial);
        let numbers = self.by_job.entry(job).or_default();
        let mut removed = Vec::new();
        if numbers.len() < JOB_MAX {
            self.by_count.remove(&(numbers.len(), job));
            numbers.push_back(seq);
            self.by_count.insert((numbers.len(), job));
        } else {
            removed.extend(numbers.pop_front());
            numbers.push_back(seq);
        }
        for seq in &removed {
            self.all.remove(seq);
        }
        while self.all.len() > ALL_MAX
            && let Some((_, most)) = self.by_count.last().copied()
        {
            removed.extend(self.pop(most));
        }
        removed
    }

    /// Removes a job's oldest.
    fn pop(&mut self, job: JobId) -> Option<u64> {
        let numbers = self.by_job.get_mut(&job)?;
        self.by_count.remove(&(numbers.len(), job));
        let seq = numbers.pop_front();
        if numbers.is_empty() {
            self.by_job.remove(&job);
        } else {
            self.by_count.insert((numbers.len(), job));
        }
        seq.inspect(|seq| drop(self.all.remove(seq)))
    }

    /// Forgets a job's; the answer is their numbers.
    pub(super) fn forget(&mut self, job: JobId) -> Vec<u64> {
        let numbers = self.by_job.remove(&job).unwrap_or_default();
        self.by_count.remove(&(numbers.len(), job));
        for seq in &numbers {
            self.all.remove(seq);
        }
        numbers.into()
    }

    /// One of them.
    pub(super) fn get(&self, seq: u64) -> Option<&Denial> {
        self.all.get(&seq)
    }

    /// The numbers of all, rising.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.all.keys().copied()
    }

    /// Those that are alarms.
    pub(super) fn alarms(&self) -> impl Iterator<Item = &Denial> {
        self.all.values().filter(|denial| denial.is_alarm())
    }

    /// Refusals that pass, of one job or of all, numbered above `after` and up to `shown`: with an `after` the first `limit`,
    /// without the newest.
    pub(super) fn find(
        &self,
        job: Option<JobId>,
        (after, shown): (u64, u64),
        limit: usize,
        passes: impl Fn(&Denial) -> bool,
    ) -> Vec<Denial> {
        if after >= shown {
            return Vec::new();
        }
        let range = after + 1..=shown;
        let candidates: Box<dyn DoubleEndedIterator<Item = &Denial>> = match job {
            None => Box::new(self.all.range(range).map(|(_, denial)| denial)),
            Some(job) => {
                let own = self.by_job.get(&job).into_iter().flatten();
                let mine = own.filter(move |seq| range.contains(seq));
                Box::new(mine.filter_map(|seq| self.all.get(seq)))
            }
        };
        let candidates = candidates.filter(|denial| passes(denial));
        if after > 0 {
            return candidates.take(limit).cloned().collect();
        }
        let mut newest: Vec<Denial> = candidates.rev().take(limit).cloned().collect();
        newest.reverse();
        newest
    }
}
