//! What came of a run.

use spur_core::job::state::JobState;
use std::collections::BTreeMap;

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Its seed.
    pub seed: u64,
    /// What went wrong that must not, if anything did.
    pub failure: Option<Failure>,
    /// Events that became durable.
    pub events: u64,
    /// Events that the state machine ignored (stale reports and the like).
    pub ignored: u64,
    /// Jobs whose submission was acknowledged.
    pub acknowledged: u64,
    /// How they ended.
    pub ends: BTreeMap<JobState, u64>,
    /// Placements that machines carried out.
    pub placements: u64,
    /// Launches that failed, as far as the log knows.
    pub launches_failed: u64,
    /// Faults that happened, by name.
    pub faults: BTreeMap<&'static str, u64>,
    /// Simulated seconds until everything had drained.
    pub secs: u64,
    /// A hash of the whole log: equal for equal seeds and parameters.
    pub digest: u64,
}

/// A broken promise, and how to see it again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed}, after {secs} s: {what}")]
pub struct Failure {
    /// The run's seed.
    pub seed: u64,
    /// Simulated seconds from its start.
    pub secs: u64,
    /// What happened.
    pub what: String,
}

/// Sums over many runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Runs.
    pub runs: u64,
    /// Events that became durable.
    pub events: u64,
    /// Jobs whose submission was acknowledged.
    pub acknowledged: u64,
    /// Placements that machines carried out.
    pub placements: u64,
    /// Faults that happened.
    pub faults: u64,
}

impl Summary {
    /// Adds a run; its failure is the error.
    pub(crate) fn add(&mut self, outcome: Outcome) -> Result<(), Failure> {
        if let Some(failure) = outcome.failure {
            return Err(failure);
        }
        self.runs += 1;
        self.events += outcome.events;
        self.acknowledged += outcome.acknowledged;
        self.placements += outcome.placements;
        self.faults += outcome.faults.values().sum::<u64>();
        Ok(())
    }
}
