use super::limits::Limits;
use super::*;
use std::process::{Child, Command};

struct Scratch(Root);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(Root::open(&format!("spur-test-{name}-{}", std::process::id())).unwrap())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for job in self.0.jobs().unwrap() {
            let cgroup = self.0.job(job).unwrap().unwrap();
            cgroup.kill().unwrap();
            assert!(cgroup.wait_empty(Duration::from_secs(10)).unwrap());
            cgroup.remove().unwrap();
        }
        self.0.remove().unwrap();
    }
}

fn sleeper_in(cgroup: &Cgroup) -> Child {
    let child = Command::new("sleep").arg("1000").spawn().unwrap();
    fs::write(cgroup.path().join("cgroup.procs"), child.id().to_string()).unwrap();
    child
}

#[test]
fn finds_the_v2_mount_of_a_hybrid_table() {
    let table = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                 32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime shared:3 - cgroup cgroup rw,cpu\n\
                 41 31 0:38 / /sys/fs/cgroup/uni\\040fied rw shared:9 master:2 - cgroup2 cgroup2 rw\n";
    assert_eq!(find_mount(table), Some("/sys/fs/cgroup/uni fied".into()));
    assert_eq!(
        find_mount("31 23 0:28 / /sys/fs/cgroup2 rw - tmpfs cgroup2 rw\n"),
        None
    );
}

#[test]
fn creates_lists_and_removes_jobs() {
    let scratch = Scratch::new("list");
    let job = scratch.0.create_job(JobId(7)).unwrap();
    let again = scratch.0.create_job(JobId(7)).unwrap();
    assert_eq!(job.id().unwrap(), again.id().unwrap());
    let step = job.step(StepKind::Numbered(0)).unwrap();
    assert_ne!(job.id().unwrap(), step.id().unwrap());
    assert!(step.path().ends_with("job_7/step_0"));
    assert_eq!(scratch.0.jobs().unwrap(), BTreeSet::from([JobId(7)]));
    job.remove().unwrap();
    assert!(scratch.0.jobs().unwrap().is_empty());
    assert!(scratch.0.job(JobId(7)).unwrap().is_none());
    again.remove().unwrap();
}

#[test]
fn kills_by_each_way_and_wakes_when_empty() {
    let scratch = Scratch::new("kill");
    for each in [false, true] {
        let job = scratch.0.create_job(JobId(1)).unwrap();
        let step = job.step(StepKind::Batch).unwrap();
        assert!(job.wait_empty(Duration::ZERO).unwrap());
        let mut children: Vec<_> = (0..3).map(|_| sleeper_in(&step)).collect();
        assert!(job.populated().unwrap());
        assert!(!job.wait_empty(Duration::from_millis(10)).unwrap());
        assert_eq!(job.procs().unwrap().len(), 3);
        assert!(matches!(
            step.path().exists().then(|| remove_dir(step.path())),
            Some(Err(CgroupError::Busy { .. }))
        ));
        if each {
            job.kill_each().unwrap()
        } else {
            job.kill().unwrap()
        }
        assert!(job.wait_empty(Duration::from_secs(10)).unwrap());
        for child in &mut children {
            child.wait().unwrap();
        }
        assert!(job.procs().unwrap().is_empty());
        job.remove().unwrap();
    }
}

#[test]
fn says_which_limits_are_not_enforced() {
    let scratch = Scratch::new("limits");
    let job = scratch.0.create_job(JobId(1)).unwrap();
    let limits = Limits {
        memory: Some(64 << 20),
        pids: Some(100),
        cpus: "0".into(),
        cpu_count: 1,
    };
    let mut missing: Vec<_> = limits.apply(&job).iter().map(|u| u.limit).collect();
    missing.dedup();
    let expected: Vec<_> = limits::unenforced(scratch.0.path())
        .iter()
        .map(|u| u.limit)
        .collect();
    assert_eq!(missing, expected);
    for (file, limit, value) in [
        ("memory.max", "memory", "67108864\n"),
        ("pids.max", "pids", "100\n"),
    ] {
        let set = fs::read_to_string(job.path().join(file)).ok();
        assert_eq!(set.as_deref(), (!missing.contains(&limit)).then_some(value));
    }
    assert!(Limits::default().apply(&job).is_empty());
    assert_eq!(job.oom_kills(), 0);
}
