//! The lines of `sinfo`: nodes that look alike in the columns asked for share one.

use super::View;
use super::format::Layout;
use super::node_columns::{self as columns, by_node};
use super::node_text::{busy, usable};
use spur_core::api::NodeView;
use spur_core::id::NodeId;
use spur_core::partition::Partition;
use spur_core::slurm::codes::node_state::State;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One line of `sinfo`: nodes of one partition that look alike.
#[derive(Clone, Debug)]
pub struct Group {
    /// The partition and its place in the configuration.
    pub partition: (usize, Arc<Partition>),
    /// The nodes, in order of name. Empty for a partition without nodes.
    pub nodes: Vec<Arc<NodeView>>,
}

/// How lines are made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grouping {
    /// One line for each node (`-N`).
    pub each_node: bool,
    /// Only nodes that are alike in every column share a line (`-e`).
    pub exact: bool,
    /// Partitions are not told apart at all (`-R`).
    pub without_partitions: bool,
    /// Partitions without a node that passes the filters get a line too.
    pub empty_partitions: bool,
}

/// Forms the lines that a format needs. Partitions are told apart only if the format shows something of them.
pub fn group(
    view: &View,
    layout: &Layout<Group>,
    partitions: &[Arc<Partition>],
    nodes: &[Arc<NodeView>],
    how: Grouping,
) -> Vec<Group> {
    let apart = !how.without_partitions && layout.columns().any(columns::of_partition);
    let mut groups: Vec<Group> = Vec::new();
    let mut lines: BTreeMap<(usize, Vec<String>), usize> = BTreeMap::new();
    let mut seen: BTreeSet<(usize, NodeId)> = BTreeSet::new();
    for (at, partition) in partitions.iter().enumerate() {
        let mut members: Vec<_> = nodes
            .iter()
            .filter(|node| node.partitions.contains(&partition.name))
            .collect();
        members.sort_by(|a, b| by_node(&a.node.name, &b.node.name));
        if members.is_empty() && how.empty_partitions && apart {
            groups.push(Group {
                partition: (at, partition.clone()),
                nodes: Vec::new(),
            });
        }
        for node in members {
            let one = Group {
                partition: (at, partition.clone()),
                nodes: vec![node.clone()],
            };
            let key = (
                if apart { at } else { 0 },
                likeness(view, layout, &one, how),
            );
            let line = *lines.entry(key).or_insert(groups.len());
            // A node in several partitions counts once where partitions are not told apart.
            let new = seen.insert((line, node.node.id));
            match groups.get_mut(line) {
                Some(group) if new => group.nodes.push(node.clone()),
                Some(_) => {}
                None => groups.push(one),
            }
        }
    }
    groups
}

/// What must be equal for nodes to share a line.
fn likeness(view: &View, layout: &Layout<Group>, one: &Group, how: Grouping) -> Vec<String> {
    if how.each_node {
        return one
            .nodes
            .iter()
            .map(|node| node.node.name.to_string())
            .collect();
    }
    let telling = layout
        .columns()
        .filter(|column| columns::tells_apart(column, how.exact));
    telling.map(|column| column.text(view, one)).collect()
}

/// Nodes as `A/I/O/T`: allocated, idle, other, all.
pub fn node_counts(nodes: &[Arc<NodeView>]) -> [usize; 4] {
    let mut counts = [0; 4];
    for state in nodes.iter().map(|node| State::of(node)) {
        let class = match (busy(&state), usable(&state)) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        };
        counts[class] += 1;
        counts[3] += 1;
    }
    counts
}

/// CPUs as `A/I/O/T`.
pub fn cpu_counts(nodes: &[Arc<NodeView>]) -> [u64; 4] {
    let mut counts = [0; 4];
    for view in nodes {
        let all = u64::from(view.node.inventory.cpus);
        let used = u64::from(view.node.cpus_used.len()).min(all);
        counts[0] += used;
        counts[if usable(&State::of(view)) { 1 } else { 2 }] += all - used;
        counts[3] += all;
    }
    counts
}
