//! In which order jobs are considered.

use super::class::ClassId;
use super::policy::Key;
use crate::cluster::{Cluster, Waiting};
use crate::id::JobId;
use std::cmp::Reverse;

/// Pending jobs that are not held, in order of [`Key`]. `tier` tells the tier of a class's partition.
pub(super) fn queue(cluster: &Cluster, tier: impl Fn(ClassId) -> u32) -> Vec<(Key, &Waiting)> {
    let waiting = cluster
        .queue()
        .jobs
        .iter()
        .filter(|(_, job)| job.priority > 0);
    let key = |id: &JobId, job: &Waiting| Key {
        tier: Reverse(tier(job.class)),
        priority: Reverse(job.priority),
        nice: job.nice,
        due: job.due,
        job: *id,
    };
    let mut jobs: Vec<_> = waiting.map(|(id, job)| (key(id, job), job)).collect();
    jobs.sort_unstable_by_key(|(key, _)| *key);
    jobs
}
