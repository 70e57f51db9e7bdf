//! Tasks of arrays in a pass: how many of each were placed, so that a record that stands for many is looked at as often as it may
//! start one.

use crate::cluster::Cluster;
use crate::id::JobId;
use crate::job::Job;
use crate::job::array::ArrayPart;
use std::collections::BTreeMap;

/// See the module.
#[derive(Default)]
pub(super) struct Tasks {
    /// By record: how many more may start.
    left: BTreeMap<JobId, u32>,
    /// By array with a limit: how many more may run.
    room: BTreeMap<JobId, u32>,
}

impl Tasks {
    /// Whether as many tasks of the job's array run, with those of this pass, as may.
    pub(super) fn is_full(&self, cluster: &Cluster, id: JobId) -> bool {
        let part = part(cluster, id);
        part.is_some_and(|part| self.room.get(&part.view.job) == Some(&0))
    }

    /// Counts a placement of this job; whether the same record may start another task.
    pub(super) fn may_go_on(&mut self, cluster: &Cluster, id: JobId) -> bool {
        let Some(part) = part(cluster, id) else {
            return false;
        };
        let (array, most) = (part.view.job, part.view.throttle);
        let mut room = u32::MAX;
        if most > 0 {
            let fresh = || most.saturating_sub(cluster.running_tasks(array));
            let left = self.room.entry(array).or_insert_with(fresh);
            *left = left.saturating_sub(1);
            room = *left;
        }
        let left = self.left.entry(id);
        let left = left.or_insert_with(|| part.startable().len());
        *left = left.saturating_sub(1);
        room > 0 && *left > 0
    }
}

fn part(cluster: &Cluster, id: JobId) -> Option<&ArrayPart> {
    cluster
        .jobs
        .get(&id)
        .and_then(|job: &Job| job.array.as_ref())
}
