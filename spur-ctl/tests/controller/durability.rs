//! Nothing that was acknowledged is lost, whatever is killed, cut or full.

use crate::agent::{Agent, hello};
use crate::process::{Controller, PATIENCE, TOKEN, script, spec, step};
use spur_core::agent::order::Report;
use spur_core::api::{JobFilter, RefusalKind, Reply, Request};
use spur_core::id::{JobId, StepKind};
use spur_core::job::spec::JobKind;
use spur_core::job::state::{ExitStatus, JobState};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[tokio::test]
async fn what_came_of_a_request_whose_answer_was_lost_is_found_by_its_number_and_not_made_twice() {
    let mut controller = Controller::start();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let (mut job, mut own_step) = (spec(JobKind::Run, 1), step());
    (job.request_id, own_step.request_id) = (4711, 4711);
    let run = Request::Run {
        spec: Box::new(job),
        step: own_step.clone(),
        immediate: None,
    };
    client.ask(&run).await.unwrap();
    let order = agent.assigned().await;
    agent.launched().await;
    // The answer is lost with the controller.
    controller.kill();
    controller.run();
    let client = controller.client().await;
    let find = |request_id| Request::Submission { request_id };
    let Ok(Reply::Submitted { job, .. }) = client.ask(&find(4711)).await else {
        panic!("the job is not found")
    };
    assert_eq!(job, order.job);
    for unknown in [0, 4712] {
        let refusal = client.ask(&find(unknown)).await.unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::InvalidJobId);
    }
    let asked = |request_id| Request::Step {
        job,
        step: spur_core::job::step::StepSpec {
            request_id,
            ..own_step.clone()
        },
    };
    for _ in 0..2 {
        let Reply::Granted(grant) = client.ask(&asked(4711)).await.unwrap() else {
            panic!("no grant")
        };
        assert_eq!(grant.step.step, StepKind::Numbered(0), "the same step");
    }
    let other = client.ask(&asked(4713)).await;
    assert!(
        !matches!(&other, Ok(Reply::Granted(grant)) if grant.step.step == StepKind::Numbered(0)),
        "{other:?}"
    );
}

#[tokio::test]
async fn a_thousand_acknowledged_submissions_survive_kill_9_and_no_number_is_used_twice() {
    let mut controller = Controller::start();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let running = client.submit(spec(JobKind::Batch, 8)).await.unwrap();
    let order = agent.assigned().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let client = controller.client().await;
        tasks.spawn(async move {
            let mut jobs = Vec::new();
            for _ in 0..125 {
                jobs.push(client.submit(spec(JobKind::Batch, 1)).await.unwrap());
            }
            jobs
        });
    }
    let acknowledged: Vec<JobId> = tasks.join_all().await.into_iter().flatten().collect();
    controller.kill();

    controller.run();
    let client = controller.client().await;
    let known: BTreeSet<JobId> = client.all().await.iter().map(|job| job.id).collect();
    assert_eq!(known.len(), 1001);
    assert!(acknowledged.iter().all(|job| known.contains(job)));
    assert_eq!(
        acknowledged.iter().collect::<BTreeSet<_>>().len(),
        1000,
        "no number twice"
    );
    let next = client.submit(spec(JobKind::Batch, 1)).await.unwrap();
    assert!(
        known.iter().all(|job| *job < next),
        "no number of before again"
    );
    assert_eq!(
        client.job(running).await.state,
        JobState::Running,
        "running jobs go on"
    );

    let mut back = hello("n1");
    back.jobs = vec![(running, order.generation)];
    let (mut agent, welcome) = Agent::connect_with(&controller, TOKEN, back).await.unwrap();
    assert_eq!(welcome.jobs, std::slice::from_ref(&order));
    agent
        .step_ended(running, StepKind::Batch, order.generation, 0)
        .await;
    client.state_until(running, JobState::Completed).await;
}

#[tokio::test]
async fn a_report_is_acknowledged_only_when_durable_and_may_be_repeated() {
    let mut controller = Controller::start();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let job = client.submit(spec(JobKind::Batch, 1)).await.unwrap();
    let order = agent.assigned().await;
    let ended = Report::StepEnded {
        job,
        step: StepKind::Batch,
        generation: order.generation,
        exit: ExitStatus { code: 0, signal: 0 },
        oom: false,
    };
    agent.report_durably(ended.clone()).await;
    controller.kill();
    controller.run();
    let client = controller.client().await;
    assert_eq!(client.job(job).await.state, JobState::Completed);
    let mut back = hello("n1");
    back.jobs = vec![(job, order.generation)];
    let (mut agent, welcome) = Agent::connect_with(&controller, TOKEN, back).await.unwrap();
    assert!(
        welcome.jobs.is_empty(),
        "an ended job is not wanted any more"
    );
    agent.report_durably(ended).await;
    agent
        .report_durably(Report::Cleaned {
            job,
            generation: order.generation,
        })
        .await;
    let view = client.job(job).await;
    assert!(view.state == JobState::Completed && !view.completing);
}

/// Starts controllers on copies of a dead one's state, with its write-ahead log cut here and there.
#[tokio::test]
async fn a_log_cut_at_any_byte_of_its_tail_never_stops_the_start() {
    let mut controller = Controller::start();
    let client = controller.client().await;
    for _ in 0..5 {
        client.submit(spec(JobKind::Batch, 0)).await.unwrap();
    }
    controller.kill();
    let state = controller.dir.join("state");
    let mut wal = std::fs::read(state.join("spur.db-wal")).unwrap();
    // Without the zeros ahead of it.
    wal.truncate(wal.iter().rposition(|byte| *byte != 0).unwrap() + 1);
    let mut counts = Vec::new();
    for cut in [
        0,
        1,
        31,
        32,
        33,
        4000,
        wal.len() / 2,
        wal.len() - 4097,
        wal.len() - 1,
        wal.len(),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("state");
        std::fs::create_dir(&copy).unwrap();
        std::fs::copy(state.join("spur.db"), copy.join("spur.db")).unwrap();
        std::fs::write(copy.join("spur.db-wal"), &wal[..cut]).unwrap();
        let mut other = Controller::prepare(folder.path(), &copy, "");
        other.run();
        let client = other.client().await;
        let jobs = client.all().await;
        assert!(
            jobs.iter()
                .map(|job| job.id.0)
                .eq(1..=u32::try_from(jobs.len()).unwrap()),
            "a prefix"
        );
        counts.push(jobs.len());
    }
    assert!(counts.is_sorted());
    assert_eq!((counts[0], counts.last()), (0, Some(&5)));
}

/// A tmpfs that goes when this does.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(path: PathBuf, size: &str) -> Self {
        use rustix::mount::{MountFlags, mount};
        std::fs::create_dir(&path).unwrap();
        let options = std::ffi::CString::new(format!("size={size},mode=0755")).unwrap();
        mount(
            "spur-test",
            &path,
            "tmpfs",
            MountFlags::empty(),
            options.as_c_str(),
        )
        .unwrap();
        Self(path)
    }

    /// Takes all that is left.
    fn fill(&self) -> PathBuf {
        use std::io::Write;
        let path = self.0.join("ballast");
        let mut file = std::fs::File::create(&path).unwrap();
        for size in [65_536, 4096, 512, 1] {
            while file
                .write(&vec![0; size])
                .is_ok_and(|written| written == size)
            {}
        }
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH).ok();
    }
}

/// One that starts now knows what was acknowledged, and refuses in the same way; a changed configuration is said not to be kept.
async fn starts_on_a_full_disk(controller: &mut Controller, known: &[JobId]) {
    controller.kill();
    controller.run();
    let client = controller.client().await;
    let jobs: Vec<JobId> = client.all().await.iter().map(|job| job.id).collect();
    assert_eq!(jobs, known);
    let refusal = client.submit(spec(JobKind::Batch, 1)).await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::NotDurable);
    controller.kill();
    let file = controller.dir.join("spur.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let more = format!("{config}[[partition]]\nname = \"more\"\n");
    std::fs::write(&file, more).unwrap();
    assert_eq!(controller.command().status().unwrap().code(), Some(1));
    let said = controller.log();
    assert!(
        said.contains("the configuration has changed") && said.contains("make room there"),
        "{said}"
    );
    std::fs::write(&file, config).unwrap();
    controller.run();
}

#[tokio::test]
async fn a_full_disk_refuses_clearly_loses_nothing_and_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let disk = SmallDisk::new(folder.path().join("disk"), "4m");
    let mut controller = Controller::prepare(folder.path(), &disk.0.join("state"), "");
    controller.run();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let before = client.submit(spec(JobKind::Batch, 8)).await.unwrap();
    let order = agent.assigned().await;
    agent.launched().await;
    let waiting = client.submit(spec(JobKind::Batch, 8)).await.unwrap();
    client
        .job_until(waiting, "a reason", |view| view.priority > 0)
        .await;

    let ballast = disk.fill();
    let mut refused = 0;
    for _ in 0..20 {
        let refusal = client.submit(spec(JobKind::Batch, 1)).await.unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::NotDurable);
        assert!(
            refusal.text.contains("spur.db") && refusal.text.contains("full"),
            "{}",
            refusal.text
        );
        refused += 1;
    }
    assert_eq!(refused, 20);
    let jobs: Vec<JobId> = client.all().await.iter().map(|job| job.id).collect();
    assert_eq!(jobs, [before, waiting], "nothing half done");
    // What an agent says meanwhile is not acknowledged: its stream ends, and it keeps its report.
    agent
        .step_ended(before, StepKind::Batch, order.generation, 0)
        .await;
    while agent.maybe_next().await.is_some() {}
    assert_eq!(client.job(before).await.state, JobState::Running);

    starts_on_a_full_disk(&mut controller, &[before, waiting]).await;
    let client = controller.client().await;

    std::fs::remove_file(ballast).unwrap();
    let mut back = hello("n1");
    back.jobs = vec![(before, order.generation)];
    let deadline = Instant::now() + PATIENCE;
    let (mut agent, _) = loop {
        match Agent::connect_with(&controller, TOKEN, back.clone()).await {
            Ok(connected) => break connected,
            Err(status) => assert!(Instant::now() < deadline, "{status}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    agent
        .step_ended(before, StepKind::Batch, order.generation, 0)
        .await;
    client.state_until(before, JobState::Completed).await;
    let next = client.submit(spec(JobKind::Batch, 1)).await.unwrap();
    assert_eq!(next, JobId(waiting.0 + 1), "no number was used up");
    controller.kill();
    controller.run();
    let client = controller.client().await;
    assert_eq!(client.all().await.len(), 3);
}

#[tokio::test]
async fn a_log_that_cannot_be_written_ends_nothing() {
    let mut controller = Controller::start();
    controller.kill();
    let full = std::fs::File::options().write(true).open("/dev/full");
    let mut command = controller.command();
    command.stderr(full.unwrap());
    controller.spawn(command);
    let (agent, _) = Agent::connect(&controller, "n1").await;
    drop(agent);
    let client = controller.client().await;
    client.submit(spec(JobKind::Batch, 1)).await.unwrap();
}

#[tokio::test]
async fn a_controller_waits_for_the_last_of_a_killed_one() {
    let mut controller = Controller::start();
    controller.kill();
    // As a thread of it that the kernel has not ended yet, since it writes to the disk.
    let lock = std::fs::File::open(controller.dir.join("state/lock")).unwrap();
    lock.lock().unwrap();
    let late = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        drop(lock);
    });
    controller.run();
    late.join().unwrap();
    let client = controller.client().await;
    assert!(matches!(
        client.ask(&Request::Ping).await,
        Ok(Reply::Pong { .. })
    ));
}

#[tokio::test]
async fn a_second_controller_on_the_same_state_does_not_start() {
    let controller = Controller::start();
    let second = controller.command().status().unwrap();
    assert_eq!(second.code(), Some(1));
    assert!(
        controller.log().contains("another controller uses"),
        "{}",
        controller.log()
    );
    let client = controller.client().await;
    assert!(matches!(
        client.ask(&Request::Ping).await,
        Ok(Reply::Pong { .. })
    ));
}

#[tokio::test]
async fn sigterm_stops_cleanly_and_the_next_start_has_everything() {
    let mut controller = Controller::start();
    let client = controller.client().await;
    let job = client.submit(spec(JobKind::Batch, 0)).await.unwrap();
    let waiting = tokio::spawn(async move { client.0.call(&Request::AwaitEnd { job }).await });
    tokio::task::yield_now().await;
    let begun = Instant::now();
    assert!(controller.terminate().success());
    assert!(begun.elapsed() < PATIENCE);
    assert!(
        matches!(
            waiting.await.unwrap(),
            Err(spur_proto::client::CallError::Lost(_))
        ),
        "told to come back"
    );
    assert!(!controller.dir.join("client.sock").exists());
    controller.run();
    let client = controller.client().await;
    assert_eq!(client.job(job).await.state, JobState::Pending);
    assert_eq!(client.ask(&Request::Shutdown).await, Ok(Reply::Done));
}

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.len())
}

#[tokio::test]
async fn the_log_is_bounded_by_snapshots_that_lose_nothing() {
    let mut controller = Controller::start();
    let client = controller.client().await;
    let mut big = script();
    big.script = [b"#!/bin/sh\n".as_slice(), &vec![b'#'; 1 << 20]].concat();
    for _ in 0..30 {
        let submit = Request::Submit {
            spec: Box::new(spec(JobKind::Batch, 0)),
            payload: Some(big.clone()),
        };
        client.ask(&submit).await.unwrap();
    }
    let wal = controller.dir.join("state/spur.db-wal");
    let deadline = Instant::now() + PATIENCE;
    while size(&wal) > 24 << 20 {
        assert!(
            Instant::now() < deadline,
            "the log grows without bound: {} bytes",
            size(&wal)
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    controller.kill();
    controller.run();
    let client = controller.client().await;
    let jobs = client.jobs(JobFilter::default()).await;
    assert_eq!(jobs.len(), 30);
    for job in jobs {
        assert_eq!(
            client.ask(&Request::Script { job: job.id }).await,
            Ok(Reply::Script(big.script.clone()))
        );
    }
}
