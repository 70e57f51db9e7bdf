//! `[[node]]`: features and weights.

use super::names;
use serde::Deserialize;
use spur_core::id::NodeName;
use spur_core::node::NodeConfig;
use spur_core::slurm::constraint;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// What is said of some nodes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawNode {
    nodes: String,
    #[serde(default)]
    features: Vec<String>,
    #[serde(default = "default_weight")]
    weight: u32,
}

fn default_weight() -> u32 {
    NodeConfig::default().weight
}

/// Checks what is said of nodes; each may be in one row only.
pub(super) fn check(raw: Vec<RawNode>) -> Result<BTreeMap<NodeName, NodeConfig>, String> {
    let mut nodes = BTreeMap::new();
    for row in raw {
        let list = row.nodes;
        let of = |cause: &dyn std::fmt::Display| format!("node {list:?}: {cause}");
        if row.weight == 0 {
            return Err(of(&"weight = 0: use at least 1"));
        }
        for (at, feature) in row.features.iter().enumerate() {
            constraint::check_name(feature).map_err(|e| of(&e))?;
            if row.features[..at].contains(feature) {
                return Err(of(&format!("feature {feature:?} is there twice")));
            }
        }
        let config = NodeConfig {
            features: row.features,
            weight: row.weight,
        };
        for name in names(&list).map_err(|e| of(&e))? {
            match nodes.entry(name) {
                Entry::Vacant(free) => drop(free.insert(config.clone())),
                Entry::Occupied(taken) => {
                    return Err(of(&format!("{} is in another [[node]] too", taken.key())));
                }
            }
        }
    }
    Ok(nodes)
}
