//! How many CPUs of a node a partition's jobs may have together (`MaxCPUsPerNode`), and how many they have now and later.

use super::rooms::Rooms;
use super::slot::Slot;
use crate::partition::Partition;
use crate::resources::NodeShare;
use crate::time::Millis;

/// CPUs of a node that are a job's, or kept for one.
struct Hold {
    from: Millis,
    until: Millis,
    cpus: u32,
}

/// Of one partition.
pub(super) struct Cap {
    most: u32,
    /// By position.
    nodes: Vec<Vec<Hold>>,
}

impl Cap {
    /// The partition's, if it has one.
    pub(super) fn of(rooms: &Rooms<'_>, partition: &Partition) -> Option<Self> {
        let most = partition.cpus_of_a_node()?;
        let nodes = rooms.rows.iter().map(|row| {
            let own = row.holds.iter().filter(|hold| {
                let job = rooms.cluster.jobs.get(&hold.job);
                job.is_some_and(|job| job.spec.partition == partition.name)
            });
            let hold = own.map(|hold| Hold {
                from: Millis(0),
                until: rooms.over(hold.until),
                cpus: hold.cpus.into_iter().map(u32::from).sum(),
            });
            hold.collect()
        });
        let nodes = nodes.collect();
        Some(Self { most, nodes })
    }

    /// A node as a job of the partition may use it that ends at a time by its limit.
    pub(super) fn until<'a>(
        cap: Option<&Self>,
        (position, slot): (usize, Slot<'a>),
        until: Millis,
    ) -> Slot<'a> {
        let Some(cap) = cap else {
            return slot;
        };
        let holds = || cap.nodes.get(position).into_iter().flatten();
        // What is held is most at the beginning of a hold.
        let begins = holds().map(|hold| hold.from).filter(|from| *from <= until);
        let used = begins.map(|moment| {
            let here = holds().filter(|hold| hold.from <= moment && hold.until > moment);
            here.map(|hold| hold.cpus).fold(0, u32::saturating_add)
        });
        let left = cap.most.saturating_sub(used.max().unwrap_or(0));
        slot.at_most(Some(left))
    }

    /// The same at a moment. As with devices, what is kept for a job counts from now on.
    pub(super) fn at<'a>(
        cap: Option<&Self>,
        (position, slot): (usize, Slot<'a>),
        moment: Millis,
    ) -> Slot<'a> {
        let Some(cap) = cap else {
            return slot;
        };
        let holds = cap.nodes.get(position).into_iter().flatten();
        let used = holds.filter(|hold| hold.until > moment);
        let used = used.map(|hold| hold.cpus).fold(0, u32::saturating_add);
        slot.at_most(Some(cap.most.saturating_sub(used)))
    }

    /// The same if the partition had no jobs.
    pub(super) fn empty<'a>(cap: Option<&Self>, slot: Slot<'a>) -> Slot<'a> {
        slot.at_most(cap.map(|cap| cap.most))
    }

    /// Takes back what was counted last.
    pub(super) fn uncount(&mut self, rooms: &Rooms<'_>, shares: &[NodeShare]) {
        for share in shares {
            let position = rooms.position(share.node);
            if let Some(holds) = position.and_then(|at| self.nodes.get_mut(at)) {
                holds.pop();
            }
        }
    }

    /// Counts what a job was given, or what is kept for one.
    pub(super) fn count(
        &mut self,
        rooms: &Rooms<'_>,
        shares: &[NodeShare],
        (from, until): (Millis, Millis),
    ) {
        for share in shares {
            let position = rooms.position(share.node);
            if let Some(holds) = position.and_then(|at| self.nodes.get_mut(at)) {
                let cpus = share.cpus.len();
                holds.push(Hold { from, until, cpus });
            }
        }
    }
}
