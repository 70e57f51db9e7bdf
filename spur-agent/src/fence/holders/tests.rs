//! Real processes with real threads.

use super::*;
use crate::sys::odd;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

#[test]
fn open_and_mapped_devices_are_found() {
    let full = std::fs::File::open("/dev/full").unwrap();
    let mut child = Command::new("sleep")
        .arg("60")
        .stdin(full)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id();
    let is = |minor: u32| move |major, of| (major, of) == (1, minor);
    let holder = |minor| Holder {
        pid,
        device: (1, minor),
        mapped: false,
    };
    assert_eq!(find([pid], &is(7)), BTreeSet::from([holder(7)]));
    assert_eq!(
        find([pid], &is(3)),
        BTreeSet::from([holder(3)]),
        "its output"
    );
    assert_eq!(find([pid], &is(9)), BTreeSet::new());
    assert!(!mapped_files(pid).is_empty(), "its program is mapped");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(find([pid], &is(7)).is_empty());
}

/// Tells a copy of this test program what to be.
const PART: &str = "SPUR_TEST_HOLDER";

/// No test: what the copies run. Without its variable it does nothing.
#[test]
fn odd_program() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    assert_ne!(
        rustix::thread::gettid(),
        rustix::process::getpid(),
        "tests have a thread of their own"
    );
    let ready = || {
        // Not through the harness, which would keep it.
        rustix::io::write(rustix::stdio::stdout(), b"\nready\n").unwrap();
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        std::process::exit(0)
    };
    if part == "table" {
        odd::own_files().unwrap();
        let _zero = std::fs::File::open("/dev/zero").unwrap();
        ready()
    }
    assert_eq!(part, "leader");
    odd::end_first_thread().unwrap();
    let status = format!("/proc/{}/stat", std::process::id());
    while !std::fs::read_to_string(&status).unwrap().contains(") Z ") {
        std::thread::yield_now();
    }
    odd::map(std::fs::File::open("/dev/zero").unwrap()).unwrap();
    let _full = std::fs::File::open("/dev/full").unwrap();
    ready()
}

/// A copy that has become what it is to be.
fn odd(part: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "fence::holders::tests::odd_program"])
        .arg("--nocapture")
        .env(PART, part)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"));
    child
}

fn of(pid: u32, minor: u32) -> Vec<bool> {
    let found = find([pid], &|major, of| (major, of) == (1, minor));
    assert!(found.iter().all(|holder| holder.pid == pid));
    found.iter().map(|holder| holder.mapped).collect()
}

#[test]
fn a_thread_with_a_table_of_its_own_is_a_holder() {
    let mut child = odd("table");
    assert_eq!(of(child.id(), 5), [false], "open");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_is_left_of_a_process_whose_first_thread_ended_is_a_holder() {
    let mut child = odd("leader");
    assert_eq!(of(child.id(), 5), [true], "mapped, and not open any more");
    assert_eq!(of(child.id(), 7), [false], "open");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_shared_table_is_looked_at_once() {
    let own = std::process::id();
    let (stop, stopped) = mpsc::sync_channel::<()>(1);
    let shared = std::thread::spawn(move || stopped.recv().is_err());
    let threads = threads(own);
    assert!(threads.len() >= 2, "{threads:?}");
    assert_eq!(tables(&threads).len(), 1, "of {threads:?}");
    drop(stop);
    assert!(shared.join().unwrap());
}
