//! What every store must do, whatever it is made of; and what this one does when its tail is torn.

use super::sqlite::Sqlite;
use super::{Batch, Loaded, Store};
use spur_core::cluster::Cluster;
use spur_core::event::Event;
use spur_core::id::{JobId, Seq};
use spur_core::job::spec::Payload;
use spur_core::time::Millis;
use std::path::Path;

fn event(n: u32) -> Event {
    Event::Explained {
        reasons: vec![(
            JobId(n),
            spur_core::job::state::Reason::Resources,
            "x".repeat(n as usize % 70),
        )],
    }
}

fn batch(from: u32, len: u32) -> Batch {
    let events = (from..from + len)
        .map(|n| (Millis(u64::from(n) * 10), event(n)))
        .collect();
    Batch {
        events,
        ..Batch::default()
    }
}

fn payload(n: u8) -> Payload {
    Payload {
        script: vec![n; 5000],
        args: vec!["a".into()],
        env: vec![format!("N={n}")],
        umask: 0o22,
        rlimits: vec![(1, 2)],
    }
}

fn expect(from: u32, to: u32) -> Vec<(Millis, Event)> {
    (from..to)
        .map(|n| (Millis(u64::from(n) * 10), event(n)))
        .collect()
}

/// The suite: `open` opens the same store again.
fn conforms<S: Store>(open: &dyn Fn() -> S) {
    let mut store = open();
    assert_eq!(
        store.load().unwrap(),
        Loaded::default(),
        "a new store is empty"
    );
    store.append(&batch(0, 3)).unwrap();
    store.append(&batch(3, 1)).unwrap();
    drop(store);
    let mut store = open();
    let loaded = store.load().unwrap();
    assert_eq!(loaded.entries, expect(0, 4), "entries come back in order");
    assert_eq!(loaded.last(), Seq(4));

    let mut cluster = Cluster::default();
    cluster.name = "kept".into();
    store.snapshot(&cluster).unwrap();
    assert_eq!(store.log_bytes(), 0);
    store.append(&batch(4, 2)).unwrap();
    drop(store);
    let mut store = open();
    let loaded = store.load().unwrap();
    assert_eq!(
        loaded.snapshot,
        Some((Seq(4), cluster.clone())),
        "a snapshot stands for what came before"
    );
    assert_eq!(loaded.entries, expect(4, 6), "and only for that");
    assert_eq!(loaded.last(), Seq(6));

    store
        .append(&Batch {
            payloads: vec![(JobId(1), payload(1)), (JobId(2), payload(2))],
            ..batch(6, 1)
        })
        .unwrap();
    store
        .append(&Batch {
            dropped: vec![JobId(1)],
            ..Batch::default()
        })
        .unwrap();
    drop(store);
    let mut store = open();
    assert_eq!(store.payload(JobId(1)).unwrap(), None);
    assert_eq!(store.payload(JobId(2)).unwrap(), Some(payload(2)));
    store.retain_payloads(&cluster).unwrap();
    assert_eq!(
        store.payload(JobId(2)).unwrap(),
        None,
        "no such job: an orphan"
    );
    store.probe().unwrap();
    assert_eq!(store.load().unwrap().last(), Seq(7), "a probe is no entry");
}

#[test]
fn sqlite_conforms() {
    let dir = tempfile::tempdir().unwrap();
    conforms(&|| Sqlite::open(&dir.path().join("db")).unwrap());
}

#[test]
fn nobody_else_can_read_scripts_and_environments() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("db"), "").unwrap();
    std::fs::set_permissions(dir.path().join("db"), PermissionsExt::from_mode(0o644)).unwrap();
    let mut store = Sqlite::open(&dir.path().join("db")).unwrap();
    store.append(&batch(0, 2)).unwrap();
    let files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(files.len(), 2, "{files:?}");
    for file in files {
        let mode = file.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }
}

/// Copies a store as a crash would leave it, with the WAL cut to `len` bytes.
fn crashed(from: &Path, to: &Path, len: u64) -> std::path::PathBuf {
    let db = to.join("db");
    std::fs::copy(from.join("db"), &db).unwrap();
    let wal = std::fs::read(from.join("db-wal")).unwrap();
    std::fs::write(to.join("db-wal"), &wal[..usize::try_from(len).unwrap()]).unwrap();
    db
}

/// Opens the WAL cut at `len`: it must give a prefix that ends at the border of a batch, and go on from there.
fn opens_with_a_prefix(dir: &Path, len: u64, borders: &[u32]) -> u32 {
    let cut = tempfile::tempdir_in(dir.parent().unwrap()).unwrap();
    let db = crashed(dir, cut.path(), len);
    let mut store = Sqlite::open(&db).unwrap();
    let entries = store.load().unwrap().entries;
    let count = u32::try_from(entries.len()).unwrap();
    assert_eq!(entries, expect(0, count), "cut at {len}");
    assert!(
        borders.contains(&count),
        "cut at {len}: half a batch, {count} entries"
    );
    store.append(&batch(count, 2)).unwrap();
    drop(store);
    assert_eq!(
        Sqlite::open(&db).unwrap().load().unwrap().entries,
        expect(0, count + 2)
    );
    count
}

/// Bytes of a log without the zeros ahead of it. A frame ends with the end of a page's content, which is never zero here.
fn used(wal: &Path) -> u64 {
    let bytes = std::fs::read(wal).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    assert!(bytes.len() - last > 4096, "there is room ahead");
    last as u64 + 1
}

/// Makes an empty database with the smallest pages, so that every byte of its log can be tried.
fn small_pages(path: &Path) {
    let db = rusqlite::Connection::open(path).unwrap();
    db.execute_batch("PRAGMA page_size = 512; CREATE TABLE size (x); DROP TABLE size; VACUUM")
        .unwrap();
}

fn write_batches(dir: &Path, sizes: impl Iterator<Item = u32>) -> (Sqlite, Vec<u32>) {
    let mut store = Sqlite::open(&dir.join("db")).unwrap();
    let mut borders = vec![0];
    for size in sizes {
        let from = *borders.last().unwrap();
        store.append(&batch(from, size)).unwrap();
        borders.push(from + size);
    }
    (store, borders)
}

#[test]
fn a_small_log_cut_at_every_byte_opens_with_a_prefix() {
    let root = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let dir = root.path().join("live");
    std::fs::create_dir(&dir).unwrap();
    small_pages(&dir.join("db"));
    let (store, borders) = write_batches(&dir, [1, 2, 1].into_iter());
    let full = used(&dir.join("db-wal"));
    let mut counts = Vec::new();
    for len in 0..=full {
        counts.push(opens_with_a_prefix(&dir, len, &borders));
    }
    assert!(counts.is_sorted(), "a longer log never says less");
    assert_eq!(counts.last(), borders.last(), "the whole log says all");
    counts.dedup();
    assert_eq!(counts, borders, "every batch is lost on its own");
    drop(store);
}

#[test]
fn a_large_log_cut_here_and_there_opens_with_a_prefix() {
    let root = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let dir = root.path().join("live");
    std::fs::create_dir(&dir).unwrap();
    let (store, borders) = write_batches(&dir, (0..300).map(|n| n % 17 + 1));
    let full = used(&dir.join("db-wal"));
    for n in 0..97u64 {
        opens_with_a_prefix(&dir, full - n * 13_331 % full, &borders);
    }
    drop(store);
}

#[test]
fn garbage_in_the_tail_is_not_read() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("live");
    std::fs::create_dir(&dir).unwrap();
    let (store, borders) = write_batches(&dir, [5, 5, 5].into_iter());
    let wal = dir.join("db-wal");
    let mut bytes = std::fs::read(&wal).unwrap();
    bytes.truncate(usize::try_from(used(&wal)).unwrap());
    let last = bytes.len() - 100;
    bytes[last..].fill(0xa5);
    std::fs::write(&wal, &bytes).unwrap();
    let full = bytes.len() as u64;
    assert_eq!(opens_with_a_prefix(&dir, full, &borders), 10);
    drop(store);
}

#[test]
fn a_newer_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    drop(Sqlite::open(&path).unwrap());
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute("UPDATE meta SET value = 99 WHERE key = 'version'", [])
        .unwrap();
    drop(db);
    let error = Sqlite::open(&path).unwrap_err().to_string();
    assert!(
        error.contains("has version 99, this spur knows 1"),
        "{error}"
    );
}
