//! The planner: proposes placements, changes nothing. Its answer is logged before it counts.

pub(crate) mod ask;
pub(crate) mod class;
mod devices;
pub(crate) mod fit;
pub mod frag;
pub(crate) mod layout;
pub mod mix;
mod order;
pub mod outlook;
mod pass;
pub(crate) mod policy;
pub mod predict;
pub(crate) mod rooms;
pub(crate) mod shape;
pub(crate) mod slot;
pub(crate) mod topology;
pub mod why;

#[cfg(test)]
mod tests;

use crate::cluster::{Cluster, Waiting};
use crate::id::JobId;
use crate::job::state::Reason;
use crate::resources::NodeShare;
use crate::time::Millis;
use outlook::Outlook;
use pass::Wait;
use std::sync::Arc;

/// How much one pass may do; a bound on work, not on time, so that it is the same on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Most jobs looked at.
    pub jobs: u32,
    /// Most placements made.
    pub placements: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            jobs: 100_000,
            placements: 10_000,
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

/// Proposes placements for pending jobs, by partition tier, priority and age. A job that cannot start blocks nothing that
/// fits. Same cluster, same time, same plan.
pub fn plan(cluster: &Cluster, at: Millis, budget: Budget) -> Plan {
    let mut pass = pass::Pass::new(cluster, at);
    let mut plan = Plan::default();
    let queue = order::queue(cluster, |class| pass.tier(class));
    for (looked_at, (policy::Key { job, .. }, waiting)) in (0u32..).zip(queue) {
        let placed = u32::try_from(plan.placements.len()).unwrap_or(u32::MAX);
        if looked_at >= budget.jobs || placed >= budget.placements {
            plan.cut_short = true;
            break;
        }
        match pass.consider(waiting) {
            Ok(shares) => plan.placements.push(Placement { job, shares }),
            Err(wait) if is_news(cluster, job, waiting, &wait) => {
                plan.reasons
                    .push((job, wait.reason, wait.text.into_owned()));
            }
            Err(_) => {}
        }
    }
    plan
}

/// Whether the job does not say already why it waits.
fn is_news(cluster: &Cluster, job: JobId, waiting: &Waiting, wait: &Wait) -> bool {
    if waiting.reason != wait.reason || waiting.silent != wait.text.is_empty() {
        return true;
    }
    let says = |text: &str| {
        cluster
            .jobs
            .get(&job)
            .is_some_and(|job| job.reason_text == text)
    };
    !waiting.silent && !says(&wait.text)
}
