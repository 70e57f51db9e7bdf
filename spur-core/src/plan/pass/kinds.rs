//! What is known of a class once a pass has come to one of its jobs.

use super::Pass;
use crate::cluster::Cluster;
use crate::id::{NodeId, NodeName};
use crate::job::state::Reason;
use crate::plan::bars;
use crate::plan::caps::Cap;
use crate::plan::class::{Class, ClassId};
use crate::plan::filter::{self, Features};
use crate::plan::kind::Kind;
use crate::plan::wait::Wait;
use std::collections::BTreeSet;
use std::rc::Rc;

impl<'a> Pass<'a> {
    /// What a class may use, or why all its jobs wait.
    pub(super) fn kind(&mut self, class: ClassId) -> Result<Kind<'a>, Wait> {
        let cluster = self.cluster;
        let class = cluster.queue().classes.get(class);
        let class = class.ok_or_else(|| Wait::bare(Reason::None))?;
        let mut partitions = cluster.partitions.iter().zip(0..);
        let found = partitions.find(|(partition, _)| partition.name == class.partition);
        let Some((partition, at)) = found else {
            let text = format!("partition {} is not configured", class.partition);
            return Err(Wait {
                reason: Reason::PartitionInactive,
                text: text.into(),
            });
        };
        let required = self.required(class)?;
        if let Some((reason, text)) = bars::of_class(cluster, partition, class) {
            let text = text.into();
            return Err(Wait { reason, text });
        }
        let rooms = &self.rooms;
        let members = self.partitions.get_mut(at).map(|queueing| {
            if queueing.members.is_none() {
                queueing.cap = Cap::of(rooms, partition);
            }
            let fresh = || Rc::new(rooms.of_partition(cluster, partition));
            Rc::clone(queueing.members.get_or_insert_with(fresh))
        });
        let members = members.ok_or_else(|| Wait::bare(Reason::None))?;
        let members = match class.reservation.as_str() {
            "" => members,
            named => self.guards.within(named, &members)?,
        };
        let allowed = filter::allowed(cluster, &members, class, |id| rooms.position(id));
        let wishes = (class.constraint.as_str(), class.prefer.as_str());
        let mut kind = Kind::of(class, at, required);
        if wishes == ("", "") {
            kind.add_set(allowed, rooms.len());
            return Ok(kind);
        }
        let features = self
            .features
            .get_or_insert_with(|| Features::of(cluster, rooms.nodes()));
        let (sets, preferred) = filter::choices(features, allowed, wishes);
        sets.into_iter()
            .for_each(|set| kind.add_set(set, rooms.len()));
        kind.preferred = preferred;
        let wanted = features.read(wishes.0);
        kind.counts = features.counts(&wanted);
        Ok(kind)
    }

    /// Positions of the nodes of `-w`.
    fn required(&self, class: &Class) -> Result<Vec<usize>, Wait> {
        let mut positions = BTreeSet::new();
        for name in &class.nodelist {
            match node(self.cluster, name).and_then(|id| self.rooms.position(id)) {
                Some(at) => drop(positions.insert(at)),
                None => {
                    let text = format!("node {name} takes no jobs now");
                    return Err(Wait {
                        reason: Reason::ReqNodeNotAvail,
                        text: text.into(),
                    });
                }
            }
        }
        Ok(positions.into_iter().collect())
    }
}

fn node(cluster: &Cluster, name: &str) -> Option<NodeId> {
    cluster.node_ids.get(&NodeName::new(name).ok()?).copied()
}
