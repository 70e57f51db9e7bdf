//! What the fence refused: told exactly, kept with the job, shown to those whom it concerns.

use crate::agent::{Agent, hello};
use crate::process::{Asker, Controller, TOKEN, spec};
use spur_core::agent::order::{FromAgent, Report};
use spur_core::api::{NodeRows, RefusalKind, Reply, Request};
use spur_core::denial::{
    Denial, DenialCount, DenialKey, DenialLabel, DenialReason, DenialRow, DeviceOp, JobRows,
};
use spur_core::id::{JobId, NodeName, StepKind, Uid};
use spur_core::job::spec::JobKind;
use spur_core::time::Millis;

fn denial(job: JobId, at: u64, op: DeviceOp) -> Denial {
    Denial {
        at: Millis(at),
        node: NodeName::new("somebody-else").unwrap(),
        job,
        pid: 42,
        uid: Uid(0),
        command: "cat".into(),
        major: 120,
        minor: 3,
        device: "/dev/gpu3".into(),
        op,
        seq: 0,
        reason: DenialReason::NotGranted,
        target_pid: None,
        object: String::new(),
        noted: false,
        label: None,
    }
}

fn row(op: DeviceOp, total: u64) -> DenialRow {
    DenialRow {
        key: DenialKey {
            major: 120,
            minor: 3,
            device: "/dev/gpu3".into(),
            op,
            reason: DenialReason::NotGranted,
            noted: false,
            label: Some(DenialLabel::KfdProbe),
        },
        total,
    }
}

fn said(events: Vec<Denial>) -> FromAgent {
    FromAgent::Denials {
        counts: Vec::new(),
        events,
        rows: Vec::new(),
    }
}

/// Waits until there are lines after this one, and takes them all.
async fn next(client: &Asker, job: Option<JobId>, after: u64, alarms: bool) -> Vec<Denial> {
    let request = Request::Denials {
        job,
        limit: 10_000,
        after,
        alarms,
        wait: true,
    };
    match client.ask(&request).await {
        Ok(Reply::Denials(denials)) => denials,
        other => panic!("no refusals: {other:?}"),
    }
}

async fn rows(client: &Asker, job: JobId) -> Vec<NodeRows> {
    match client.ask(&Request::DenialRows { job }).await {
        Ok(Reply::DenialRows(rows)) => rows,
        other => panic!("no rows: {other:?}"),
    }
}

#[tokio::test]
async fn refusals_are_told_with_exact_totals() {
    let controller = Controller::start();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let job = client.submit(spec(JobKind::Batch, 1)).await.unwrap();
    let order = agent.assigned().await;
    for n in 1..=50u64 {
        let count = DenialCount {
            total: n * 20_000,
            suppressed: n * 19_900,
        };
        let jobs = JobRows {
            job,
            generation: order.generation,
            since: Millis(1),
            rows: vec![row(DeviceOp::ReadWrite, n * 90)],
        };
        let events = (0..100).map(|at| denial(job, at, DeviceOp::Read));
        agent
            .say(FromAgent::Denials {
                counts: vec![(job, count)],
                events: events.collect(),
                rows: vec![jobs],
            })
            .await;
    }
    let view = client
        .job_until(job, "all refusals", |view| view.denials.total == 1_000_000)
        .await;
    assert_eq!(view.denials.suppressed, 995_000);
    let mut newest = next(&client, Some(job), 4999, false).await;
    let last = newest.pop().unwrap();
    assert_eq!((last.seq, last.at), (5000, Millis(99)));
    assert_eq!(
        (last.node.as_str(), last.device.as_str()),
        ("n1", "/dev/gpu3"),
        "a node speaks only for itself"
    );
    let rows = rows(&client, job).await;
    assert_eq!(rows[0].rows, [row(DeviceOp::ReadWrite, 4500)]);
    let Reply::Stats(stats) = client.ask(&Request::Stats).await.unwrap() else {
        panic!("no stats")
    };
    assert!(
        stats.log_entries < 30,
        "a flood is a few entries: {stats:?}"
    );
}

#[tokio::test]
async fn what_was_shown_outlives_kill_9_and_goes_with_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let mut controller = Controller::prepare(folder.path(), &state, "min_job_age = 2");
    controller.run();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let job = client.submit(spec(JobKind::Batch, 1)).await.unwrap();
    let order = agent.assigned().await;
    for at in 0..20 {
        agent.say(said(vec![denial(job, at, DeviceOp::Read)])).await;
    }
    let mut shown = Vec::new();
    while shown.len() < 20 {
        let after = shown.last().map_or(0, |denial: &Denial| denial.seq);
        shown.extend(next(&client, Some(job), after, false).await);
    }
    controller.kill();

    controller.run();
    let client = controller.client().await;
    assert_eq!(next(&client, Some(job), 0, false).await, shown);
    let mut back = hello("n1");
    back.jobs = vec![(job, order.generation)];
    let (mut agent, _) = Agent::connect_with(&controller, TOKEN, back).await.unwrap();
    agent.say(said(vec![denial(job, 99, DeviceOp::Read)])).await;
    let more = next(&client, None, shown[19].seq, false).await;
    assert_eq!(
        (more.len(), more[0].at),
        (1, Millis(99)),
        "no line is shown twice"
    );

    agent
        .step_ended(job, StepKind::Batch, order.generation, 0)
        .await;
    let generation = order.generation;
    agent
        .report_durably(Report::Cleaned { job, generation })
        .await;
    let gone = loop {
        let request = Request::DenialRows { job };
        match client.ask(&request).await {
            Ok(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(gone.kind, RefusalKind::InvalidJobId);
    let request = Request::Denials {
        job: None,
        limit: 10,
        after: 0,
        alarms: false,
        wait: false,
    };
    let left = client.ask(&request).await.unwrap();
    assert_eq!(left, Reply::Denials(Vec::new()), "purged with its job");
}

#[tokio::test]
async fn an_alarm_is_logged_once_for_each_job_and_kind() {
    let controller = Controller::start();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let job = client.submit(spec(JobKind::Batch, 1)).await.unwrap();
    agent.assigned().await;
    let noted = Denial {
        noted: true,
        ..denial(job, 1, DeviceOp::Unpin)
    };
    let mut events = vec![denial(job, 0, DeviceOp::Read), noted];
    for at in 2..100 {
        events.push(denial(job, at, DeviceOp::Bpf));
        events.push(denial(job, at, DeviceOp::Ptrace));
    }
    agent.say(said(events)).await;
    let alarms = next(&client, None, 0, true).await;
    assert_eq!(alarms.len(), 196, "others are no alarms");
    let log = controller.log();
    let count = |word: &str| log.matches(&format!("refused {word}, which")).count();
    assert_eq!(
        ["bpf", "ptrace", "unpin", "open-read"].map(count),
        [1, 1, 0, 0],
        "{log}"
    );
}
