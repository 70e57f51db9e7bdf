//! All nodes during a pass: what is free of them now, and what of that is kept for reservations.

use super::ask::Ask;
use super::bits::Bits;
use super::devices::{self, Place};
use super::fit::Part;
use super::groups::Groups;
use super::slot::{Free, Slot};
use super::timeline::{Booked, Held, Taken};
use super::topology::Fabric;
use crate::cluster::{Cluster, MOST_PARTITIONS, Row};
use crate::id::NodeId;
use crate::node::Node;
use crate::partition::Partition;
use crate::resources::{IdSet, NodeShare};
use crate::time::Millis;
use std::borrow::Cow;

/// Nodes in the order of their names as people count, by position.
pub(crate) struct Rooms<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) at: Millis,
    ids: Vec<NodeId>,
    pub(super) rows: Vec<&'a Row>,
    /// What is free now, whoever it is kept for.
    pub(super) slots: Vec<Slot<'a>>,
    weights: Vec<u32>,
    /// Places among all nodes, those that take no jobs included.
    ranks: Vec<usize>,
    /// By [`NodeId`].
    positions: Vec<Option<u32>>,
    /// Free CPU ids of nodes that were given something in this pass.
    cpus_left: Vec<Option<IdSet>>,
    /// What was given in this pass.
    pub(super) taken: Vec<Vec<Taken>>,
    /// Nodes without reservations.
    pub(super) groups: Groups<'a>,
    /// Nodes with reservations.
    held: Vec<Option<Box<Held>>>,
    /// Nodes with reservations of which something changed, in order of time.
    pub(super) changed: Vec<u32>,
    /// How often something was given or reserved on a node.
    pub(super) versions: Vec<u32>,
}

/// A node as it was before something was taken from it.
pub(super) struct Before {
    at: usize,
    free: Free,
    cpus_left: Option<IdSet>,
    taken: usize,
}

impl<'a> Rooms<'a> {
    /// All nodes that take jobs.
    pub(super) fn now(cluster: &'a Cluster, at: Millis) -> Self {
        let open = || cluster.fleet().nodes().filter(|(_, row, _)| row.takes);
        let ranks = cluster.fleet().nodes().enumerate();
        let ranks = ranks.filter(|(_, (_, row, _))| row.takes);
        let count = open().count();
        let ids: Vec<NodeId> = open().map(|(id, ..)| id).collect();
        let highest = ids.iter().max().map_or(0, |id| id.0 as usize + 1);
        let mut positions = vec![None; highest];
        for (id, position) in ids.iter().zip(0u32..) {
            if let Some(entry) = positions.get_mut(id.0 as usize) {
                *entry = Some(position);
            }
        }
        let slot = |(_, row, shape): (NodeId, &'a Row, _)| Slot::of(shape, row.free);
        let mut rooms = Self {
            cluster,
            at,
            rows: open().map(|(_, row, _)| row).collect(),
            slots: open().map(slot).collect(),
            weights: open().map(|(_, row, _)| row.weight).collect(),
            ranks: ranks.map(|(rank, _)| rank).collect(),
            ids,
            positions,
            cpus_left: vec![None; count],
            taken: vec![Vec::new(); count],
            groups: Groups::none(count, open().map(|(_, row, shape)| (shape, row.weight))),
            held: std::iter::repeat_with(|| None).take(count).collect(),
            changed: Vec::new(),
            versions: vec![0; count],
        };
        for position in (0..count).filter_map(|at| u32::try_from(at).ok()) {
            rooms.join_group(position);
        }
        rooms
    }

    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The node at a position.
    pub(crate) fn id(&self, position: usize) -> Option<NodeId> {
        self.ids.get(position).copied()
    }

    /// Nodes by position.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &'a Node> + Clone + '_ {
        let cluster = self.cluster;
        self.ids.iter().filter_map(|id| cluster.nodes.get(id))
    }

    /// A node as if nothing were held or sick.
    pub(super) fn empty(&self, position: usize) -> Option<Slot<'a>> {
        self.slots.get(position).map(|slot| Slot::empty(slot.shape))
    }

    /// The position of a node that takes jobs.
    pub(super) fn position(&self, node: NodeId) -> Option<usize> {
        let position = self.positions.get(node.0 as usize).copied().flatten()?;
        Some(position as usize)
    }

    /// The slots of a partition.
    pub(super) fn of_partition(&self, cluster: &Cluster, partition: &Partition) -> Bits {
        let mut bits = Bits::none(self.len());
        let mut named = cluster.partitions.iter();
        let number = named.position(|other| other.name == partition.name);
        if let Some(number) = number.filter(|number| *number < MOST_PARTITIONS) {
            let member = |row: &Row| row.partitions & 1 << number != 0;
            let members = self.rows.iter().enumerate();
            members
                .filter(|(_, row)| member(row))
                .for_each(|(at, _)| bits.set(at));
            return bits;
        }
        match &partition.nodes {
            None => (0..self.len()).for_each(|at| bits.set(at)),
            Some(names) => {
                let ids = names.iter().filter_map(|name| cluster.node_ids.get(name));
                ids.filter_map(|id| self.position(*id))
                    .for_each(|at| bits.set(at));
            }
        }
        bits
    }

    /// What a job that ends at a time by its limit may use of a node: what is free and not reserved from before that.
    pub(super) fn slot_until(&self, position: usize, until: Millis) -> Option<Slot<'a>> {
        let slot = self.slots.get(position)?;
        let held = self.held(position);
        let free = held.map_or(slot.free, |held| held.free_until(slot.free, until));
        Some(Slot { free, ..*slot })
    }

    /// The shares that the parts of a job become that ends at a time by its limit.
    pub(super) fn shares(&self, parts: &[Part], ask: &Ask<'_>, until: Millis) -> Vec<NodeShare> {
        let place = |part: &Part| {
            let slot = self.slot_until(part.slot, until)?;
            let mut cpus = self.free_cpus(part.slot)?;
            for booked in self.held(part.slot).into_iter().flat_map(Held::list) {
                if booked.start <= until {
                    cpus.to_mut().subtract(&booked.share.cpus);
                }
            }
            let node = self.id(part.slot)?;
            let place = Place {
                node,
                slot,
                cpus,
                steady: false,
            };
            Some((place, part.need))
        };
        let places: Vec<_> = parts.iter().filter_map(place).collect();
        devices::shares(&places, ask)
    }

    /// Free CPU ids of a node, reserved or not.
    pub(super) fn free_cpus(&self, position: usize) -> Option<Cow<'_, IdSet>> {
        if let Some(cpus) = self.cpus_left.get(position)? {
            return Some(Cow::Borrowed(cpus));
        }
        let node = self.cluster.nodes.get(&self.id(position)?)?;
        let mut cpus = IdSet::first(node.inventory.cpus);
        cpus.subtract(&node.cpus_used);
        Some(Cow::Owned(cpus))
    }

    /// Takes a share out of what is free, for a job that ends at a time by its limit.
    pub(super) fn take(&mut self, share: &NodeShare, until: Millis) {
        let Some(at) = self.position(share.node) else {
            return;
        };
        let left = self.free_cpus(at).map(|cpus| {
            let mut cpus = cpus.into_owned();
            cpus.subtract(&share.cpus);
            cpus
        });
        if let Some(entry) = self.cpus_left.get_mut(at) {
            *entry = left;
        }
        if let Some(slot) = self.slots.get_mut(at) {
            let shape = slot.shape;
            slot.free.take(shape, share);
        }
        if let Some(taken) = self.taken.get_mut(at) {
            taken.push(Taken::of(share, until));
        }
        self.changes(at);
    }

    /// A node as it is, for [`Self::put_back`].
    pub(super) fn before(&self, node: NodeId) -> Option<Before> {
        let at = self.position(node)?;
        Some(Before {
            at,
            free: self.slots.get(at)?.free,
            cpus_left: self.cpus_left.get(at)?.clone(),
            taken: self.taken.get(at)?.len(),
        })
    }

    /// Takes back what was taken from a node since then.
    pub(super) fn put_back(&mut self, before: Before) {
        let at = before.at;
        if let Some(entry) = self.cpus_left.get_mut(at) {
            *entry = before.cpus_left;
        }
        if let Some(slot) = self.slots.get_mut(at) {
            slot.free = before.free;
        }
        if let Some(taken) = self.taken.get_mut(at) {
            taken.truncate(before.taken);
        }
        self.changes(at);
    }

    /// Keeps a share for a job from a time on.
    pub(super) fn book(&mut self, booked: Booked) {
        let at = self.position(booked.share.node);
        let Some((at, position)) = at.and_then(|at| Some((at, u32::try_from(at).ok()?))) else {
            return;
        };
        self.groups.leave(position);
        if let Some(entry) = self.held.get_mut(at) {
            entry.get_or_insert_default().add(booked);
        }
        self.changes(at);
    }

    /// Keeps a share no more that was kept from a time on.
    pub(super) fn unbook(&mut self, start: Millis, share: &NodeShare) {
        let Some(at) = self.position(share.node) else {
            return;
        };
        let Some(held) = self.held.get_mut(at) else {
            return;
        };
        if held.as_mut().is_some_and(|held| held.forget(start, share)) {
            *held = None;
        }
        self.changes(at);
    }

    /// What is kept on a node.
    pub(super) fn held(&self, at: usize) -> Option<&Held> {
        self.held.get(at)?.as_deref()
    }

    /// What is free on a node, or kept, is not what it was.
    fn changes(&mut self, at: usize) {
        if let Some(version) = self.versions.get_mut(at) {
            *version += 1;
        }
        let Ok(position) = u32::try_from(at) else {
            return;
        };
        let Some(mut held) = self.held.get_mut(at).and_then(Option::take) else {
            self.groups.leave(position);
            self.join_group(position);
            return;
        };
        // The future is asked for without what it says of reservations already, so it must be told of them.
        held.refresh(self, at);
        if let Some(entry) = self.held.get_mut(at) {
            *entry = Some(held);
        }
        self.changed.push(position);
    }

    fn join_group(&mut self, position: u32) {
        let at = position as usize;
        if let (Some(slot), Some(weight), Some(row)) =
            (self.slots.get(at), self.weights.get(at), self.rows.get(at))
        {
            let kind = (*weight, row.partitions);
            self.groups.join(position, kind, *slot);
        }
    }

    /// The weight of a node.
    pub(super) fn weight(&self, position: usize) -> u32 {
        self.weights.get(position).copied().unwrap_or(1)
    }

    /// The place of a node among all nodes.
    pub(super) fn rank(&self, position: usize) -> usize {
        self.ranks.get(position).copied().unwrap_or(position)
    }

    /// The domain of the fabric that a node hangs on.
    pub(super) fn leaf(&self, position: usize) -> Option<usize> {
        self.cluster.fabric().leaf(self.id(position)?)
    }

    /// How nodes hang together, if that matters.
    pub(super) fn fabric(&self) -> Option<&'a Fabric> {
        let fabric = self.cluster.fabric();
        fabric.matters().then_some(fabric)
    }
}

/// Compares names as people read them: `n9` before `n10`.
pub fn natural(a: &str, b: &str) -> std::cmp::Ordering {
    let split = |name: &str| {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        name.len() - digits
    };
    let (at_a, at_b) = (split(a), split(b));
    let number =
        |name: &str, at: usize| name.get(at..).and_then(|digits| digits.parse::<u64>().ok());
    (a.get(..at_a), number(a, at_a), a).cmp(&(b.get(..at_b), number(b, at_b), b))
}
