//! `[topology]`: switches or blocks.

use super::names;
use serde::Deserialize;
use spur_core::id::NodeName;
use spur_core::node::NodeConfig;
use spur_core::partition::Partition;
use spur_core::slurm::hostlist;
use spur_core::topology::{Switch, Topology, TopologyPlugin};
use std::collections::{BTreeMap, BTreeSet};

/// The table as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTopology {
    #[serde(default)]
    plugin: RawPlugin,
    #[serde(default)]
    switch: Vec<RawSwitch>,
    #[serde(default)]
    block: Vec<RawBlock>,
    #[serde(default)]
    block_sizes: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawPlugin {
    #[default]
    #[serde(alias = "none")]
    Flat,
    Tree,
    Block,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSwitch {
    name: String,
    nodes: Option<String>,
    switches: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBlock {
    name: String,
    nodes: String,
}

/// Checks it, also against the nodes that there can be.
pub(super) fn check(
    raw: RawTopology,
    partitions: &[Partition],
    nodes: &BTreeMap<NodeName, NodeConfig>,
) -> Result<Topology, String> {
    let stray = match raw.plugin {
        RawPlugin::Flat if !raw.switch.is_empty() => Some("switch"),
        RawPlugin::Block if !raw.switch.is_empty() => Some("switch"),
        RawPlugin::Flat | RawPlugin::Tree if !raw.block.is_empty() => Some("block"),
        RawPlugin::Flat | RawPlugin::Tree if !raw.block_sizes.is_empty() => Some("block_sizes"),
        RawPlugin::Flat | RawPlugin::Tree | RawPlugin::Block => None,
    };
    if let Some(word) = stray {
        let plugin = if word == "switch" { "tree" } else { "block" };
        return Err(format!("topology: {word} needs plugin = {plugin:?}"));
    }
    let empty = raw.switch.is_empty() && raw.block.is_empty();
    let (plugin, what) = match raw.plugin {
        RawPlugin::Flat => return Ok(Topology::default()),
        RawPlugin::Tree => (TopologyPlugin::Tree, "switch"),
        RawPlugin::Block => (TopologyPlugin::Block, "block"),
    };
    if empty {
        return Err(format!("topology: no [[topology.{what}]]"));
    }
    let blocks = raw.block.into_iter().map(|block| RawSwitch {
        name: block.name,
        nodes: Some(block.nodes),
        switches: None,
    });
    let written = raw.switch.into_iter().chain(blocks);
    let topology = Topology {
        plugin,
        switches: written
            .map(|switch| switch.check(what))
            .collect::<Result<_, _>>()?,
        block_sizes: raw.block_sizes,
    };
    topology.check().map_err(|e| format!("topology: {e}"))?;
    known(&topology, what, partitions, nodes)?;
    Ok(topology)
}

impl RawSwitch {
    fn check(self, what: &str) -> Result<Switch, String> {
        let name = self.name;
        let of = |cause: &dyn std::fmt::Display| format!("topology: {what} {name:?}: {cause}");
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || !name.chars().all(legal) {
            return Err(of(&"use letters, digits, '-', '_' and '.'"));
        }
        let nodes = names(self.nodes.as_deref().unwrap_or_default()).map_err(|e| of(&e))?;
        let switches =
            hostlist::parse(self.switches.as_deref().unwrap_or_default()).map_err(|e| of(&e))?;
        Ok(Switch {
            name,
            nodes,
            switches,
        })
    }
}

/// Where every partition lists its nodes, all nodes are known: a name that is not among them is a mistake.
fn known(
    topology: &Topology,
    what: &str,
    partitions: &[Partition],
    nodes: &BTreeMap<NodeName, NodeConfig>,
) -> Result<(), String> {
    let lists: Option<Vec<_>> = partitions.iter().map(|p| p.nodes.as_ref()).collect();
    let Some(lists) = lists else { return Ok(()) };
    let known: BTreeSet<&NodeName> = lists.into_iter().flatten().chain(nodes.keys()).collect();
    for switch in &topology.switches {
        if let Some(stranger) = switch.nodes.iter().find(|node| !known.contains(node)) {
            return Err(format!(
                "topology: {what} {:?}: no [[partition]] or [[node]] has node {stranger}",
                switch.name
            ));
        }
    }
    Ok(())
}
