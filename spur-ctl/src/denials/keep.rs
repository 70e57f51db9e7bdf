//! The thread that keeps refusals on disk: its own small database beside the log's, so that neither waits for the other.
//!
//! A commit survives the death of the controller at once (`synchronous = NORMAL`: the kernel has it), and a power cut up to the
//! last fold of the write-ahead log. Totals of jobs, which must survive anything, are in the log.

use super::rows::Table;
use super::{Shared, State};
use crate::store::StoreError;
use crate::store::sqlite::{private, signed};
use rusqlite::{Connection, OptionalExtension as _, params};
use spur_core::denial::Denial;
use spur_core::id::{JobId, NodeName};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Version of the tables below.
const VERSION: i64 = 1;
/// Shortest time between two commits, so that a flood costs few of them.
const PAUSE: Duration = Duration::from_millis(50);
/// Shortest time between two writes of rows: each is written whole.
const ROWS_PAUSE: Duration = Duration::from_secs(1);
/// Time until a disk that failed is tried again.
const RETRY: Duration = Duration::from_secs(5);

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS line (seq INTEGER PRIMARY KEY, body BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS rows (job INTEGER, node TEXT, body BLOB NOT NULL, PRIMARY KEY (job, node)) WITHOUT ROWID;
";

/// What is to be written. Bounded by what there is in memory and on disk.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Lines that are not on disk.
    pub(super) added: BTreeSet<u64>,
    /// Lines that are on disk and are not wanted any more.
    pub(super) removed: BTreeSet<u64>,
    /// Rows that changed.
    pub(super) rows: BTreeSet<(JobId, NodeName)>,
    /// Jobs whose rows are not wanted any more.
    pub(super) gone: BTreeSet<JobId>,
    /// Write what is left, and end.
    pub(super) stop: bool,
    /// The disk failed: everything is written anew.
    anew: bool,
}

impl Pending {
    /// Lines are not wanted any more.
    pub(super) fn remove(&mut self, lines: Vec<u64>) {
        for seq in lines {
            if !self.added.remove(&seq) {
                self.removed.insert(seq);
            }
        }
    }

    fn is_due(&self, rows_due: bool) -> bool {
        self.stop
            || self.anew
            || !(self.added.is_empty() && self.removed.is_empty() && self.gone.is_empty())
            || (rows_due && !self.rows.is_empty())
    }
}

/// What was on disk.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Lines, by number.
    pub(super) lines: Vec<Denial>,
    /// Rows.
    pub(super) rows: Vec<(JobId, NodeName, Table)>,
    /// The next number.
    pub(super) next: u64,
}

/// One transaction's worth.
struct Round {
    next: u64,
    lines: Vec<Denial>,
    removed: BTreeSet<u64>,
    rows: Vec<(JobId, NodeName, Table)>,
    gone: BTreeSet<JobId>,
    anew: bool,
    stop: bool,
}

/// The open database.
#[derive(Debug)]
pub(super) struct Keeper {
    path: PathBuf,
    db: Connection,
}

type Failed = Box<dyn std::error::Error>;

impl Keeper {
    /// Opens the database and reads it. One that cannot be read is set aside; `None` if there can be none, which the log says.
    pub(super) fn open(path: &Path) -> Result<Option<(Self, Found)>, StoreError> {
        match try_open(path) {
            Ok(opened) => return Ok(Some(opened)),
            Err(Trouble::TooNew(found)) => {
                return Err(StoreError::TooNew {
                    path: path.to_owned(),
                    found,
                    known: VERSION,
                });
            }
            Err(Trouble::Other(why)) => tracing::error!(
                path = %path.display(),
                "refusals of before are lost, their database is set aside as .bad: {why}"
            ),
        }
        for end in ["", "-wal"] {
            let mut from = path.as_os_str().to_owned();
            from.push(end);
            let mut to = path.as_os_str().to_owned();
            to.push(format!(".bad{end}"));
            std::fs::rename(from, to).ok();
        }
        match try_open(path) {
            Ok(opened) => Ok(Some(opened)),
            Err(Trouble::TooNew(_)) => Ok(None),
            Err(Trouble::Other(why)) => {
                tracing::error!(
                    path = %path.display(),
                    "refusals are kept in memory only until the next start: {why}"
                );
                Ok(None)
            }
        }
    }

    /// Starts the thread.
    pub(super) fn start(mut self, shared: Arc<Shared>) -> Result<JoinHandle<()>, StoreError> {
        let path = self.path.clone();
        std::thread::Builder::new()
            .name("refusals".to_owned())
            .spawn(move || self.run(&shared))
            .map_err(|cause| StoreError::Open {
                path,
                cause: format!("start its thread: {cause}"),
            })
    }

    fn run(&mut self, shared: &Shared) {
        let mut rows_at = Instant::now();
        let mut failing = false;
        loop {
            let rows_due = rows_at.elapsed() >= ROWS_PAUSE;
            let round = next_round(
                shared,
                rows_due,
                ROWS_PAUSE.saturating_sub(rows_at.elapsed()),
            );
            let Some(round) = round else { continue };
            if !round.rows.is_empty() {
                rows_at = Instant::now();
            }
            let written = self.write(&round);
            // Shown also when the disk fails: people who look for the reason of something need them most then.
            shared.shown.send_replace(round.next - 1);
            match &written {
                Ok(()) if failing => tracing::info!("refusals are kept on disk again"),
                Err(why) if !failing => {
                    tracing::error!(path = %self.path.display(), "refusals cannot be kept on disk: {why}");
                }
                Ok(()) | Err(_) => {}
            }
            failing = written.is_err();
            if round.stop {
                return;
            }
            if failing && let Some(pending) = &mut shared.state().pending {
                pending.anew = true;
            }
            rest(shared, if failing { RETRY } else { PAUSE });
        }
    }

    fn write(&mut self, round: &Round) -> Result<(), Failed> {
        let tx = self.db.transaction()?;
        if round.anew {
            tx.execute_batch("DELETE FROM line; DELETE FROM rows;")?;
        }
        {
            let mut delete = tx.prepare_cached("DELETE FROM line WHERE seq = ?1")?;
            for seq in &round.removed {
                delete.execute([signed(*seq)])?;
            }
            let mut insert = tx.prepare_cached("INSERT OR REPLACE INTO line VALUES (?1, ?2)")?;
            for denial in &round.lines {
                insert.execute(params![
                    signed(denial.seq),
                    rmp_serde::to_vec_named(denial)?
                ])?;
            }
            let mut forget = tx.prepare_cached("DELETE FROM rows WHERE job = ?1")?;
            for job in &round.gone {
                forget.execute([job.0])?;
            }
            let mut put = tx.prepare_cached("INSERT OR REPLACE INTO rows VALUES (?1, ?2, ?3)")?;
            for (job, node, table) in &round.rows {
                put.execute(params![
                    job.0,
                    node.as_str(),
                    rmp_serde::to_vec_named(table)?
                ])?;
            }
            tx.prepare_cached("INSERT OR REPLACE INTO meta VALUES ('next', ?1)")?
                .execute([signed(round.next)])?;
        }
        tx.commit()?;
        Ok(())
    }
}

/// Waits until there is something to write, at most until rows are due, and takes it.
fn next_round(shared: &Shared, rows_due: bool, until_rows: Duration) -> Option<Round> {
    let mut state = shared.state();
    let due = |state: &State| state.pending.as_ref().is_some_and(|p| p.is_due(rows_due));
    if !due(&state) {
        let rows_wait = state.pending.as_ref().is_some_and(|p| !p.rows.is_empty());
        state = if rows_wait {
            let waited = shared
                .work
                .wait_timeout(state, until_rows.max(Duration::from_millis(1)));
            waited.unwrap_or_else(PoisonError::into_inner).0
        } else {
            shared
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner)
        };
        if !due(&state) {
            return None;
        }
    }
    Some(take(&mut state, rows_due))
}

fn take(state: &mut State, rows_due: bool) -> Round {
    let State {
        lines,
        rows,
        pending,
        ..
    } = state;
    let pending = pending.get_or_insert_default();
    let anew = std::mem::take(&mut pending.anew);
    if anew {
        pending.added = lines.numbers().collect();
        pending.rows = rows.keys().collect();
    }
    let which = if rows_due || anew || pending.stop {
        std::mem::take(&mut pending.rows)
    } else {
        BTreeSet::new()
    };
    let added = std::mem::take(&mut pending.added);
    let tables = which.into_iter().filter_map(|(job, node)| {
        let table = rows.table(job, &node)?.clone();
        Some((job, node, table))
    });
    Round {
        next: lines.next(),
        lines: added
            .iter()
            .filter_map(|seq| lines.get(*seq).cloned())
            .collect(),
        removed: std::mem::take(&mut pending.removed),
        rows: tables.collect(),
        gone: std::mem::take(&mut pending.gone),
        anew,
        stop: pending.stop,
    }
}

/// Lets more come together, unless it is time to end.
fn rest(shared: &Shared, pause: Duration) {
    let until = Instant::now() + pause;
    let mut state = shared.state();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || state.pending.as_ref().is_none_or(|p| p.stop) {
            return;
        }
        let waited = shared.work.wait_timeout(state, left);
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Why a database is not open.
enum Trouble {
    /// Its version.
    TooNew(i64),
    /// Anything else.
    Other(Failed),
}

impl<E: Into<Failed>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

fn try_open(path: &Path) -> Result<(Keeper, Found), Trouble> {
    private(path)?;
    let db = Connection::open(path)?;
    db.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.pragma_update(None, "trusted_schema", false)?;
    let meta = |key: &str| {
        db.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| {
            row.get(0)
        })
        .optional()
    };
    if db.table_exists(None, "meta")?
        && let Some(found) = meta("version")?.filter(|found| *found > VERSION)
    {
        return Err(Trouble::TooNew(found));
    }
    db.execute_batch(SCHEMA)?;
    db.execute(
        "INSERT OR IGNORE INTO meta VALUES ('version', ?1)",
        [VERSION],
    )?;
    let found = Found {
        lines: lines(&db)?,
        rows: rows(&db)?,
        next: meta("next")?.map_or(0, i64::unsigned_abs),
    };
    let path = path.to_owned();
    Ok((Keeper { path, db }, found))
}

fn lines(db: &Connection) -> Result<Vec<Denial>, Failed> {
    let mut select = db.prepare("SELECT body FROM line ORDER BY seq")?;
    let mut rows = select.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(rmp_serde::from_slice(row.get_ref(0)?.as_blob()?)?);
    }
    Ok(found)
}

fn rows(db: &Connection) -> Result<Vec<(JobId, NodeName, Table)>, Failed> {
    let mut select = db.prepare("SELECT job, node, body FROM rows")?;
    let mut rows = select.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let node = NodeName::new(row.get::<_, String>(1)?)?;
        let table = rmp_serde::from_slice(row.get_ref(2)?.as_blob()?)?;
        found.push((JobId(row.get(0)?), node, table));
    }
    Ok(found)
}
