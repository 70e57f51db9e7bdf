//! Tables, versions, and how the file is opened.

use crate::store::sqlite::private;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _};
use spur_core::id::NodeName;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Version of the tables below.
pub(super) const VERSION: i64 = 1;
/// How long a question waits for the other side, and the other way round.
const BUSY: Duration = Duration::from_secs(5);

/// Bodies are messages of the wire, which are read for ever; columns are for questions in SQL. Times in ms since the epoch.
const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS run (
        run INTEGER PRIMARY KEY, job INTEGER NOT NULL, submitted INTEGER NOT NULL, restarts INTEGER NOT NULL,
        generation INTEGER NOT NULL, uid INTEGER NOT NULL, user TEXT NOT NULL, account TEXT NOT NULL,
        partition TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL, started INTEGER, ended INTEGER,
        requeued INTEGER, superseded INTEGER NOT NULL, nodes INTEGER NOT NULL, cpus INTEGER NOT NULL,
        gpus INTEGER NOT NULL, exit_code INTEGER NOT NULL, exit_signal INTEGER NOT NULL, body BLOB NOT NULL,
        UNIQUE (submitted, job, restarts));
    CREATE INDEX IF NOT EXISTS run_job ON run (job, generation);
    CREATE INDEX IF NOT EXISTS run_ended ON run (ended);
    CREATE INDEX IF NOT EXISTS run_user ON run (uid, submitted);
    CREATE TABLE IF NOT EXISTS step (
        run INTEGER NOT NULL, step TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL, started INTEGER NOT NULL,
        ended INTEGER, nodes INTEGER NOT NULL, tasks INTEGER NOT NULL, exit_code INTEGER NOT NULL,
        exit_signal INTEGER NOT NULL, PRIMARY KEY (run, step)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS job_usage (
        run INTEGER NOT NULL, node TEXT NOT NULL, cpu_us INTEGER NOT NULL, memory_peak INTEGER, gpus INTEGER NOT NULL,
        gpu_held_us INTEGER NOT NULL, gpu_busy_us INTEGER, gpu_energy_mj INTEGER, coverage INTEGER NOT NULL,
        body BLOB NOT NULL, PRIMARY KEY (run, node)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS step_usage (
        run INTEGER NOT NULL, step TEXT NOT NULL, node TEXT NOT NULL, cpu_us INTEGER NOT NULL, memory_peak INTEGER,
        body BLOB NOT NULL, PRIMARY KEY (run, step, node)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS event (
        id INTEGER PRIMARY KEY, at INTEGER NOT NULL, node TEXT NOT NULL, run INTEGER, gpu INTEGER, kind TEXT NOT NULL,
        body BLOB NOT NULL);
    CREATE INDEX IF NOT EXISTS event_run ON event (run);
    CREATE INDEX IF NOT EXISTS event_at ON event (at);
    CREATE TABLE IF NOT EXISTS series (
        run INTEGER NOT NULL, node TEXT NOT NULL, body BLOB NOT NULL, PRIMARY KEY (run, node)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS spool (node TEXT PRIMARY KEY, spool TEXT NOT NULL, record INTEGER NOT NULL) WITHOUT ROWID;
";

/// What of each node's spool is durable.
pub(super) type Spools = BTreeMap<NodeName, (String, u64)>;

/// Why the file is not open.
pub(super) enum Trouble {
    /// Its version is above ours.
    TooNew(i64),
    /// It is no database of ours: it is to be set aside.
    Broken(String),
    /// Anything else: to be tried again.
    Other(String),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        let broken = matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        );
        if broken {
            Self::Broken(error.to_string())
        } else {
            Self::Other(error.to_string())
        }
    }
}

/// Opens the file for writing, and makes what is not there.
pub(super) fn open(path: &Path) -> Result<(Connection, Spools), Trouble> {
    private(path).map_err(|error| Trouble::Other(error.to_string()))?;
    let db = Connection::open(path)?;
    db.busy_timeout(BUSY)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "trusted_schema", false)?;
    if db.table_exists(None, "meta")? {
        let found: Option<i64> = db
            .query_row("SELECT value FROM meta WHERE key = 'version'", [], |row| {
                row.get(0)
            })
            .optional()?;
        if let Some(found) = found.filter(|found| *found > VERSION) {
            return Err(Trouble::TooNew(found));
        }
    }
    // A table of another's making, or of none that we know, is no record of ours.
    db.execute_batch(SCHEMA)
        .map_err(|error| match Trouble::from(error) {
            Trouble::Other(why) if !is_disk(&why) => Trouble::Broken(why),
            told @ (Trouble::Other(_) | Trouble::Broken(_) | Trouble::TooNew(_)) => told,
        })?;
    // A column that came later: which array a job is a task of.
    if !db.column_exists(None, "run", "array")? {
        db.execute_batch("ALTER TABLE run ADD COLUMN array INTEGER")?;
    }
    db.execute_batch("CREATE INDEX IF NOT EXISTS run_array ON run (array)")?;
    db.execute(
        "INSERT OR IGNORE INTO meta VALUES ('version', ?1)",
        [VERSION],
    )?;
    let spools = spools(&db)?;
    Ok((db, spools))
}

/// Whether an error is the disk's.
fn is_disk(why: &str) -> bool {
    ["disk", "full", "locked", "readonly", "unable to open"]
        .iter()
        .any(|word| why.contains(word))
}

fn spools(db: &Connection) -> rusqlite::Result<Spools> {
    let mut select = db.prepare("SELECT node, spool, record FROM spool")?;
    let mut rows = select.query([])?;
    let mut found = Spools::new();
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(2)?;
        if let Ok(node) = NodeName::new(row.get::<_, String>(0)?) {
            found.insert(node, (row.get(1)?, number.unsigned_abs()));
        }
    }
    Ok(found)
}

/// Moves a file that cannot be read out of the way.
pub(super) fn set_aside(path: &Path) {
    for end in ["", "-wal", "-shm"] {
        let mut from = path.as_os_str().to_owned();
        from.push(end);
        let mut to = path.as_os_str().to_owned();
        to.push(format!(".bad{end}"));
        std::fs::rename(from, to).ok();
    }
}

/// Opens the file for questions.
pub(super) fn open_to_read(path: &Path) -> rusqlite::Result<Connection> {
    use rusqlite::OpenFlags;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(BUSY)?;
    db.pragma_update(None, "trusted_schema", false)?;
    Ok(db)
}
