//! A look at the database beside its owner, by a connection that can only read.

use super::sqlite::{entry, signed};
use super::{Loaded, StoreError};
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use spur_core::id::Seq;
use spur_core::time::Millis;
use std::path::Path;

/// What the database holds, undecoded: the snapshot with its number, and the entries after it with number and time.
struct Raw {
    snapshot: Option<(u64, Vec<u8>)>,
    entries: Vec<(u64, u64, Vec<u8>)>,
}

/// The state as it was last durable. The owner's checkpoint waits for a reader, so everything is copied out first and decoded
/// when the database has been let go.
pub fn peek(path: &Path) -> Result<Loaded, StoreError> {
    let unread = |cause: String| StoreError::Read {
        path: path.to_owned(),
        cause,
    };
    let raw = copied(path).map_err(|cause| unread(cause.to_string()))?;
    let base = raw.snapshot.as_ref().map_or(0, |(seq, _)| *seq);
    let snapshot = match raw.snapshot {
        None => None,
        Some((seq, state)) => {
            let cluster = rmp_serde::from_slice(&state);
            let cluster = cluster.map_err(|e| unread(format!("snapshot {seq}: {e}")))?;
            Some((Seq(seq), cluster))
        }
    };
    let mut entries = Vec::with_capacity(raw.entries.len());
    for (expected, (seq, at, bytes)) in (base + 1..).zip(raw.entries) {
        if seq != expected {
            let why = format!("log entry {expected} is missing: the next is {seq}");
            return Err(unread(why));
        }
        let event = rmp_serde::from_slice(&bytes);
        let event = event.map_err(|e| unread(format!("log entry {seq}: {e}")))?;
        entries.push((Millis(at), event));
    }
    Ok(Loaded { snapshot, entries })
}

fn copied(path: &Path) -> rusqlite::Result<Raw> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags)?;
    let tx = db.transaction()?;
    let newest = "SELECT seq, state FROM snapshot ORDER BY seq DESC LIMIT 1";
    let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get(1)?));
    let snapshot: Option<(u64, Vec<u8>)> = tx.query_row(newest, [], row).optional()?;
    let after = snapshot.as_ref().map_or(0, |(seq, _)| *seq);
    let mut select = tx.prepare("SELECT seq, at, event FROM log WHERE seq > ?1 ORDER BY seq")?;
    let mut rows = select.query([signed(after)])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let (seq, at, bytes) = entry(row)?;
        entries.push((seq, at, bytes.to_vec()));
    }
    Ok(Raw { snapshot, entries })
}
