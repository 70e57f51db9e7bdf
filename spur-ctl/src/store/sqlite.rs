//! The store in one `SQLite` file with its write-ahead log.
//!
//! `append` is one transaction: with `synchronous = FULL` its commit is one fdatasync of the WAL. The WAL is folded into the file
//! only at snapshots, so between them the file is never written, and a WAL cut at any byte is a shorter list of whole batches.

use super::room::Room;
use super::{Batch, Loaded, Store, StoreError};
use prost::Message;
use rusqlite::{Connection, OptionalExtension, params};
use spur_core::cluster::Cluster;
use spur_core::event::Event;
use spur_core::id::{JobId, Seq};
use spur_core::job::spec::Payload;
use spur_core::time::Millis;
use spur_proto::wire;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Version of the tables below.
const VERSION: i64 = 1;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS log (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, event BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS snapshot (seq INTEGER PRIMARY KEY, state BLOB NOT NULL);
    CREATE TABLE IF NOT EXISTS payload (job INTEGER PRIMARY KEY, body BLOB NOT NULL);
";

/// Makes the database's file, if it is not there, and closes it and its log to everybody else: they hold users' scripts and
/// environments, and a reader could hold a lock on them. `SQLite` gives the log the mode of the file.
pub(crate) fn private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    drop(options.open(path)?);
    for file in [path.to_owned(), wal(path)] {
        match std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// The file of the write-ahead log, as `SQLite` names it.
fn wal(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// The store in a file.
#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    db: Connection,
    /// None where there could be none; commits then take longer.
    room: Option<Room>,
    last: u64,
    log_bytes: u64,
    snapshot_bytes: u64,
}

impl Sqlite {
    /// Opens the database, and makes it if it is not there.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let fail = |cause: rusqlite::Error| StoreError::Open {
            path: path.to_owned(),
            cause: cause.to_string(),
        };
        private(path).map_err(|cause| StoreError::Open {
            path: path.to_owned(),
            cause: cause.to_string(),
        })?;
        let db = Connection::open(path).map_err(fail)?;
        configure(&db).map_err(fail)?;
        if let Some(found) = version(&db).map_err(fail)?.filter(|found| *found > VERSION) {
            return Err(StoreError::TooNew {
                path: path.to_owned(),
                found,
                known: VERSION,
            });
        }
        let mut store = Self {
            path: path.to_owned(),
            db,
            room: None,
            last: 0,
            log_bytes: 0,
            snapshot_bytes: 0,
        };
        store.prepare().map_err(fail)?;
        store.room = Room::open(&wal(path)).ok();
        store.keep_room();
        Ok(store)
    }

    /// Makes the tables and folds the WAL into the file, if there is room, so that what follows stands on a complete file.
    fn prepare(&mut self) -> rusqlite::Result<()> {
        let tx = self.db.transaction()?;
        tx.execute_batch(SCHEMA)?;
        tx.execute(
            "INSERT OR IGNORE INTO meta VALUES ('version', ?1)",
            [VERSION],
        )?;
        tx.commit()?;
        if let Err(error) = self.checkpoint() {
            // What is in the WAL counts all the same: a controller that finds the disk full reads what there is, and refuses what is new.
            if !is_full(&error) {
                return Err(error);
            }
            tracing::error!(path = %self.path.display(), "the disk is full: nothing new can be kept before there is room");
        }
        let last: i64 = self.db.query_row(
            "SELECT max(coalesce((SELECT max(seq) FROM log), 0), coalesce((SELECT max(seq) FROM snapshot), 0))",
            [],
            |row| row.get(0),
        )?;
        self.last = last.unsigned_abs();
        let sum = |sql: &str| {
            self.db
                .query_row(sql, [], |row| row.get::<_, i64>(0))
                .map(i64::unsigned_abs)
        };
        self.log_bytes = sum("SELECT coalesce(sum(length(event)), 0) FROM log")?;
        self.snapshot_bytes = sum("SELECT coalesce(max(length(state)), 0) FROM snapshot")?;
        Ok(())
    }

    fn checkpoint(&self) -> rusqlite::Result<()> {
        self.db
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    }

    fn keep_room(&mut self) {
        if let Some(room) = &mut self.room {
            room.keep();
        }
    }

    fn unwritten(&self, cause: impl Display) -> StoreError {
        StoreError::Write {
            path: self.path.clone(),
            cause: cause.to_string(),
        }
    }

    fn unread(&self, cause: impl Display) -> StoreError {
        StoreError::Read {
            path: self.path.clone(),
            cause: cause.to_string(),
        }
    }

    fn load_snapshot(&self) -> Result<Option<(Seq, Cluster)>, StoreError> {
        let newest = "SELECT seq, state FROM snapshot ORDER BY seq DESC LIMIT 1";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?));
        let found = self
            .db
            .query_row(newest, [], row)
            .optional()
            .map_err(|e| self.unread(e))?;
        let Some((seq, state)) = found else {
            return Ok(None);
        };
        let cluster = rmp_serde::from_slice(&state)
            .map_err(|e| self.unread(format!("snapshot {seq}: {e}")))?;
        Ok(Some((Seq(seq.unsigned_abs()), cluster)))
    }

    fn load_entries(&self, after: Seq) -> Result<Vec<(Millis, Event)>, StoreError> {
        let mut select = self
            .db
            .prepare_cached("SELECT seq, at, event FROM log WHERE seq > ?1 ORDER BY seq")
            .map_err(|e| self.unread(e))?;
        let mut rows = select
            .query([signed(after.0)])
            .map_err(|e| self.unread(e))?;
        let (mut entries, mut expected) = (Vec::new(), after.0 + 1);
        while let Some(row) = rows.next().map_err(|e| self.unread(e))? {
            let (seq, at, bytes) = entry(row).map_err(|e| self.unread(e))?;
            if seq != expected {
                return Err(self.unread(format!(
                    "log entry {expected} is missing: the next is {seq}"
                )));
            }
            expected += 1;
            let event = rmp_serde::from_slice(bytes)
                .map_err(|e| self.unread(format!("log entry {seq}: {e}")))?;
            entries.push((Millis(at), event));
        }
        Ok(entries)
    }

    /// The body of [`Store::append`]: new last number and bytes added.
    fn write(&mut self, batch: &Batch) -> Result<(u64, u64), Box<dyn std::error::Error>> {
        let (mut seq, mut bytes) = (self.last, 0);
        let tx = self.db.transaction()?;
        {
            let mut insert = tx.prepare_cached("INSERT INTO log VALUES (?1, ?2, ?3)")?;
            for (at, event) in &batch.events {
                let event = rmp_serde::to_vec_named(event)?;
                seq += 1;
                bytes += event.len() as u64;
                insert.execute(params![signed(seq), signed(at.0), event])?;
            }
            let mut keep = tx.prepare_cached("INSERT OR REPLACE INTO payload VALUES (?1, ?2)")?;
            for (job, payload) in &batch.payloads {
                let body = wire::Payload::from(payload).encode_to_vec();
                bytes += body.len() as u64;
                keep.execute(params![job.0, body])?;
            }
            let mut forget = tx.prepare_cached("DELETE FROM payload WHERE job = ?1")?;
            for job in &batch.dropped {
                forget.execute([job.0])?;
            }
        }
        tx.commit()?;
        Ok((seq, bytes))
    }

    fn write_snapshot(&mut self, state: &[u8]) -> rusqlite::Result<()> {
        let seq = signed(self.last);
        let tx = self.db.transaction()?;
        tx.execute(
            "INSERT OR REPLACE INTO snapshot VALUES (?1, ?2)",
            params![seq, state],
        )?;
        tx.execute("DELETE FROM snapshot WHERE seq < ?1", [seq])?;
        tx.execute("DELETE FROM log WHERE seq <= ?1", [seq])?;
        tx.commit()
    }
}

impl Store for Sqlite {
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let (last, bytes) = self.write(batch).map_err(|e| self.unwritten(e))?;
        self.last = last;
        self.log_bytes += bytes;
        self.keep_room();
        Ok(())
    }

    fn load(&mut self) -> Result<Loaded, StoreError> {
        let snapshot = self.load_snapshot()?;
        let after = snapshot.as_ref().map_or(Seq(0), |(seq, _)| *seq);
        Ok(Loaded {
            entries: self.load_entries(after)?,
            snapshot,
        })
    }

    fn snapshot(&mut self, cluster: &Cluster) -> Result<(), StoreError> {
        let state = rmp_serde::to_vec_named(cluster).map_err(|e| self.unwritten(e))?;
        self.write_snapshot(&state).map_err(|e| self.unwritten(e))?;
        self.log_bytes = 0;
        self.snapshot_bytes = state.len() as u64;
        // The snapshot counts already; a fold that fails is made up for by the next.
        self.checkpoint()
            .map_err(|e| self.unwritten(format!("fold the write-ahead log: {e}")))?;
        self.keep_room();
        Ok(())
    }

    fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    fn snapshot_bytes(&self) -> u64 {
        self.snapshot_bytes
    }

    fn payload(&self, job: JobId) -> Result<Option<Payload>, StoreError> {
        let body: Option<Vec<u8>> = self
            .db
            .prepare_cached("SELECT body FROM payload WHERE job = ?1")
            .and_then(|mut select| select.query_row([job.0], |row| row.get(0)).optional())
            .map_err(|e| self.unread(e))?;
        let Some(body) = body else { return Ok(None) };
        let decoded = wire::Payload::decode(body.as_slice()).map_err(|e| self.unread(e))?;
        Payload::try_from(decoded)
            .map(Some)
            .map_err(|e| self.unread(format!("payload of job {job}: {e}")))
    }

    fn retain_payloads(&mut self, keep: &Cluster) -> Result<(), StoreError> {
        let jobs: Vec<u32> = self
            .db
            .prepare("SELECT job FROM payload")
            .and_then(|mut select| select.query_map([], |row| row.get(0))?.collect())
            .map_err(|e| self.unread(e))?;
        let dropped = jobs
            .into_iter()
            .map(JobId)
            .filter(|job| !keep.jobs.contains_key(job) && !keep.arrays.contains_key(job))
            .collect();
        let batch = Batch {
            dropped,
            ..Batch::default()
        };
        if batch.is_empty() {
            Ok(())
        } else {
            self.append(&batch)
        }
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        let next = "INSERT INTO meta VALUES ('probe', 1) ON CONFLICT (key) DO UPDATE SET value = value + 1";
        self.db
            .execute(next, [])
            .map(drop)
            .map_err(|e| self.unwritten(e))
    }
}

/// One connection for ever: exclusive locking keeps the WAL's index in memory, so there is no shared-memory file to go stale.
fn configure(db: &Connection) -> rusqlite::Result<()> {
    db.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    db.pragma_update(None, "trusted_schema", false)
}

fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
}

fn version(db: &Connection) -> rusqlite::Result<Option<i64>> {
    if !db.table_exists(None, "meta")? {
        return Ok(None);
    }
    db.query_row("SELECT value FROM meta WHERE key = 'version'", [], |row| {
        row.get(0)
    })
    .optional()
}

fn entry<'a>(row: &'a rusqlite::Row<'_>) -> rusqlite::Result<(u64, u64, &'a [u8])> {
    let (seq, at): (i64, i64) = (row.get(0)?, row.get(1)?);
    Ok((
        seq.unsigned_abs(),
        at.unsigned_abs(),
        row.get_ref(2)?.as_blob()?,
    ))
}

/// `SQLite`'s integers are signed; sequence numbers and milliseconds stay far below the border.
pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
