//! Nodes as queries show them.

use crate::node::Node;
use serde::{Deserialize, Serialize};

/// A node as queries show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeView {
    /// The node.
    pub node: Node,
    /// Partitions that it is in.
    pub partitions: Vec<String>,
    /// Jobs whose clean-up it still owes.
    pub completing: bool,
    /// Held back for a waiting job (`PLANNED`).
    pub planned: bool,
    /// Its features, configured and its own.
    #[serde(default)]
    pub features: Vec<String>,
    /// Its weight; 0 from controllers that do not say.
    #[serde(default)]
    pub weight: u32,
    /// A remark of an operator.
    #[serde(default)]
    pub comment: String,
    /// `Extra`.
    #[serde(default)]
    pub extra: String,
    /// Reservations that hold it now; filled in by the one who answers.
    #[serde(default)]
    pub reservations: Vec<String>,
    /// Whether one of them is for maintenance; filled in by the one who answers.
    #[serde(default)]
    pub maintenance: bool,
}
