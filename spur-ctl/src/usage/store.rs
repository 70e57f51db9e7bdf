//! The record: an embedded SQL database of its own, `accounting.db`, or a schema of a `PostgreSQL` server, with every job from its submission on, and what it used.
//!
//! A thread of its own writes. Jobs hand over their rows and go on: rows wait in a bounded map in which the latest counts, and a
//! node's records in a bounded queue whose end the node waits for. A disk that is lost, slow or full delays all of it; when it works
//! again, or is another, everything that the cluster knows is written anew. Questions have connections of their own.

mod db;
mod read;
mod schema;
mod series;
mod thread;
mod write;

pub(super) use read::{Found, Page, Wanted};
pub use schema::Place;

use super::board::{Board, Slot, TailBatch};
use crate::store::StoreError;
use spur_core::api::{JobView, RunKey};
use spur_core::id::NodeName;
use spur_core::usage::words::UsageRecord;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::Semaphore;

/// Most rows of jobs that wait. Beyond, those of the highest numbers go; they are written anew when the disk works again.
const JOBS_MAX: usize = 200_000;
/// Most records that wait; beyond, nodes do.
const RECORDS_MAX: usize = 4096;
/// Most pieces of series that wait; beyond, the oldest go.
const TAILS_MAX: usize = 16_384;

/// The way to the record.
#[derive(Debug)]
pub(super) struct Store {
    shared: Arc<Shared>,
    place: Option<Place>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What streams, the writer and the thread share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    /// Room for records.
    room: Semaphore,
}

#[derive(Debug, Default)]
struct State {
    jobs: BTreeMap<RunKey, Arc<JobView>>,
    records: VecDeque<Arc<Incoming>>,
    tails: VecDeque<TailBatch>,
    /// What of each node's spool is durable.
    spools: BTreeMap<NodeName, (String, u64)>,
    /// The file is new, or rows were dropped: everything must be told again, and records wait for it.
    wants_all: bool,
    /// The disk failed, and was not seen to work since.
    failing: bool,
    stop: bool,
    /// The thread lets more come together: only the word to end may wake it.
    resting: bool,
    written: u64,
}

/// A record on its way.
#[derive(Debug)]
pub(super) struct Incoming {
    /// Who said it.
    pub(super) node: NodeName,
    /// Told when it is durable.
    pub(super) slot: Arc<Slot>,
    /// Its spool.
    pub(super) spool: String,
    /// Its number.
    pub(super) number: u64,
    /// What.
    pub(super) record: UsageRecord,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            shared: Arc::new(Shared::new(State::default())),
            place: None,
            thread: Mutex::default(),
        }
    }
}

impl Shared {
    fn new(state: State) -> Self {
        Self {
            state: Mutex::new(state),
            work: Condvar::new(),
            room: Semaphore::new(RECORDS_MAX),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the thread know of more work, if it waits for some: one that rests looks by itself when it is done, and waking it for
    /// every job would take a processor from whoever waits for an answer.
    fn wake(&self, state: MutexGuard<'_, State>) {
        let resting = state.resting;
        drop(state);
        if !resting {
            self.work.notify_one();
        }
    }
}

impl Store {
    /// Opens the record and starts the thread.
    pub(super) fn open(
        place: Place,
        keep_days: u64,
        board: Arc<Board>,
    ) -> Result<Self, StoreError> {
        let (thread, spools) = thread::Keeper::open(place.clone(), keep_days, board)?;
        let shared = Arc::new(Shared::new(State {
            spools,
            ..State::default()
        }));
        let thread = thread.start(Arc::clone(&shared))?;
        Ok(Self {
            shared,
            place: Some(place),
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Where questions look.
    pub(super) fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// Writes what is left and ends the thread.
    pub(super) fn close(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(thread) = thread.take() else {
            return;
        };
        self.shared.state().stop = true;
        self.shared.work.notify_one();
        if thread.join().is_err() {
            tracing::error!("the thread that keeps the accounting record panicked");
        }
    }

    /// A job is as this row says.
    pub(super) fn job(&self, row: &Arc<JobView>) {
        if self.place.is_none() {
            return;
        }
        let mut state = self.shared.state();
        state.jobs.insert(RunKey::of(row), Arc::clone(row));
        if state.jobs.len() > JOBS_MAX {
            state.jobs.pop_last();
            state.wants_all = true;
        }
        self.shared.wake(state);
    }

    /// Pieces of series.
    pub(super) fn tails(&self, tails: Vec<TailBatch>) {
        if self.place.is_none() || tails.is_empty() {
            return;
        }
        let mut state = self.shared.state();
        state.tails.extend(tails);
        state.cut_tails();
        self.shared.wake(state);
    }

    /// A node's record; waits while there is no room. The answer is whether it will be written.
    pub(super) async fn record(&self, incoming: Incoming) -> bool {
        if self.place.is_none() {
            return false;
        }
        match self.shared.room.acquire().await {
            Ok(room) => room.forget(),
            Err(_) => return false,
        }
        let mut state = self.shared.state();
        state.records.push_back(Arc::new(incoming));
        self.shared.wake(state);
        true
    }

    /// What of a node's records is durable.
    pub(super) fn durable(&self, node: &NodeName) -> (String, u64) {
        let state = self.shared.state();
        state.spools.get(node).cloned().unwrap_or_default()
    }

    /// Whether everything must be told again, and there is somewhere to write it.
    pub(super) fn wants_all(&self) -> bool {
        let state = self.shared.state();
        state.wants_all && !state.failing
    }

    /// Everything that the cluster knows, at once: records of these jobs may follow.
    pub(super) fn all<'a>(&self, rows: impl Iterator<Item = &'a Arc<JobView>>) {
        if self.place.is_none() {
            return;
        }
        let mut state = self.shared.state();
        state.wants_all = false;
        for row in rows {
            state.jobs.insert(RunKey::of(row), Arc::clone(row));
        }
        while state.jobs.len() > JOBS_MAX {
            state.jobs.pop_last();
        }
        self.shared.wake(state);
    }

    /// Rows and records that wait.
    pub(super) fn backlog(&self) -> usize {
        let state = self.shared.state();
        state.jobs.len() + state.records.len()
    }

    /// The share of the room for records that is taken, thousandths.
    pub(super) fn fullness(&self) -> usize {
        self.shared.state().records.len() * 1000 / RECORDS_MAX
    }

    /// Records that were written.
    pub(super) fn records(&self) -> u64 {
        self.shared.state().written
    }
}

impl State {
    fn cut_tails(&mut self) {
        let surplus = self.tails.len().saturating_sub(TAILS_MAX);
        self.tails.drain(..surplus);
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
    }
}
