//! Refusals by the fence, one by one and by kind, kept with their jobs: in memory for readers, on disk for the next controller.
//! Exact totals of jobs are not here but in the log.
//!
//! Everything is bounded, whatever jobs and nodes do. A thread of its own writes, so that the writer and the readers never wait
//! for a disk because of refusals; a line is shown once it is written, so what was shown outlives a `kill -9`. Neither a full nor
//! a broken disk takes more than the lines themselves.

mod keep;
mod lines;
mod rows;

pub use lines::{ALL_MAX, JOB_MAX};

use crate::store::StoreError;
use keep::{Keeper, Pending};
use lines::Lines;
use rows::Rows;
use spur_core::api::NodeRows;
use spur_core::denial::{Denial, DeviceOp, JobRows};
use spur_core::id::{JobId, NodeName};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::watch;

/// Most jobs of which it is remembered what alarms were logged; beyond, the lowest number goes first.
const ALARMED_MAX: usize = 4096;
/// Longest text that a node may give for a command, a device or an object, in bytes.
const TEXT_MAX: usize = 256;

/// The refusals that are remembered.
#[derive(Debug, Default)]
pub struct Denials {
    shared: Arc<Shared>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

/// What readers, agents' streams and the thread share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something is pending for the thread.
    work: Condvar,
    /// Number of the newest line that may be shown.
    shown: watch::Sender<u64>,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            work: Condvar::new(),
            shown: watch::Sender::new(0),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    lines: Lines,
    rows: Rows,
    /// Operations of each job that were logged as alarms.
    alarmed: BTreeMap<JobId, BTreeSet<DeviceOp>>,
    /// What the thread has not written; `None` if nothing is written at all.
    pending: Option<Pending>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the thread, or, where there is none, the readers.
    fn changed(&self, state: MutexGuard<'_, State>) {
        let (kept, newest) = (state.pending.is_some(), state.lines.newest());
        drop(state);
        if kept {
            self.work.notify_one();
        } else {
            self.shown.send_replace(newest);
        }
    }
}

impl Denials {
    /// Reads back what an earlier controller kept of the jobs that `known` still knows, and keeps it up from here on. Only a
    /// database of a newer spur is an error; one that cannot be used is set aside, or done without, and the log says so.
    pub fn open(path: &Path, known: impl Fn(JobId) -> bool) -> Result<Self, StoreError> {
        let Some((keeper, found)) = Keeper::open(path)? else {
            return Ok(Self::default());
        };
        let mut state = State::default();
        let mut pending = Pending::default();
        for denial in found.lines {
            if known(denial.job) || denial.job == JobId(0) {
                pending.removed.extend(state.lines.push(denial));
            } else {
                pending.removed.insert(denial.seq);
            }
        }
        state.lines.continue_from(found.next);
        for (job, node, table) in found.rows {
            if known(job) || job == JobId(0) {
                state.rows.restore(job, node, table);
            } else {
                pending.gone.insert(job);
            }
        }
        for denial in state.lines.alarms() {
            state
                .alarmed
                .entry(denial.job)
                .or_default()
                .insert(denial.op);
        }
        let shown = state.lines.newest();
        state.pending = Some(pending);
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            work: Condvar::new(),
            shown: watch::Sender::new(shown),
        });
        let thread = keeper.start(Arc::clone(&shared))?;
        Ok(Self {
            shared,
            keeper: Mutex::new(Some(thread)),
        })
    }

    /// Writes what is left and ends the thread. Nothing is kept on disk from here on.
    pub fn close(&self) {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(thread) = keeper.take() else {
            return;
        };
        if let Some(pending) = &mut self.shared.state().pending {
            pending.stop = true;
        }
        self.shared.work.notify_one();
        if thread.join().is_err() {
            tracing::error!("the thread that keeps refusals panicked");
        }
    }

    /// Remembers what a node reports; whatever it says, the node is itself.
    pub fn add(&self, node: &NodeName, denials: Vec<Denial>) {
        if denials.is_empty() {
            return;
        }
        let mut state = self.shared.state();
        for mut denial in denials {
            denial.node = node.clone();
            for text in [&mut denial.command, &mut denial.device, &mut denial.object] {
                clean(text);
            }
            if denial.is_alarm() && state.is_first(&denial) {
                alarm(&denial);
            }
            denial.seq = state.lines.next();
            let (seq, removed) = (denial.seq, state.lines.push(denial));
            if let Some(pending) = &mut state.pending {
                pending.added.insert(seq);
                pending.remove(removed);
            }
        }
        self.shared.changed(state);
    }

    /// Remembers a node's totals by kind.
    pub fn add_rows(&self, node: &NodeName, jobs: Vec<JobRows>) {
        if jobs.is_empty() {
            return;
        }
        let mut state = self.shared.state();
        for mut rows in jobs {
            for row in &mut rows.rows {
                clean(&mut row.key.device);
            }
            let job = rows.job;
            if state.rows.put(node, rows)
                && let Some(pending) = &mut state.pending
            {
                pending.rows.insert((job, node.clone()));
            }
        }
        self.shared.changed(state);
    }

    /// A job is forgotten.
    pub fn forget(&self, job: JobId) {
        let mut state = self.shared.state();
        let removed = state.lines.forget(job);
        let had_rows = state.rows.forget(job);
        state.alarmed.remove(&job);
        if removed.is_empty() && !had_rows {
            return;
        }
        if let Some(pending) = &mut state.pending {
            pending.remove(removed);
            pending.rows.retain(|(of, _)| *of != job);
            pending.gone.insert(job);
        }
        self.shared.changed(state);
    }

    /// Refusals of a job by kind, in order of nodes' names, most refusals first.
    pub fn rows(&self, job: JobId) -> Vec<NodeRows> {
        self.shared.state().rows.of_job(job)
    }

    /// Refusals that pass, in order of their numbers: with `after` the first `limit` of those with a higher number, else the
    /// newest `limit`.
    pub fn lines(
        &self,
        job: Option<JobId>,
        after: u64,
        limit: usize,
        passes: impl Fn(&Denial) -> bool,
    ) -> Vec<Denial> {
        let shown = *self.shared.shown.borrow();
        self.shared
            .state()
            .lines
            .find(job, (after, shown), limit, passes)
    }

    /// Tells of each time that more may be shown.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.shared.shown.subscribe()
    }
}

impl Drop for Denials {
    fn drop(&mut self) {
        self.close();
    }
}

impl State {
    /// Whether an alarm of this kind was not logged for this job.
    fn is_first(&mut self, denial: &Denial) -> bool {
        let first = self
            .alarmed
            .entry(denial.job)
            .or_default()
            .insert(denial.op);
        if self.alarmed.len() > ALARMED_MAX {
            self.alarmed.pop_first();
        }
        first
    }
}

/// Once for each job and kind.
fn alarm(denial: &Denial) {
    tracing::warn!(
        job = %denial.job,
        node = %denial.node,
        uid = %denial.uid,
        pid = denial.pid,
        command = ?denial.command,
        device = ?denial.device,
        object = ?denial.object,
        target = ?denial.target_pid,
        "refused {}, which no library does by accident; see `spur fence log --alarms`",
        denial.op.word()
    );
}

/// A text as a line of output may hold it: short, and without characters that could forge another line, another field, or another
/// order of what is read.
pub(crate) fn clean(text: &mut String) {
    if text.len() <= TEXT_MAX && !text.contains(forges) {
        return;
    }
    let mut clean: String = text
        .chars()
        .map(|c| match c {
            '=' => '_',
            c if c.is_whitespace() && !c.is_control() => '_',
            c if forges(c) => '?',
            c => c,
        })
        .collect();
    clean.truncate(clean.floor_char_boundary(TEXT_MAX));
    *text = clean;
}

/// A sentence as the end of a line may hold it: as [`clean`], but blanks and `=` stay.
pub(crate) fn clean_sentence(text: &mut String) {
    let plain = |c: char| c == ' ' || c == '=' || !forges(c);
    if text.len() <= TEXT_MAX && text.chars().all(plain) {
        return;
    }
    let mut clean: String = text
        .chars()
        .map(|c| if plain(c) { c } else { '?' })
        .collect();
    clean.truncate(clean.floor_char_boundary(TEXT_MAX));
    *text = clean;
}

/// Controls, spaces of any kind, what has no width or turns the direction of writing, and the sign between a field and its value.
fn forges(c: char) -> bool {
    let unseen = matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    c == '=' || c.is_control() || c.is_whitespace() || unseen
}

#[cfg(test)]
mod tests;
