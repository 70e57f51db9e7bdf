//! Who has a device open.

use super::*;
use crate::actor::{self, Actor};
use spur_ebpf::meter::Holder;
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI32, Ordering};

/// Devices with a driver that nobody else has open and that anybody's root may.
const CANDIDATES: [&str; 6] = [
    "/dev/loop-control",
    "/dev/fuse",
    "/dev/cuse",
    "/dev/vga_arbiter",
    "/dev/autofs",
    "/dev/btrfs-control",
];

fn device() -> (CString, u32, u32) {
    let found = CANDIDATES.iter().find_map(|path| {
        let meta = fs::metadata(path).ok()?;
        fs::File::open(path).ok()?;
        meta.file_type().is_char_device().then(|| {
            let number = (libc::major(meta.rdev()), libc::minor(meta.rdev()));
            (CString::new(*path).unwrap(), number.0, number.1)
        })
    });
    found.unwrap_or_else(|| panic!("none of {CANDIDATES:?} can be opened here"))
}

/// Orders to a process of this test.
const OPEN: i32 = 1;
const DUPLICATE: i32 = 2;
const FORK: i32 = 3;
const SEND: i32 = 4;
const RECEIVE: i32 = 5;
const CLOSE: i32 = 6;

/// What a process of this test does when it is told to. Keeps to system calls.
fn obey(order: i32, path: &CString, ours: i32, theirs: i32) -> i32 {
    static FD: AtomicI32 = AtomicI32::new(-1);
    let fd = FD.load(Ordering::Relaxed);
    let keep = |fd: i32| {
        FD.store(fd, Ordering::Relaxed);
        fd
    };
    match order {
        // SAFETY: a C string that lives through the call.
        OPEN => keep(unsafe { libc::open(path.as_ptr(), libc::O_RDONLY) }),
        // SAFETY: no memory of ours.
        DUPLICATE => unsafe { libc::dup(fd) },
        FORK => fork_sleeper(),
        SEND => actor::send(theirs, fd),
        RECEIVE => keep(actor::receive(ours)),
        // SAFETY: a descriptor of this process that nobody else uses.
        _ => unsafe { libc::close(fd) },
    }
}

/// A child that waits until it is killed.
fn fork_sleeper() -> i32 {
    // SAFETY: the child makes one system call, again and again.
    let child = unsafe { libc::fork() };
    if child == 0 {
        loop {
            // SAFETY: no arguments, no memory.
            unsafe { libc::pause() };
        }
    }
    child
}

#[test]
fn each_process_that_holds_a_device_is_found_once() {
    let metered = Metered::new();
    let (path, major, minor) = device();
    let holders = || {
        let found = metered.meter.holders(|a, b| (a, b) == (major, minor));
        let mut found = found.unwrap();
        // Of others on this machine, nobody knows.
        found.retain(|holder| holder.pid != std::process::id());
        found
    };
    let before = holders();
    let job = metered.lab.cgroup("job_1");
    let deep = Group {
        id: id(&job),
        path: job.clone(),
    }
    .below("step_0")
    .below("container");
    let step = id(&job.join("step_0"));
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (ours, theirs) = (ours.as_raw_fd(), theirs.as_raw_fd());
    let act = |order: i32| obey(order, &path, ours, theirs);
    let mut first = Actor::start(&deep.path, act);
    let mut second = Actor::start(&job, act);
    let (first_pid, second_pid) = (first.pid.cast_unsigned(), second.pid.cast_unsigned());
    let row = |pid: u32, cgroup_id| Holder {
        pid,
        cgroup_id,
        major,
        minor,
    };
    let with = |rows: &[Holder]| {
        let mut all = before.clone();
        all.extend(rows);
        all.sort_unstable();
        all
    };
    assert!(first.ask(OPEN) >= 0);
    assert!(first.ask(DUPLICATE) >= 0);
    assert_eq!(holders(), with(&[row(first_pid, step)]));
    let child = first.ask(FORK);
    let child_pid = child.cast_unsigned();
    assert_eq!(
        holders(),
        with(&[row(first_pid, step), row(child_pid, step)])
    );
    assert_eq!(first.ask(SEND), 0);
    assert!(second.ask(RECEIVE) >= 0);
    let all = [
        row(first_pid, step),
        row(child_pid, step),
        row(second_pid, id(&job)),
    ];
    assert_eq!(holders(), with(&all));
    assert_eq!(second.ask(CLOSE), 0);
    assert_eq!(holders(), with(&all[..2]));
    // SAFETY: a child of this test's own process.
    unsafe { libc::kill(child, libc::SIGKILL) };
}

#[test]
fn nobody_is_found_where_nothing_is_wanted() {
    let metered = Metered::new();
    assert_eq!(metered.meter.holders(|_, _| false).unwrap(), []);
    let asked = metered.meter.holders(|major, _| {
        assert!(!matches!(major, 1 | 4 | 5 | 136..=143), "{major}");
        false
    });
    assert_eq!(asked.unwrap(), []);
}
