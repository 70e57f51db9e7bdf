//! Calls that wait. Leases, whose time a test should not have to wait for, are tested beside the driver.

use crate::agent::Agent;
use crate::process::{Controller, spec, step};
use spur_core::api::{RefusalKind, Reply, Request};
use spur_core::id::StepKind;
use spur_core::job::spec::JobKind;
use spur_core::job::state::{ExitStatus, JobState};

fn run(gpus: u32, immediate: Option<u64>) -> Request {
    Request::Run {
        spec: Box::new(spec(JobKind::Run, gpus)),
        step: step(),
        immediate,
    }
}

#[tokio::test]
async fn a_dropped_run_takes_its_job_with_it() {
    let controller = Controller::start();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let holder = client.submit(spec(JobKind::Batch, 8)).await.unwrap();
    let order = agent.assigned().await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.ask(&run(1, None)).await }
    });
    let job = loop {
        if let Some(job) = client.all().await.iter().find(|job| job.id != holder) {
            break job.id;
        }
    };
    waiting.abort();
    client.state_until(job, JobState::Cancelled).await;
    agent
        .step_ended(holder, StepKind::Batch, order.generation, 0)
        .await;
    client.state_until(holder, JobState::Completed).await;
}

#[tokio::test]
async fn a_client_that_dies_takes_its_waiting_run_with_it() {
    let controller = Controller::start();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let holder = client.submit(spec(JobKind::Batch, 8)).await.unwrap();
    agent.assigned().await;
    let other = controller.client().await;
    let waiting = tokio::spawn(async move { other.ask(&run(1, None)).await });
    let job = loop {
        if let Some(job) = client.all().await.iter().find(|job| job.id != holder) {
            break job.id;
        }
    };
    // The whole connection goes, as with the process.
    waiting.abort();
    drop(waiting.await);
    client.state_until(job, JobState::Cancelled).await;
}

#[tokio::test]
async fn what_cannot_start_at_once_is_refused_if_so_asked() {
    let controller = Controller::start();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    client.submit(spec(JobKind::Batch, 8)).await.unwrap();
    agent.assigned().await;
    let refusal = client.ask(&run(1, Some(0))).await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::CannotStartImmediately);
    let states: Vec<JobState> = client.all().await.iter().map(|job| job.state).collect();
    assert_eq!(states, [JobState::Running, JobState::Cancelled]);
}

#[tokio::test]
async fn an_allocation_is_awaited_used_and_given_back() {
    let controller = Controller::start();
    let client = controller.client().await;
    let job = client.submit(spec(JobKind::Alloc, 2)).await.unwrap();
    let allocated = tokio::spawn({
        let client = client.clone();
        async move { client.ask(&Request::AwaitAllocation { job }).await }
    });
    let (mut agent, welcome) = Agent::connect(&controller, "n1").await;
    let Ok(Reply::Allocated { job: view }) = allocated.await.unwrap() else {
        panic!("no allocation")
    };
    assert_eq!(view.nodes[0].share.gpus.len(), 2);
    let order = &welcome.jobs[0];
    assert_eq!(order.job, job, "placed in the turn in which the node came");
    for number in 0..2 {
        let Ok(Reply::Granted(grant)) = client.ask(&Request::Step { job, step: step() }).await
        else {
            panic!("no grant")
        };
        assert_eq!(grant.step.step, StepKind::Numbered(number));
        assert_eq!(agent.launched().await.step, grant.step.step);
        agent
            .step_ended(job, grant.step.step, order.generation, 0)
            .await;
        client
            .job_until(job, "step ended", |view| {
                view.steps.iter().all(|step| step.ended.is_some())
            })
            .await;
    }
    let end = tokio::spawn({
        let client = client.clone();
        async move { client.ask(&Request::AwaitEnd { job }).await }
    });
    let finish = Request::Finish {
        job,
        exit: ExitStatus { code: 7, signal: 0 },
    };
    assert_eq!(client.ask(&finish).await, Ok(Reply::Done));
    assert_eq!(agent.revoked().await.0, job);
    let Ok(Reply::Ended { job: view }) = end.await.unwrap() else {
        panic!("no end")
    };
    assert_eq!(view.exit.code, 7);
}

#[tokio::test]
async fn a_job_that_is_cancelled_while_somebody_waits_for_it_says_so() {
    let controller = Controller::start();
    let client = controller.client().await;
    // No node is there, so the core must know one for the request to make sense.
    let (agent, _) = Agent::connect(&controller, "n1").await;
    drop(agent);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move {
            client
                .ask(&run(9, None))
                .await
                .map_err(|refusal| refusal.kind)
        }
    });
    assert_eq!(
        waiting.await.unwrap(),
        Err(RefusalKind::NodeConfigUnavailable),
        "9 GPUs of 8"
    );
    let waiting = tokio::spawn({
        let client = client.clone();
        async move {
            client
                .ask(&run(8, None))
                .await
                .map_err(|refusal| refusal.kind)
        }
    });
    let job = loop {
        if let Some(job) = client.all().await.first() {
            break job.id;
        }
    };
    assert_eq!(client.cancel(job).await, None);
    assert_eq!(waiting.await.unwrap(), Err(RefusalKind::JobEnded));
}
