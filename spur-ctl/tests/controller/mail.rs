//! Mail to owners of jobs.

use crate::agent::Agent;
use crate::process::{Asker, Controller, PATIENCE, spec};
use spur_core::api::{JobFilter, Reply, Request};
use spur_core::id::{JobId, StepKind};
use spur_core::job::spec::{JobKind, JobSpec};
use spur_core::job::state::JobState;
use spur_core::time::TimeLimit;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Instant;

/// A controller whose mail program does this with the subject in `$2`; its lines are in `sent`.
fn mailing(folder: &Path, script: &str) -> Controller {
    let program = folder.join("mail");
    let sent = folder.join("sent");
    let text = format!("#!/bin/sh\nsent={}\n{script}\n", sent.display());
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let more = format!("mail_prog = {program:?}\nmail_domain = \"example.org\"\n");
    let mut controller = Controller::prepare(folder, &folder.join("state"), &more);
    controller.run();
    controller
}

const WRITES: &str = "echo \"$3 $SLURM_JOB_ID $SLURM_JOB_STATE $2\" >> $sent";

fn mailed(mut spec: JobSpec) -> JobSpec {
    spec.name = "x".to_owned();
    spec.extras_mut().mail_type = "BEGIN,END,FAIL".to_owned();
    spec
}

async fn sent(folder: &Path, lines: usize) -> Vec<String> {
    let end = Instant::now() + PATIENCE;
    loop {
        let text = std::fs::read_to_string(folder.join("sent")).unwrap_or_default();
        if text.lines().count() >= lines {
            return text.lines().map(str::to_owned).collect();
        }
        assert!(Instant::now() < end, "{text}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// The line without the time that is in it.
fn timeless(line: &str) -> String {
    let (head, tail) = line.split_once(" time ").unwrap();
    format!("{head} time T{}", tail.get(8..).unwrap())
}

async fn completes(client: &Asker, agent: &mut Agent) -> JobId {
    let job = client
        .submit(mailed(spec(JobKind::Batch, 1)))
        .await
        .unwrap();
    let order = agent.assigned().await;
    agent.launched().await;
    agent
        .step_ended(job, StepKind::Batch, order.generation, 0)
        .await;
    agent.revoked().await;
    agent.cleaned(job, order.generation).await;
    client.state_until(job, JobState::Completed).await;
    job
}

#[tokio::test]
async fn owners_hear_of_begin_and_end_once_also_across_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut controller = mailing(folder.path(), WRITES);
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let job = completes(&client, &mut agent).await;
    let line = |end: &str| format!("root@example.org {job} {end}");
    let expected = [
        line(&format!(
            "RUNNING Slurm Job_id={job} Name=x Began, Queued time T"
        )),
        line(&format!(
            "COMPLETED Slurm Job_id={job} Name=x Ended, Run time T, COMPLETED, ExitCode 0"
        )),
    ];
    let mut lines: Vec<String> = sent(folder.path(), 2)
        .await
        .iter()
        .map(|line| timeless(line))
        .collect();
    lines.sort();
    let mut sorted = expected.to_vec();
    sorted.sort();
    assert_eq!(lines, sorted);
    controller.kill();
    controller.run();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    completes(&controller.client().await, &mut agent).await;
    assert_eq!(
        sent(folder.path(), 4).await.len(),
        4,
        "what was replayed is not told again"
    );
}

#[tokio::test]
async fn a_mail_program_that_hangs_or_fails_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let script = "case \"$2\" in *Began*) exec sleep 600;; *) echo no >&2; exit 1;; esac";
    let mut controller = mailing(folder.path(), script);
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    for _ in 0..12 {
        completes(&client, &mut agent).await;
    }
    assert!(controller.terminate().success());
}

#[tokio::test]
async fn a_job_that_cannot_end_in_time_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let mut controller = mailing(folder.path(), WRITES);
    let client = controller.client().await;
    let mut late = mailed(spec(JobKind::Batch, 0));
    late.time_limit = Some(TimeLimit::Secs(60));
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let now = u64::try_from(now.as_millis()).unwrap();
    late.extras_mut().deadline = Some(spur_core::time::Millis(now + 62_000));
    let job = client.submit(late).await.unwrap();
    client.state_until(job, JobState::Deadline).await;
    let line = sent(folder.path(), 1).await.remove(0);
    let words = format!(
        "root@example.org {job} DEADLINE Slurm Job_id={job} Name=x Failed, Run time T, DEADLINE"
    );
    assert_eq!(timeless(&line), words);
    controller.kill();
    controller.run();
    let client = controller.client().await;
    let filter = JobFilter {
        states: vec![JobState::Deadline],
        ..JobFilter::default()
    };
    let Reply::Jobs(rows) = client.ask(&Request::Jobs { filter }).await.unwrap() else {
        panic!("no rows");
    };
    assert_eq!(rows.len(), 1);
}
