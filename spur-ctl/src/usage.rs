//! What jobs and devices use: the newest values in memory ([`board`]), the record on disk ([`store`]), the nodes' streams that bring
//! both ([`meter`]), and the answers that are made of them ([`answer`]).
//!
//! None of it is on the way of a job: the writer hands each job's row over and goes on, and only two small facts come back to it, as
//! events for the planner.

mod answer;
mod board;
mod clean;
pub mod meter;
mod store;

#[cfg(test)]
mod tests;

pub use answer::matches;
pub use store::Place;

use crate::readers::View;
use crate::store::StoreError;
use board::Board;
use spur_core::api::{JobView, Stats};
use spur_core::id::JobId;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::Store;

/// Days that the record keeps jobs unless the configuration says otherwise.
pub const KEEP_DAYS: u64 = 365;

/// Counters since the start.
#[derive(Debug, Default)]
struct Counters {
    meters: AtomicU64,
    batches: AtomicU64,
    bytes: AtomicU64,
    refused: AtomicU64,
}

/// Everything of it.
#[derive(Debug, Default)]
pub struct Usage {
    board: Arc<Board>,
    store: Store,
    counters: Counters,
}

impl Usage {
    /// Opens the record in this file, and makes it if it is not there. Only a record of a newer spur is an error; one that cannot be
    /// read is set aside, and one that cannot be made is tried again and again.
    pub fn open(path: &Path, keep_days: u64) -> Result<Self, StoreError> {
        Self::open_at(Place::File(path.to_owned()), keep_days)
    }

    /// The same wherever the record lives.
    pub fn open_at(place: Place, keep_days: u64) -> Result<Self, StoreError> {
        let board = Arc::new(Board::default());
        let store = Store::open(place, keep_days, Arc::clone(&board))?;
        Ok(Self {
            board,
            store,
            counters: Counters::default(),
        })
    }

    /// Writes what is left and ends the thread.
    pub fn close(&self) {
        self.store.close();
    }

    /// A job is as this row says. `before` is how it was when last told.
    pub fn job(&self, before: Option<&JobView>, now: &Arc<JobView>) {
        if before.is_none_or(|before| differs(before, now)) {
            self.store.job(now);
        }
        // What an earlier placement used is its record's; nobody will ask the board for it.
        if let Some(before) = before
            && before.generation != now.generation
        {
            self.forget(before);
        }
    }

    /// Everything that the cluster knows: at the start, and when the record was made anew.
    pub fn all_jobs(&self, view: &View) {
        self.store.all(view.jobs.iter());
    }

    /// Whether the record was made anew and wants every job again.
    pub fn wants_all(&self) -> bool {
        self.store.wants_all()
    }

    /// The cluster has forgotten a job: what was in memory goes to the record.
    pub fn forget(&self, last: &JobView) {
        let nodes = last.nodes.iter().map(|held| &held.name);
        self.store.tails(self.board.forget(last.id, nodes));
    }

    /// Adds what there is to say of it to the controller's counters.
    pub fn count(&self, stats: &mut Stats) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        stats.meters = of(&self.counters.meters);
        stats.usage_batches = of(&self.counters.batches);
        stats.usage_bytes = of(&self.counters.bytes);
        stats.usage_refused = of(&self.counters.refused);
        stats.usage_lag_ms = self.board.lag();
        stats.usage_records = self.store.records();
        stats.accounting_backlog = self.store.backlog() as u64;
    }
}

/// Whether a row says something that the record does not have. Reasons and priorities change all the time while a job waits, and say
/// nothing afterwards.
fn differs(before: &JobView, now: &JobView) -> bool {
    let of = |view: &JobView| {
        (
            view.state,
            view.completing,
            view.started,
            view.ended,
            view.exit,
            view.derived_exit,
            view.restarts,
            view.generation,
        )
    };
    of(before) != of(now)
        || before.cancelled_by != now.cancelled_by
        || before.steps != now.steps
        || before.nodes.len() != now.nodes.len()
        || (!Arc::ptr_eq(&before.spec, &now.spec) && before.spec != now.spec)
}

/// Whether a row says anything of this job.
fn holds(view: &View, job: JobId, node: &spur_core::id::NodeName) -> Option<board::Holder> {
    let row = view.job(job)?;
    let started = row.started?;
    let held = row.nodes.iter().find(|held| held.name == *node)?;
    Some(board::Holder {
        generation: row.generation,
        started,
        cpus: held.share.cpus.len(),
    })
}
