//! Events and counts.

use crate::lab::*;
use spur_ebpf::*;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::{Duration, SystemTime};

fn drain(audit: &mut Audit) -> Vec<Event> {
    let mut events = Vec::new();
    while audit.read(|event| events.push(event)).unwrap() > 0 {}
    events
}

#[test]
fn an_event_says_who_tried_what() {
    let lab = Lab::new();
    let node = lab.node(STAND_IN, 3);
    let never = lab.node(1, 1);
    let fence = lab.fence();
    let mut audit = fence.audit().unwrap();
    let job = fence.attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting([0])).unwrap();
    let inner = lab.cgroup("inner");
    let inner_id = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&inner).unwrap());
    let before = SystemTime::now();
    first_act(&inner, || {
        // SAFETY: system calls with C strings and integers only.
        unsafe {
            libc::prctl(libc::PR_SET_NAME, c"train".as_ptr());
            libc::syscall(libc::SYS_setresuid, 1234, 1234, 1234);
            for flags in [libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR] {
                libc::open(node.as_ptr(), flags);
            }
            libc::access(node.as_ptr(), libc::F_OK);
        }
        open(&never)
    });
    let mut events = Vec::new();
    assert!(
        audit
            .poll(Duration::from_secs(10), |event| events.push(event))
            .unwrap()
            > 0
    );
    events.extend(drain(&mut audit));
    let tried: Vec<_> = events
        .iter()
        .map(|event| (event.device, event.operation, event.reason))
        .collect();
    let device = number(STAND_IN, 3);
    assert_eq!(
        tried,
        [
            (device, Operation::Read, Reason::NotGranted),
            (device, Operation::Write, Reason::NotGranted),
            (device, Operation::ReadWrite, Reason::NotGranted),
            (device, Operation::Probe, Reason::NotGranted),
            (number(1, 1), Operation::ReadWrite, Reason::Never),
        ]
    );
    for event in &events {
        assert_eq!((event.job, event.step, event.generation), (7, 1, 3));
        assert_eq!(
            (event.command.as_str(), event.uid, event.cgroup),
            ("train", 1234, inner_id)
        );
        assert!(event.pid > 1 && event.thread == event.pid);
        assert!(event.at + Duration::from_millis(100) > before && event.at <= SystemTime::now());
    }
}

#[test]
fn a_refusal_before_the_policy_and_a_mknod_have_their_reasons() {
    let lab = Lab::new();
    let node = lab.node(STAND_IN, 0);
    let path = std::ffi::CString::new(lab.path("made").to_str().unwrap()).unwrap();
    let fence = lab.fence();
    let mut audit = fence.audit().unwrap();
    let _job = fence.attach(&lab.cgroup, "job_7").unwrap();
    first_act(&lab.cgroup, || open(&node));
    first_act(&lab.cgroup, || mknod(&path, libc::S_IFCHR, STAND_IN, 0));
    first_act(&lab.cgroup, || mknod(&path, libc::S_IFCHR, STAND_IN, 9));
    let seen: Vec<_> = drain(&mut audit)
        .iter()
        .map(|event| (event.job, event.operation, event.reason))
        .collect();
    assert_eq!(
        seen,
        [
            (0, Operation::ReadWrite, Reason::NoPolicy),
            (0, Operation::Mknod, Reason::Mknod),
            (0, Operation::Mknod, Reason::Mknod),
        ]
    );
}

/// Two processes at once, so that counts and rate limit meet on two CPUs.
fn flood(cgroup: &std::path::Path, node: &std::ffi::CString, each: u32) {
    let folder = File::open(cgroup).unwrap();
    let fd = folder.as_raw_fd();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let all = first_act_in(fd, || {
                    i32::from((0..each).any(|_| open(node) != libc::EPERM))
                });
                assert_eq!(all, 0, "every open is refused");
            });
        }
    });
}

#[test]
fn a_flood_is_counted_exactly_and_reported_within_bounds() {
    let lab = Lab::new();
    let node = lab.node(STAND_IN, 1);
    let fence = lab.fence();
    let mut audit = fence.audit().unwrap();
    let job = fence.attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting([0])).unwrap();
    let start = std::time::Instant::now();
    flood(&lab.cgroup, &node, 500_000);
    let seconds = start.elapsed().as_secs_f64();
    let counts = job.counters().unwrap();
    assert_eq!(counts.denied, 1_000_000);
    assert_eq!(
        counts.emitted + counts.suppressed + counts.lost,
        counts.denied
    );
    assert_eq!(counts.lost, 0);
    // A quarter of 64 at once and 10 a second is for one device; two CPUs may each take the same turn.
    let allowed = 2.0 * (16.0 + 2.5 * (seconds + 1.0));
    assert!(
        (16.0..=allowed).contains(&(counts.emitted as f64)),
        "{counts:?} in {seconds} s"
    );
    assert_eq!(drain(&mut audit).len() as u64, counts.emitted);
}

#[test]
fn a_flood_on_one_device_hides_no_other() {
    let lab = Lab::new();
    let (loud, quiet) = (lab.node(STAND_IN, 1), lab.node(STAND_IN, 2));
    let fence = lab.fence();
    let mut audit = fence.audit().unwrap();
    let job = fence.attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting([0])).unwrap();
    flood(&lab.cgroup, &loud, 10_000);
    assert_refused(first_act(&lab.cgroup, || open(&quiet)));
    let seen = drain(&mut audit);
    let of = |minor| {
        let device = number(STAND_IN, minor);
        seen.iter().filter(|event| event.device == device).count()
    };
    assert!(of(1) < 60, "{} of the loud one", of(1));
    assert_eq!(of(2), 1);
    assert_eq!(job.counters().unwrap().denied, 20_001);
}

#[test]
fn a_full_ring_loses_events_and_no_count() {
    let lab = Lab::new();
    let node = lab.node(STAND_IN, 1);
    let fence = lab.fence();
    let mut audit = fence.audit().unwrap();
    let job = fence.attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&Policy {
        audit_burst: u32::MAX,
        audit_per_second: 1_000_000_000,
        ..granting([0])
    })
    .unwrap();
    flood(&lab.cgroup, &node, 50_000);
    let counts = job.counters().unwrap();
    assert_eq!(counts.denied, 100_000);
    assert_eq!(
        (counts.emitted + counts.lost, counts.suppressed),
        (100_000, 0)
    );
    assert!(
        counts.lost > 0 && counts.emitted * 88 <= u64::from(abi::AUDIT_BYTES),
        "{counts:?}"
    );
    assert_eq!(drain(&mut audit).len() as u64, counts.emitted);
    // Emptied, it takes events again.
    assert_refused(first_act(&lab.cgroup, || open(&node)));
    assert_eq!(drain(&mut audit).len(), 1);
}

#[test]
fn a_quiet_policy_counts_without_events() {
    let lab = Lab::new();
    let node = lab.node(STAND_IN, 1);
    let fence = lab.fence();
    let mut audit = fence.audit().unwrap();
    let job = fence.attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&Policy {
        quiet: true,
        ..granting([0])
    })
    .unwrap();
    assert_refused(first_act(&lab.cgroup, || open(&node)));
    assert_eq!(drain(&mut audit), []);
    assert_eq!(
        job.counters().unwrap(),
        Counters {
            denied: 1,
            suppressed: 1,
            ..Counters::default()
        }
    );
}
