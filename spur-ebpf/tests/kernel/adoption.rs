//! The fence outlives whoever loaded it.

use crate::lab::*;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use spur_ebpf::*;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Names the environment of [`loader_process`].
const LOADER_PINS: &str = "SPUR_TEST_LOADER_PINS";
const LOADER_CGROUP: &str = "SPUR_TEST_LOADER_CGROUP";

/// Not a test: the process that [`the_fence_outlives_a_killed_loader`] starts and kills.
#[test]
#[ignore = "a helper process of another test"]
fn loader_process() {
    let Some(pins) = std::env::var_os(LOADER_PINS) else {
        return;
    };
    let cgroup = std::env::var_os(LOADER_CGROUP).unwrap();
    let fence = Fence::open_or_load(Path::new(&pins)).unwrap();
    fence.set_devices(&stand_ins(8)).unwrap();
    let job = fence.attach(Path::new(&cgroup), "job_7").unwrap();
    job.write_policy(&granting([0])).unwrap();
    println!("\nready");
    std::thread::park();
}

#[test]
fn the_fence_outlives_a_killed_loader() {
    let lab = Lab::new();
    let nodes = [lab.node(STAND_IN, 0), lab.node(STAND_IN, 1)];
    let mut loader = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "adoption::loader_process",
            "--ignored",
            "--nocapture",
        ])
        .env(LOADER_PINS, lab.pins())
        .env(LOADER_CGROUP, &lab.cgroup)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let ready = BufReader::new(loader.stdout.take().unwrap())
        .lines()
        .map_while(std::result::Result::ok)
        .any(|line| line == "ready");
    loader.kill().unwrap();
    loader.wait().unwrap();
    assert!(ready, "the loader came up");

    // Nobody has the fence open now.
    assert_reached(first_act(&lab.cgroup, || open(&nodes[0])));
    assert_refused(first_act(&lab.cgroup, || open(&nodes[1])));
    // A new agent finds everything as it was.
    let fence = Fence::open_or_load(&lab.pins()).unwrap();
    assert_eq!(fence.devices().unwrap(), stand_ins(8));
    let Adopted::Fence(job) = fence.adopt("job_7", &lab.cgroup).unwrap() else {
        panic!("not adopted")
    };
    assert_eq!(job.read_policy().unwrap(), Some(granting([0])));
    assert_eq!(job.counters().unwrap().denied, 1);
    assert_eq!(
        fence.audit().unwrap().read(|_| ()).unwrap(),
        1,
        "the event waited for a reader"
    );
    job.write_policy(&granting([1])).unwrap();
    assert_refused(first_act(&lab.cgroup, || open(&nodes[0])));
    assert_reached(first_act(&lab.cgroup, || open(&nodes[1])));
}

#[test]
fn attach_may_be_repeated_and_keeps_the_policy() {
    let lab = Lab::new();
    let fence = lab.fence();
    let job = fence.attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting([3])).unwrap();
    let links = fence.links().unwrap();
    let again = fence.attach(&lab.cgroup, "job_7").unwrap();
    assert_eq!(again.read_policy().unwrap(), Some(granting([3])));
    assert_eq!(fence.links().unwrap(), links);
    assert_eq!((links.len(), links[0].cgroup), (1, Some(job.cgroup())));
}

#[test]
fn a_pin_of_another_cgroup_is_not_taken_for_ours() {
    let lab = Lab::new();
    let fence = lab.fence();
    let (one, two) = (lab.cgroup("one"), lab.cgroup("two"));
    fence.attach(&one, "job_7").unwrap();
    assert!(matches!(
        fence.adopt("job_7", &two).unwrap(),
        Adopted::Elsewhere(_)
    ));
    assert!(matches!(
        fence.adopt("job_8", &two).unwrap(),
        Adopted::Missing
    ));
    assert!(
        fence
            .attach(&two, "job_7")
            .unwrap_err()
            .to_string()
            .contains("it fences cgroup")
    );
}

#[test]
fn pins_of_cgroups_that_are_gone_are_found_and_removed() {
    let lab = Lab::new();
    let fence = lab.fence();
    let (gone, stays) = (lab.cgroup("gone"), lab.cgroup("stays"));
    let lost = fence.attach(&gone, "gone").unwrap();
    fence.attach(&stays, "stays").unwrap();
    fs::remove_dir(&gone).unwrap();
    // The kernel takes a dead cgroup's link off from a worker.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let dead = || {
        fence
            .links()
            .unwrap()
            .iter()
            .filter(|link| link.cgroup.is_none())
            .count()
    };
    while dead() == 0 && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert_eq!(fence.remove_stale_links().unwrap(), ["gone"]);
    assert_eq!(
        fence
            .links()
            .unwrap()
            .iter()
            .map(|link| link.name.as_str())
            .collect::<Vec<_>>(),
        ["stays"]
    );
    lost.detach().unwrap();
    // The name is free again, also while a stale pin still has it.
    let again = lab.cgroup("gone");
    fence.attach(&again, "gone").unwrap();
    fs::remove_dir(&again).unwrap();
    let third = lab.cgroup("third");
    while dead() == 0 && std::time::Instant::now() < deadline {
        std::thread::yield_now();
    }
    fence.attach(&third, "gone").unwrap();
    assert_eq!(fence.links().unwrap().len(), 2);
}

#[test]
fn another_build_of_the_program_takes_over_without_a_gap() {
    let lab = Lab::new();
    let nodes = [lab.node(STAND_IN, 0), lab.node(STAND_IN, 1)];
    // A broken build runs the node: this is also what a canary has to notice.
    let object = lab.path("allow_all.bpf.o");
    fs::write(&object, ALLOW_ALL).unwrap();
    let broken = Fence::load_from_file(&lab.pins(), &object).unwrap();
    broken.set_devices(&stand_ins(8)).unwrap();
    let job = broken.attach(&lab.cgroup, "job_7").unwrap();
    job.write_policy(&granting([0])).unwrap();
    assert_reached(first_act(&lab.cgroup, || open(&nodes[1])));
    let (old_id, old_tag) = (broken.program_id(), broken.program_tag());
    drop((broken, job));

    let fence = Fence::open_or_load(&lab.pins()).unwrap();
    assert_ne!((fence.program_id(), fence.program_tag()), (old_id, old_tag));
    assert_eq!(fence.devices().unwrap(), stand_ins(8));
    assert_refused(first_act(&lab.cgroup, || open(&nodes[1])));
    assert_reached(first_act(&lab.cgroup, || open(&nodes[0])));
    let Adopted::Fence(job) = fence.adopt("job_7", &lab.cgroup).unwrap() else {
        panic!("not adopted")
    };
    assert_eq!(job.read_policy().unwrap(), Some(granting([0])));
    assert_eq!(job.counters().unwrap().denied, 1);
    doctor::verify(&lab.pins(), "job_7", &lab.cgroup).unwrap();
    // The same build again changes nothing.
    let same = Fence::open_or_load(&lab.pins()).unwrap();
    assert_eq!(same.program_id(), fence.program_id());
}

#[test]
fn a_fence_of_another_abi_is_refused() {
    let lab = Lab::new();
    drop(lab.fence());
    let meta = MapHandle::from_pinned_path(lab.pins().join("meta")).unwrap();
    for (found, advice) in [(abi::ABI + 1, "or a newer one"), (0, "end its jobs")] {
        let mut value = meta
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .unwrap()
            .unwrap();
        value[..4].copy_from_slice(&found.to_ne_bytes());
        meta.update(&0u32.to_ne_bytes(), &value, MapFlags::ANY)
            .unwrap();
        let error = Fence::open_or_load(&lab.pins()).unwrap_err().to_string();
        assert!(
            error.contains(&format!("has ABI {found}")) && error.contains(advice),
            "{error}"
        );
    }
}

#[test]
fn an_attempt_that_was_cut_off_is_completed() {
    let lab = Lab::new();
    drop(lab.fence());
    // `meta` is pinned last; without it the rest is a torso.
    fs::remove_file(lab.pins().join(FOLDER).join("meta")).unwrap();
    let fence = lab.fence();
    assert_eq!(fence.devices().unwrap(), stand_ins(8));
    // A missing program is loaded onto the pinned maps.
    fs::remove_file(lab.pins().join(FOLDER).join("spur_fence")).unwrap();
    let again = Fence::open_or_load(&lab.pins()).unwrap();
    assert_eq!(again.devices().unwrap(), stand_ins(8));
}

#[test]
fn the_pins_are_for_their_owner_alone_and_go_when_asked() {
    let lab = Lab::new();
    let fence = lab.fence();
    fence.attach(&lab.cgroup, "job_7").unwrap();
    for folder in [lab.pins(), links_folder(&lab.pins())] {
        assert_eq!(
            fs::metadata(folder).unwrap().permissions().mode() & 0o777,
            0o700
        );
    }
    fence.remove().unwrap();
    assert!(!lab.pins().exists());
}

#[test]
fn names_and_places_that_cannot_be_pinned_are_refused() {
    let lab = Lab::new();
    let fence = lab.fence();
    for name in ["", "a/b", "..", "job.7", &"x".repeat(129)] {
        assert!(
            matches!(fence.attach(&lab.cgroup, name), Err(Error::BadName(_))),
            "{name}"
        );
    }
    assert!(matches!(
        fence.attach(&lab.path("."), "job_7"),
        Err(Error::NotCgroup2(_))
    ));
    let missing = fence
        .attach(&lab.cgroup.join("absent"), "job_7")
        .unwrap_err()
        .to_string();
    assert!(
        missing.contains("cannot open cgroup") && missing.contains("absent"),
        "{missing}"
    );
    let no_bpffs = Fence::open_or_load(&lab.path("ordinary"))
        .unwrap_err()
        .to_string();
    assert!(no_bpffs.contains("not on a BPF file system"), "{no_bpffs}");
}
