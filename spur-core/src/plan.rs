//! The planner: proposes placements, changes nothing. Its answer is logged before it counts.

pub(crate) mod ask;
mod bars;
pub(crate) mod bits;
mod caps;
pub(crate) mod class;
mod devices;
pub(crate) mod filter;
pub(crate) mod fit;
pub mod frag;
mod groups;
mod guards;
mod kind;
pub(crate) mod layout;
mod licenses;
pub mod mix;
mod order;
pub mod outlook;
mod pass;
pub(crate) mod policy;
pub mod predict;
mod reserve;
pub(crate) mod rooms;
mod search;
pub(crate) mod shape;
pub(crate) mod slot;
mod tasks;
pub(crate) mod timeline;
pub(crate) mod topology;
mod wait;
pub mod why;
pub mod would;

#[cfg(test)]
mod tests;

use crate::cluster::Cluster;
use crate::id::JobId;
use crate::job::state::Reason;
use crate::resources::NodeShare;
use crate::time::{Millis, TimeLimit};
use outlook::Outlook;
use std::sync::Arc;

/// How much one pass may do; a bound on work, not on time, so that it is the same on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Most jobs looked at.
    pub jobs: u32,
    /// Most placements made.
    pub placements: u32,
    /// Most jobs that devices are reserved for.
    pub reservations: u32,
    /// Reserve for so many of the first jobs that cannot start, whatever they are; `None`: for those that the policy names.
    pub depth: Option<u32>,
    /// Most reasons told; further ones come in later passes.
    pub reasons: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            jobs: 200_000,
            placements: 10_000,
            reservations: 1_000,
            depth: None,
            reasons: 1_000,
        }
    }
}

/// A proposal: these devices for this job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Which job.
    pub job: JobId,
    /// What it gets, in node order.
    pub shares: Vec<NodeShare>,
    /// Whether a job that comes first in its partition waits.
    pub backfilled: bool,
    /// The limit that it gets, if not the one that it waited with.
    pub time_limit: Option<TimeLimit>,
}

/// What one pass found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Jobs to start now.
    pub placements: Vec<Placement>,
    /// Why the others wait; only where it differs from what the job says already.
    pub reasons: Vec<(JobId, Reason, String)>,
    /// Whether the budget ended the pass early.
    pub cut_short: bool,
    /// Whether there are more reasons to tell than the budget allows.
    pub more_reasons: bool,
    /// When waiting jobs will probably start. Not logged.
    pub outlook: Arc<Outlook>,
}

/// Proposes placements for pending jobs, in order of the queue ([`policy`]). A job that cannot start blocks nothing that fits, except
/// what is reserved for it. Same cluster, same time, same plan.
pub fn plan(cluster: &Cluster, at: Millis, budget: Budget) -> Plan {
    pass::Pass::new(cluster, at, budget).run()
}
