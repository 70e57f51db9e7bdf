//! What a change does to the cluster.

use super::{Change, Managed};
use crate::cluster::{Cluster, Taken};
use crate::effect::Effects;
use crate::partition::Partition;
use crate::time::Millis;

impl Managed {
    /// Partitions as they are: the configured ones in order, as far as they were not changed, then those that were made.
    #[must_use]
    pub fn partitions(&self) -> Vec<Partition> {
        let seen = |partition: &Partition| match self.partitions.get(&partition.name) {
            None => Some(partition.clone()),
            Some(changed) => changed.clone(),
        };
        let configured = |name: &String| self.configured.iter().any(|known| known.name == *name);
        let made = self.partitions.iter().filter(|(name, _)| !configured(name));
        let made = made.filter_map(|(_, partition)| partition.clone());
        self.configured
            .iter()
            .filter_map(seen)
            .chain(made)
            .collect()
    }
}

impl Cluster {
    /// The partitions of a new configuration, with what was changed over them. The state that an operator gave one outlives it.
    pub(crate) fn configure_partitions(&mut self, new: &[Partition]) {
        let old = std::mem::take(&mut self.partitions);
        self.managed.configured = new.to_vec();
        for partition in &mut self.managed.configured {
            if let Some(before) = old.iter().find(|before| before.name == partition.name) {
                partition.state = before.state;
            }
        }
        self.partitions = self.managed.partitions();
    }

    pub(crate) fn on_managed(&mut self, at: Millis, change: &Change, fx: &mut Effects) -> Taken {
        match change {
            Change::Partition(partition) => {
                let (name, new) = (partition.name.clone(), Partition::clone(partition));
                if new.default {
                    self.only_default(&name);
                }
                self.managed.partitions.insert(name, Some(new));
                self.partitions_changed(fx);
            }
            Change::PartitionGone(name) => {
                if !self.partitions.iter().any(|known| known.name == *name) {
                    return Err("no such partition");
                }
                self.managed.partitions.insert(name.clone(), None);
                self.partitions_changed(fx);
            }
            Change::Node { name, change } => {
                self.managed.nodes.insert(name.clone(), change.clone());
                self.nodes_changed(fx);
            }
            Change::Reset => {
                self.managed.partitions.clear();
                self.managed.nodes.clear();
                self.partitions_changed(fx);
            }
            Change::Reservation(new) => {
                if new.is_numbered() {
                    self.managed.named = self.managed.named.saturating_add(1);
                }
                let new = new.as_ref().clone();
                self.managed.reservations.insert(new.name.clone(), new);
                self.nodes_changed(fx);
            }
            Change::ReservationGone(name) => {
                let gone = self.managed.reservations.remove(name);
                gone.ok_or("no such reservation")?;
                self.nodes_changed(fx);
            }
            Change::ReservationOver(name) => {
                let over = self.managed.reservations.remove(name);
                let over = over.ok_or("no such reservation")?;
                if let Some(next) = over.next(at) {
                    self.managed.reservations.insert(name.clone(), next);
                }
                self.nodes_changed(fx);
            }
            Change::Accounts(change) => self.managed.accounts.apply(change),
        }
        Ok(())
    }

    /// No other partition is the default one.
    fn only_default(&mut self, name: &str) {
        for other in self.partitions.iter().filter(|other| other.default) {
            if other.name != name {
                let changed = Partition {
                    default: false,
                    ..other.clone()
                };
                let changes = &mut self.managed.partitions;
                changes.insert(changed.name.clone(), Some(changed));
            }
        }
    }

    fn partitions_changed(&mut self, fx: &mut Effects) {
        self.partitions = self.managed.partitions();
        self.reindex_all();
        self.nodes_changed(fx);
    }

    fn nodes_changed(&self, fx: &mut Effects) {
        fx.touched_nodes.extend(self.nodes.keys());
        fx.replan = true;
    }
}
