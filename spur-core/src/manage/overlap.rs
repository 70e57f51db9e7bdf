//! Which nodes are free for a reservation: of other reservations and of jobs that run.

use super::refuse;
use super::reservation::Reservation;
use crate::api::{Refusal, RefusalKind};
use crate::cluster::Cluster;
use crate::id::NodeName;
use crate::plan::rooms::natural;
use crate::slurm::constraint;
use std::collections::BTreeSet;

/// A cluster during a reservation's time.
pub(super) struct Window<'a> {
    cluster: &'a Cluster,
    /// Nodes of others.
    reserved: BTreeSet<NodeName>,
    /// Nodes on which jobs run into it.
    busy: BTreeSet<NodeName>,
}

impl<'a> Window<'a> {
    /// Of this reservation.
    pub(super) fn of(cluster: &'a Cluster, own: &Reservation) -> Self {
        let others = cluster.managed.reservations.values();
        let others = others.filter(|other| {
            other.name != own.name && other.overlaps(own.start, own.end) && !other.may_overlap()
        });
        let reserved = match own.may_overlap() {
            true => BTreeSet::new(),
            false => others
                .flat_map(|other| other.nodes.iter().cloned())
                .collect(),
        };
        let into = |job: &&crate::job::Job| {
            let own = job.spec.extras().reservation == own.name && !own.name.is_empty();
            !own
        };
        let jobs = cluster.running().filter(into);
        let jobs = jobs.filter(|job| job.ended.is_none_or(|end| end > own.start));
        let shares = jobs.flat_map(|job| &job.allocation);
        let names = shares.filter_map(|share| Some(cluster.nodes.get(&share.node)?.name.clone()));
        let ignored = own.has("IGNORE_JOBS") || own.has("MAINT");
        let busy = if ignored {
            BTreeSet::new()
        } else {
            names.collect()
        };
        Self {
            cluster,
            reserved,
            busy,
        }
    }

    /// The first so many nodes that are free, in order of name, with the features that it wants, of its partition or the default one.
    pub(super) fn choose(&self, own: &Reservation, count: usize) -> Result<Vec<NodeName>, Refusal> {
        let mut partitions = self.cluster.partitions.iter();
        let partition = match own.partition.as_str() {
            "" => partitions
                .find(|known| known.default)
                .map_or("", |known| &known.name),
            named => named,
        };
        let wanted = constraint::parse(&own.features)
            .map_err(|_| refuse(RefusalKind::InvalidFeature, own.features.clone()))?;
        let fits = |name: &NodeName| {
            let id = self.cluster.node_ids.get(name);
            let node = id.and_then(|id| self.cluster.nodes.get(id));
            node.is_some_and(|node| {
                let features: Vec<&str> = self.cluster.features(node).collect();
                wanted.matches(&features)
            })
        };
        let nodes = members(self.cluster, partition);
        let free = |name: &NodeName| !self.reserved.contains(name) && !self.busy.contains(name);
        let kept = own
            .nodes
            .iter()
            .filter(|name| nodes.contains(name))
            .cloned();
        let more = nodes.iter().filter(|name| fits(name) && free(name));
        let more = more.filter(|name| !own.nodes.contains(name)).cloned();
        let chosen: Vec<NodeName> = kept.chain(more).take(count).collect();
        if chosen.len() < count {
            let text = format!("{} of {count} nodes are free then", chosen.len());
            return Err(refuse(RefusalKind::NodesBusy, text));
        }
        Ok(in_order(chosen.iter()))
    }

    /// Whether its nodes are free.
    pub(super) fn is_free(&self, own: &Reservation) -> Result<(), Refusal> {
        if let Some(taken) = own.nodes.iter().find(|name| self.reserved.contains(name)) {
            let text = format!("node {taken} is reserved then");
            return Err(refuse(RefusalKind::ReservationOverlap, text));
        }
        let old = self.cluster.managed.reservations.get(&own.name);
        let new = |name: &&NodeName| old.is_none_or(|old| !old.nodes.contains(name));
        let busy = own
            .nodes
            .iter()
            .filter(new)
            .find(|name| self.busy.contains(name));
        match busy {
            Some(busy) => {
                let text = format!("a job runs on {busy} until then; use Flags=IGNORE_JOBS");
                Err(refuse(RefusalKind::NodesBusy, text))
            }
            None => Ok(()),
        }
    }
}

/// Registered nodes of a partition, in order of name.
pub(super) fn members(cluster: &Cluster, partition: &str) -> Vec<NodeName> {
    let mut partitions = cluster.partitions.iter();
    let partition = partitions.find(|known| known.name == partition);
    let nodes = cluster.nodes.values().map(|node| &node.name);
    in_order(nodes.filter(|name| partition.is_some_and(|partition| partition.has(name))))
}

/// Names as people count them, each once.
pub(super) fn in_order<'n>(names: impl Iterator<Item = &'n NodeName>) -> Vec<NodeName> {
    let mut names: Vec<NodeName> = names.cloned().collect();
    names.sort_by(|a, b| natural(a.as_str(), b.as_str()));
    names.dedup();
    names
}
