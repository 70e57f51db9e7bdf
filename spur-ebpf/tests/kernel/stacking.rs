//! Other programs on and below a fenced cgroup.

use crate::lab::*;
use libbpf_rs::libbpf_sys;
use spur_ebpf::*;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// Loads the program that allows everything.
pub(crate) fn allow_all() -> libbpf_rs::Object {
    let mut builder = libbpf_rs::ObjectBuilder::default();
    builder.open_memory(ALLOW_ALL).unwrap().load().unwrap()
}

/// Attaches it as container runtimes do (`BPF_PROG_ATTACH`); the errno, or 0.
pub(crate) fn attach_allow_all(object: &libbpf_rs::Object, cgroup: &Path, flags: u32) -> i32 {
    let folder = File::open(cgroup).unwrap();
    let program = object.progs().next().unwrap();
    let program = program.as_fd().as_raw_fd();
    // SAFETY: both descriptors are open.
    -unsafe {
        libbpf_sys::bpf_prog_attach(
            program,
            folder.as_raw_fd(),
            libbpf_sys::BPF_CGROUP_DEVICE,
            flags,
        )
    }
}

#[test]
fn a_nested_cgroup_with_its_own_program_stays_fenced() {
    let lab = Lab::new();
    let nodes = [lab.node(STAND_IN, 0), lab.node(STAND_IN, 1)];
    let job = lab.fence().attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting([0])).unwrap();
    let (container, broken) = (lab.cgroup("container"), allow_all());
    assert_eq!(
        attach_allow_all(&broken, &container, libbpf_sys::BPF_F_ALLOW_MULTI),
        0
    );
    for cgroup in [container, lab.cgroup("plain")] {
        assert_reached(first_act(&cgroup, || open(&nodes[0])));
        assert_refused(first_act(&cgroup, || open(&nodes[1])));
    }
    let other = lab.cgroup("override");
    for flags in [0, libbpf_sys::BPF_F_ALLOW_OVERRIDE] {
        attach_allow_all(&broken, &other, flags);
        assert_refused(first_act(&other, || open(&nodes[1])));
    }
}

#[test]
fn a_second_program_on_the_fenced_cgroup_itself_opens_nothing() {
    let lab = Lab::new();
    let node = lab.node(STAND_IN, 1);
    let _job = lab.fence().attach(&lab.cgroup, "job_7").unwrap();
    assert_eq!(
        attach_allow_all(&allow_all(), &lab.cgroup, libbpf_sys::BPF_F_ALLOW_MULTI),
        0
    );
    assert_refused(first_act(&lab.cgroup, || open(&node)));
    assert_eq!(
        attach_allow_all(&allow_all(), &lab.cgroup, 0),
        libc::EPERM,
        "cannot replace the fence"
    );
    assert_refused(first_act(&lab.cgroup, || open(&node)));
}

#[test]
fn a_step_narrows_its_job_and_cannot_widen_it() {
    let lab = Lab::new();
    let nodes: Vec<_> = (0..4).map(|minor| lab.node(STAND_IN, minor)).collect();
    let fence = lab.fence();
    let step_cgroup = lab.cgroup("step_0");
    let job = fence.attach(&lab.cgroup, "job_7").unwrap();
    let step = fence.attach(&step_cgroup, "job_7-step_0").unwrap();
    job.write_policy(&Policy {
        quiet: true,
        ..granting([0, 1])
    })
    .unwrap();
    step.write_policy(&granting([1, 2])).unwrap();
    let opened: Vec<bool> = nodes
        .iter()
        .map(|node| REACHED.contains(&first_act(&step_cgroup, || open(node))))
        .collect();
    assert_eq!(opened, [false, true, false, false]);
    // 0 and 3 were refused by the step; 2 and 3 by the job, silently.
    assert_eq!(
        step.counters().unwrap(),
        Counters {
            denied: 2,
            emitted: 2,
            ..Counters::default()
        }
    );
    assert_eq!(
        job.counters().unwrap(),
        Counters {
            denied: 2,
            suppressed: 2,
            ..Counters::default()
        }
    );
}

#[test]
fn the_order_of_attaching_does_not_matter() {
    let lab = Lab::new();
    let nodes: Vec<_> = (0..3).map(|minor| lab.node(STAND_IN, minor)).collect();
    let fence = lab.fence();
    let inner = lab.cgroup("step_0");
    // The child first, then the parent.
    let step = fence.attach(&inner, "step").unwrap();
    step.write_policy(&granting([0, 1])).unwrap();
    let job = fence.attach(&lab.cgroup, "job").unwrap();
    assert_refused(first_act(&inner, || open(&nodes[0])));
    job.write_policy(&granting([1, 2])).unwrap();
    assert_refused(first_act(&inner, || open(&nodes[0])));
    assert_reached(first_act(&inner, || open(&nodes[1])));
    assert_refused(first_act(&inner, || open(&nodes[2])));
    // The parent's fence goes, the child's stays.
    job.detach().unwrap();
    assert_reached(first_act(&inner, || open(&nodes[0])));
    assert_refused(first_act(&inner, || open(&nodes[2])));
}

#[test]
fn the_kernels_limit_of_programs_is_named() {
    let lab = Lab::new();
    let fence = lab.fence();
    let broken: Vec<_> = (0..64).map(|_| allow_all()).collect();
    for object in &broken {
        assert_eq!(
            attach_allow_all(object, &lab.cgroup, libbpf_sys::BPF_F_ALLOW_MULTI),
            0
        );
    }
    let error = fence.attach(&lab.cgroup, "job_7").unwrap_err().to_string();
    assert!(
        error.contains("limit of 64 device programs")
            && error.contains(&lab.cgroup.display().to_string()),
        "{error}"
    );
    assert!(fence.links().unwrap().is_empty());
}
