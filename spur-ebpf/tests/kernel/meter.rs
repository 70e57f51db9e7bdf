//! The meter in the running kernel.

mod block;
mod cpu;
mod drm;
mod gpu;
mod holders;
pub(crate) mod modules;
mod place;
mod victims;

use crate::lab::*;
use spur_ebpf::meter::{Counts, Covered, Flavour, Meter, Source};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A meter of one test's own, and cgroups as an agent has them: the lab's, below it jobs, below those steps.
pub(crate) struct Metered {
    pub(crate) lab: Lab,
    pub(crate) meter: Meter,
}

/// Level of the jobs: the lab is below the root of the tree.
pub(crate) const JOB_LEVEL: u32 = 2;

impl Metered {
    pub(crate) fn new() -> Metered {
        Metered::of(Flavour::Best)
    }

    pub(crate) fn of(flavour: Flavour) -> Metered {
        let lab = Lab::new();
        let meter = Meter::open_as(&lab.pins(), JOB_LEVEL, flavour).unwrap();
        Metered { lab, meter }
    }

    /// A job's cgroup that is metered.
    pub(crate) fn job(&self, name: &str) -> Group {
        let path = self.lab.cgroup(name);
        let id = id(&path);
        self.meter.add(id).unwrap();
        Group { path, id }
    }

    pub(crate) fn counts(&self, group: &Group) -> Counts {
        counts_of(&self.meter, group.id)
    }
}

/// A cgroup and its id.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) path: PathBuf,
    pub(crate) id: u64,
}

impl Group {
    /// A cgroup below this one, not metered.
    pub(crate) fn below(&self, name: &str) -> Group {
        let path = self.path.join(name);
        fs::create_dir(&path).unwrap();
        let id = id(&path);
        Group { path, id }
    }

    /// A number of a flat file, such as `usage_usec` of `cpu.stat`.
    pub(crate) fn stat(&self, file: &str, name: &str) -> u64 {
        let text = fs::read_to_string(self.path.join(file)).unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        line.trim().parse().unwrap()
    }

    /// What the kernel itself counted, in nanoseconds.
    pub(crate) fn cpu_stat_ns(&self) -> u64 {
        self.stat("cpu.stat", "usage_usec ") * 1000
    }
}

pub(crate) fn id(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

pub(crate) fn counts_of(meter: &Meter, id: u64) -> Counts {
    let mut all = Vec::new();
    meter.read(&mut all);
    all.into_iter()
        .find(|(found, _)| *found == id)
        .expect("it is metered")
        .1
}

/// Within 1 % and a millisecond.
#[track_caller]
pub(crate) fn assert_near(measured_ns: u64, true_ns: u64, what: &str) {
    let room = true_ns / 100 + 1_000_000;
    println!("meter: {what}: measured {measured_ns} ns, true {true_ns} ns");
    assert!(
        measured_ns.abs_diff(true_ns) <= room,
        "{what}: measured {measured_ns}, true {true_ns}"
    );
}

#[test]
fn every_source_of_the_kernel_proper_counts() {
    check_coverage(&Metered::new());
}

#[test]
fn every_source_of_the_kernel_proper_counts_without_types() {
    let metered = Metered::of(Flavour::Raw);
    check_coverage(&metered);
    let typed = |covered: &Covered| matches!(covered, Covered::Counted { typed: true, .. });
    assert!(
        !metered
            .meter
            .coverage()
            .iter()
            .any(|(_, covered)| typed(covered))
    );
}

fn check_coverage(metered: &Metered) {
    for (source, covered) in metered.meter.coverage().iter() {
        println!("meter: {source}: {covered:?}");
        if source != Source::Gpu {
            assert!(
                matches!(covered, Covered::Counted { note: None, .. }),
                "{source}: {covered:?}"
            );
        }
    }
    assert_eq!(metered.meter.lost(), 0);
}
