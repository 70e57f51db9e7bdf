//! A fixture machine under a real fence: what a process in a job's cgroup can open while devices come and go.

use super::*;
use crate::act;
use crate::cgroup::{Cgroup, Root};
use crate::discover::nvml::{Extra, Instance, Mig};
use crate::discover::{survey, tests::Fake};
use crate::fence::standin;
use rustix::mount::{UnmountFlags, unmount};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

const DEVICES: &str = "Character devices:\n195 nvidia\n226 drm\n235 nvidia-caps\n";

/// Two GPUs of NVIDIA in files, and everything else real. The numbers have no driver here: an open that the fence allows finds none.
struct Lab {
    fake: Fake,
    dir: tempfile::TempDir,
    root: Root,
    fence: NodeFence,
    config: Config,
    machine: Machine,
}

impl Lab {
    fn new(name: &str) -> Option<Self> {
        Self::with(name, &[], |_| {})
    }

    /// After `prepare`, with what NVML tells.
    fn with(name: &str, nvml: &[Extra], prepare: impl FnOnce(&Fake)) -> Option<Self> {
        let driver = std::fs::read_to_string("/proc/devices").unwrap_or_default();
        if !rustix::process::geteuid().is_root() || driver.contains("195 nvidia") {
            eprintln!("skipped: needs root, and a machine without NVIDIA's driver");
            return None;
        }
        let fake = Fake::new();
        fake.file("proc/devices", DEVICES)
            .nvidia("0000:19:00.0", 0, "GPU-aa", "NVIDIA H200")
            .nvidia("0000:2a:00.0", 1, "GPU-bb", "NVIDIA H200");
        prepare(&fake);
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().display();
        let folder = format!("spurd-lab-{}-{name}", std::process::id());
        let text = format!(
            "cluster = \"test\"\nnode = \"n1\"\nstate_dir = \"{at}\"\ntoken_file = \"{at}/token\"\ncgroup = \"{folder}\"\n\
             bpffs = \"{at}/bpf\"\nroot = {:?}\n",
            fake.tree().path("")
        );
        let config = Config::parse(Path::new("lab.toml"), &text).unwrap();
        let root = Root::open(&folder).unwrap();
        let machine = survey(&fake.tree(), &config.declare, nvml);
        let fence = open(&config, &machine).unwrap();
        for (number, (major, minor)) in [(195, 0), (195, 1), (235, 12), (235, 21)]
            .into_iter()
            .enumerate()
        {
            standin::make(&dir.path().join(format!("dev{number}")), major, minor).unwrap();
        }
        Some(Self {
            fake,
            dir,
            root,
            fence,
            config,
            machine,
        })
    }

    fn holder(job: u32, gpus: &[u32]) -> Holder {
        Holder {
            job: JobId(job),
            step: None,
            generation: Generation(1),
            gpus: gpus.iter().copied().collect(),
        }
    }

    fn job(&self, job: u32, gpus: &[u32]) -> Cgroup {
        let cgroup = self.root.create_job(JobId(job)).unwrap();
        self.fence
            .attach(cgroup.path(), &Self::holder(job, gpus))
            .unwrap();
        cgroup
    }

    fn node(&self, number: usize) -> PathBuf {
        self.dir.path().join(format!("dev{number}"))
    }

    /// Which of the nodes (0 and 1: the GPUs', 2 and 3: MIG's) a process of the cgroup can open.
    fn opens(&self, cgroup: &Cgroup) -> Vec<usize> {
        (0..4)
            .filter(|number| {
                let script = format!(
                    "echo 0 > {}/cgroup.procs; : < {}",
                    cgroup.path().display(),
                    self.node(*number).display()
                );
                let output = Command::new("sh").args(["-c", &script]).output().unwrap();
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                match text.contains("not permitted") {
                    true => false,
                    false => {
                        assert!(text.contains("No such device"), "{text}");
                        true
                    }
                }
            })
            .collect()
    }

    /// A process in the cgroup with a device as its input that anybody may open.
    fn holding(&self, cgroup: &Cgroup, device: &str) -> Child {
        let child = Command::new("sleep")
            .arg("60")
            .stdin(std::fs::File::open(device).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::fs::write(cgroup.path().join("cgroup.procs"), child.id().to_string()).unwrap();
        child
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for job in self.root.jobs().unwrap_or_default() {
            if let Ok(Some(cgroup)) = self.root.job(job) {
                cgroup.kill().ok();
                cgroup.wait_empty(Duration::from_secs(10)).ok();
                cgroup.remove().ok();
            }
        }
        self.root.remove().ok();
        unmount(&self.config.bpffs, UnmountFlags::DETACH).ok();
    }
}

#[test]
fn an_old_grant_never_reaches_a_reused_minor() {
    let Some(lab) = Lab::new("minor") else { return };
    let (one, two) = (lab.job(1, &[0]), lab.job(2, &[1]));
    assert_eq!((lab.opens(&one), lab.opens(&two)), (vec![0], vec![1]));
    lab.fake
        .nvidia("0000:19:00.0", 1, "GPU-aa", "NVIDIA H200")
        .nvidia("0000:2a:00.0", 0, "GPU-bb", "NVIDIA H200");
    assert!(lab.fence.settle().unwrap().is_empty());
    assert_eq!(
        (lab.opens(&one), lab.opens(&two)),
        (vec![1], vec![0]),
        "swapped"
    );
    // The kernel says that one goes; it is still to be seen, and closed already.
    let leaves = |identity: &Identity| matches!(identity, Identity::Nvidia { pci, .. } if pci == "0000:19:00.0");
    lab.fence.close(leaves).unwrap();
    assert_eq!((lab.opens(&one), lab.opens(&two)), (vec![], vec![0]));
    assert_eq!(
        lab.fence.jobs_with(&BTreeSet::from([0])),
        BTreeSet::from([JobId(1)])
    );
    // What was a false alarm is open again, and nobody has lost anything.
    assert!(lab.fence.settle().unwrap().is_empty());
    assert_eq!(lab.opens(&one), [1]);
    lab.fence.close(leaves).unwrap();
    // It is gone, and the other one has its number.
    lab.fake
        .remove("proc/driver/nvidia/gpus/0000:19:00.0")
        .nvidia("0000:2a:00.0", 1, "GPU-bb", "NVIDIA H200");
    let lost = lab.fence.settle().unwrap();
    assert_eq!(lost, Lost::from([(0, BTreeSet::from([(195, 1)]))]));
    assert_eq!((lab.opens(&one), lab.opens(&two)), (vec![], vec![1]));
    let why = lab.fence.ungrantable();
    assert!(why[0].1.contains("is gone"), "{why:?}");
    let refused = lab.root.create_job(JobId(3)).unwrap();
    assert!(
        lab.fence
            .attach(refused.path(), &Lab::holder(3, &[0]))
            .is_err()
    );
    // It is back, with another number, and with it the grant of the job that still holds it.
    lab.fake.nvidia("0000:19:00.0", 0, "GPU-aa", "NVIDIA H200");
    lab.fence.settle().unwrap();
    assert_eq!((lab.opens(&one), lab.opens(&two)), (vec![0], vec![1]));
    lab.fake.nvidia("0000:3b:00.0", 2, "GPU-cc", "NVIDIA H200");
    let appeared = lab.fence.appeared();
    assert!(
        appeared.len() == 1 && appeared[0].starts_with("GPU-cc at 0000:3b:00.0 came after"),
        "{appeared:?}"
    );
}

#[test]
fn a_gpu_that_is_partitioned_anew_is_closed_until_its_job_has_ended() {
    let Some(lab) = Lab::new("mig") else { return };
    let instance = |name: &str, cap: u32| {
        lab.fake.file(
            &format!("proc/driver/nvidia/capabilities/gpu0/mig/{name}/access"),
            &format!("DeviceFileMinor: {cap}\n"),
        );
    };
    instance("gi1", 12);
    let one = lab.job(1, &[0]);
    assert_eq!(lab.opens(&one), [0, 2]);
    lab.fake
        .remove("proc/driver/nvidia/capabilities/gpu0/mig/gi1");
    instance("gi2", 21);
    let lost = lab.fence.refresh().unwrap();
    assert_eq!(lost.keys().collect::<Vec<_>>(), [&0]);
    assert_eq!(lab.opens(&one), [0usize; 0], "all of the GPU");
    assert!(
        lab.fence.ungrantable()[0]
            .1
            .contains("partitioned anew (MIG)")
    );
    // Also for an agent that starts anew: the policy still holds the bit.
    let again = open(&lab.config, &lab.machine).unwrap();
    assert!(
        again.ungrantable()[0].1.contains("partitioned anew"),
        "{:?}",
        again.ungrantable()
    );
    // The job ends: whoever comes next gets the GPU as it is.
    let watched = lab.fence.stop_watching(JobId(1));
    assert_eq!(watched.len(), 1);
    one.remove().unwrap();
    lab.fence.detach(JobId(1), &watched).unwrap();
    assert!(
        !lab.fence
            .inner()
            .fence
            .link_names()
            .unwrap()
            .contains(&"job_1".to_owned())
    );
    assert!(lab.fence.ungrantable().is_empty());
    let two = lab.job(2, &[0]);
    assert_eq!(lab.opens(&two), [0, 3]);
}

#[test]
fn two_jobs_on_instances_of_one_gpu_open_their_own_only() {
    let instance = |gi: u32| Instance {
        uuid: format!("MIG-{gi}"),
        profile: "1g.18gb".into(),
        memory_mib: 16_384,
        gi,
        ci: 0,
    };
    let told = Extra {
        uuid: "GPU-aa".into(),
        mig: Mig::On(vec![instance(1), instance(2)]),
        ..Extra::default()
    };
    let access = |fake: &Fake, folder: &str, cap: u32| {
        let path = format!("proc/driver/nvidia/capabilities/gpu0/mig/{folder}/access");
        fake.file(&path, &format!("DeviceFileMinor: {cap}\n"));
    };
    // The nodes of the lab are the compute instances'.
    let prepare = |fake: &Fake| {
        for (folder, cap) in [("gi1", 11), ("gi1/ci0", 12), ("gi2", 20), ("gi2/ci0", 21)] {
            access(fake, folder, cap);
        }
    };
    let Some(lab) = Lab::with("instances", &[told], prepare) else {
        return;
    };
    let (one, two, other) = (lab.job(1, &[0]), lab.job(2, &[1]), lab.job(3, &[2]));
    assert_eq!(lab.opens(&one), [0, 2]);
    assert_eq!(lab.opens(&two), [0, 3]);
    assert_eq!(lab.opens(&other), [1], "the whole GPU beside it");
    assert!(
        lab.fence.appeared().is_empty(),
        "{:?}",
        lab.fence.appeared()
    );
    // The node that they share keeps nobody from ending.
    let first: IdSet = [0].into_iter().collect();
    assert_eq!(lab.fence.real_nodes(&first), BTreeSet::from([(235, 12)]));
    // What one of them loses is not its neighbour's.
    let none = IdSet::new();
    assert_eq!(lab.fence.narrow(JobId(1), &none).unwrap(), first);
    assert_eq!((lab.opens(&one), lab.opens(&two)), (vec![], vec![0, 3]));
    assert_eq!(
        lab.fence.nodes_without(&first, &none),
        BTreeSet::from([(195, 0), (235, 11), (235, 12)])
    );
    let second: IdSet = [1].into_iter().collect();
    assert_eq!(
        lab.fence.nodes_without(&first, &second),
        BTreeSet::from([(235, 11), (235, 12)])
    );
    access(&lab.fake, "gi3/ci0", 31);
    let appeared = lab.fence.appeared();
    assert!(
        appeared.len() == 1 && appeared[0].starts_with("MIG instance gi3/ci0 of GPU-aa came after"),
        "{appeared:?}"
    );
    // An agent that starts anew finds the same.
    let again = open(&lab.config, &lab.machine).unwrap();
    let (_, was_gone) = again.adopt(two.path(), &Lab::holder(2, &[1])).unwrap();
    assert!(!was_gone);
    assert_eq!(lab.opens(&two), [0, 3]);
}

#[test]
fn a_narrowed_job_opens_no_more_and_ends_if_it_could_go_on() {
    let Some(lab) = Lab::new("narrow") else {
        return;
    };
    let job = lab.job(1, &[0, 1]);
    let step = job.step(StepKind::Batch).unwrap();
    let narrow = Holder {
        step: Some(StepKind::Batch),
        ..Lab::holder(1, &[1])
    };
    lab.fence.attach(step.path(), &narrow).unwrap();
    assert_eq!((lab.opens(&job), lab.opens(&step)), (vec![0, 1], vec![1]));
    let keep: IdSet = [0].into_iter().collect();
    let taken: Vec<u32> = lab.fence.narrow(JobId(1), &keep).unwrap().iter().collect();
    assert_eq!(taken, [1]);
    assert_eq!(
        (lab.opens(&job), lab.opens(&step)),
        (vec![0], vec![]),
        "the step too"
    );
    assert!(
        lab.fence.narrow(JobId(1), &keep).unwrap().is_empty(),
        "once"
    );
    assert!(
        lab.fence.faults().is_empty(),
        "the watchdog knows the new policy"
    );

    // A restarted agent takes over what is left, not what was ordered.
    let again = open(&lab.config, &lab.machine).unwrap();
    let (_, was_gone) = again.adopt(job.path(), &Lab::holder(1, &[0, 1])).unwrap();
    assert!(!was_gone);
    assert_eq!(lab.opens(&job), [0]);

    // A process that has what was taken. Its input stands for a GPU's node with a driver behind it.
    let mut child = lab.holding(&step, "/dev/full");
    let nodes = BTreeSet::from([(1, 7)]);
    let hold_on = lab.fence.hold_on([1]);
    let other = BTreeSet::from([(1, 8)]);
    let unheld = act::cut_off(&lab.root, JobId(1), &other, hold_on).unwrap();
    assert_eq!(unheld, None);
    assert!(child.try_wait().unwrap().is_none(), "it goes on");
    let why = act::cut_off(&lab.root, JobId(1), &nodes, hold_on).unwrap();
    assert_eq!(why, Some(format!("process {} has 1:7 open", child.id())));
    assert!(!child.wait().unwrap().success());
}
