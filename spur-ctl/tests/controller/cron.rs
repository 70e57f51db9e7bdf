//! Crontabs.

use crate::agent::Agent;
use crate::process::{Controller, script, spec};
use spur_core::api::{RefusalKind, Reply, Request, SetCrontab};
use spur_core::id::{JobId, StepKind, Uid};
use spur_core::job::extras::Cron;
use spur_core::job::spec::{JobKind, JobSpec};
use spur_core::job::state::JobState;

fn entry(times: &str) -> JobSpec {
    let mut spec = spec(JobKind::Batch, 0);
    spec.extras_mut().cron = Some(Cron {
        times: times.to_owned(),
        utc_offset: 0,
        first_line: 3,
        last_line: 4,
    });
    spec
}

fn set(user: Option<Uid>, specs: Vec<JobSpec>) -> Request {
    Request::SetCrontab(Box::new(SetCrontab {
        user,
        table: Some("# mine\n".to_owned()),
        payloads: specs.iter().map(|_| script()).collect(),
        specs,
    }))
}

fn table(user: Option<Uid>) -> Request {
    Request::Crontab { user }
}

#[tokio::test]
async fn a_table_is_kept_and_its_jobs_run_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut controller = Controller::prepare(folder.path(), &folder.path().join("state"), "");
    controller.run();
    let client = controller.client().await;
    assert_eq!(
        client.ask(&table(None)).await.unwrap(),
        Reply::Crontab { table: None }
    );
    let request = set(None, vec![entry("@hourly"), entry("*/10 1 * * sun")]);
    assert_eq!(client.ask(&request).await.unwrap(), Reply::Done);
    let shown = client.job(JobId(2)).await;
    assert_eq!(shown.state, JobState::Pending);
    assert_eq!(
        shown.spec.extras().cron.as_ref().unwrap().times,
        "0,10,20,30,40,50 1 * * 0"
    );
    assert!(shown.eligible > shown.submitted);
    controller.kill();
    controller.run();
    let client = controller.client().await;
    let kept = Reply::Crontab {
        table: Some("# mine\n".to_owned()),
    };
    assert_eq!(client.ask(&table(None)).await.unwrap(), kept);
    // A minute at most until it begins, and its next time after that.
    let request = set(None, vec![entry("* * * * *")]);
    assert_eq!(client.ask(&request).await.unwrap(), Reply::Done);
    client.state_until(JobId(1), JobState::Cancelled).await;
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let order = tokio::time::timeout(std::time::Duration::from_secs(120), agent.assigned()).await;
    let order = order.unwrap();
    assert_eq!(order.job, JobId(3));
    agent.launched().await;
    agent
        .step_ended(order.job, StepKind::Batch, order.generation, 0)
        .await;
    agent.revoked().await;
    agent.cleaned(order.job, order.generation).await;
    let waits = client
        .job_until(order.job, "its next time", |view| {
            view.state == JobState::Pending
        })
        .await;
    assert!(waits.eligible > waits.submitted && waits.restarts == 0);
}

#[tokio::test]
async fn what_is_no_entry_is_refused_as_a_whole() {
    let controller = Controller::start();
    let client = controller.client().await;
    let refused = async |spec: JobSpec| {
        let request = set(None, vec![entry("@daily"), spec]);
        client.ask(&request).await.unwrap_err()
    };
    let mut elsewhere = entry("@daily");
    elsewhere.partition = "nowhere".to_owned();
    let refusal = refused(elsewhere).await;
    assert_eq!(refusal.kind, RefusalKind::InvalidPartition);
    assert!(refusal.text.starts_with("3-4: "), "{}", refusal.text);
    assert_eq!(refused(entry("soon")).await.kind, RefusalKind::Invalid);
    assert_eq!(
        refused(spec(JobKind::Batch, 0)).await.kind,
        RefusalKind::Invalid
    );
    let mut array = entry("@daily");
    array.array = "1-3".to_owned();
    assert_eq!(refused(array).await.kind, RefusalKind::InvalidArray);
    assert_eq!(
        client.ask(&table(None)).await.unwrap(),
        Reply::Crontab { table: None }
    );
    // An ordinary submission makes no entry of itself.
    let job = client.submit(entry("* * * * *")).await.unwrap();
    assert!(client.job(job).await.spec.extras().cron.is_none());
}
