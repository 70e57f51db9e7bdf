//! What the controller must not lose: the log of events, snapshots of the state, payloads of batch jobs.
//!
//! A batch is durable as a whole or not at all. Entries are numbered without gaps, so that a replicated log can sit behind the
//! same interface. Why `SQLite`, and what a torn tail does: `docs/decisions/0001-store.md`.

mod room;
pub mod sqlite;
#[cfg(test)]
mod suite;

use spur_core::cluster::Cluster;
use spur_core::event::Event;
use spur_core::id::{JobId, Seq};
use spur_core::job::spec::Payload;
use spur_core::time::Millis;
use std::path::PathBuf;

/// One durable step forward.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Events in order; the first gets the number after the last durable one.
    pub events: Vec<(Millis, Event)>,
    /// Payloads to keep.
    pub payloads: Vec<(JobId, Payload)>,
    /// Payloads that are needed no more.
    pub dropped: Vec<JobId>,
}

impl Batch {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.payloads.is_empty() && self.dropped.is_empty()
    }
}

/// The state as it was last durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The newest snapshot and the number of the last entry in it.
    pub snapshot: Option<(Seq, Cluster)>,
    /// The entries after it, in order.
    pub entries: Vec<(Millis, Event)>,
}

impl Loaded {
    /// Number of the last durable entry; 0 if there is none.
    pub fn last(&self) -> Seq {
        let base = self.snapshot.as_ref().map_or(0, |(seq, _)| seq.0);
        Seq(base.saturating_add(self.entries.len() as u64))
    }

    /// Plays the entries onto the snapshot: the state, and the time of its last event.
    pub fn replay(self) -> (Cluster, Millis) {
        let mut cluster = self
            .snapshot
            .map(|(_, cluster)| cluster)
            .unwrap_or_default();
        let mut last = Millis::default();
        for (at, event) in &self.entries {
            cluster.apply(*at, event);
            last = last.max(*at);
        }
        (cluster, last)
    }
}

/// Why something could not be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be opened.
    #[error("cannot open the database {path}: {cause}")]
    Open {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        cause: String,
    },
    /// Nothing of the batch was written: disk full, I/O error.
    #[error("cannot write to the database {path}: {cause}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        cause: String,
    },
    /// The same, of a configuration that was changed.
    #[error(
        "the configuration has changed, which cannot be written to the database {path}: {cause}; make room there, or start with the \
         configuration as it was"
    )]
    Changed {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        cause: String,
    },
    /// The database cannot be read.
    #[error("cannot read the database {path}: {cause}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        cause: String,
    },
    /// A newer spur wrote it.
    #[error(
        "the database {path} has version {found}, this spur knows {known}: install the newer spur again"
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The version that this build writes.
        known: i64,
    },
}

/// The durable half of the controller.
pub trait Store: Send {
    /// Appends a batch: when this returns, it survives a power cut; when it fails, nothing of it was written.
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError>;

    /// Reads everything that counts.
    fn load(&mut self) -> Result<Loaded, StoreError>;

    /// Keeps the state as of the last entry and forgets the entries in it. On failure nothing has changed.
    fn snapshot(&mut self, cluster: &Cluster) -> Result<(), StoreError>;

    /// Bytes of log since the last snapshot, roughly.
    fn log_bytes(&self) -> u64;

    /// Size of the last snapshot in bytes, 0 if there is none.
    fn snapshot_bytes(&self) -> u64;

    /// A batch job's payload, if it is kept.
    fn payload(&self, job: JobId) -> Result<Option<Payload>, StoreError>;

    /// Forgets payloads of jobs that are not in `keep` (left by a crash between a purge and its clean-up).
    fn retain_payloads(&mut self, keep: &Cluster) -> Result<(), StoreError>;

    /// Whether something can be written now; changes nothing that matters.
    fn probe(&mut self) -> Result<(), StoreError>;
}
