//! How nodes hang together: switches and blocks as domains, and which nodes of those that would do a job on several nodes gets.

mod runs;
mod spread;

#[cfg(test)]
mod tests;

pub(crate) use runs::in_a_row;
pub(crate) use spread::{Candidate, Wish, choose, domains_that_hold};

use crate::id::{NodeId, NodeName};
use crate::topology::{Topology, TopologyPlugin};
use std::collections::BTreeMap;

/// A switch, a block, or several blocks that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Domain {
    /// The domain above.
    parent: Option<usize>,
    children: Vec<usize>,
    /// 0 for a domain of nodes, else one more than the highest level below.
    level: u32,
    /// Nodes that are configured in it.
    nodes: usize,
}

/// See the module. Domains stand after those below them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fabric {
    plugin: TopologyPlugin,
    domains: Vec<Domain>,
    names: BTreeMap<NodeName, usize>,
    /// By number of the node: the domain that it hangs on.
    leaves: Vec<Option<usize>>,
}

impl Fabric {
    /// As configured, without any nodes yet.
    pub(crate) fn of(topology: &Topology) -> Self {
        let mut fabric = Self {
            plugin: topology.plugin,
            ..Self::default()
        };
        match topology.plugin {
            TopologyPlugin::None => {}
            TopologyPlugin::Tree => fabric.hang_switches(topology),
            TopologyPlugin::Block => fabric.join_blocks(topology),
        }
        fabric
    }

    /// Notes a node that registered; what is known of it stays.
    pub(crate) fn see(&mut self, node: NodeId, name: &NodeName) {
        let at = node.0 as usize;
        if at >= self.leaves.len() {
            self.leaves.resize(at + 1, None);
            self.leaves[at] = self.names.get(name).copied();
        }
    }

    /// Whether some nodes are nearer to one another than others.
    pub(crate) fn matters(&self) -> bool {
        self.plugin != TopologyPlugin::None
    }

    /// The domain that a node hangs on; `None`: it is near to no other.
    pub(crate) fn leaf(&self, node: NodeId) -> Option<usize> {
        self.leaves.get(node.0 as usize).copied().flatten()
    }

    /// Whether it is made of blocks, in which segments have a meaning.
    pub(crate) fn is_block(&self) -> bool {
        self.plugin == TopologyPlugin::Block
    }

    fn add_leaf(&mut self, nodes: &[NodeName]) -> usize {
        let at = self.domains.len();
        for name in nodes {
            self.names.entry(name.clone()).or_insert(at);
        }
        self.domains.push(Domain {
            parent: None,
            children: Vec::new(),
            level: 0,
            nodes: nodes.len(),
        });
        at
    }

    /// A domain above others; those that hang on another one already stay there.
    fn add_above(&mut self, children: impl IntoIterator<Item = usize>) -> usize {
        let at = self.domains.len();
        let (mut own, mut level, mut nodes) = (Vec::new(), 0, 0);
        for child in children {
            let Some(domain) = self.domains.get_mut(child) else {
                continue;
            };
            if domain.parent.is_none() {
                domain.parent = Some(at);
                level = level.max(domain.level + 1);
                nodes += domain.nodes;
                own.push(child);
            }
        }
        self.domains.push(Domain {
            parent: None,
            children: own,
            level,
            nodes,
        });
        at
    }

    /// Switches, each after those below it. Where networks are drawn with several switches above the same ones, the first
    /// stands for all.
    fn hang_switches(&mut self, topology: &Topology) {
        let mut placed: BTreeMap<&str, usize> = BTreeMap::new();
        // Every round places a switch or is the last one.
        for _ in 0..topology.switches.len() {
            let before = placed.len();
            for switch in &topology.switches {
                let below = switch.switches.iter();
                let below: Option<Vec<usize>> = below
                    .map(|name| placed.get(name.as_str()).copied())
                    .collect();
                let Some(below) = below.filter(|_| !placed.contains_key(switch.name.as_str()))
                else {
                    continue;
                };
                let at = if below.is_empty() {
                    self.add_leaf(&switch.nodes)
                } else {
                    self.add_above(below)
                };
                placed.insert(&switch.name, at);
            }
            if placed.len() == before {
                break;
            }
        }
    }

    /// Blocks, then as many together as each further size says, then all.
    fn join_blocks(&mut self, topology: &Topology) {
        let blocks = topology.switches.iter();
        let mut level: Vec<usize> = blocks.map(|block| self.add_leaf(&block.nodes)).collect();
        let sizes = topology.block_sizes.windows(2);
        let factors = sizes.filter_map(|two| two[1].checked_div(two[0]));
        for factor in factors.filter(|factor| *factor > 1) {
            let groups = level.chunks(factor as usize).map(<[usize]>::to_vec);
            let groups: Vec<Vec<usize>> = groups.collect();
            level = groups
                .into_iter()
                .map(|group| self.add_above(group))
                .collect();
        }
        if level.len() > 1 {
            self.add_above(level);
        }
    }
}
