//! What a node's server is told of the whole step: who is where.

use std::collections::BTreeSet;

/// A node of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its name in the cluster.
    pub name: String,
    /// Ranks that run there.
    pub ranks: Vec<u32>,
    /// Which of several programs they run.
    pub program: u32,
}

/// A process of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number in the step.
    pub rank: u32,
    /// The position of its node.
    pub node: u32,
    /// Its position among the ranks of its node.
    pub local: u16,
    /// Which of several programs it runs.
    pub program: u32,
    /// Its position among the ranks of its program.
    pub of_program: u32,
    /// The lowest rank of its program.
    pub leader: u32,
}

/// Why PMIx cannot be told of a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Nodes are told apart by their names.
    #[error("node {0} has a part of it twice")]
    Twice(String),
    /// Names are listed with commas, ranks with semicolons.
    #[error("the name of node {0} cannot be told to PMIx")]
    Name(String),
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    nodes: Vec<Node>,
}

impl Layout {
    /// Of these nodes.
    ///
    /// # Errors
    /// They cannot be told apart.
    pub fn new(mut nodes: Vec<Node>) -> Result<Self, Unfit> {
        let mut names = BTreeSet::new();
        for node in &mut nodes {
            if node.name.is_empty() || node.name.contains([',', ';', '[', ']', ':']) {
                return Err(Unfit::Name(node.name.clone()));
            }
            if !names.insert(node.name.clone()) {
                return Err(Unfit::Twice(node.name.clone()));
            }
            node.ranks.sort_unstable();
        }
        Ok(Self { nodes })
    }

    /// Its nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// How many ranks it has.
    pub fn size(&self) -> u32 {
        let count = self.nodes.iter().map(|node| node.ranks.len()).sum();
        number(count)
    }

    /// How many programs.
    pub fn programs(&self) -> u32 {
        let all: BTreeSet<u32> = self.nodes.iter().map(|node| node.program).collect();
        number(all.len())
    }

    /// The nodes' names as `PMIx_generate_regex` takes them.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        names.join(",")
    }

    /// The ranks by node as `PMIx_generate_ppn` takes them.
    pub fn ranks(&self) -> String {
        let nodes: Vec<String> = self.nodes.iter().map(|node| list(&node.ranks)).collect();
        nodes.join(";")
    }

    /// Every process, by rank.
    pub fn processes(&self) -> Vec<Process> {
        let mut all = Vec::new();
        for (at, node) in (0u32..).zip(&self.nodes) {
            all.extend((0u16..).zip(&node.ranks).map(|(local, rank)| Process {
                rank: *rank,
                node: at,
                local,
                program: node.program,
                of_program: 0,
                leader: 0,
            }));
        }
        all.sort_unstable_by_key(|process| process.rank);
        // By program: its lowest rank, and how many were met.
        let mut programs = std::collections::BTreeMap::new();
        for process in &mut all {
            let (leader, met) = programs.entry(process.program).or_insert((process.rank, 0));
            (process.leader, process.of_program) = (*leader, *met);
            *met += 1;
        }
        all
    }
}

/// Numbers with commas.
pub fn list(ranks: &[u32]) -> String {
    let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
    ranks.join(",")
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
