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

/// `spur WORDS…` as a process of this user: all that came of it.
fn spur(controller: &Controller, uid: u32, words: &[&str]) -> String {
    use std::os::unix::process::CommandExt as _;
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_spur"))
        .args(words)
        .env_clear()
        .env("SPUR_CONTROLLER", controller.address())
        .env("TZ", "UTC0")
        .uid(uid)
        .gid(uid)
        .output()
        .unwrap();
    format!(
        "{}--- stderr\n{}--- exit {}\n",
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
        output.status.code().unwrap()
    )
}

const LINE: &str = "Denied=2026-11-30T01:41:00 JobId=1 Node=n1 Pid=42 UserId=root(0) Command=cat Device=/dev/gpu3(120:3) \
                    Op=open-read Reason=not-granted\n";

fn alarm_line() -> String {
    LINE.replace("41:00", "41:01").replace("open-read", "bpf")
}

/// A controller with job 1 of root, which was refused three times: an open, an alarm, and one without a line.
async fn with_a_refused_job() -> (Controller, Agent) {
    let controller = Controller::start();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let job = client.submit(spec(JobKind::Batch, 1)).await.unwrap();
    let order = agent.assigned().await;
    let count = DenialCount {
        total: 3,
        suppressed: 1,
    };
    let jobs = JobRows {
        job,
        generation: order.generation,
        since: Millis(1),
        rows: vec![row(DeviceOp::ReadWrite, 2)],
    };
    agent
        .say(FromAgent::Denials {
            counts: vec![(job, count)],
            events: vec![
                denial(job, 1_796_002_860_000, DeviceOp::Read),
                denial(job, 1_796_002_861_000, DeviceOp::Bpf),
            ],
            rows: vec![jobs],
        })
        .await;
    client
        .job_until(job, "the count", |view| view.denials.total == 3)
        .await;
    next(&client, Some(job), 1, false).await;
    (controller, agent)
}

#[tokio::test]
async fn the_commands_show_a_job() {
    let (controller, _agent) = with_a_refused_job().await;
    let shown = spur(&controller, 0, &["fence", "show", "1"]);
    let rows = "Refused: 3 in all, 1 without a line of their own\n    \
                n1 /dev/gpu3 (120:3) open-read-write not-granted kfd-probe: 2\n    \
                1 more, too many or too fast to tell apart\n--- stderr\n--- exit 0\n";
    assert!(shown.ends_with(rows), "{shown}");
    let alarm = alarm_line();
    let all = format!("{LINE}{alarm}--- stderr\n--- exit 0\n");
    assert_eq!(spur(&controller, 0, &["fence", "log"]), all);
    assert_eq!(spur(&controller, 0, &["fence", "log", "1"]), all);
    let alarms = format!("{alarm}--- stderr\n--- exit 0\n");
    assert_eq!(spur(&controller, 0, &["fence", "log", "--alarms"]), alarms);
    for verb in ["show", "explain"] {
        let json = spur(&controller, 0, &["fence", verb, "1", "--json"]);
        let (object, rest) = json.split_once('\n').unwrap();
        assert_eq!(rest, "--- stderr\n--- exit 0\n");
        let object: serde_json::Value = serde_json::from_str(object).unwrap();
        assert_eq!(
            (&object["job"], &object["refused"]["total"]),
            (&1.into(), &3.into())
        );
    }
    let json = spur(&controller, 0, &["fence", "log", "--json"]);
    for (line, op) in json.lines().zip(["open-read", "bpf"]) {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(object["op"], op);
    }
}

/// An operator, a stranger, a job that is not there, words that make no sense.
#[tokio::test]
async fn the_commands_show_a_job_to_those_who_may_see_it() {
    let (controller, _agent) = with_a_refused_job().await;
    let all = format!("{LINE}{}--- stderr\n--- exit 0\n", alarm_line());
    // `daemon` is an operator; the other user has nothing to do with it.
    assert_eq!(spur(&controller, 1, &["fence", "log"]), all);
    let empty = "--- stderr\n--- exit 0\n";
    assert_eq!(spur(&controller, 65_534, &["fence", "log"]), empty);
    let says = |why: &str| format!("--- stderr\nspur fence: error: {why}\n--- exit 1\n");
    for verb in ["log", "show", "explain"] {
        let denied = says("Access/permission denied");
        assert_eq!(spur(&controller, 65_534, &["fence", verb, "1"]), denied);
        let unknown = says("Invalid job id specified");
        assert_eq!(spur(&controller, 0, &["fence", verb, "99"]), unknown);
        assert_eq!(spur(&controller, 0, &["fence", verb, "1_2"]), unknown);
        let nonsense = says("Invalid job id: x");
        assert_eq!(spur(&controller, 0, &["fence", verb, "x"]), nonsense);
    }
    let alone = says("name a job, or run this within one");
    assert_eq!(spur(&controller, 0, &["fence", "show"]), alone);
    let mixed = says("--follow goes with log");
    assert_eq!(spur(&controller, 0, &["fence", "show", "1", "-f"]), mixed);
}

/// `log -f` in one process while refusals come, over a controller's death.
#[tokio::test]
async fn a_followed_log_goes_on_after_the_controller_s_death() {
    use std::io::BufRead as _;
    let mut controller = Controller::start();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let job = client.submit(spec(JobKind::Batch, 1)).await.unwrap();
    let order = agent.assigned().await;
    let mut follower = std::process::Command::new(env!("CARGO_BIN_EXE_spur"))
        .args(["fence", "log", "--follow", "--json"])
        .env("SPUR_CONTROLLER", controller.address())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(follower.stdout.take().unwrap()).lines();
    let (send, mut lines_seen) = tokio::sync::mpsc::channel(100);
    let reader = std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let object: serde_json::Value = serde_json::from_str(&line).unwrap();
            if send
                .blocking_send(object["at_ms"].as_u64().unwrap())
                .is_err()
            {
                return;
            }
        }
    });
    agent.say(said(vec![denial(job, 1, DeviceOp::Read)])).await;
    assert_eq!(lines_seen.recv().await, Some(1));
    agent.say(said(vec![denial(job, 2, DeviceOp::Read)])).await;
    assert_eq!(lines_seen.recv().await, Some(2));
    controller.kill();
    controller.run();
    let mut back = hello("n1");
    back.jobs = vec![(job, order.generation)];
    let (agent, _) = Agent::connect_with(&controller, TOKEN, back).await.unwrap();
    agent.say(said(vec![denial(job, 3, DeviceOp::Read)])).await;
    assert_eq!(lines_seen.recv().await, Some(3), "each line once");
    follower.kill().unwrap();
    follower.wait().unwrap();
    drop(lines_seen);
    reader.join().unwrap();
}
