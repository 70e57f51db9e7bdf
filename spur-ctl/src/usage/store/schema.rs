//! Tables, versions, and how the file is opened.

use super::db::{Db, DbError};
use crate::store::sqlite::private;
use postgres::Config;
use postgres::config::Host;
use rusqlite::Connection;
use spur_core::id::NodeName;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
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
        generation INTEGER NOT NULL, uid INTEGER NOT NULL, \"user\" TEXT NOT NULL, account TEXT NOT NULL,
        partition TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL, started INTEGER, ended INTEGER,
        requeued INTEGER, superseded INTEGER NOT NULL, nodes INTEGER NOT NULL, cpus INTEGER NOT NULL,
        gpus INTEGER NOT NULL, exit_code INTEGER NOT NULL, exit_signal INTEGER NOT NULL, body BLOB NOT NULL,
        array_job INTEGER, UNIQUE (submitted, job, restarts));
    CREATE INDEX IF NOT EXISTS run_job ON run (job, generation);
    CREATE INDEX IF NOT EXISTS run_ended ON run (ended);
    CREATE INDEX IF NOT EXISTS run_user ON run (uid, submitted);
    CREATE INDEX IF NOT EXISTS run_array ON run (array_job);
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

impl From<DbError> for Trouble {
    fn from(error: DbError) -> Self {
        if error.is_broken() {
            Self::Broken(error.to_string())
        } else {
            Self::Other(error.to_string())
        }
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        DbError::from(error).into()
    }
}

/// Where a record lives.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// In this file.
    File(PathBuf),
    /// On the server of this connection string, in a schema of the cluster's own.
    Server(String, String),
}

/// Without what the connection string may have of secrets.
impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, schema) = match self {
            Self::File(path) => return path.display().fmt(f),
            Self::Server(text, schema) => (text, schema),
        };
        write!(f, "PostgreSQL, schema {schema}")?;
        let config: Option<Config> = text.parse().ok();
        match config
            .as_ref()
            .and_then(|config| config.get_hosts().first())
        {
            Some(Host::Tcp(host)) => write!(f, " at {host}"),
            Some(Host::Unix(path)) => write!(f, " at {}", path.display()),
            None => Ok(()),
        }
    }
}

impl Place {
    /// The server of a connection string (`host=/run/postgresql user=spur dbname=spur`), for a cluster.
    pub fn server(text: &str, cluster: &str) -> Result<Self, String> {
        let config: Config = text.parse().map_err(|error| {
            format!("{error}: write host=/run/postgresql user=spur dbname=spur or the like")
        })?;
        if config.get_hosts().is_empty() {
            return Err("name the server, as in host=/run/postgresql".to_owned());
        }
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        };
        let schema = format!("spur_{}", cluster.chars().map(plain).collect::<String>());
        Ok(Self::Server(text.to_owned(), schema))
    }

    /// The file, if it is one.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Server(..) => None,
        }
    }

    /// Opens it for writing, and makes what is not there.
    pub(super) fn open(&self) -> Result<(Db, Spools), Trouble> {
        let mut db = match self {
            Self::File(path) => Db::File(open_file(path)?),
            Self::Server(text, schema) => {
                let mut db = Db::connect(text, schema, BUSY)?;
                let make = format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\"");
                db.batch(&make)?;
                db
            }
        };
        let known = match &db {
            Db::File(db) => db.table_exists(None, "meta")?,
            Db::Server(_) => {
                db.batch(&on_server(SCHEMA))?;
                true
            }
        };
        if known {
            let sql = "SELECT value FROM meta WHERE key = 'version'";
            let found = db.row(sql, &[])?.map(|row| row.int(0)).transpose()?;
            if let Some(found) = found.filter(|found| *found > VERSION) {
                return Err(Trouble::TooNew(found));
            }
        }
        if let Db::File(db) = &db {
            tables(db)?;
        }
        let sql =
            "INSERT INTO meta (key, value) VALUES ('version', ?1) ON CONFLICT (key) DO NOTHING";
        db.run(sql, &[VERSION.into()])?;
        let spools = spools(&mut db)?;
        Ok((db, spools))
    }

    /// Opens it for questions.
    pub(super) fn open_to_read(&self) -> Result<Db, DbError> {
        match self {
            Self::File(path) => Ok(Db::File(open_to_read(path)?)),
            Self::Server(text, schema) => Db::connect(text, schema, BUSY),
        }
    }
}

/// The tables as a server takes them.
fn on_server(schema: &str) -> String {
    schema
        .replace(
            "INTEGER PRIMARY KEY",
            "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
        )
        .replace("INTEGER", "BIGINT")
        .replace("BLOB", "BYTEA")
        .replace(" WITHOUT ROWID", "")
}

fn open_file(path: &Path) -> Result<Connection, Trouble> {
    private(path).map_err(|error| Trouble::Other(error.to_string()))?;
    let db = Connection::open(path)?;
    db.busy_timeout(BUSY)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "trusted_schema", false)?;
    Ok(db)
}

/// Makes what a file does not have. A table of another's making, or of none that we know, is no record of ours.
fn tables(db: &Connection) -> Result<(), Trouble> {
    let strange = |error| match Trouble::from(error) {
        Trouble::Other(why) if !is_disk(&why) => Trouble::Broken(why),
        told @ (Trouble::Other(_) | Trouble::Broken(_) | Trouble::TooNew(_)) => told,
    };
    // A column that came later: which array a job is a task of.
    if db.table_exists(None, "run")? && !db.column_exists(None, "run", "array_job")? {
        db.execute_batch("ALTER TABLE run ADD COLUMN array_job INTEGER")
            .map_err(strange)?;
    }
    db.execute_batch(SCHEMA).map_err(strange)
}

/// Whether an error is the disk's.
fn is_disk(why: &str) -> bool {
    ["disk", "full", "locked", "readonly", "unable to open"]
        .iter()
        .any(|word| why.contains(word))
}

fn spools(db: &mut Db) -> Result<Spools, DbError> {
    let mut found = Spools::new();
    for row in db.rows("SELECT node, spool, record FROM spool", &[])? {
        if let Ok(node) = NodeName::new(row.text(0)?) {
            let number = row.int(2)?.unsigned_abs();
            found.insert(node, (row.text(1)?.to_owned(), number));
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

fn open_to_read(path: &Path) -> rusqlite::Result<Connection> {
    use rusqlite::OpenFlags;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(BUSY)?;
    db.pragma_update(None, "trusted_schema", false)?;
    Ok(db)
}
