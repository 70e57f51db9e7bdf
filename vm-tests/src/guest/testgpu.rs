//! The test GPU: two devices that are real to the kernel, execute jobs that do nothing but take time, and know how long they did.

use super::late::{self, Loaded};
use super::{Outcome, lab::ALICE};
use crate::cluster::SOON;
use crate::daemons::Daemons;
use crate::user::{self, Output, User};
use crate::{host, probe, wait};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const MODULE: &str = "spur_testgpu";

/// Number of devices.
const GPUS: usize = 2;

/// The loaded module's devices.
pub(super) struct TestGpus {
    /// Their render nodes, in the order of the devices.
    pub(super) nodes: Vec<String>,
    _module: Loaded,
}

/// A test that wants them.
pub(super) fn with(test: impl FnOnce(&TestGpus)) -> Outcome {
    if let Some(why) = late::missing(MODULE) {
        return Outcome::Skipped(why);
    }
    test(&TestGpus::load());
    Outcome::Held
}

/// Jobs executed, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// How many.
    pub(super) jobs: u64,
    /// Nanoseconds that the hardware was busy with them.
    pub(super) busy_ns: u64,
}

impl TestGpus {
    fn load() -> Self {
        let module = late::load(MODULE, &format!("devices={GPUS}"));
        let nodes: Vec<String> = (0..GPUS).map(node).collect();
        for node in &nodes {
            wait::until_true(&format!("{node} appears"), SOON, || {
                Path::new(node).exists()
            });
            // The fence alone decides.
            fs::set_permissions(node, PermissionsExt::from_mode(0o666)).expect("root may");
        }
        Self {
            nodes,
            _module: module,
        }
    }

    /// What the hardware executed on one ring of one GPU for work of this tag.
    pub(super) fn by_tag(&self, gpu: usize, ring: &str, tag: u64) -> Work {
        self.truth(gpu, &format!("tag {tag} {ring} "))
    }

    /// What it executed on that ring for all.
    pub(super) fn by_ring(&self, gpu: usize, ring: &str) -> Work {
        self.truth(gpu, &format!("device 0 {ring} "))
    }

    /// Forgets what was executed so far.
    pub(super) fn begin_anew(&self) {
        for gpu in 0..self.nodes.len() {
            fs::write(device(gpu).join("truth"), "0").expect("root may");
        }
    }

    fn truth(&self, gpu: usize, line: &str) -> Work {
        let text = host::read(&device(gpu).join("truth"));
        assert!(!text.contains("untold"), "too many tags: {text}");
        let numbers = text.lines().find_map(|l| l.strip_prefix(line));
        let words: Vec<&str> = numbers.unwrap_or_default().split(' ').collect();
        match words[..] {
            ["jobs", jobs, "busy_ns", busy] => Work {
                jobs: jobs.parse().expect("a number"),
                busy_ns: busy.parse().expect("a number"),
            },
            _ => Work::default(),
        }
    }
}

/// The device's name on its bus.
pub(super) fn name(gpu: usize) -> String {
    format!("{MODULE}.{gpu}")
}

/// The platform device.
fn device(gpu: usize) -> PathBuf {
    Path::new("/sys/devices/platform").join(name(gpu))
}

/// The device's render node.
fn node(gpu: usize) -> String {
    let dir = device(gpu).join("drm");
    let mut entries = fs::read_dir(&dir)
        .unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
        .flatten();
    let name = entries.find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.starts_with("renderD").then_some(name)
    });
    format!("/dev/dri/{}", name.expect("the driver has render nodes"))
}

/// A key of fdinfo, in the lines that the probe printed.
fn key(said: &str, name: &str) -> u64 {
    let line = said.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|line| line.split_whitespace().next());
    word.and_then(|word| word.parse().ok())
        .unwrap_or_else(|| panic!("no {name} in {said}"))
}

/// Two clients share a ring, and a third has the other GPU to itself: every job takes at least its time, and the books of the
/// device, of the tags and of the clients agree to the nanosecond.
pub(super) fn takes_time() -> Outcome {
    with(check_time)
}

fn check_time(gpus: &TestGpus) {
    let dir = tempfile::tempdir().expect("a folder");
    let probe = probe::install(dir.path()).to_string_lossy().into_owned();
    let start = |gpu: usize, steps: &[&str]| {
        let mut args = vec![probe.as_str(), "gpu", gpus.nodes[gpu].as_str()];
        args.extend(steps);
        user::command(User::Root, &args).spawn().expect("it starts")
    };
    let running = [
        start(0, &["submit:1:compute:20000:20", "wait", "fdinfo"]),
        start(0, &["submit:2:compute:5000:40", "wait", "fdinfo"]),
        start(
            1,
            &[
                "submit:3:copy:10000:30",
                "memory:8388608:4194304",
                "wait",
                "fdinfo",
            ],
        ),
    ];
    let said = running.map(|child| Output::of(child).good());
    let works = [
        (gpus.by_tag(0, "compute", 1), 20, 20_000),
        (gpus.by_tag(0, "compute", 2), 40, 5_000),
        (gpus.by_tag(1, "copy", 3), 30, 10_000),
    ];
    for (work, jobs, micros) in works {
        let asked = jobs * micros * 1000;
        assert_eq!(work.jobs, jobs, "{work:?}");
        // A timer is never early; how late it is says how busy the machine was.
        assert!(
            work.busy_ns >= asked && work.busy_ns < 3 * asked,
            "{work:?} for {asked} ns"
        );
    }
    let [one, two, three] = works.map(|(work, ..)| work);
    assert_eq!(key(&said[0], "drm-engine-compute:"), one.busy_ns);
    assert_eq!(key(&said[1], "drm-engine-compute:"), two.busy_ns);
    assert_eq!(key(&said[2], "drm-engine-copy:"), three.busy_ns);
    assert_eq!(key(&said[2], "drm-total-memory:"), 8192);
    assert_eq!(key(&said[2], "drm-resident-memory:"), 4096);
    let both = gpus.by_ring(0, "compute");
    assert_eq!(both.busy_ns, one.busy_ns + two.busy_ns);
    assert_eq!(gpus.by_ring(0, "copy"), Work::default());
}

/// What a killed client had queued is dropped, on both rings: the next client does not wait for it, and the module can go.
pub(super) fn killed() -> Outcome {
    with(|gpus| {
        let dir = tempfile::tempdir().expect("a folder");
        let probe = probe::install(dir.path()).to_string_lossy().into_owned();
        let gpu = |steps: &[&str]| {
            let mut args = vec![probe.as_str(), "gpu", gpus.nodes[0].as_str()];
            args.extend(steps);
            user::command(User::Root, &args).spawn().expect("it starts")
        };
        // More than an hour of work.
        let mut queued = gpu(&[
            "submit:1:compute:1000000:4000",
            "submit:1:copy:1000000:4000",
            "say:queued",
            "wait",
        ]);
        wait::until_true("it is being executed", SOON, || {
            ["compute", "copy"]
                .iter()
                .all(|ring| gpus.by_tag(0, ring, 1).jobs > 0)
        });
        // To `timeout` and to what it runs.
        let group = Pid::from_child(&queued);
        kill_process_group(group, Signal::KILL).expect("it runs");
        queued.wait().expect("a child can be waited for");
        let steps = ["submit:2:compute:1000:3", "submit:2:copy:1000:3", "wait"];
        Output::of(gpu(&steps)).good();
        assert_eq!(gpus.by_tag(0, "compute", 2).jobs, 3);
        assert_eq!(gpus.by_tag(0, "copy", 2).jobs, 3);
        assert!(gpus.by_tag(0, "compute", 1).jobs < 100);
    })
}

/// A job that was given one of them keeps it busy, and cannot open the other.
pub(super) fn fenced() -> Outcome {
    with(check_fence)
}

fn check_fence(gpus: &TestGpus) {
    let daemons = Daemons::start("");
    let work = |options: &[&str], node: &str, tag: &str| {
        let submit = format!("submit:{tag}:compute:10000:10");
        let probe = daemons.probe();
        let mut args = vec!["srun"];
        args.extend(options);
        args.extend([probe.as_str(), "gpu", node, &submit, "wait"]);
        daemons.run(ALICE, &args)
    };
    let one = ["--gres=gpu:spur_testgpu:1"];
    // Whichever it is given, it is given the same when nobody else has one.
    let outputs = [0, 1].map(|gpu| work(&one, &gpus.nodes[gpu], "7"));
    let opened = outputs.iter().filter(|output| output.code == 0).count();
    assert_eq!(opened, 1, "{outputs:?}");
    let refused = outputs.iter().find(|output| output.code != 0);
    let refused = &refused.expect("one of two").out;
    assert!(refused.contains("EPERM"), "{refused}");
    let busy = [0, 1].map(|gpu| gpus.by_tag(gpu, "compute", 7).jobs);
    assert!(busy == [10, 0] || busy == [0, 10], "{busy:?}");
    // Nor does a job without GPUs.
    for node in &gpus.nodes {
        let output = work(&[], node, "8");
        assert!(output.out.contains("EPERM"), "{output:?}");
    }
}
