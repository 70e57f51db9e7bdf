//! How many CPUs of a node a partition's jobs may have together (`MaxCPUsPerNode`), and how many they have.

use super::fit::Part;
use super::rooms::Rooms;
use crate::partition::Partition;
use crate::resources::NodeShare;

/// Of one partition.
pub(super) struct Cap {
    most: u32,
    /// CPUs that its jobs hold, by position.
    used: Vec<u32>,
}

impl Cap {
    /// The partition's, if it has one.
    pub(super) fn of(rooms: &Rooms<'_>, partition: &Partition) -> Option<Self> {
        let most = partition.max_cpus_per_node;
        if most == 0 {
            return None;
        }
        let used = rooms.rows.iter().map(|row| {
            let own = row.holds.iter().filter(|hold| {
                let job = rooms.cluster.jobs.get(&hold.job);
                job.is_some_and(|job| job.spec.partition == partition.name)
            });
            let cpus = own.flat_map(|hold| hold.cpus);
            cpus.map(u32::from).sum()
        });
        let used = used.collect();
        Some(Self { most, used })
    }

    /// Whether so many more may be taken at a position.
    pub(super) fn allows(&self, position: usize, cpus: u32) -> bool {
        let used = self.used.get(position).copied().unwrap_or(0);
        used.saturating_add(cpus) <= self.most
    }

    /// Counts what was given.
    pub(super) fn count(&mut self, parts: &[Part], shares: &[NodeShare]) {
        for (part, share) in parts.iter().zip(shares) {
            if let Some(used) = self.used.get_mut(part.slot) {
                *used = used.saturating_add(share.cpus.len());
            }
        }
    }
}
