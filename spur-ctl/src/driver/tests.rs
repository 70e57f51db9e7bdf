//! The writer under a clock that tests turn, and over a store that they can break.

use super::*;
use crate::config::Config;
use crate::readers::Readers;
use crate::store::sqlite::Sqlite;
use crate::store::{Batch, Loaded, StoreError};
use spur_core::agent::order::ToAgent;
use spur_core::api::{Caller, Refusal, RefusalKind, Reply};
use spur_core::event::NodeHello;
use spur_core::id::{Gid, NodeName, StepKind, Uid};
use spur_core::job::spec::{JobKind, JobSpec, Owner, Payload};
use spur_core::job::state::JobState;
use spur_core::job::step::StepSpec;
use spur_core::node::FenceState;
use spur_core::resources::{GpuCount, Inventory, MemoryRequest};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

mod control;
mod mesh;
mod steps;

/// A store that fails when told to.
struct Flaky {
    inner: Sqlite,
    broken: Arc<AtomicBool>,
}

impl Flaky {
    fn fails(&self) -> Result<(), StoreError> {
        if self.broken.load(Ordering::SeqCst) {
            return Err(StoreError::Write {
                path: "test".into(),
                cause: "disk full".into(),
            });
        }
        Ok(())
    }
}

impl Store for Flaky {
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.fails()?;
        self.inner.append(batch)
    }
    fn load(&mut self) -> Result<Loaded, StoreError> {
        self.inner.load()
    }
    fn snapshot(&mut self, cluster: &Cluster) -> Result<(), StoreError> {
        self.inner.snapshot(cluster)
    }
    fn log_bytes(&self) -> u64 {
        self.inner.log_bytes()
    }
    fn snapshot_bytes(&self) -> u64 {
        self.inner.snapshot_bytes()
    }
    fn payload(&self, job: JobId) -> Result<Option<Payload>, StoreError> {
        self.inner.payload(job)
    }
    fn retain_payloads(&mut self, keep: &Cluster) -> Result<(), StoreError> {
        self.inner.retain_payloads(keep)
    }
    fn probe(&mut self) -> Result<(), StoreError> {
        self.fails()
    }
}

struct Bench {
    inbox: mpsc::Sender<Input>,
    readers: Arc<Readers>,
    broken: Arc<AtomicBool>,
    calls: AtomicU64,
    writer: JoinHandle<Result<(), String>>,
}

fn config(dir: &Path) -> Config {
    let path: PathBuf = dir.join("spur.toml");
    std::fs::write(&path, "cluster = \"c\"\n[[partition]]\nname = \"p\"\n").unwrap();
    Config::read(&path).unwrap()
}

impl Bench {
    fn start(dir: &Path) -> Self {
        let broken = Arc::new(AtomicBool::new(false));
        let inner = Sqlite::open(&dir.join("db")).unwrap();
        let store = Flaky {
            inner,
            broken: Arc::clone(&broken),
        };
        let key: Arc<[u8]> = Arc::from(b"key".as_slice());
        let (writer, readers) = Writer::open(Box::new(store), &config(dir), key).unwrap();
        let (inbox, receiver) = mpsc::channel(INBOX_MAX);
        let writer = tokio::spawn(writer.run(receiver));
        Self {
            inbox,
            readers,
            broken,
            calls: AtomicU64::new(0),
            writer,
        }
    }

    async fn stop(self) {
        self.inbox.send(Input::Stop).await.unwrap();
        self.writer.await.unwrap().unwrap();
    }

    /// Asks, and gives the number of the call and the way of its answer.
    async fn ask(&self, command: impl Into<Command>) -> (u64, oneshot::Receiver<Answer>) {
        self.ask_as(command, false).await
    }

    async fn ask_as(
        &self,
        command: impl Into<Command>,
        operator: bool,
    ) -> (u64, oneshot::Receiver<Answer>) {
        let call = self.calls.fetch_add(1, Ordering::SeqCst);
        let (reply, answer) = oneshot::channel();
        let caller = Caller {
            uid: Uid(7),
            gid: Gid(7),
            pid: 1,
            operator,
        };
        let command = command.into();
        let ask = Ask {
            call,
            caller,
            command,
            reply,
        };
        self.inbox.send(Input::Ask(Box::new(ask))).await.unwrap();
        (call, answer)
    }

    async fn answer(&self, command: impl Into<Command>) -> Answer {
        self.ask(command).await.1.await.unwrap()
    }

    async fn submit(&self, kind: JobKind, gpus: u32) -> Result<JobId, Refusal> {
        let answer = self
            .answer(Act::Submit(Box::new(spec(kind, gpus)), None))
            .await?;
        let Reply::Submitted { job, .. } = answer else {
            panic!("{answer:?}")
        };
        Ok(job)
    }

    /// Once this is answered, everything before it was taken.
    async fn flush(&self) {
        let nobody = Await::End(JobId(u32::MAX));
        assert!(self.answer(nobody).await.is_err());
    }

    async fn sleep(&self, secs: u64) {
        tokio::time::sleep(Duration::from_secs(secs)).await;
        self.flush().await;
    }

    fn state(&self, job: JobId) -> JobState {
        self.readers.view().job(job).unwrap().state
    }

    async fn connect(&self, name: &str) -> mpsc::Receiver<ToAgent> {
        let (out, orders) = mpsc::channel(100);
        let (admitted, answer) = oneshot::channel();
        let hello = Box::new(hello(name));
        let connected = AgentInput::Connected {
            session: 1,
            hello,
            out,
            admitted,
        };
        self.inbox.send(Input::Agent(connected)).await.unwrap();
        answer.await.unwrap().unwrap();
        orders
    }
}

fn hello(name: &str) -> NodeHello {
    NodeHello {
        name: NodeName::new(name).unwrap(),
        inventory: Inventory {
            cpus: 4,
            sockets: 1,
            cores_per_socket: 4,
            threads_per_core: 1,
            memory_mib: 1000,
            gpus: vec![],
            simulated: true,
            cpus_by_numa: Vec::new(),
            features: Vec::new(),
        },
        boot_id: "b".into(),
        boot_time: Millis(1),
        agent_start: Millis(1),
        fence: FenceState::Fenced,
        fence_note: String::new(),
        version: String::new(),
        os: String::new(),
        hostname: name.into(),
        address: "unix:/a".into(),
        jobs: vec![],
        fence_suffices: None,
        gpus_sick: None,
        gpu_notes: Vec::new(),
        keeps_gpus: Some(true),
        stuck: Vec::new(),
    }
}

fn spec(kind: JobKind, tasks: u32) -> JobSpec {
    let owner = Owner {
        uid: Uid(7),
        gid: Gid(7),
        groups: vec![],
        user: "u".into(),
        group: "g".into(),
        home: "/".into(),
        shell: "/bin/sh".into(),
    };
    JobSpec {
        kind,
        owner,
        name: "j".into(),
        tasks,
        tasks_set: true,
        memory: MemoryRequest::PerNode(1),
        gpus_per_node: None::<GpuCount>,
        work_dir: "/".into(),
        ..JobSpec::default()
    }
}

fn step() -> StepSpec {
    StepSpec {
        name: "s".into(),
        tasks: 0,
        nodes: 0,
        cpus_per_task: 0,
        tasks_per_node: 0,
        gpus_per_node: None,
        gpus_per_task: None,
        nodelist: vec![],
        ..StepSpec::default()
    }
}

fn run(tasks: u32) -> Await {
    Await::Run {
        spec: Box::new(spec(JobKind::Run, tasks)),
        step: Box::new(step()),
        immediate: None,
    }
}

#[tokio::test(start_paused = true)]
async fn an_allocation_whose_client_stays_away_is_ended_and_one_with_a_waiting_call_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path());
    let left = bench.submit(JobKind::Alloc, 1).await.unwrap();
    let kept = bench.submit(JobKind::Alloc, 1).await.unwrap();
    let batch = bench.submit(JobKind::Batch, 1).await.unwrap();
    let (call, waiting) = bench.ask(Await::End(kept)).await;
    bench.sleep(29).await;
    assert_eq!(bench.state(left), JobState::Pending);
    bench.sleep(2).await;
    assert_eq!(bench.state(left), JobState::Cancelled);
    assert_eq!(
        (bench.state(kept), bench.state(batch)),
        (JobState::Pending, JobState::Pending)
    );
    bench.sleep(600).await;
    assert_eq!(bench.state(kept), JobState::Pending);

    drop(waiting);
    bench.inbox.send(Input::CallGone { call }).await.unwrap();
    bench.sleep(29).await;
    assert_eq!(bench.state(kept), JobState::Pending);
    let (_, back) = bench.ask(Await::Allocation(kept)).await;
    bench.sleep(100).await;
    assert_eq!(
        bench.state(kept),
        JobState::Pending,
        "the client came back in time"
    );
    drop(back);
    assert_eq!(
        bench.state(batch),
        JobState::Pending,
        "a batch job needs no client"
    );
    bench.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_gives_every_client_a_fresh_lease() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path());
    let job = bench.submit(JobKind::Alloc, 1).await.unwrap();
    bench.sleep(20).await;
    bench.stop().await;
    let bench = Bench::start(dir.path());
    bench.sleep(29).await;
    assert_eq!(bench.state(job), JobState::Pending);
    bench.sleep(2).await;
    assert_eq!(bench.state(job), JobState::Cancelled);
    bench.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_is_not_durable_never_was() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path());
    let mut orders = bench.connect("n1").await;
    assert!(matches!(orders.recv().await, Some(ToAgent::Welcome { .. })));
    let (_, holder) = bench.ask(run(4)).await;
    assert!(matches!(holder.await.unwrap(), Ok(Reply::Granted(_))));
    let (_, mut waiting) = bench.ask(run(2)).await;
    bench.flush().await;
    let (first, second) = (JobId(1), JobId(2));

    bench.broken.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        let refusal = bench.submit(JobKind::Batch, 1).await.unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::NotDurable);
        assert!(refusal.text.contains("disk full"), "{}", refusal.text);
        let refusal = bench.answer(run(1)).await.unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::NotDurable);
    }
    let finish = Act::Finish(first, spur_core::job::state::ExitStatus::default());
    assert_eq!(
        bench.answer(finish).await.unwrap_err().kind,
        RefusalKind::NotDurable
    );
    assert_eq!(
        bench.readers.view().jobs.iter().count(),
        2,
        "nothing half done"
    );
    assert_eq!(bench.state(first), JobState::Running);
    assert!(
        waiting.try_recv().is_err(),
        "a call that waited goes on waiting"
    );

    bench.broken.store(false, Ordering::SeqCst);
    bench.sleep(2).await;
    let cancel = Act::Cancel {
        named: None,
        jobs: vec![(first, None)],
        signal: None,
        batch_only: false,
        step: None,
        children: false,
    };
    assert_eq!(
        bench.answer(cancel).await,
        Ok(Reply::PerJob(vec![(first, None)]))
    );
    assert_eq!(
        (bench.state(first), bench.state(second)),
        (JobState::Cancelled, JobState::Pending)
    );
    let (_, third) = bench.ask(run(1)).await;
    bench.flush().await;
    assert_eq!(
        bench.readers.view().jobs.iter().map(|job| job.id.0).max(),
        Some(3),
        "no number was used up"
    );
    drop((waiting, third));
    bench.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_while_the_disk_is_full_is_not_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path());
    drop(bench.connect("n1").await);
    let (_, holder) = bench.ask(run(4)).await;
    assert!(holder.await.unwrap().is_ok());
    let (call, waiting) = bench.ask(run(4)).await;
    bench.flush().await;
    bench.broken.store(true, Ordering::SeqCst);
    assert!(bench.submit(JobKind::Batch, 1).await.is_err());
    drop(waiting);
    bench.inbox.send(Input::CallGone { call }).await.unwrap();
    bench.flush().await;
    assert_eq!(bench.state(JobId(2)), JobState::Pending);
    bench.broken.store(false, Ordering::SeqCst);
    bench.sleep(2).await;
    assert_eq!(bench.state(JobId(2)), JobState::Cancelled);
    bench.stop().await;
}

#[tokio::test(start_paused = true)]
async fn explanations_are_logged_at_a_bounded_rate_and_all_in_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path());
    drop(bench.connect("n1").await);
    let mut answers = Vec::new();
    for _ in 0..5000 {
        let spec = Box::new(spec(JobKind::Batch, 4));
        answers.push(bench.ask(Act::Submit(spec, None)).await.1);
    }
    for answer in answers {
        assert!(answer.await.unwrap().is_ok());
    }
    let explained = |view: &crate::readers::View| {
        view.jobs
            .iter()
            .filter(|job| job.reason != spur_core::job::state::Reason::None)
            .count()
    };
    for _ in 0..60 {
        if explained(&bench.readers.view()) >= 4999 {
            let stats = bench.readers.view().stats.clone();
            assert!(stats.log_entries < 5000 + 5000, "{stats:?}");
            bench.stop().await;
            return;
        }
        bench.sleep(1).await;
    }
    panic!("{} of 5000 explained", explained(&bench.readers.view()));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_read_is_cut_off_and_told_everything_when_it_returns() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path());
    let mut orders = bench.connect("n1").await;
    let (_, run) = bench.ask(run(1)).await;
    assert!(run.await.unwrap().is_ok());
    let connected = || {
        bench
            .readers
            .view()
            .nodes
            .iter()
            .any(|row| row.node.connected)
    };
    let signal = || Act::Cancel {
        named: None,
        jobs: vec![(JobId(1), None)],
        signal: Some(10),
        batch_only: false,
        step: None,
        children: false,
    };
    // The welcome, the job, the step, and as many signals as its queue of 100 still holds.
    for _ in 0..97 {
        bench.answer(signal()).await.unwrap();
    }
    bench.flush().await;
    assert!(connected(), "a full queue is no crime");
    bench.answer(signal()).await.unwrap();
    bench.flush().await;
    assert!(!connected(), "it does not keep up");
    let mut received = 0;
    while orders.recv().await.is_some() {
        received += 1;
    }
    assert_eq!(received, 100, "nothing was skipped before the cut");
    let mut orders = bench.connect("n1").await;
    match orders.recv().await {
        Some(ToAgent::Welcome { jobs, steps, .. }) => assert_eq!((jobs.len(), steps.len()), (1, 1)),
        other => panic!("{other:?}"),
    }
    assert!(connected());
    bench.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_welcome_stays_small_however_much_its_jobs_carry() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path());
    let first = bench.connect("n1").await;
    let payload = Payload {
        script: vec![b'#'; 4 << 20],
        args: vec![],
        env: vec!["x".repeat(3 << 20)],
        umask: 0,
        rlimits: vec![],
    };
    for _ in 0..4 {
        let job = Act::Submit(Box::new(spec(JobKind::Batch, 1)), Some(payload.clone()));
        bench.answer(job).await.unwrap();
    }
    bench.sleep(5).await;
    drop(first);
    let mut orders = bench.connect("n1").await;
    let welcome = orders.recv().await.unwrap();
    let size = |steps: &[spur_core::agent::order::StepOrder]| -> usize {
        let batches = steps.iter().filter_map(|step| step.batch.as_ref());
        batches
            .map(|batch| batch.payload.script.len() + batch.payload.env[0].len())
            .sum()
    };
    let ToAgent::Welcome { jobs, steps, .. } = welcome else {
        panic!("{welcome:?}")
    };
    assert_eq!((jobs.len(), steps.len()), (4, 2));
    assert!(size(&steps) <= 16 << 20);
    for _ in 0..2 {
        match orders.recv().await {
            Some(ToAgent::Launch(step)) => assert_eq!(size(&[step]), 7 << 20),
            other => panic!("{other:?}"),
        }
    }
    bench.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_step_that_is_killed_while_its_agent_is_away_is_killed_when_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path());
    drop(bench.connect("n1").await);
    let (_, run) = bench.ask(run(1)).await;
    assert!(run.await.unwrap().is_ok());
    let cancel = |signal| Act::Cancel {
        named: None,
        jobs: vec![(JobId(1), None)],
        signal,
        batch_only: false,
        step: Some(StepKind::Numbered(0)),
        children: false,
    };
    let told = async |mut orders: mpsc::Receiver<ToAgent>| {
        bench.flush().await;
        let mut signals = Vec::new();
        while let Ok(order) = orders.try_recv() {
            if let ToAgent::Signal { step, signal, .. } = order {
                signals.push((step, signal));
            }
        }
        signals
    };
    bench.answer(cancel(Some(10))).await.unwrap();
    assert_eq!(told(bench.connect("n1").await).await, []);
    bench.answer(cancel(None)).await.unwrap();
    let kill = [(Some(StepKind::Numbered(0)), 9)];
    assert_eq!(told(bench.connect("n1").await).await, kill);
    bench.stop().await;
}
