//! Waiting jobs as a planning pass reads them: in *buckets* of jobs that fit or fail together, each sorted by the order of the
//! queue, and within a bucket by what the jobs say already. So a pass touches only jobs that start or have something new to say,
//! however many wait.

use super::flow::{self, Flows, Load};
use crate::id::JobId;
use crate::job::Job;
use crate::job::state::Reason;
use crate::partition::Partition;
use crate::plan::class::{Class, ClassId, Classes};
use crate::plan::policy::{self, Key};
use crate::time::{Millis, TimeLimit};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What a job says of why it waits, small enough to compare at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Said {
    reason: Reason,
    /// A hash of the sentence; 0 for none.
    text: u64,
}

impl Said {
    /// A reason and its sentence.
    pub(crate) fn of(reason: Reason, text: &str) -> Self {
        // FNV-1a.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let text = if text.is_empty() { 0 } else { hash };
        Self { reason, text }
    }
}

/// Which bucket: jobs of one class with one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BucketKey {
    pub(crate) class: ClassId,
    pub(crate) limit: TimeLimit,
}

/// Jobs that fit or fail together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// In order of the queue, apart by what they say. No set is empty.
    ready: BTreeMap<Said, BTreeSet<Key>>,
    /// Jobs with a begin time that were not seen to have reached it, by that time.
    dated: BTreeMap<Said, BTreeSet<(Millis, Key)>>,
}

impl Bucket {
    /// The first ready job behind a place in the queue.
    pub(crate) fn next(&self, last: Option<Key>) -> Option<Key> {
        let next = |set: &BTreeSet<Key>| match last {
            None => set.first().copied(),
            Some(last) => {
                let behind = (std::ops::Bound::Excluded(last), std::ops::Bound::Unbounded);
                set.range(behind).next().copied()
            }
        };
        self.ready.values().filter_map(next).min()
    }

    /// Ready jobs from a place in the queue on that say something else.
    pub(crate) fn saying_else(&self, said: Said, from: Key) -> impl Iterator<Item = Key> {
        let others = self.ready.iter().filter(move |(other, _)| **other != said);
        others.flat_map(move |(_, set)| set.range(from..).copied())
    }

    /// Jobs whose begin time has come by `at`, in order of the queue.
    pub(crate) fn due(&self, at: Millis) -> Vec<Key> {
        let reached = |set: &'_ BTreeSet<(Millis, Key)>| {
            let reached = set.iter().take_while(|(begin, _)| *begin <= at);
            reached.map(|(_, key)| *key).collect::<Vec<_>>()
        };
        let mut due: Vec<Key> = self.dated.values().flat_map(reached).collect();
        due.sort_unstable();
        due
    }

    /// Jobs whose begin time comes after `at` and that do not say so.
    pub(crate) fn silent_until_begin(&self, at: Millis) -> impl Iterator<Item = Key> {
        let said = Said::of(Reason::BeginTime, "");
        let others = self.dated.iter().filter(move |(other, _)| **other != said);
        let later = |set: &'_ BTreeSet<(Millis, Key)>| set.len();
        others.flat_map(move |(_, set)| {
            let skipped = set.iter().take_while(|(begin, _)| *begin <= at).count();
            let count = later(set) - skipped;
            set.iter().rev().take(count).map(|(_, key)| *key)
        })
    }

    fn put(&mut self, job: &Waiting) {
        if job.dated {
            let set = self.dated.entry(job.said).or_default();
            set.insert((job.eligible, job.key));
        } else {
            self.ready.entry(job.said).or_default().insert(job.key);
        }
    }

    fn take(&mut self, job: &Waiting) {
        if job.dated {
            if let Some(set) = self.dated.get_mut(&job.said) {
                set.remove(&(job.eligible, job.key));
                if set.is_empty() {
                    self.dated.remove(&job.said);
                }
            }
        } else if let Some(set) = self.ready.get_mut(&job.said) {
            set.remove(&job.key);
            if set.is_empty() {
                self.ready.remove(&job.said);
            }
        }
    }
}

/// Where a waiting job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    key: Key,
    bucket: BucketKey,
    eligible: Millis,
    said: Said,
    dated: bool,
    /// It is looked at with the leader of its heterogeneous job, and is in no bucket.
    follows: bool,
    load: Option<Load>,
}

/// All waiting jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    /// Held ones, and those that other jobs keep waiting, are in no bucket.
    jobs: BTreeMap<JobId, Option<Waiting>>,
    pub(crate) classes: Classes,
    pub(crate) buckets: BTreeMap<BucketKey, Bucket>,
}

impl Queue {
    /// Waiting jobs, held ones too, in order of number.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.jobs.keys().copied()
    }

    /// How many wait, held ones too.
    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(super) fn enter(&mut self, job: &Job, partitions: &[Partition], flows: &mut Flows) {
        if job.kept().is_some() {
            self.jobs.insert(job.id, None);
            return;
        }
        let class = self.classes.enter(Class::of(job));
        let limit = job.spec.time_limit.unwrap_or(TimeLimit::Unlimited);
        let key = key(job, partitions);
        let waiting = Waiting {
            key,
            bucket: BucketKey { class, limit },
            eligible: job.eligible,
            said: Said::of(job.reason, &job.reason_text),
            dated: is_dated(job),
            follows: job.het.is_some_and(|part| !part.leads()),
            load: flow::load(job, Some(key), partitions),
        };
        waiting.load.iter().for_each(|load| flows.add(load));
        if !waiting.follows {
            self.buckets
                .entry(waiting.bucket)
                .or_default()
                .put(&waiting);
        }
        self.jobs.insert(job.id, Some(waiting));
    }

    pub(super) fn leave(&mut self, job: JobId, flows: &mut Flows) {
        if let Some(Some(waiting)) = self.jobs.remove(&job) {
            let bucket = self.buckets.get_mut(&waiting.bucket);
            if let Some(bucket) = bucket.filter(|_| !waiting.follows) {
                bucket.take(&waiting);
                if *bucket == Bucket::default() {
                    self.buckets.remove(&waiting.bucket);
                }
            }
            self.classes.leave(waiting.bucket.class);
            waiting.load.iter().for_each(|load| flows.subtract(load));
        }
    }

    /// The class and the limit of a waiting job that is not kept waiting.
    pub(crate) fn bucket_of(&self, job: JobId) -> Option<BucketKey> {
        let waiting = self.jobs.get(&job)?.as_ref()?;
        Some(waiting.bucket)
    }

    /// A job was told why it waits; nothing else of it changed.
    pub(in crate::cluster) fn explain(&mut self, job: &Job) {
        if let Some(Some(waiting)) = self.jobs.get_mut(&job.id) {
            let (said, dated) = (Said::of(job.reason, &job.reason_text), is_dated(job));
            if waiting.follows {
                (waiting.said, waiting.dated) = (said, dated);
                return;
            }
            let bucket = self.buckets.entry(waiting.bucket).or_default();
            bucket.take(waiting);
            (waiting.said, waiting.dated) = (said, dated);
            bucket.put(waiting);
        }
    }
}

/// A job with a begin time counts as ready once it says another reason: a pass has seen then that its time has come.
fn is_dated(job: &Job) -> bool {
    job.eligible > job.submitted && matches!(job.reason, Reason::None | Reason::BeginTime)
}

fn key(job: &Job, partitions: &[Partition]) -> Key {
    let mut named = partitions.iter();
    let partition = named.find(|partition| partition.name == job.spec.partition);
    Key {
        tier: Reverse(partition.map_or(0, |partition| partition.priority_tier)),
        priority: Reverse(job.priority),
        nice: job.spec.nice,
        due: policy::due(job),
        job: job.id,
    }
}

/// Numbers of classes differ with history; what they stand for does not.
impl PartialEq for Queue {
    fn eq(&self, other: &Self) -> bool {
        let class = |queue: &'_ Self, at: &BucketKey| queue.classes.get(at.class).cloned();
        let same = |mine: &Option<Waiting>, theirs: &Option<Waiting>| match (mine, theirs) {
            (Some(mine), Some(theirs)) => {
                let bucket = theirs.bucket;
                Waiting { bucket, ..*mine } == *theirs
                    && mine.bucket.limit == bucket.limit
                    && class(self, &mine.bucket) == class(other, &bucket)
                    && self.buckets.get(&mine.bucket) == other.buckets.get(&bucket)
            }
            (mine, theirs) => mine == theirs,
        };
        self.jobs.keys().eq(other.jobs.keys())
            && self
                .jobs
                .values()
                .zip(other.jobs.values())
                .all(|(a, b)| same(a, b))
            && self.buckets.len() == other.buckets.len()
    }
}

impl Eq for Queue {}
