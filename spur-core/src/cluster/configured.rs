//! What the configuration says of a node that is there, together with what the node says of itself.

use super::Cluster;
use crate::node::Node;

impl Cluster {
    /// The node's features: the configured ones, then those that only the node tells of, each once.
    pub fn features<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a str> {
        let configured = self
            .node_config
            .get(&node.name)
            .map_or(&[][..], |config| &config.features);
        let own = node.inventory.features.iter();
        let own = own.filter(move |name| !configured.contains(name));
        configured.iter().chain(own).map(String::as_str)
    }

    /// The node's weight; at least 1. Lower ones are used first.
    #[must_use]
    pub fn weight(&self, node: &Node) -> u32 {
        self.node_config
            .get(&node.name)
            .map_or(1, |config| config.weight)
    }
}
