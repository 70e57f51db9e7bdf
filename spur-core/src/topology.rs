//! Which nodes are near one another: a tree of switches, or blocks, from the controller's configuration.

use crate::id::NodeName;
use serde::{Deserialize, Serialize};

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
