//! Counters of the controller.

use crate::time::Millis;
use serde::{Deserialize, Serialize};

/// Counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Since when the controller runs.
    pub started: Millis,
    /// Log entries written.
    pub log_entries: u64,
    /// Durable batches written.
    pub log_batches: u64,
    /// Planning passes.
    pub passes: u64,
    /// Microseconds that the last pass took.
    pub last_pass_us: u64,
    /// Longest pass in microseconds.
    pub max_pass_us: u64,
    /// Jobs started.
    pub jobs_started: u64,
    /// Jobs pending now.
    pub pending: u64,
    /// Jobs running now.
    pub running: u64,
    /// Events that `apply` ignored.
    pub ignored: u64,
    /// Resident memory of the controller in KiB.
    pub rss_kib: u64,
    /// Nodes whose meter is connected.
    #[serde(default)]
    pub meters: u64,
    /// Batches of readings that were taken.
    #[serde(default)]
    pub usage_batches: u64,
    /// Bytes of them.
    #[serde(default)]
    pub usage_bytes: u64,
    /// Batches and series that made no sense, or spoke of jobs that the node does not hold.
    #[serde(default)]
    pub usage_refused: u64,
    /// Longest time in milliseconds from a live batch's end to its being taken, in the last minute.
    #[serde(default)]
    pub usage_lag_ms: u64,
    /// Usage records that were made durable.
    #[serde(default)]
    pub usage_records: u64,
    /// Records and job rows that wait for the accounting database.
    #[serde(default)]
    pub accounting_backlog: u64,
    /// Since when what follows, and what was counted above of jobs and passes, is counted; 0 from controllers that do not say.
    #[serde(default)]
    pub counted_since: Millis,
    /// Jobs submitted.
    #[serde(default)]
    pub submitted: u64,
    /// Jobs that ended by themselves, at their limit, or because memory ran out.
    #[serde(default)]
    pub completed: u64,
    /// Jobs cancelled.
    #[serde(default)]
    pub cancelled: u64,
    /// Jobs that failed with a node.
    #[serde(default)]
    pub failed: u64,
    /// Microseconds that all passes took.
    #[serde(default)]
    pub passes_us: u64,
    /// Jobs that waited at all passes, added up.
    #[serde(default)]
    pub passes_queue: u64,
    /// Jobs that waited at the last pass.
    #[serde(default)]
    pub last_queue: u64,
    /// When the last pass was.
    #[serde(default)]
    pub last_pass: Millis,
    /// Requests by kind.
    #[serde(default)]
    pub requests: Vec<RequestCount>,
    /// Requests by user.
    #[serde(default)]
    pub requesters: Vec<RequestCount>,
}

/// Requests of a kind, or of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestCount {
    /// Slurm's number of the kind, or the user's.
    pub id: u32,
    /// Slurm's name of the kind, or the user's.
    pub name: String,
    /// How many.
    pub count: u64,
    /// Microseconds that they took, answers that wait for something left out.
    pub micros: u64,
}
