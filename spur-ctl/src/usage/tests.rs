//! Board and record together: what is told is there, each once, after a kill, on a broken, lost or full disk.

use super::answer::PAGE_MAX;
use super::board::Holder;
use super::store::Incoming;
use super::*;
use crate::cli::render::tests::samples::{at, ids, job as pending, running, spec};
use spur_core::api::{AccountFilter, RunKey, SeriesKind};
use spur_core::id::{Generation, NodeId, NodeName, StepKind, Uid};
use spur_core::job::state::{JobState, Reason};
use spur_core::time::Millis;
use spur_core::usage::codec::Encoder;
use spur_core::usage::metric::{Metric, Quality, SeriesKey, Source, Subject, Value};
use spur_core::usage::summary::{JobUsage, Processes};
use spur_core::usage::words::{Batch, UsageRecord};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

mod server;

fn name(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

/// A job that holds one CPU and two GPUs of `n0001`.
fn holds(id: u32, generation: u64) -> JobView {
    let share = [("n0001", ids(&[(0, 0)]), 1024, ids(&[(0, 1)]))];
    let mut job = running(pending(id, spec("job")), &share);
    job.generation = Generation(generation);
    job.started = Some(Millis(crate::driver::now().0 - 100_000));
    job.submitted = Millis(crate::driver::now().0 - 200_000);
    job
}

fn view(jobs: &[&JobView]) -> View {
    let mut view = View::default();
    for job in jobs {
        view.jobs.insert(job.id.0, Arc::new((*job).clone()));
    }
    view.nodes
        .insert(0, Arc::new(crate::cli::render::tests::samples::node(1)));
    view
}

fn usage(job: u32, generation: u64, cpu_us: u64) -> JobUsage {
    JobUsage {
        job: JobId(job),
        generation: Generation(generation),
        node: name("liar"),
        started: at(0),
        ended: at(10),
        cpus: 1,
        memory_mib: 1024,
        used: Processes {
            cpu_us,
            ..Processes::default()
        },
        gpus: Vec::new(),
        coverage: 1000,
    }
}

/// Records as a stream would hand them over.
fn say(usage: &Usage, node: &str, spool: &str, number: u64, mut record: UsageRecord) {
    let node = name(node);
    clean::record(&node, &mut record);
    let slot = usage
        .board
        .slot(&node, 10, || usage.store.durable(&node))
        .unwrap();
    let incoming = Incoming {
        node,
        slot,
        spool: spool.into(),
        number,
        record,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    assert!(runtime.block_on(usage.store.record(incoming)));
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn durable(usage: &Usage, node: &str, number: u64) {
    eventually("a record is durable", || {
        let slot = usage.board.find(&name(node)).unwrap();
        number <= slot.durable.borrow().1
    });
}

fn all(usage: &Usage, view: &View) -> Vec<spur_core::api::AccountedJob> {
    usage
        .accounting(view, &AccountFilter::default(), None, PAGE_MAX)
        .unwrap()
}

/// The newest run that the record has of a job.
fn recorded(usage: &Usage, job: u32) -> Option<Arc<JobView>> {
    usage.recorded(JobId(job)).unwrap_or_default()
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill_each_once_and_only_of_jobs_that_the_node_held() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("accounting.db");
    let first = Usage::open(&path, 365).unwrap();
    let job = holds(7, 3);
    first.job(None, &Arc::new(job.clone()));
    say(
        &first,
        "n0001",
        "s1",
        1,
        UsageRecord::Job(usage(7, 3, 5_000_000)),
    );
    say(&first, "n0001", "s1", 1, UsageRecord::Job(usage(7, 3, 999)));
    say(&first, "n0002", "s1", 1, UsageRecord::Job(usage(7, 3, 888)));
    say(&first, "n0001", "s1", 2, UsageRecord::Job(usage(7, 2, 777)));
    say(
        &first,
        "n0001",
        "s1",
        3,
        UsageRecord::Job(usage(99, 3, 666)),
    );
    durable(&first, "n0001", 3);
    durable(&first, "n0002", 1);
    // No farewell: as after `kill -9`.
    for end in ["", "-wal"] {
        let of = |base: &str| dir.path().join(format!("{base}{end}"));
        std::fs::copy(of("accounting.db"), of("copy.db")).unwrap();
    }
    let second = Usage::open(&dir.path().join("copy.db"), 365).unwrap();
    let runs = all(&second, &View::default());
    assert_eq!(runs.len(), 1);
    assert_eq!(*runs[0].job, job);
    let told: Vec<_> = runs[0]
        .nodes
        .iter()
        .map(|n| (n.node.as_str(), n.used.cpu_us))
        .collect();
    assert_eq!(
        told,
        [("n0001", 5_000_000)],
        "a node speaks for itself, of what it held"
    );
    assert_eq!(second.store.durable(&name("n0001")), ("s1".to_owned(), 3));
    // A node that lost its disk begins anew.
    say(
        &second,
        "n0001",
        "s2",
        1,
        UsageRecord::Job(usage(7, 3, 6_000_000)),
    );
    durable(&second, "n0001", 1);
    eventually("the new spool counts", || {
        all(&second, &View::default())[0].nodes[0].used.cpu_us == 6_000_000
    });
}

#[test]
fn a_job_is_recorded_from_submission_on_and_a_requeued_run_stays() {
    let dir = tempfile::tempdir().unwrap();
    let record = Usage::open(&dir.path().join("accounting.db"), 365).unwrap();
    let mut job = pending(1, spec("first"));
    record.job(None, &Arc::new(job.clone()));
    eventually("a pending job is there", || recorded(&record, 1).is_some());
    let before = job.clone();
    job.reason_text = "another reason".into();
    assert!(!differs(&before, &job));
    job = holds(1, 4);
    job.submitted = before.submitted;
    record.job(Some(&before), &Arc::new(job.clone()));
    let mut again = pending(1, spec("first"));
    again.restarts = 1;
    again.eligible = at(500);
    record.job(Some(&job), &Arc::new(again.clone()));
    eventually("the new run is there", || {
        recorded(&record, 1).is_some_and(|run| run.restarts == 1)
    });
    let filter = |duplicates| AccountFilter {
        duplicates,
        ..AccountFilter::default()
    };
    let shown = |duplicates, view: &View| {
        record
            .accounting(view, &filter(duplicates), None, 10)
            .unwrap()
    };
    assert_eq!(shown(false, &View::default()).len(), 1);
    let both = shown(true, &View::default());
    assert_eq!(
        both.iter().map(|run| run.job.restarts).collect::<Vec<_>>(),
        [0, 1]
    );
    assert_eq!((both[0].requeued, both[1].requeued), (Some(at(500)), None));
    // What the cluster knows is newer than what is written.
    again.state = JobState::Cancelled;
    again.ended = Some(at(600));
    let now = shown(false, &view(&[&again]));
    assert_eq!((now.len(), now[0].job.state), (1, JobState::Cancelled));
}

#[test]
fn pages_follow_each_other_and_filters_hold_on_both_sides() {
    let dir = tempfile::tempdir().unwrap();
    let record = Usage::open(&dir.path().join("accounting.db"), 365).unwrap();
    let make = |id: u32| {
        let mut job = pending(id, spec(if id.is_multiple_of(2) { "even" } else { "odd" }));
        job.submitted = at(u64::from(id / 3));
        job.eligible = job.submitted;
        job
    };
    for id in 1..=20 {
        record.job(None, &Arc::new(make(id)));
    }
    eventually("all are there", || {
        all(&record, &View::default()).len() == 20
    });
    let fresh: Vec<JobView> = (15..=25).map(make).collect();
    let view = view(&fresh.iter().collect::<Vec<_>>());
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = record
            .accounting(&view, &AccountFilter::default(), after, 4)
            .unwrap();
        let Some(last) = page.last() else { break };
        after = Some(RunKey::of(&last.job));
        seen.extend(page.iter().map(|run| run.job.id.0));
    }
    assert_eq!(seen, (1..=25).collect::<Vec<_>>());
    let filter = AccountFilter {
        names: vec!["even".into()],
        users: vec![Uid(1001)],
        until: Some(at(8)),
        since: Some(at(0)),
        ..AccountFilter::default()
    };
    let some = record.accounting(&view, &filter, None, 100).unwrap();
    let some: Vec<u32> = some.iter().map(|run| run.job.id.0).collect();
    assert_eq!(some, (2..=22).step_by(2).collect::<Vec<_>>());
}

#[test]
fn the_record_begins_when_a_job_may_start_and_of_jobs_that_are_named_when_they_were_submitted() {
    let waits = |reason, priority, dependency: &str, ended| {
        let mut job = pending(1, spec("job"));
        (job.submitted, job.eligible) = (at(1), at(1));
        (job.reason, job.priority) = (reason, priority);
        job.dependency = dependency.to_owned();
        if reason == Reason::BeginTime {
            job.eligible = at(100);
        }
        if ended {
            (job.state, job.ended) = (JobState::Cancelled, Some(at(5)));
        }
        job
    };
    let any = AccountFilter::default();
    let named = AccountFilter {
        ids: vec![JobId(1)],
        ..AccountFilter::default()
    };
    let window = |states: &[JobState], since, until| AccountFilter {
        states: states.to_vec(),
        since: Some(at(since)),
        until: Some(at(until)),
        ..AccountFilter::default()
    };
    for (reason, priority, dependency, eligible, later) in [
        (Reason::Resources, 1, "", true, true),
        (Reason::BeginTime, 1, "", false, true),
        (Reason::JobArrayTaskLimit, 1, "", false, false),
        (Reason::JobHeldUser, 0, "", false, false),
        (
            Reason::Dependency,
            1,
            "afterok:9(unfulfilled)",
            false,
            false,
        ),
    ] {
        for ended in [false, true] {
            let job = waits(reason, priority, dependency, ended);
            let shown = |filter: &AccountFilter| matches(filter, &job, None);
            assert_eq!(shown(&any), eligible, "{reason:?} {ended}");
            assert_eq!(shown(&window(&[], 0, 200)), later, "{reason:?} {ended}");
            assert!(shown(&named), "{reason:?} {ended}");
            let before = AccountFilter {
                until: Some(at(1)),
                ..named.clone()
            };
            assert!(!shown(&before), "{reason:?} {ended}");
            let pending = window(&[JobState::Pending], 2, 3);
            assert_eq!(shown(&pending), eligible, "{reason:?} {ended}");
            let cancelled = window(&[JobState::Cancelled], 2, 9);
            assert_eq!(shown(&cancelled), ended, "{reason:?} {ended}");
        }
    }
}

#[test]
fn a_broken_file_is_set_aside_and_a_newer_one_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("accounting.db");
    std::fs::write(
        &path,
        "no database at all, but long enough to be read".repeat(100),
    )
    .unwrap();
    let record = Usage::open(&path, 365).unwrap();
    record.job(None, &Arc::new(pending(1, spec("a"))));
    eventually("it is written", || recorded(&record, 1).is_some());
    drop(record);
    assert!(dir.path().join("accounting.db.bad").exists());
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute("UPDATE meta SET value = 99 WHERE key = 'version'", [])
        .unwrap();
    drop(db);
    let refused = Usage::open(&path, 365).unwrap_err();
    assert!(refused.to_string().contains("has version 99"), "{refused}");
}

#[test]
fn a_disk_that_comes_late_gets_everything() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("later");
    let record = Usage::open(&folder.join("accounting.db"), 365).unwrap();
    let job = Arc::new(holds(7, 3));
    record.job(None, &job);
    say(&record, "n0001", "s1", 1, UsageRecord::Job(usage(7, 3, 5)));
    assert!(
        record
            .accounting(&View::default(), &AccountFilter::default(), None, 9)
            .is_err()
    );
    assert_eq!(record.store.backlog(), 2);
    std::fs::create_dir(&folder).unwrap();
    eventually("it wants everything", || record.wants_all());
    record.all_jobs(&view(&[&job]));
    durable(&record, "n0001", 1);
    assert_eq!(all(&record, &View::default())[0].nodes.len(), 1);
    // The file is taken away under the controller: noticed, and begun anew.
    std::fs::remove_file(folder.join("accounting.db")).unwrap();
    eventually("it wants everything again", || record.wants_all());
    record.all_jobs(&view(&[&job]));
    eventually("it is there again", || recorded(&record, 7).is_some());
}

#[test]
fn what_is_too_old_goes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("accounting.db");
    let ended = |id: u32, days: u64| {
        let mut job = holds(id, u64::from(id));
        job.state = JobState::Completed;
        job.ended = Some(Millis(crate::driver::now().0 - days * 86_400_000));
        job
    };
    let record = Usage::open(&path, 30).unwrap();
    for (id, days) in [(1, 31), (2, 29)] {
        record.job(None, &Arc::new(ended(id, days)));
    }
    eventually("both are there", || recorded(&record, 2).is_some());
    record.close();
    let record = Usage::open(&path, 30).unwrap();
    record.job(None, &Arc::new(ended(3, 0)));
    eventually("the old one is gone", || recorded(&record, 1).is_none());
    eventually("the new one is there", || recorded(&record, 3).is_some());
    assert!(recorded(&record, 2).is_some());
}

/// A node's meter.
struct Node {
    encoder: Encoder,
    sequence: u64,
    at: u64,
    slot: Arc<board::Slot>,
    _watch: mpsc::Receiver<spur_core::usage::words::ToMeter>,
}

fn key(subject: Subject, metric: Metric, source: Source, quality: Quality) -> SeriesKey {
    SeriesKey {
        subject,
        metric,
        source,
        quality,
    }
}

impl Node {
    fn new(usage: &Usage, at: u64, epoch: u64) -> Self {
        let slot = usage
            .board
            .slot(&name("n0001"), 10, Default::default)
            .unwrap();
        let (ask, watch) = mpsc::channel(4);
        slot.state().begin(("boot".into(), Millis(epoch)), ask);
        Self {
            encoder: Encoder::default(),
            sequence: 0,
            at,
            slot,
            _watch: watch,
        }
    }

    /// A second passes.
    fn batch(&mut self, values: &BTreeMap<SeriesKey, Value>) -> Batch {
        self.sequence += 1;
        self.at += 1000;
        let (encoded, _) = self.encoder.encode(values, self.sequence == 1);
        Batch {
            sequence: self.sequence,
            late: false,
            at: Millis(self.at),
            uptime: self.at,
            span: 1000,
            keyframe: self.sequence == 1,
            names: encoded.names,
            ended: encoded.ended,
            body: encoded.body,
        }
    }
}

fn values(job: &JobView, second: u64) -> BTreeMap<SeriesKey, Value> {
    let step = Subject::Step(job.id, StepKind::Batch);
    let gpu = |gpu| Subject::JobGpu(job.id, gpu);
    let cpu = |metric| key(step, metric, Source::Bpf, Quality::Exact);
    [
        (cpu(Metric::CpuTime), Value::Count(second * 250_000)),
        (cpu(Metric::Memory), Value::level(1 << 20)),
        (cpu(Metric::MemoryPeak), Value::level(2 << 20)),
        // Two sources of one thing: the exact one counts.
        (
            key(step, Metric::CpuTime, Source::Cgroup, Quality::Sampled),
            Value::Count(second * 999_999),
        ),
        (
            key(gpu(0), Metric::GpuBusyTime, Source::Nvml, Quality::Sampled),
            Value::Count(second * 900_000),
        ),
        (
            key(gpu(1), Metric::GpuBusyTime, Source::Nvml, Quality::Sampled),
            Value::Count(0),
        ),
        (
            key(gpu(1), Metric::GpuHolders, Source::Bpf, Quality::Exact),
            Value::level(0),
        ),
        (
            key(
                Subject::Gpu(0),
                Metric::HwUtilization,
                Source::Nvml,
                Quality::Sampled,
            ),
            Value::level(905),
        ),
        (
            key(
                Subject::Step(JobId(4711), StepKind::Batch),
                Metric::CpuTime,
                Source::Bpf,
                Quality::Exact,
            ),
            Value::Count(1),
        ),
    ]
    .into()
}

#[test]
fn a_running_job_is_answered_from_the_board_and_its_series_outlive_it() {
    let dir = tempfile::tempdir().unwrap();
    let record = Usage::open(&dir.path().join("accounting.db"), 365).unwrap();
    let mut job = holds(7, 3);
    job.nodes[0].share.node = NodeId(0);
    let row = Arc::new(job.clone());
    record.job(None, &row);
    let view = view(&[&job]);
    let held = |job| super::holds(&view, job, &name("n0001"));
    let mut node = Node::new(&record, job.started.unwrap().0, 1);
    let (mut refused, mut told) = (0, Vec::new());
    for second in 1..=60 {
        let batch = node.batch(&values(&job, second));
        let taken = record.board.take(&node.slot, &batch, held).unwrap();
        assert!(taken.fresh);
        refused += taken.refused;
        told.extend(taken.recent);
        // The same again changes nothing.
        assert!(!record.board.take(&node.slot, &batch, held).unwrap().fresh);
    }
    assert_eq!(refused, 60, "of a job that the node does not hold");
    assert_eq!(told, [vec![(0, 905)]], "the planner hears of it once");
    let report = record.report(&view, Arc::clone(&row), (true, true));
    let totals = spur_core::usage::summary::JobTotals::of(&report.record.nodes);
    assert_eq!(totals.used.cpu_us, 15_000_000, "the exact source");
    assert_eq!((totals.gpus, totals.gpus_used), (2, Some(1)));
    assert_eq!(totals.used.memory_peak, Some(2 << 20));
    let gpu = &report.record.nodes[0].gpus[1];
    assert_eq!(
        (gpu.opened, gpu.longest_idle_us),
        (Some(false), Some(59_000_000))
    );
    assert_eq!(totals.utilization.quantile(95), Some(900));
    assert!(report.record.live);
    assert_eq!(
        (report.now[0].busy, report.now[1].busy),
        (Some(900), Some(0))
    );
    let cpu = report
        .series
        .iter()
        .find(|series| series.kind == SeriesKind::Cpu)
        .unwrap();
    assert!(
        cpu.points
            .iter()
            .filter(|point| point.millis > 0)
            .all(|point| point.mean == 250)
    );
    // The job ends and is forgotten; what was in memory is on disk.
    record.forget(&job);
    eventually("the series are written", || {
        let report = record.report(&View::default(), Arc::clone(&row), (false, true));
        report.series.len() >= 4
            && report.series[0]
                .points
                .iter()
                .map(|point| point.millis)
                .sum::<u64>()
                >= 59_000
    });
    assert!(node.slot.state().part(job.id).is_none());
}

#[test]
fn a_new_epoch_begins_anew_and_what_does_not_follow_is_refused() {
    let record = Usage::default();
    let job = holds(7, 3);
    let view = view(&[&job]);
    let held = |job| super::holds(&view, job, &name("n0001"));
    let mut node = Node::new(&record, job.started.unwrap().0, 1);
    let first = node.batch(&values(&job, 1));
    let second = node.batch(&values(&job, 2));
    assert!(
        record.board.take(&node.slot, &second, held).is_err(),
        "no keyframe before it"
    );
    assert!(record.board.take(&node.slot, &first, held).unwrap().fresh);
    assert!(record.board.take(&node.slot, &second, held).unwrap().fresh);
    assert_eq!(node.slot.state().last(), (2, 0));
    let mut again = Node::new(&record, node.at, 2);
    assert_eq!(again.slot.state().last(), (0, 0));
    let batch = again.batch(&values(&job, 3));
    assert!(record.board.take(&again.slot, &batch, held).unwrap().fresh);
    let late = Batch {
        late: true,
        ..batch
    };
    assert!(
        record.board.take(&again.slot, &late, held).unwrap().fresh,
        "a lane of its own"
    );
    assert_eq!(again.slot.state().last(), (1, 1));
}

#[test]
fn a_later_placement_forgets_what_an_earlier_one_used() {
    let record = Usage::default();
    let job = holds(7, 3);
    let mut node = Node::new(&record, job.started.unwrap().0, 1);
    let holder = |generation| {
        move |job: JobId| {
            (job == JobId(7)).then_some(Holder {
                generation: Generation(generation),
                started: Millis(crate::driver::now().0 - 100_000),
                cpus: 1,
            })
        }
    };
    let batch = node.batch(&values(&job, 1));
    record.board.take(&node.slot, &batch, holder(3)).unwrap();
    let batch = node.batch(&values(&job, 2));
    record.board.take(&node.slot, &batch, holder(4)).unwrap();
    let part = |node: &Node| {
        node.slot
            .state()
            .part(JobId(7))
            .map(board::Part::generation)
    };
    assert_eq!(part(&node), Some(Generation(4)));
    // Back in the queue: it may never come to this node again.
    let mut waits = pending(7, spec("job"));
    waits.restarts = 1;
    record.job(Some(&job), &Arc::new(waits));
    assert_eq!(part(&node), None);
}
