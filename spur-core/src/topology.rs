//! Which nodes are near one another: a tree of switches, or blocks, from the controller's configuration.

use crate::id::NodeName;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How the network is described.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TopologyPlugin {
    /// All nodes are equally near (`topology/flat`, Slurm's default).
    #[default]
    None,
    /// Switches that hang on switches (`topology/tree`).
    Tree,
    /// Blocks of nodes that are joined best (`topology/block`).
    Block,
}

impl TopologyPlugin {
    /// Slurm's name of the plugin, and what it calls itself.
    #[must_use]
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::None => ("topology/default", "topology Default plugin"),
            Self::Tree => ("topology/tree", "topology tree plugin"),
            Self::Block => ("topology/block", "topology block plugin"),
        }
    }
}

/// A switch or, with [`TopologyPlugin::Block`], a block.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Switch {
    /// Name, unique.
    pub name: String,
    /// Nodes on it, in configured order; empty for a switch of switches.
    pub nodes: Vec<NodeName>,
    /// Switches below it; empty for a leaf and for a block.
    pub switches: Vec<String>,
}

/// Which nodes are near one another. A checked value: names are unique, every switch below another exists, nothing goes in
/// circles, no node is in two leaves. Nodes that are on no switch are near to nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Topology {
    /// How it is described.
    pub plugin: TopologyPlugin,
    /// Switches or blocks, in configured order.
    pub switches: Vec<Switch>,
    /// For blocks: how many nodes one has, then how many an aggregate of blocks has, each a doubling (or more doublings) of
    /// the one before. Empty means: as many as the smallest block.
    pub block_sizes: Vec<u32>,
}

/// What is wrong with a topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTopology {
    /// A name twice.
    #[error("{0:?} is there twice")]
    Twice(String),
    /// Neither or both of nodes and switches.
    #[error("{0:?} needs either nodes or switches below it")]
    Kind(String),
    /// A block with something below it.
    #[error("block {0:?} has switches below it: blocks have nodes only")]
    BlockOfSwitches(String),
    /// A switch below another does not exist.
    #[error("{0:?} has {1:?} below it, which is not described")]
    Unknown(String, String),
    /// A switch below two others, or twice below one.
    #[error("switch {0:?} is below more than one other")]
    SeveralAbove(String),
    /// Switches below one another.
    #[error("switch {0:?} is below itself")]
    Circle(String),
    /// A node in two places.
    #[error("node {0} is on both {1:?} and {2:?}")]
    NodeTwice(NodeName, String, String),
    /// Sizes of blocks.
    #[error(
        "block sizes {0:?}: begin with at most {1} (the smallest block), and double from there"
    )]
    Sizes(Vec<u32>, usize),
    /// A number of levels that no network has.
    #[error("more than {MAX_LEVELS} switches above one another")]
    Deep,
}

/// The most switches above one another.
pub const MAX_LEVELS: u32 = 16;

impl Topology {
    /// Checks what configuration says; see the type for what is promised.
    pub fn check(&self) -> Result<(), BadTopology> {
        let mut names = BTreeSet::new();
        let mut places: BTreeMap<&NodeName, &str> = BTreeMap::new();
        for switch in &self.switches {
            if !names.insert(switch.name.as_str()) {
                return Err(BadTopology::Twice(switch.name.clone()));
            }
            if self.plugin == TopologyPlugin::Block && !switch.switches.is_empty() {
                return Err(BadTopology::BlockOfSwitches(switch.name.clone()));
            }
            if switch.nodes.is_empty() == switch.switches.is_empty() {
                return Err(BadTopology::Kind(switch.name.clone()));
            }
            for node in &switch.nodes {
                if let Some(first) = places.insert(node, &switch.name) {
                    let (first, second) = (first.to_owned(), switch.name.clone());
                    return Err(BadTopology::NodeTwice(node.clone(), first, second));
                }
            }
        }
        self.check_tree(&names)?;
        self.check_sizes()
    }

    fn check_tree(&self, names: &BTreeSet<&str>) -> Result<(), BadTopology> {
        let mut above: BTreeMap<&str, &str> = BTreeMap::new();
        for switch in &self.switches {
            for below in &switch.switches {
                if !names.contains(below.as_str()) {
                    return Err(BadTopology::Unknown(switch.name.clone(), below.clone()));
                }
                if above.insert(below, &switch.name).is_some() {
                    return Err(BadTopology::SeveralAbove(below.clone()));
                }
            }
        }
        for start in names {
            let mut at = *start;
            for level in 0.. {
                let Some(next) = above.get(at) else { break };
                if next == start {
                    return Err(BadTopology::Circle((*start).to_owned()));
                }
                if level >= MAX_LEVELS {
                    return Err(BadTopology::Deep);
                }
                at = next;
            }
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<(), BadTopology> {
        let smallest = self.switches.iter().map(|block| block.nodes.len()).min();
        let Some(&first) = self.block_sizes.first() else {
            return Ok(());
        };
        let fits = first > 0 && smallest.is_some_and(|least| first as usize <= least);
        let doubles = |pair: &[u32]| match pair {
            [low, high] => {
                high > low && high.is_multiple_of(*low) && (high / low).is_power_of_two()
            }
            _ => true,
        };
        if fits && self.block_sizes.windows(2).all(doubles) {
            Ok(())
        } else {
            let sizes = self.block_sizes.clone();
            Err(BadTopology::Sizes(sizes, smallest.unwrap_or(0)))
        }
    }

    /// How far a switch is above its nodes: 0 for a leaf or a block; `None` if there is no such switch.
    #[must_use]
    pub fn level(&self, name: &str) -> Option<u32> {
        self.level_within(name, MAX_LEVELS + 1)
    }

    /// Looks so many levels down, in case the value was not checked.
    fn level_within(&self, name: &str, left: u32) -> Option<u32> {
        let left = left.checked_sub(1)?;
        let switch = self.switches.iter().find(|switch| switch.name == name)?;
        let below = switch.switches.iter();
        let below = below.filter_map(|name| self.level_within(name, left));
        Some(below.max().map_or(0, |level| level + 1))
    }

    /// All nodes below a switch or in a block, in order of their leaves; none if there is no such switch.
    #[must_use]
    pub fn nodes_below(&self, name: &str) -> Vec<&NodeName> {
        let mut found = Vec::new();
        self.gather(name, MAX_LEVELS + 1, &mut found);
        found
    }

    fn gather<'a>(&'a self, name: &str, left: u32, found: &mut Vec<&'a NodeName>) {
        let switch = self.switches.iter().find(|switch| switch.name == name);
        let (Some(switch), Some(left)) = (switch, left.checked_sub(1)) else {
            return;
        };
        found.extend(&switch.nodes);
        for below in &switch.switches {
            self.gather(below, left, found);
        }
    }
}

#[cfg(test)]
mod tests;
