//! Steps inside a real device fence: the first act is refused, and so is everything that was not granted.

use super::support::{Bench, task};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::mount::{UnmountFlags, unmount};
use spur_agent::launch::StepLaunch;
use spur_ebpf::{
    DeviceNumber, DeviceTable, Fence, GrantBit, JobFence, MajorClass, Policy, Rule,
    mount_bpffs_if_needed,
};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A LOCAL/EXPERIMENTAL major without a driver, and minors that no other test of this crate fences.
const MAJOR: u32 = 121;
const CANARY: u32 = 999;

/// A job's cgroup under a fence that grants device 0 of 0 and 1.
struct Fenced {
    job: JobFence,
    fence: Fence,
    bpf: PathBuf,
    bench: Bench,
}

impl Fenced {
    fn new() -> Self {
        let bench = Bench::new();
        let bpf = bench.state.path().join("bpf");
        mount_bpffs_if_needed(&bpf).unwrap();
        let fence = Fence::open_or_load(&bpf.join("spur")).unwrap();
        let granted = GrantBit::new(0).unwrap();
        let mut table = DeviceTable::new();
        table.set_major(MAJOR, MajorClass::Whole);
        table.list(
            DeviceNumber {
                major: MAJOR,
                minor: 0,
            },
            Rule::Bit(granted),
        );
        fence.set_devices(&table).unwrap();
        let job = fence.attach(bench.job.path(), "job_7").unwrap();
        job.write_policy(&Policy {
            job: 7,
            grants: [granted].into_iter().collect(),
            ..Policy::default()
        })
        .unwrap();
        for minor in [0, 1, CANARY] {
            let path = bench.state.path().join(format!("gpu{minor}"));
            mknodat(
                CWD,
                &path,
                FileType::CharacterDevice,
                Mode::from_raw_mode(0o666),
                makedev(MAJOR, minor),
            )
            .unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        }
        Self {
            job,
            fence,
            bpf,
            bench,
        }
    }

    fn node(&self, minor: u32) -> String {
        self.bench
            .state
            .path()
            .join(format!("gpu{minor}"))
            .display()
            .to_string()
    }

    /// A step of `n` tasks whose program opens a device as its first act.
    fn opening(&self, minor: u32, n: u32) -> StepLaunch {
        let mut spec = self.bench.sh("");
        spec.canary = Some(self.node(CANARY).into());
        spec.tasks = (0..n)
            .map(|id| task(id, &["head", "-c1", &self.node(minor)]))
            .collect();
        spec
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // The pins go with the file system, the links with the cgroup.
        unmount(&self.bpf, UnmountFlags::DETACH).unwrap();
    }
}

#[test]
fn the_first_open_of_every_task_is_refused_unless_granted() {
    let fenced = Fenced::new();
    let (rounds, tasks) = (16, 32);
    for round in 0..rounds {
        let heard = fenced.bench.run(&fenced.opening(1, tasks));
        let refused = heard.stderr.matches("Operation not permitted").count();
        assert_eq!(
            (heard.started, refused),
            (tasks as usize, tasks as usize),
            "round {round}: {heard:?}"
        );
    }
    let heard = fenced.bench.run(&fenced.opening(0, tasks));
    let reached = ["No such device or address", "No such device"];
    assert!(
        heard
            .stderr
            .lines()
            .all(|line| reached.iter().any(|why| line.ends_with(why))),
        "{}",
        heard.stderr
    );
    assert_eq!(heard.stderr.lines().count(), tasks as usize);
    // Every canary and every open was refused by the kernel, and counted.
    let counted = fenced.job.counters().unwrap().denied;
    assert_eq!(counted, u64::from(tasks) * (2 * rounds + 1));
}

#[test]
fn a_step_without_its_fence_does_not_start() {
    let fenced = Fenced::new();
    let spec = fenced.opening(1, 2);
    // Granting the canary is what a broken program would do.
    let all = GrantBit::new(0).unwrap();
    let mut table = DeviceTable::new();
    table.set_major(MAJOR, MajorClass::Whole);
    table.list(
        DeviceNumber {
            major: MAJOR,
            minor: CANARY,
        },
        Rule::Bit(all),
    );
    fenced.fence.set_devices(&table).unwrap();
    let heard = fenced.bench.run(&spec);
    assert_eq!(
        (heard.started, heard.exits.len(), heard.stdout.len()),
        (0, 0, 0)
    );
    let why = heard.record.failure.unwrap();
    assert!(
        why.starts_with("the fence is not proven: opening ")
            && why.ends_with(" where EPERM was due"),
        "{why}"
    );
    assert!(why.contains("No such device"), "{why}");
    assert!(heard.record.node_fault && heard.errors[0].refused);
}

#[test]
fn a_supervisor_has_no_io_uring_through_which_its_tasks_could_open() {
    let bench = Bench::new();
    let spec = bench.sh("read line; echo $line");
    let mut client = bench.connect(&spec);
    let pid = client.supervisor.pid();
    let open: Vec<_> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .map(|target| target.to_string_lossy().into_owned())
        .collect();
    assert!(
        !open.is_empty() && !open.iter().any(|fd| fd == "anon_inode:[io_uring]"),
        "{open:?}"
    );
    client.socket.take();
}

#[test]
fn no_stream_is_a_fenced_device_also_one_that_may_be_opened() {
    let bench = Bench::new();
    let mut spec = bench.sh("echo ran");
    // In the place of a GPU: a device with a driver behind it, so that the open itself succeeds.
    spec.fenced = vec![(1, Some(7))];
    for (name, input) in [("stdin", true), ("stdout", false)] {
        let mut spec = spec.clone();
        spec.step = bench.sh("").step;
        spec.cgroup = bench.job.step(spec.step.step).unwrap().path().into();
        let file = super::support::bytes("/dev/full");
        if input {
            spec.stdio.stdin = spur_agent::launch::Input::File(file);
        } else {
            spec.stdio.stdout = spur_agent::launch::Output::File {
                path: file,
                append: false,
            };
        }
        let heard = bench.run(&spec);
        let failure = heard.record.failure.unwrap();
        assert_eq!(
            failure,
            format!(
                "Could not open {name} file /dev/full: it is a fenced device (1:7), which no stream may be"
            )
        );
        assert!(!heard.record.node_fault && heard.exits.is_empty());
    }
    spec.fenced = vec![(1, Some(11)), (195, None)];
    spec.stdio.stdin = spur_agent::launch::Input::File(super::support::bytes("/dev/zero"));
    assert_eq!(
        bench.run(&spec).stdout,
        b"ran\n",
        "others are left to file modes"
    );
}

#[test]
fn redirections_are_opened_inside_the_fence() {
    let fenced = Fenced::new();
    for (minor, why) in [(1, "Operation not permitted"), (0, "No such device")] {
        let mut spec = fenced.opening(minor, 1);
        let path = fenced.node(minor);
        let file = super::support::bytes(&path);
        spec.stdio.stdout = spur_agent::launch::Output::File {
            path: file,
            append: false,
        };
        let heard = fenced.bench.run(&spec);
        let failure = heard.record.failure.unwrap();
        assert!(
            failure.starts_with(&format!("Could not open stdout file {path}: {why}")),
            "{failure}"
        );
        assert!(!heard.record.node_fault);
    }
}
