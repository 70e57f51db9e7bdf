//! What is accepted, as Slurm accepts it, and can hardly be meant: said to whoever submits.

use crate::cluster::Cluster;
use crate::job::spec::JobSpec;
use crate::partition::Partition;
use crate::slurm::timespec;
use crate::time::TimeLimit;

/// One sentence for each.
pub(super) fn of(cluster: &Cluster, spec: &JobSpec, partition: &Partition) -> Vec<String> {
    let mut notices = Vec::new();
    if let (Some(limit), TimeLimit::Secs(most)) = (spec.time_limit, partition.max_time) {
        let beyond = match limit {
            TimeLimit::Secs(secs) => secs > most,
            TimeLimit::Unlimited => true,
        };
        if beyond {
            notices.push(format!(
                "the time limit {} is above the {} of partition {}: the job waits until one of them is changed",
                timespec::limit_long(limit),
                timespec::limit_long(partition.max_time),
                partition.name
            ));
        }
    }
    let accounts = &cluster.managed.accounts;
    if !spec.account.is_empty() && accounts.in_use() && accounts.account(&spec.account).is_none() {
        notices.push(format!(
            "there is no account {}: the job is counted under that name all the same",
            spec.account
        ));
    }
    if !spec.qos.is_empty() && accounts.quality(&spec.qos).is_none() {
        notices.push(format!(
            "there is no quality of service {}: it has no effect",
            spec.qos
        ));
    }
    notices
}
