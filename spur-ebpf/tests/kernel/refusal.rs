//! Each way to a device that was not granted.

use crate::lab::*;
use crate::uring;
use spur_ebpf::*;
use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;

fn c_path(path: &std::path::Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

#[test]
fn a_granted_device_reaches_the_kernel_and_the_others_do_not() {
    let lab = Lab::new();
    let nodes: Vec<CString> = (0..8).map(|minor| lab.node(STAND_IN, minor)).collect();
    let fence = lab.fence();
    let job = fence.attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting([2, 5])).unwrap();
    for (index, node) in nodes.iter().enumerate() {
        assert_reached(open(node));
        let inside = first_act(&lab.cgroup, || open(node));
        if [2, 5].contains(&index) {
            assert_reached(inside)
        } else {
            assert_refused(inside)
        }
    }
    assert_eq!(job.counters().unwrap().denied, 6);
}

#[test]
fn an_unwritten_and_a_cleared_policy_grant_nothing() {
    let lab = Lab::new();
    let node = lab.node(STAND_IN, 0);
    let job = lab.fence().attach(&lab.cgroup, "job_7").unwrap();
    assert_eq!(job.read_policy().unwrap(), None);
    assert_refused(first_act(&lab.cgroup, || open(&node)));
    job.write_policy(&granting([0])).unwrap();
    assert_reached(first_act(&lab.cgroup, || open(&node)));
    job.clear_policy().unwrap();
    assert_eq!(job.read_policy().unwrap(), None);
    assert_refused(first_act(&lab.cgroup, || open(&node)));
}

#[test]
fn an_unlisted_minor_of_a_fenced_major_is_refused() {
    let lab = Lab::new();
    let (known, unknown) = (lab.node(STAND_IN, 7), lab.node(STAND_IN, 8));
    let job = lab.fence().attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting(0..512)).unwrap();
    assert_reached(first_act(&lab.cgroup, || open(&known)));
    assert_refused(first_act(&lab.cgroup, || open(&unknown)));
}

#[test]
fn a_major_beyond_the_kernels_own_range_is_fenced_too() {
    let lab = Lab::new();
    let (fenced, free) = (lab.node(4095, 0), lab.node(4094, 0));
    let fence = lab.fence();
    fence
        .set_devices(stand_ins(8).set_major(4095, MajorClass::Whole))
        .unwrap();
    let job = fence.attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting(0..512)).unwrap();
    assert_refused(first_act(&lab.cgroup, || open(&fenced)));
    assert_reached(first_act(&lab.cgroup, || open(&free)));
}

#[test]
fn a_fenced_number_is_never_made_anew() {
    let lab = Lab::new();
    let job = lab.fence().attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting([0])).unwrap();
    let path = c_path(&lab.path("made"));
    let make = |kind, major, minor| {
        let made = first_act(&lab.cgroup, || mknod(&path, kind, major, minor));
        drop(fs::remove_file(lab.path("made")));
        made
    };
    assert_refused(make(libc::S_IFCHR, STAND_IN, 0));
    assert_refused(make(libc::S_IFCHR, STAND_IN, 1));
    assert_refused(make(libc::S_IFCHR, 1, 1));
    assert_eq!(make(libc::S_IFCHR, 1, 3), 0, "null is nobody's secret");
    assert_eq!(make(libc::S_IFCHR, STAND_IN + 1, 0), 0, "not fenced");
    assert_eq!(
        make(libc::S_IFBLK, STAND_IN, 0),
        0,
        "block devices are left to file modes"
    );
}

#[test]
fn memory_is_never_granted_and_everyday_devices_are_free() {
    let lab = Lab::new();
    let (mem, port) = (lab.node(1, 1), lab.node(1, 4));
    let block = lab.block_node(STAND_IN, 0);
    let job = lab.fence().attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting(0..512)).unwrap();
    assert_refused(first_act(&lab.cgroup, || open(&mem)));
    assert_refused(first_act(&lab.cgroup, || open(&port)));
    assert_reached(first_act(&lab.cgroup, || open(&block)));
    for minor in [3, 5, 7, 8, 9] {
        let node = lab.node(1, minor);
        assert_eq!(first_act(&lab.cgroup, || open(&node)), 0, "1:{minor}");
    }
    // Without a devpts beside it, ptmx fails in its own way.
    let ptmx = lab.node(5, 2);
    assert_ne!(first_act(&lab.cgroup, || open(&ptmx)), libc::EPERM);
}

#[test]
fn a_hard_link_a_symbolic_link_and_a_bind_mount_are_the_same_device() {
    let lab = Lab::new();
    let node = lab.node(STAND_IN, 1);
    let job = lab.fence().attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting([0])).unwrap();
    let (hard, soft) = (c_path(&lab.path("hard")), c_path(&lab.path("soft")));
    // The job makes the links itself.
    let linked = first_act(&lab.cgroup, || {
        // SAFETY: C strings that live through the calls.
        unsafe {
            libc::link(node.as_ptr(), hard.as_ptr()) | libc::symlink(node.as_ptr(), soft.as_ptr())
        }
    });
    assert_eq!(linked, 0);
    assert_refused(first_act(&lab.cgroup, || open(&hard)));
    assert_refused(first_act(&lab.cgroup, || open(&soft)));
    fs::write(lab.path("bound"), "").unwrap();
    let bound = c_path(&lab.path("bound"));
    // SAFETY: C strings that live through the call; the child's own mount namespace.
    let inside = first_act(&lab.cgroup, || unsafe {
        if libc::unshare(libc::CLONE_NEWNS) != 0
            || libc::mount(
                c"none".as_ptr(),
                c"/".as_ptr(),
                std::ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                std::ptr::null(),
            ) != 0
            || libc::mount(
                node.as_ptr(),
                bound.as_ptr(),
                std::ptr::null(),
                libc::MS_BIND,
                std::ptr::null(),
            ) != 0
        {
            return 255;
        }
        open(&bound)
    });
    assert_refused(inside);
}

#[test]
fn reopening_through_proc_is_refused() {
    let lab = Lab::new();
    let node = lab.node(STAND_IN, 1);
    let job = lab.fence().attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting([0])).unwrap();
    // An O_PATH descriptor needs no permission on the device; the open through /proc does.
    // SAFETY: a C string that lives through the call.
    let fd = unsafe { libc::open(node.as_ptr(), libc::O_PATH) };
    assert!(fd >= 0);
    let through = CString::new(format!("/proc/self/fd/{fd}")).unwrap();
    assert_reached(open(&through));
    assert_refused(first_act(&lab.cgroup, || open(&through)));
    let of_parent = CString::new(format!("/proc/{}/fd/{fd}", std::process::id())).unwrap();
    assert_refused(first_act(&lab.cgroup, || open(&of_parent)));
    // SAFETY: the descriptor was opened above and is used nowhere else.
    unsafe { libc::close(fd) };
}

#[test]
fn io_uring_is_refused() {
    let lab = Lab::new();
    let nodes = [lab.node(STAND_IN, 0), lab.node(STAND_IN, 1)];
    let job = lab.fence().attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting([0])).unwrap();
    let outside = uring::open(&nodes[1]);
    if outside == libc::EPERM || outside == libc::ENOSYS {
        eprintln!("not run: this kernel gives io_uring to nobody ({outside})");
        return;
    }
    assert_reached(outside);
    assert_reached(first_act(&lab.cgroup, || uring::open(&nodes[0])));
    assert_refused(first_act(&lab.cgroup, || uring::open(&nodes[1])));
}

#[test]
fn the_first_act_of_a_job_is_refused_ten_thousand_times() {
    let lab = Lab::new();
    let node = lab.node(STAND_IN, 1);
    let job = lab.fence().attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting([0])).unwrap();
    let cgroup = fs::File::open(&lab.cgroup).unwrap();
    let refused = (0..10_000)
        .filter(|_| first_act_in(cgroup.as_raw_fd(), || open(&node)) == libc::EPERM)
        .count();
    assert_eq!(refused, 10_000);
    assert_eq!(job.counters().unwrap().denied, 10_000);
}
