//! Device programs of others above and below a fence: none of them opens it, and one that would be in its way is named.

use crate::lab::*;
use crate::looper::Looper;
use crate::stacking::{allow_all, attach_allow_all};
use libbpf_rs::libbpf_sys;
use spur_ebpf::*;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

const MULTI: u32 = libbpf_sys::BPF_F_ALLOW_MULTI;
const OVERRIDE: u32 = libbpf_sys::BPF_F_ALLOW_OVERRIDE;
const EXCLUSIVE: u32 = 0;

/// `BPF_PROG_DETACH`; the errno, or 0.
fn detach(program: i32, cgroup: &Path) -> i32 {
    let folder = File::open(cgroup).unwrap();
    // SAFETY: both descriptors are open.
    -unsafe {
        libbpf_sys::bpf_prog_detach2(program, folder.as_raw_fd(), libbpf_sys::BPF_CGROUP_DEVICE)
    }
}

/// `BPF_PROG_ATTACH` with `BPF_F_REPLACE`, as runtimes update their own list; the errno, or 0.
fn replace(old: i32, new: i32, cgroup: &Path) -> i32 {
    let folder = File::open(cgroup).unwrap();
    let mut options = libbpf_sys::bpf_prog_attach_opts {
        sz: size_of::<libbpf_sys::bpf_prog_attach_opts>() as libbpf_sys::size_t,
        flags: MULTI | libbpf_sys::BPF_F_REPLACE,
        ..Default::default()
    };
    options.__bindgen_anon_1.replace_prog_fd = old;
    // SAFETY: all descriptors are open and the options live through the call.
    -unsafe {
        libbpf_sys::bpf_prog_attach_opts(
            new,
            folder.as_raw_fd(),
            libbpf_sys::BPF_CGROUP_DEVICE,
            &raw const options,
        )
    }
}

#[test]
fn a_program_above_that_would_vanish_or_forbid_is_named_before_a_job_is_fenced() {
    for (flags, words) in [
        (OVERRIDE, "would stop running"),
        (EXCLUSIVE, "lets no other run"),
    ] {
        let lab = Lab::new();
        let fence = lab.fence();
        let (above, broken) = (lab.cgroup("above"), allow_all());
        let middle = above.join("agent");
        let job = middle.join("job_7");
        std::fs::create_dir_all(&job).unwrap();
        assert_eq!(attach_allow_all(&broken, &above, flags), 0);
        let error = fence.attach(&job, "job_7").unwrap_err().to_string();
        assert!(
            error.contains(words) && error.contains(&above.display().to_string()),
            "{error}"
        );
        assert!(fence.links().unwrap().is_empty());
        // On the cgroup itself it is in the way too.
        let error = fence.attach(&above, "job_7").unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(
            detach(0, &above),
            0,
            "the only one goes without being named"
        );
        fence.attach(&job, "job_7").unwrap();
    }
}

#[test]
fn a_program_that_comes_above_later_takes_nothing_away() {
    for flags in [MULTI, OVERRIDE, EXCLUSIVE] {
        let lab = Lab::new();
        let nodes = [lab.node(STAND_IN, 0), lab.node(STAND_IN, 1)];
        let fence = lab.fence();
        let (above, broken) = (lab.cgroup("above"), allow_all());
        let cgroup = above.join("job_7");
        std::fs::create_dir(&cgroup).unwrap();
        let job = fence.attach(&cgroup, "job_7").unwrap();
        job.write_policy(&granting([0])).unwrap();
        attach_allow_all(&broken, &above, flags);
        assert_reached(first_act(&cgroup, || open(&nodes[0])));
        assert_refused(first_act(&cgroup, || open(&nodes[1])));
        doctor::verify(&lab.pins(), "job_7", &cgroup).unwrap();
    }
}

#[test]
fn runtimes_that_clear_a_cgroup_of_programs_cannot_clear_ours() {
    let lab = Lab::new();
    let node = lab.node(STAND_IN, 1);
    let fence = lab.fence();
    let job = fence.attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting([0])).unwrap();
    let broken = allow_all();
    let theirs = broken.progs().next().unwrap().as_fd().as_raw_fd();
    // SAFETY: an id in, a descriptor out, which lives as long as the test.
    let ours = unsafe { libbpf_sys::bpf_prog_get_fd_by_id(fence.program_id()) };
    assert!(ours >= 0);
    let container = lab.cgroup("container");
    for cgroup in [&lab.cgroup, &container] {
        assert_eq!(detach(ours, cgroup), libc::ENOENT);
        assert_eq!(replace(ours, theirs, cgroup), libc::ENOENT);
        assert_refused(first_act(cgroup, || open(&node)));
    }
    // Their own list they may change as they like.
    assert_eq!(attach_allow_all(&broken, &container, MULTI), 0);
    let other = allow_all();
    let other_fd = other.progs().next().unwrap().as_fd().as_raw_fd();
    assert_eq!(replace(theirs, other_fd, &container), 0);
    assert_refused(first_act(&container, || open(&node)));
    assert_eq!(detach(other_fd, &container), 0);
    assert_refused(first_act(&container, || open(&node)));
    assert_eq!(job.check().unwrap(), LinkState::Up);
}

#[test]
fn programs_that_come_and_go_above_and_below_open_no_gap() {
    // What `systemctl daemon-reload` does to units with DeviceAllow, and a runtime to its container.
    const TURNS: usize = 2000;
    let lab = Lab::new();
    let nodes = [lab.node(STAND_IN, 0), lab.node(STAND_IN, 1)];
    let fence = lab.fence();
    let cgroup = lab.cgroup("job_7");
    let inner = cgroup.join("container");
    std::fs::create_dir(&inner).unwrap();
    let job = fence.attach(&cgroup, "job_7").unwrap();
    job.write_policy(&granting([0])).unwrap();
    let looper = Looper::start(&inner, &nodes);
    let broken = allow_all();
    let theirs = broken.progs().next().unwrap().as_fd().as_raw_fd();
    for turn in 0..TURNS {
        let place = if turn % 2 == 0 { &lab.cgroup } else { &inner };
        assert_eq!(attach_allow_all(&broken, place, MULTI), 0);
        assert_eq!(detach(theirs, place), 0);
    }
    let [refused, let_through, rounds] = looper.stop();
    assert_eq!((refused, let_through), (0, 0), "in {rounds} rounds");
    assert!(rounds > 0);
}

#[test]
fn a_full_cgroup_below_does_not_matter() {
    let lab = Lab::new();
    let node = lab.node(STAND_IN, 1);
    let job = lab.fence().attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting([0])).unwrap();
    let container = lab.cgroup("container");
    let broken: Vec<_> = (0..64).map(|_| allow_all()).collect();
    for object in &broken {
        assert_eq!(attach_allow_all(object, &container, MULTI), 0);
    }
    assert_refused(first_act(&container, || open(&node)));
}
