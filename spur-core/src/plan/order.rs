//! In which order jobs are considered.

use super::class::ClassId;
use crate::cluster::{Cluster, Waiting};
use crate::id::JobId;
use std::cmp::Reverse;

/// What orders jobs: tier, priority, niceness, age.
type Key = (Reverse<u32>, Reverse<u32>, i32, JobId);

/// Pending jobs that are not held, by tier, priority, niceness, then age. `tier` tells the tier of a class's partition.
pub(super) fn queue(cluster: &Cluster, tier: impl Fn(ClassId) -> u32) -> Vec<(Key, &Waiting)> {
    let waiting = cluster
        .queue()
        .jobs
        .iter()
        .filter(|(_, job)| job.priority > 0);
    let key = |id: &JobId, job: &Waiting| {
        (
            Reverse(tier(job.class)),
            Reverse(job.priority),
            job.nice,
            *id,
        )
    };
    let mut jobs: Vec<_> = waiting.map(|(id, job)| (key(id, job), job)).collect();
    jobs.sort_unstable_by_key(|(key, _)| *key);
    jobs
}
