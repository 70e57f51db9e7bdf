//! What the sampler itself costs: eight GPUs and a hundred jobs, ten readings a second, with sources that cost nothing. Prints CPU
//! time per second and reading. `cargo run -p spur-agent --example meter_cost -- SECONDS`

#![expect(clippy::unwrap_used, reason = "an example")]

use spur_agent::meter::claims::Board;
use spur_agent::meter::input::{Feed, Input, JobBegins, StepBegins};
use spur_agent::meter::kernel::{Counts, GpuWork, Kernel};
use spur_agent::meter::ring::Ring;
use spur_agent::meter::sampler::{Ends, Sampler, Setup};
use spur_agent::meter::state::Saved;
use spur_agent::meter::stream::Shared;
use spur_core::id::{Generation, JobId, NodeId, NodeName, StepKind};
use spur_core::resources::{IdSet, NodeShare};
use spur_core::usage::idle::IdlePolicy;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const JOBS: u32 = 100;
const GPUS: u32 = 8;

/// Counts that grow from reading to reading.
#[derive(Debug, Default)]
struct Growing(AtomicU64);

impl Kernel for Growing {
    fn add(&self, _cgroup: u64) -> Result<(), String> {
        Ok(())
    }
    fn remove(&self, _cgroup: u64) -> Option<Counts> {
        None
    }
    fn read(&self, into: &mut Vec<(u64, Counts)>) {
        let turn = self.0.fetch_add(1, Ordering::Relaxed);
        for cgroup in 0..u64::from(JOBS) {
            let count = Some(turn * (90_000 + cgroup));
            let counts = Counts {
                cpu: count,
                user: count,
                system: count,
                runqueue: count,
                switches: count,
                minor_faults: count,
                starts: Some(1),
                ends: Some(0),
                major_faults: Some(0),
                oom_kills: Some(0),
                read_bytes: count,
                write_bytes: count,
                reads: count,
                writes: count,
                ..Counts::default()
            };
            into.push((cgroup, counts));
        }
    }
    fn gpu(&self, _into: &mut Vec<GpuWork>) {}
    fn sees_drm_sched(&self) -> bool {
        false
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

fn files(group: &Path) {
    std::fs::create_dir_all(group).unwrap();
    let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=70\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=50\n";
    for (name, text) in [
        ("cpu.stat", "usage_usec 1\nuser_usec 1\nsystem_usec 0\n"),
        ("memory.current", "100000000\n"),
        ("memory.peak", "100000000\n"),
        ("memory.max", "max\n"),
        ("memory.stat", "anon 1\ninactive_file 2\n"),
        ("memory.events", "oom_kill 0\n"),
        ("pids.current", "4\n"),
        ("cpu.pressure", pressure),
        ("memory.pressure", pressure),
        ("io.pressure", pressure),
    ] {
        std::fs::write(group.join(name), text).unwrap();
    }
}

fn begin(feed: &Feed, dir: &Path) {
    for number in 0..JOBS {
        let job = JobId(number + 1);
        let gpus: IdSet = (number < GPUS).then_some(number).into_iter().collect();
        let share = NodeShare {
            node: NodeId(0),
            cpus: IdSet::first(1),
            memory_mib: 1000,
            gpus,
            tasks: 1,
        };
        feed.send(Input::Job(Box::new(JobBegins {
            job,
            generation: Generation(1),
            share,
            started: None,
        })));
        let group = dir.join(format!("job_{job}/step_batch"));
        files(&group);
        feed.send(Input::Step(Box::new(StepBegins {
            job,
            step: StepKind::Batch,
            group,
            cgroup: u64::from(number),
        })));
    }
}

fn main() {
    let seconds: u64 = std::env::args()
        .nth(1)
        .map_or(20, |text| text.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let (feed, inputs) = Feed::new();
    let (items, mut queue) = tokio::sync::mpsc::channel(1024);
    let ring = Arc::new(Mutex::new(Ring::default()));
    let standins = (0..GPUS).map(|gpu| {
        let path = dir.path().join(format!("gpu{gpu}.busy"));
        std::fs::write(&path, "500\n").unwrap();
        (gpu, path)
    });
    let setup = Setup {
        node: NodeName::new("n1").unwrap(),
        gpus: Vec::new(),
        names: BTreeMap::new(),
        regions: BTreeMap::new(),
        standins: standins.collect(),
        policy: IdlePolicy::default(),
        groups: dir.path().to_owned(),
        folder: "spur".into(),
        proc: "/proc".into(),
    };
    let shared = Arc::new(Shared::default());
    shared.open(1, u64::MAX);
    let ends = Ends {
        inputs,
        items,
        shared,
        ring: Arc::clone(&ring),
        board: Arc::new(Board::default()),
    };
    let sampler = Sampler::new(
        setup,
        Arc::new(Growing::default()),
        ends,
        Vec::new(),
        Saved::default(),
    );
    begin(&feed, dir.path());
    std::thread::spawn(move || while queue.blocking_recv().is_some() {});
    let cost = std::thread::spawn(move || {
        sampler.run();
        spur_agent::sys::clock::thread_cpu()
    });
    std::thread::sleep(Duration::from_millis(1500));
    feed.send(Input::Watch {
        interval: 100,
        time_to_live: u32::try_from(seconds * 1000).unwrap(),
    });
    std::thread::sleep(Duration::from_secs(seconds));
    let (done, _wait) = std::sync::mpsc::sync_channel(1);
    feed.send(Input::Stop(done));
    let cost = cost.join().unwrap();
    let ring = ring.lock().unwrap();
    let readings = u128::try_from(ring.since(0).len()).unwrap().max(1);
    println!(
        "{} us CPU in {seconds} s: {} us a second, {} us a reading; ring {} bytes in {readings} readings",
        cost.as_micros(),
        cost.as_micros() / u128::from(seconds),
        cost.as_micros() / readings,
        ring.bytes()
    );
}
