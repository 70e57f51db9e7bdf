use super::*;
use crate::meter::input::{Feed, JobBegins, StepBegins};
use spur_core::id::Generation;
use spur_core::resources::GpuVendor;
use spur_core::usage::metric::{Quality, Source};
use spur_core::usage::summary::{JobUsage, StepUsage};
use std::sync::PoisonError;
use std::time::Instant;

/// How long anything may take.
const SOON: Duration = Duration::from_secs(30);

/// A kernel that counts what it is told.
#[derive(Debug, Default)]
struct Told {
    counts: Mutex<BTreeMap<u64, Counts>>,
    work: Mutex<Vec<GpuWork>>,
}

impl Kernel for Told {
    fn add(&self, _cgroup: u64) -> Result<(), String> {
        Ok(())
    }
    fn remove(&self, cgroup: u64) -> Option<Counts> {
        self.work
            .lock()
            .unwrap()
            .retain(|work| work.cgroup != cgroup);
        self.counts.lock().unwrap().remove(&cgroup)
    }
    fn read(&self, into: &mut Vec<(u64, Counts)>) {
        into.extend(
            self.counts
                .lock()
                .unwrap()
                .iter()
                .map(|(cgroup, counts)| (*cgroup, *counts)),
        );
    }
    fn gpu(&self, into: &mut Vec<GpuWork>) {
        into.extend(self.work.lock().unwrap().iter().cloned());
    }
    fn sees_drm_sched(&self) -> bool {
        true
    }
    fn counts_cpu(&self) -> bool {
        true
    }
    fn lost(&self) -> u64 {
        0
    }
    fn own_time(&self) -> Option<u64> {
        None
    }
}

struct Lab {
    _dir: tempfile::TempDir,
    group: PathBuf,
    kernel: Arc<Told>,
    feed: Feed,
    items: mpsc::Receiver<Item>,
    ring: Arc<Mutex<Ring>>,
}

impl Lab {
    /// A node with one DRM GPU and a job that holds it, with one step.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let group = dir.path().join("job_1/step_batch");
        std::fs::create_dir_all(&group).unwrap();
        let (feed, inputs) = Feed::new();
        let (sender, items) = mpsc::channel(1024);
        let ring = Arc::new(Mutex::new(Ring::default()));
        let shared = Arc::new(Shared::default());
        shared.open(1, u64::MAX);
        let gpu = Gpu {
            index: 0,
            vendor: GpuVendor::Drm,
            model: "test".into(),
            uuid: String::new(),
            pci: String::new(),
            numa: None,
            memory_mib: 16,
            files: Vec::new(),
            links: Vec::new(),
            rail: None,
            parent: None,
        };
        let setup = Setup {
            node: NodeName::new("n1").unwrap(),
            gpus: vec![gpu],
            names: BTreeMap::from([("card".to_owned(), 0)]),
            regions: BTreeMap::new(),
            standins: Vec::new(),
            policy: IdlePolicy::default(),
            groups: dir.path().to_owned(),
            folder: "spur".into(),
            proc: "/proc".into(),
        };
        let ends = Ends {
            inputs,
            items: sender,
            shared,
            ring: Arc::clone(&ring),
            board: Arc::default(),
        };
        let kernel = Arc::new(Told::default());
        let sampler = Sampler::new(setup, kernel.clone(), ends, Vec::new(), Saved::default());
        std::thread::spawn(|| sampler.run());
        Self {
            _dir: dir,
            group,
            kernel,
            feed,
            items,
            ring,
        }
    }

    fn begin(&self) {
        self.feed.send(Input::Job(Box::new(JobBegins {
            job: JobId(1),
            generation: Generation(3),
            share: crate::testing::share(&[0]),
            started: None,
        })));
        self.step(StepKind::Batch, 7);
    }

    fn step(&self, step: StepKind, cgroup: u64) {
        self.feed.send(Input::Step(Box::new(StepBegins {
            job: JobId(1),
            step,
            group: self.group.clone(),
            cgroup,
        })));
    }

    fn count(&self, cgroup: u64, cpu: u64, busy: u64) {
        let counts = Counts {
            cpu: Some(cpu),
            starts: Some(2),
            ..Counts::default()
        };
        self.kernel.counts.lock().unwrap().insert(cgroup, counts);
        let mut work = self.kernel.work.lock().unwrap();
        work.retain(|work| work.cgroup != cgroup);
        work.push(GpuWork {
            cgroup,
            device: "card".into(),
            busy,
            queue: 0,
            jobs: 1,
        });
    }

    /// Ends the job and gives the records.
    fn end(&mut self) -> (Vec<StepUsage>, JobUsage) {
        let (done, wait) = std::sync::mpsc::sync_channel(1);
        self.feed.send(Input::JobEnds(JobId(1), done));
        wait.recv_timeout(SOON).unwrap();
        let mut steps = Vec::new();
        while let Ok(item) = self.items.try_recv() {
            if let Item::Record(record) = item {
                match *record {
                    UsageRecord::Step(step) => steps.push(step),
                    UsageRecord::Job(job) => return (steps, job),
                    UsageRecord::Event(_) => {}
                }
            }
        }
        panic!("no record of the job, of steps {steps:?}");
    }
}

#[test]
fn the_last_counts_of_a_job_are_in_its_record() {
    let mut lab = Lab::new();
    lab.begin();
    lab.step(StepKind::Numbered(0), 8);
    std::thread::sleep(Duration::from_millis(50));
    lab.count(7, 123_456, 400);
    lab.count(8, 1_000, 300);
    let (steps, job) = lab.end();
    let cpu: Vec<u64> = steps.iter().map(|step| step.used.cpu_us).collect();
    assert_eq!(
        (cpu, job.used.cpu_us, job.used.processes),
        (vec![123_456, 1_000], 124_456, Some(4))
    );
    let busy = job.gpus[0].busy.unwrap();
    assert_eq!(
        (busy.us, busy.source, busy.quality),
        (700, Source::DrmSched, Quality::Exact)
    );
    assert_eq!((job.generation, job.coverage), (Generation(3), 1000));
    assert!(
        lab.kernel.counts.lock().unwrap().is_empty(),
        "the slots are free again"
    );
}

#[test]
fn a_step_that_ended_has_its_record_at_once_and_the_job_keeps_its_work() {
    let mut lab = Lab::new();
    lab.begin();
    std::thread::sleep(Duration::from_millis(50));
    lab.count(7, 5_000, 900);
    lab.feed.send(Input::StepEnded(JobId(1), StepKind::Batch));
    let end = Instant::now() + SOON;
    while !lab.kernel.counts.lock().unwrap().is_empty() {
        assert!(Instant::now() < end, "the step does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (steps, job) = lab.end();
    assert_eq!(
        (
            steps.len(),
            job.used.cpu_us,
            job.gpus[0].busy.map(|busy| busy.us)
        ),
        (1, 5_000, Some(900))
    );
}

#[test]
fn somebody_who_looks_sees_ten_readings_a_second() {
    let mut lab = Lab::new();
    lab.begin();
    lab.feed.send(Input::Watch {
        interval: 100,
        time_to_live: 60_000,
    });
    let end = Instant::now() + SOON;
    let mut spans = Vec::new();
    while spans.len() < 8 {
        assert!(Instant::now() < end, "{spans:?}");
        match lab.items.try_recv() {
            Ok(Item::Live(batch)) => spans.push(batch.span),
            Ok(Item::Spool(_) | Item::Record(_) | Item::Save(_) | Item::Stop(_)) => {}
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    assert!(
        spans.iter().filter(|span| **span < 500).count() >= 4,
        "{spans:?}"
    );
    let ring = lab.ring.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(ring.since(0).len() >= spans.len());
}
