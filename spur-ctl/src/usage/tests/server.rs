//! The record on Debian's `PostgreSQL`, started for the test in a folder of its own; skipped where it is not installed.

use super::*;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// `nobody`: the server refuses to run as root.
const NOBODY: u32 = 65_534;

/// A server that nobody else knows; gone when dropped.
struct Server {
    dir: tempfile::TempDir,
    child: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The folder of the server's programs, the newest that is installed.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let folders = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    folders.filter(|bin| bin.join("initdb").is_file()).max()
}

fn program(bin: &Path, name: &str, dir: &Path) -> Command {
    let mut command = Command::new(bin.join(name));
    command
        .current_dir(dir)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

impl Server {
    fn start() -> Option<Self> {
        let Some(bin) = programs() else {
            eprintln!("skipped: no PostgreSQL server is installed (apt-get install postgresql)");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o700)).unwrap();
        if rustix::process::geteuid().is_root() {
            chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let data = dir.path().join("data");
        let made = program(&bin, "initdb", dir.path())
            .args(["-A", "trust", "-U", "spur", "-E", "UTF8", "--no-sync", "-D"])
            .arg(&data)
            .status()
            .unwrap();
        assert!(made.success());
        let child = program(&bin, "postgres", dir.path())
            .args(["-F", "-c", "listen_addresses=", "-k"])
            .arg(dir.path())
            .arg("-D")
            .arg(&data)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { dir, child };
        let config: postgres::Config = server.text().parse().unwrap();
        eventually("the server answers", || {
            config.connect(postgres::NoTls).is_ok()
        });
        Some(server)
    }

    fn text(&self) -> String {
        format!(
            "host={} user=spur dbname=postgres",
            self.dir.path().display()
        )
    }

    fn record(&self, cluster: &str) -> Usage {
        Usage::open_at(Place::server(&self.text(), cluster).unwrap(), 365).unwrap()
    }
}

#[test]
fn the_record_may_live_on_a_server() {
    let Some(server) = Server::start() else {
        return;
    };
    let first = server.record("here");
    let job = holds(7, 3);
    first.job(None, &Arc::new(job.clone()));
    say(
        &first,
        "n0001",
        "s1",
        1,
        UsageRecord::Job(usage(7, 3, 5_000_000)),
    );
    say(&first, "n0001", "s1", 1, UsageRecord::Job(usage(7, 3, 999)));
    say(&first, "n0002", "s1", 1, UsageRecord::Job(usage(7, 3, 888)));
    durable(&first, "n0001", 1);
    durable(&first, "n0002", 1);
    first.close();
    // Another controller of the same cluster finds it, and goes on.
    let second = server.record("here");
    let runs = all(&second, &View::default());
    assert_eq!(runs.len(), 1);
    assert_eq!(*runs[0].job, job);
    assert_eq!(runs[0].nodes[0].used.cpu_us, 5_000_000);
    assert_eq!(second.store.durable(&name("n0001")), ("s1".to_owned(), 1));
    let mut again = pending(7, spec("first"));
    again.submitted = job.submitted;
    again.restarts = 1;
    again.eligible = at(500);
    second.job(Some(&job), &Arc::new(again));
    eventually("the new run is there", || {
        recorded(&second, 7).is_some_and(|run| run.restarts == 1)
    });
    let of = |duplicates| {
        let filter = AccountFilter {
            ids: vec![JobId(7)],
            duplicates,
            ..AccountFilter::default()
        };
        second
            .accounting(&View::default(), &filter, None, 10)
            .unwrap()
            .len()
    };
    assert_eq!((of(false), of(true)), (1, 2));
    // Another cluster on the same server has a record of its own.
    assert!(all(&server.record("there"), &View::default()).is_empty());
}

#[test]
fn a_server_that_is_not_there_delays_the_record_and_loses_nothing() {
    let Some(server) = Server::start() else {
        return;
    };
    let text = server.text();
    let away = text.replace("host=", "host=/nonexistent");
    let record = Usage::open_at(Place::server(&away, "here").unwrap(), 365).unwrap();
    record.job(None, &Arc::new(holds(7, 3)));
    assert!(
        record
            .accounting(&View::default(), &AccountFilter::default(), None, 10)
            .is_err()
    );
    assert!(Place::server("user=spur", "here").is_err());
    assert!(Place::server("nonsense", "here").is_err());
}
