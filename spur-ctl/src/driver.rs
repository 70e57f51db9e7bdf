//! The single writer: the only owner of [`Cluster`].
//!
//! ```text
//!  clients, agents --bounded inbox--> turn: events -> apply -> plan -> apply -> grants
//!                                       |
//!                                 one durable append
//!                                       |
//!                     publish rows, answer calls, acknowledge reports, send orders
//! ```
//! A turn takes everything that waits. What it decides is applied at once, so that one turn can submit, place and grant, but
//! nobody hears of it before it is durable. If the append fails, the state is read back from the store, every request of the
//! turn is refused with the reason, and the controller lives on.

mod agents;
mod ask;
mod change;
mod commands;
mod control;
mod cron;
mod effects;
mod grants;
mod het;
mod hooks;
mod mesh;
mod pace;
mod publish;
mod start;
mod steps;
#[cfg(test)]
mod tests;
mod turn;
mod usage;
mod waits;

pub use ask::{
    Act, AgentInput, AgentWord, Answer, Ask, Asked, Await, Command, Input, Outbound, UsageWord,
};
pub use start::{Parts, start};
pub use waits::Watch;

use crate::denials::Denials;
use crate::readers::{Publisher, Pulse};
use crate::store::Store;
use crate::usage::Usage;
use agents::Links;
use hooks::Desk;
use pace::Pace;
use spur_core::agent::programs::NodePrograms;
use spur_core::cluster::Cluster;
use spur_core::denial::DenialCount;
use spur_core::effect::Letter;
use spur_core::id::{Generation, JobId, NodeId, StepKind};
use spur_core::job::state::JobState;
use spur_core::time::Millis;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use tokio::time::Instant;
use waits::Waits;

/// Most inputs that wait for the writer. Clients beyond are told that it is busy; agents wait.
pub const INBOX_MAX: usize = 8192;

/// Most mails that wait to be sent.
pub const LETTERS_MAX: usize = 4096;

/// Most inputs in one turn: bounds how long the first waits for the last, and the size of one append.
const TURN_MAX: usize = 4096;

/// How long until the store is tried again after it failed, if nobody asks.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// How often totals of refusals are logged.
const DENIALS_EVERY: Duration = Duration::from_secs(1);

/// A snapshot is due when the log since the last is larger than this and than the last snapshot.
const SNAPSHOT_MIN: u64 = 8 << 20;

/// Counters since the start.
#[derive(Debug, Default)]
struct Counters {
    started: Millis,
    entries: u64,
    batches: u64,
    passes: u64,
    last_pass: Duration,
    max_pass: Duration,
    jobs_started: u64,
    ignored: u64,
    submitted: u64,
    completed: u64,
    cancelled: u64,
    failed: u64,
    all_passes: Duration,
    passes_queue: u64,
    last_queue: u64,
    last_pass_at: Millis,
    /// Since when all but what the log and `apply` did is counted.
    counted_since: Millis,
}

impl Counters {
    /// Counts a job that has ended.
    fn ended(&mut self, state: JobState) {
        match state {
            JobState::Cancelled => self.cancelled += 1,
            JobState::NodeFail => self.failed += 1,
            JobState::Completed
            | JobState::Failed
            | JobState::Timeout
            | JobState::OutOfMemory
            | JobState::Deadline => self.completed += 1,
            JobState::Pending | JobState::Running | JobState::Suspended => {}
        }
    }

    /// Counts jobs and passes anew.
    fn reset(&mut self, now: Millis) {
        *self = Self {
            started: self.started,
            entries: self.entries,
            batches: self.batches,
            ignored: self.ignored,
            counted_since: now,
            ..Self::default()
        };
    }
}

/// The writer's own state. Only `cluster` outlives it, through the store.
struct Writer {
    cluster: Cluster,
    store: Box<dyn Store>,
    /// The store failed and was not seen to work since.
    store_failed: Option<String>,
    /// The state cannot be read back any more: the controller must stop.
    broken: Option<String>,
    /// Size of the log at which a snapshot is tried.
    snapshot_at: u64,
    /// Time of the last event: time never runs backwards in the log.
    last_at: Millis,
    /// Up to when begin times of waiting jobs were looked at.
    looked_at: Millis,
    links: Links,
    waits: Waits,
    pace: Pace,
    pulses: BTreeMap<NodeId, Pulse>,
    /// Totals of refusals that are not logged yet.
    denial_totals: BTreeMap<(JobId, NodeId), DenialCount>,
    denials_due: Option<Instant>,
    denials: Arc<Denials>,
    usage: Arc<Usage>,
    publisher: Publisher,
    /// Signs step tickets.
    key: Arc<[u8]>,
    counters: Counters,
    /// Number of the present turn.
    turn: u64,
    /// Where mails go; `None` where nobody sends any.
    letters: Option<mpsc::Sender<Letter>>,
    /// Steps that are to be killed, until they have ended, and of which placement of their jobs.
    kills: BTreeMap<(JobId, StepKind), Generation>,
    /// What agents run around jobs.
    programs: NodePrograms,
    /// What is run here around allocations.
    hooks: Desk,
}

/// Milliseconds since the epoch, now.
pub(crate) fn now() -> Millis {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

impl Writer {
    /// Runs until it is told to stop, or nobody can tell it any more. The error says why it cannot go on.
    async fn run(mut self, mut inbox: mpsc::Receiver<Input>) -> Result<(), String> {
        let mut inputs = Vec::new();
        loop {
            inputs.clear();
            let wake = self.next_wake();
            let received = match wake {
                Some(wake) => tokio::time::timeout_at(wake, inbox.recv_many(&mut inputs, TURN_MAX))
                    .await
                    .ok(),
                None => Some(inbox.recv_many(&mut inputs, TURN_MAX).await),
            };
            if received == Some(0) {
                break;
            }
            let stop = inputs.iter().any(|input| matches!(input, Input::Stop));
            self.turn(inputs.drain(..));
            if !stop && self.pace.is_due(Instant::now()) {
                self.turn(std::iter::empty());
            }
            if let Some(broken) = self.broken {
                return Err(broken);
            }
            if stop {
                break;
            }
            self.snapshot_if_due(inbox.is_empty());
        }
        tracing::info!(entries = self.counters.entries, "the writer stops");
        Ok(())
    }

    /// When there is something to do though nobody asks.
    fn next_wake(&self) -> Option<Instant> {
        let now = Instant::now();
        if self.store_failed.is_some() {
            return Some(now + STORE_RETRY);
        }
        let at = crate::driver::now();
        let due = self.cluster.next_deadline(at).map(|(when, _)| {
            let wait = Duration::from_millis(when.0.saturating_sub(at.0).saturating_add(1));
            now + wait.min(Duration::from_secs(3600))
        });
        [
            due,
            self.waits.next_wake(),
            self.pace.next_wake(),
            self.denials_due,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Writes a snapshot when the log has grown as large as the state, so that both stay in proportion; while others wait only
    /// when it is long overdue.
    fn snapshot_if_due(&mut self, idle: bool) {
        let log = self.store.log_bytes();
        if log < self.snapshot_at
            || (!idle && log < self.snapshot_at.saturating_mul(4))
            || self.store_failed.is_some()
        {
            return;
        }
        let begun = Instant::now();
        let written = self.store.snapshot(&self.cluster);
        match written {
            Ok(()) => {
                tracing::info!(bytes = self.store.snapshot_bytes(), took = ?begun.elapsed(), "snapshot written")
            }
            Err(e) => tracing::warn!("no snapshot: {e}"),
        }
        self.snapshot_at = self
            .store
            .log_bytes()
            .saturating_add(SNAPSHOT_MIN.max(self.store.snapshot_bytes()));
    }
}
