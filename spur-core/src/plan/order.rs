//! In which order jobs are considered.

use crate::cluster::Cluster;
use crate::job::Job;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Pending jobs that are not held, with the position of their partition: by tier, priority, niceness, then age.
pub(super) fn queue(cluster: &Cluster) -> Vec<(&Job, Option<usize>)> {
    let positions: BTreeMap<&str, usize> = cluster
        .partitions
        .iter()
        .zip(0..)
        .map(|(part, at)| (part.name.as_str(), at))
        .collect();
    let waiting = cluster.pending().filter(|job| job.priority > 0);
    let mut jobs: Vec<(&Job, Option<usize>)> = waiting
        .map(|job| (job, positions.get(job.spec.partition.as_str()).copied()))
        .collect();
    let tier = |at: Option<usize>| {
        at.and_then(|at| cluster.partitions.get(at))
            .map_or(0, |partition| partition.priority_tier)
    };
    jobs.sort_by_key(|(job, at)| {
        (
            Reverse(tier(*at)),
            Reverse(job.priority),
            job.spec.nice,
            job.id,
        )
    });
    jobs
}
