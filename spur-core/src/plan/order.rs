//! In which order jobs are considered: buckets merged by their first jobs, so that a bucket that is done costs nothing more.

use super::policy::Key;
use crate::cluster::{Bucket, BucketKey, Cluster};
use crate::time::Millis;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A bucket, and how far the pass has come in it.
pub(super) struct Line<'a> {
    pub(super) at: BucketKey,
    pub(super) bucket: &'a Bucket,
    /// Jobs whose begin time has come, in order.
    pub(super) due: Vec<Key>,
    last: Option<Key>,
}

impl Line<'_> {
    fn next(&self) -> Option<Key> {
        let from = |last| self.due.partition_point(|key| *key <= last);
        let due = self.due.get(self.last.map_or(0, from)).copied();
        let ready = self.bucket.next(self.last);
        due.into_iter().chain(ready).min()
    }
}

/// All buckets.
pub(super) struct Lines<'a> {
    lines: Vec<Line<'a>>,
    heads: BinaryHeap<Reverse<(Key, usize)>>,
}

impl<'a> Lines<'a> {
    /// Every bucket from its start.
    pub(super) fn of(cluster: &'a Cluster, at: Millis) -> Self {
        let buckets = cluster.queue().buckets.iter();
        let lines = buckets.map(|(key, bucket)| Line {
            at: *key,
            bucket,
            due: bucket.due(at),
            last: None,
        });
        let lines: Vec<Line<'a>> = lines.collect();
        let heads = lines.iter().zip(0..);
        let heads = heads.filter_map(|(line, at)| Some(Reverse((line.next()?, at))));
        Self {
            heads: heads.collect(),
            lines,
        }
    }

    /// The next job, and the number of its line; the line goes on only if it is told to.
    pub(super) fn pop(&mut self) -> Option<(Key, usize)> {
        let Reverse((key, at)) = self.heads.pop()?;
        if let Some(line) = self.lines.get_mut(at) {
            line.last = Some(key);
        }
        Some((key, at))
    }

    /// The same job comes once more, for another task of its array.
    pub(super) fn again(&mut self, key: Key, at: usize) {
        self.heads.push(Reverse((key, at)));
    }

    /// The next job of this line comes in its turn.
    pub(super) fn go_on(&mut self, at: usize) -> bool {
        let next = self.lines.get(at).and_then(Line::next);
        self.heads.extend(next.map(|key| Reverse((key, at))));
        next.is_some()
    }

    /// All lines, in order of bucket.
    pub(super) fn all(&self) -> &[Line<'a>] {
        &self.lines
    }
}
