//! Root takes a fence off by hand: it is seen, and put back under the policy that was in force.

use crate::lab::*;
use libbpf_rs::{MapCore, MapFlags, MapHandle, libbpf_sys};
use spur_ebpf::*;
use std::fs;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;

struct Scene {
    lab: Lab,
    fence: Fence,
    job: JobFence,
    nodes: [std::ffi::CString; 2],
}

impl Scene {
    fn new() -> Scene {
        let lab = Lab::new();
        let nodes = [lab.node(STAND_IN, 0), lab.node(STAND_IN, 1)];
        let fence = lab.fence();
        let job = fence.attach(&lab.cgroup, "job_7").unwrap();
        job.write_policy(&granting([0])).unwrap();
        assert_eq!(job.check().unwrap(), LinkState::Up);
        Scene {
            lab,
            fence,
            job,
            nodes,
        }
    }

    fn link(&self) -> i32 {
        let pin = links_folder(&self.lab.pins()).join("job_7");
        let pin = std::ffi::CString::new(pin.to_str().unwrap()).unwrap();
        // SAFETY: a C string that lives through the call.
        unsafe { libbpf_sys::bpf_obj_get(pin.as_ptr()) }
    }

    /// Restores and finds everything as it was.
    #[track_caller]
    fn assert_restored(&self) {
        let job = self.fence.restore(&self.lab.cgroup, "job_7").unwrap();
        assert_eq!(job.check().unwrap(), LinkState::Up);
        assert_eq!(job.read_policy().unwrap(), Some(granting([0])));
        assert_reached(first_act(&self.lab.cgroup, || open(&self.nodes[0])));
        assert_refused(first_act(&self.lab.cgroup, || open(&self.nodes[1])));
        let program = self.fence.program_id();
        self.lab
            .await_sole_program("job_7", &self.lab.cgroup, program);
    }
}

#[test]
fn a_detached_link_is_seen_and_put_back() {
    let scene = Scene::new();
    let link = scene.link();
    // SAFETY: the descriptor is open; it is closed after its last use.
    unsafe {
        assert_eq!(libbpf_sys::bpf_link_detach(link), 0);
        libc::close(link);
    }
    assert_eq!(scene.job.check().unwrap(), LinkState::Detached);
    assert_reached(first_act(&scene.lab.cgroup, || open(&scene.nodes[1])));
    scene.assert_restored();
}

#[test]
fn a_pin_that_is_removed_is_seen_and_put_back() {
    let scene = Scene::new();
    fs::remove_file(links_folder(&scene.lab.pins()).join("job_7")).unwrap();
    assert_eq!(scene.job.check().unwrap(), LinkState::Unpinned);
    scene.assert_restored();
    // With all folders and maps.
    fs::remove_dir_all(scene.lab.pins()).unwrap();
    assert_eq!(scene.fence.missing_pins().len(), 11);
    scene.fence.restore_pins().unwrap();
    assert!(scene.fence.missing_pins().is_empty());
    assert_eq!(scene.job.check().unwrap(), LinkState::Unpinned);
    scene.assert_restored();
    let again = Fence::open_or_load(&scene.lab.pins()).unwrap();
    assert_eq!(again.program_id(), scene.fence.program_id());
}

/// The program that allows everything, on the maps that are pinned.
fn allow_all_on(maps: &std::path::Path) -> libbpf_rs::Object {
    let mut builder = libbpf_rs::ObjectBuilder::default();
    let mut object = builder.open_memory(ALLOW_ALL).unwrap();
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        map.reuse_pinned_map(maps.join(name.trim_start_matches(".data.")))
            .unwrap();
    }
    object.load().unwrap()
}

#[test]
fn another_program_in_the_link_is_seen_and_put_back() {
    let scene = Scene::new();
    // Newer kernels take only one that has the same storage.
    let broken = allow_all_on(&scene.lab.pins().join(FOLDER));
    let program = broken.progs().next().unwrap().as_fd().as_raw_fd();
    let link = scene.link();
    // SAFETY: both descriptors are open and a null options pointer is allowed.
    unsafe {
        assert_eq!(
            libbpf_sys::bpf_link_update(link, program, std::ptr::null()),
            0
        );
        libc::close(link);
    }
    assert_eq!(scene.job.check().unwrap(), LinkState::Replaced);
    assert_reached(first_act(&scene.lab.cgroup, || open(&scene.nodes[1])));
    scene.assert_restored();
}

#[test]
fn a_policy_that_somebody_changed_for_the_guard_alone_is_seen() {
    let scene = Scene::new();
    let maps = scene.lab.pins().join(FOLDER);
    let rows = MapHandle::from_pinned_path(maps.join("guard_policies")).unwrap();
    let key = scene.job.cgroup().0.to_ne_bytes();
    let mut row = rows.lookup(&key, MapFlags::ANY).unwrap().unwrap();
    row[48] = 0xff;
    rows.update(&key, &row, MapFlags::ANY).unwrap();
    assert_eq!(scene.job.read_policy().unwrap(), None);
    scene.job.write_policy(&granting([0])).unwrap();
    assert_eq!(scene.job.read_policy().unwrap(), Some(granting([0])));
}

#[test]
fn rows_of_the_guard_come_and_go_with_the_fence() {
    let scene = Scene::new();
    let maps = scene.lab.pins().join(FOLDER);
    let rows = || {
        let count = |name: &str| {
            MapHandle::from_pinned_path(maps.join(name))
                .unwrap()
                .keys()
                .count()
        };
        (count("guard_policies"), count("guard_counters"))
    };
    assert_eq!(rows(), (1, 1));
    let step = scene.lab.cgroup("step_0");
    let other = scene.lab.cgroup("other");
    let fence = scene.fence.attach(&step, "job_7_step_0").unwrap();
    scene.fence.attach(&other, "other").unwrap();
    assert_eq!(rows(), (3, 3));
    fence.detach().unwrap();
    assert_eq!(rows(), (2, 2));
    scene.fence.unpin("job_7").unwrap();
    assert_eq!(rows(), (1, 1));
    // A pin removed by hand: the guard goes on as long as the cgroup lives.
    fs::remove_file(links_folder(&scene.lab.pins()).join("other")).unwrap();
    scene.fence.remove_stale_links().unwrap();
    assert_eq!(rows(), (1, 1));
    fs::remove_dir(&other).unwrap();
    scene.fence.remove_stale_links().unwrap();
    assert_eq!(rows(), (0, 0));
}

#[test]
fn fences_that_come_and_go_leave_nothing() {
    const TURNS: usize = 300;
    let lab = Lab::new();
    let fence = lab.fence();
    let maps = lab.pins().join(FOLDER);
    let seen = || {
        let rows = |name: &str| {
            MapHandle::from_pinned_path(maps.join(name))
                .unwrap()
                .keys()
                .count()
        };
        let descriptors = fs::read_dir("/proc/self/fd").unwrap().count();
        (
            rows("guard_policies"),
            rows("guard_counters"),
            fence.links().unwrap().len(),
            descriptors,
        )
    };
    let before = seen();
    for turn in 0..TURNS {
        let cgroup = lab.cgroup("job_7");
        let job = fence.attach(&cgroup, "job_7").unwrap();
        job.write_policy(&granting([0])).unwrap();
        // Once in the order of an end, once in that of a cgroup that went first.
        if turn % 2 == 0 {
            job.detach().unwrap();
            fs::remove_dir(&cgroup).unwrap();
        } else {
            fs::remove_dir(&cgroup).unwrap();
            fence.unpin("job_7").unwrap();
        }
    }
    fence.remove_stale_links().unwrap();
    assert_eq!(seen(), before);
}
