//! Which nodes a class of jobs may use: those of its partition, without those it does not want or must not get, and with the
//! features it asks for.

use super::bits::Bits;
use super::class::Class;
use crate::cluster::Cluster;
use crate::id::{NodeId, NodeName};
use crate::node::Node;
use crate::slurm::constraint::{self, Constraint, Group};
use std::collections::BTreeMap;
use std::rc::Rc;

mod matching;
#[cfg(test)]
mod tests;

pub(crate) use matching::of_each_kind;

/// Features of nodes during a pass. Nodes with the same features are of one kind, and a constraint is read once for each kind.
#[derive(Debug)]
pub(crate) struct Features<'a> {
    /// Features of each kind, with its nodes by position.
    kinds: BTreeMap<Vec<&'a str>, Bits>,
    nodes: usize,
    /// By text.
    read: BTreeMap<String, Constraint>,
}

impl<'a> Features<'a> {
    /// The features of these nodes, by position.
    pub(crate) fn of(cluster: &'a Cluster, nodes: impl Iterator<Item = &'a Node> + Clone) -> Self {
        let count = nodes.clone().count();
        let mut kinds: BTreeMap<Vec<&'a str>, Bits> = BTreeMap::new();
        for (node, at) in nodes.zip(0..) {
            let features = cluster.features(node).collect();
            let kind = kinds.entry(features);
            kind.or_insert_with(|| Bits::none(count)).set(at);
        }
        Self {
            kinds,
            nodes: count,
            read: BTreeMap::new(),
        }
    }

    /// What a constraint asks for; nothing, if it is none.
    pub(crate) fn read(&mut self, text: &str) -> Constraint {
        if let Some(known) = self.read.get(text) {
            return known.clone();
        }
        // Admission let it through, so it reads; one from a build that read more is taken to ask for nothing.
        let constraint = constraint::parse(text).unwrap_or_default();
        self.read.insert(text.to_owned(), constraint.clone());
        constraint
    }

    /// Sets of nodes of which the job must be in one: a set for each alternative that all nodes must share, else a single one.
    pub(crate) fn sets(&self, constraint: &Constraint) -> Vec<Bits> {
        let every = |features: &[&str]| constraint.matches(features);
        if constraint.alternatives().is_empty() {
            return vec![self.having(every)];
        }
        let choice = constraint.alternatives().iter();
        let of = |group: &Group| self.having(|features| every(features) && has(group, features));
        choice.map(of).collect()
    }

    /// For each kind of node of which there must be a number: which nodes, and how many.
    pub(crate) fn counts(&self, constraint: &Constraint) -> Vec<(Bits, usize)> {
        let counts = constraint.counts().iter();
        counts
            .map(|(group, count)| {
                (
                    self.having(|features| has(group, features)),
                    *count as usize,
                )
            })
            .collect()
    }

    fn having(&self, wanted: impl Fn(&[&str]) -> bool) -> Bits {
        let mut all = Bits::none(self.nodes);
        for (features, nodes) in &self.kinds {
            if wanted(features) {
                all.unite(nodes);
            }
        }
        all
    }
}

fn has(group: &Group, features: &[&str]) -> bool {
    group.matches(|name| features.contains(&name))
}

/// The nodes of a partition without those that the job does not want or must not get. `position` tells where a node stands, if
/// it takes jobs.
pub(crate) fn allowed(
    cluster: &Cluster,
    members: &Rc<Bits>,
    class: &Class,
    position: impl Fn(NodeId) -> Option<usize>,
) -> Rc<Bits> {
    let mut allowed = Rc::clone(members);
    let named = class.exclude.iter().filter_map(|name| {
        let name = NodeName::new(name.as_str()).ok()?;
        cluster.node_ids.get(&name).copied()
    });
    for id in named.chain(class.shunned.iter().copied()) {
        if let Some(at) = position(id) {
            Rc::make_mut(&mut allowed).clear(at);
        }
    }
    allowed
}

/// Sets of nodes of which one must hold a job with such a constraint, all within `allowed`; those that are only preferred come
/// first, and their number is told.
pub(crate) fn choices(
    features: &mut Features<'_>,
    allowed: Rc<Bits>,
    (constraint, prefer): (&str, &str),
) -> (Vec<Rc<Bits>>, usize) {
    if constraint.is_empty() && prefer.is_empty() {
        return (vec![allowed], 0);
    }
    let within = |outer: &Rc<Bits>, set: &Bits| {
        let mut within = Rc::clone(outer);
        Rc::make_mut(&mut within).intersect(set);
        within
    };
    let wanted = features.read(constraint);
    let must = features.sets(&wanted);
    let must: Vec<Rc<Bits>> = must.iter().map(|set| within(&allowed, set)).collect();
    if prefer.is_empty() {
        return (must, 0);
    }
    let preferred = features.read(prefer);
    let mut sets = Vec::new();
    for set in features.sets(&preferred) {
        sets.extend(must.iter().map(|must| within(must, &set)));
    }
    let preferred = sets.len();
    sets.extend(must);
    (sets, preferred)
}
