//! Which jobs a request is about.

use crate::id::{JobId, NodeName, Uid};
use crate::job::array::JobTarget;
use crate::job::state::JobState;
use serde::{Deserialize, Serialize};

/// Which jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFilter {
    /// These, all records of arrays with these numbers, and all components of jobs that these lead; empty (like `targets`) means all.
    pub ids: Vec<JobId>,
    /// Of these users; empty means all.
    pub users: Vec<Uid>,
    /// In these partitions.
    pub partitions: Vec<String>,
    /// With these names.
    pub names: Vec<String>,
    /// In these base states; empty means what the command shows by default (pending, running, completing).
    pub states: Vec<JobState>,
    /// All states, also ended ones that are still remembered.
    pub all_states: bool,
    /// With a part on these nodes.
    pub nodes: Vec<NodeName>,
    /// Of these accounts.
    pub accounts: Vec<String>,
    /// With the expected starts of those that wait; selects nothing.
    #[serde(default)]
    pub estimates: bool,
    /// Beside `ids`: tasks of arrays, and jobs.
    #[serde(default)]
    pub targets: Vec<JobTarget>,
    /// Not those in partitions that are hidden from whoever asks. The one who answers sees to it.
    #[serde(default)]
    pub visible: bool,
}
