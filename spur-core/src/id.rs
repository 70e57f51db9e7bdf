//! Identifiers. Newtypes, never bare integers, so that one cannot be passed for another.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident, $int:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number_id!(
    /// A job, numbered from 1 by the controller; never used twice within a cluster.
    JobId, u32
);
number_id!(
    /// A node, numbered densely by the controller in order of first registration.
    NodeId, u32
);
number_id!(
    /// The controller's monotonic counter of decisions that an agent must carry out. An agent refuses an order whose
    /// generation is older than the last that it saw for the same job.
    Generation, u64
);
number_id!(
    /// A user, as the kernel numbers them.
    Uid, u32
);
number_id!(
    /// A group, as the kernel numbers them.
    Gid, u32
);
number_id!(
    /// A member of the mesh, numbered from 1; never used twice within a mesh, and with it neither are its addresses.
    MemberId, u32
);
number_id!(
    /// A token with which a host joins the mesh, numbered from 1; never used twice.
    TokenId, u32
);
number_id!(
    /// The position of a log entry; consecutive from 1.
    Seq, u64
);

/// The name of a node, as Slurm's `NodeName`: letters, digits, `-`, `_` and `.`; not empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeName(String);

/// A string that cannot name a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid node name {0:?}: use letters, digits, '-', '_' and '.', starting with a letter or digit"
)]
pub struct BadNodeName(pub String);

impl NodeName {
    /// Checks and wraps a name (at most 64 bytes).
    pub fn new(name: impl Into<String>) -> Result<Self, BadNodeName> {
        let name = name.into();
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if starts && name.len() <= 64 && name.chars().all(legal) {
            Ok(Self(name))
        } else {
            Err(BadNodeName(name))
        }
    }

    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which step of a job: the batch shell, the allocation's interactive shell, or a numbered `srun` step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StepKind {
    /// The batch script, `JOB.batch`.
    Batch,
    /// A step started by `srun`, numbered from 0 within its job.
    Numbered(u32),
}

/// A step of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepId {
    /// The job.
    pub job: JobId,
    /// The step within it.
    pub step: StepKind,
}

impl fmt::Display for StepKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Batch => f.write_str("batch"),
            Self::Numbered(n) => n.fmt(f),
        }
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.job, self.step)
    }
}
