//! What the configuration and the operators say of a node that is there, together with what the node says of itself.

use super::Cluster;
use crate::node::Node;

impl Cluster {
    /// The node's features: those that an operator gave it; else the configured ones, then those that only the node tells of, each
    /// once.
    pub fn features<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a str> {
        let changed = self.managed.nodes.get(&node.name);
        let changed = changed.and_then(|change| change.features.as_deref());
        let configured = self.node_config.get(&node.name);
        let configured = configured.map_or(&[][..], |config| &config.features);
        let (first, own) = match changed {
            Some(changed) => (changed, &[][..]),
            None => (configured, node.inventory.features.as_slice()),
        };
        let own = own.iter().filter(move |name| !first.contains(name));
        first.iter().chain(own).map(String::as_str)
    }

    /// The node's weight; at least 1. Lower ones are used first.
    #[must_use]
    pub fn weight(&self, node: &Node) -> u32 {
        let changed = self.managed.nodes.get(&node.name);
        let configured = || self.node_config.get(&node.name).map(|config| config.weight);
        changed
            .and_then(|change| change.weight)
            .or_else(configured)
            .unwrap_or(1)
    }
}
