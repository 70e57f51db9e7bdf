//! The life of jobs.

use crate::agent::{Agent, hello};
use crate::process::{Controller, script, spec, step};
use spur_core::agent::order::{Report, ToAgent};
use spur_core::api::{JobFilter, RefusalKind, Reply, Request};
use spur_core::id::{JobId, StepKind, Uid};
use spur_core::job::spec::JobKind;
use spur_core::job::state::{ExitStatus, JobState, Reason};
use spur_core::time::{Millis, TimeLimit};

#[tokio::test]
async fn a_batch_job_runs_from_submission_to_a_clean_node() {
    let controller = Controller::start();
    let (mut agent, welcome) = Agent::connect(&controller, "n1").await;
    assert!(welcome.jobs.is_empty() && welcome.steps.is_empty());
    let client = controller.client().await;
    let job = client.submit(spec(JobKind::Batch, 2)).await.unwrap();
    assert_eq!(job, JobId(1));
    let order = agent.assigned().await;
    assert_eq!(
        (order.job, order.owner.uid, order.cluster.as_str()),
        (job, Uid(0), "test"),
        "the owner is the caller"
    );
    assert_eq!(order.nodes[0].share.gpus.len(), 2);
    let launch = agent.launched().await;
    assert_eq!(
        (launch.job, launch.step, launch.generation),
        (job, StepKind::Batch, order.generation)
    );
    let batch = launch.batch.unwrap();
    assert_eq!(batch.payload, script());
    assert_eq!(
        (batch.stdout.as_str(), batch.stderr.as_str()),
        ("slurm-1.out", "slurm-1.out")
    );
    assert_eq!(client.job(job).await.state, JobState::Running);

    agent
        .step_ended(job, StepKind::Batch, order.generation, 3)
        .await;
    assert_eq!(agent.revoked().await, (job, order.generation));
    let view = client.state_until(job, JobState::Failed).await;
    assert!(view.completing, "it holds its GPUs until the node is clean");
    assert_eq!((view.exit.code, view.reason), (3, Reason::NonZeroExitCode));
    agent.cleaned(job, order.generation).await;
    client
        .job_until(job, "clean", |view| !view.completing)
        .await;
    let script = client.ask(&Request::Script { job }).await.unwrap();
    assert_eq!(script, Reply::Script(b"#!/bin/sh\ntrue\n".to_vec()));
}

#[tokio::test]
async fn two_jobs_never_share_a_gpu_and_one_is_granted_again_only_when_clean() {
    let controller = Controller::start();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let first = client.submit(spec(JobKind::Batch, 5)).await.unwrap();
    let held = agent.assigned().await;
    agent.launched().await;
    let second = client.submit(spec(JobKind::Batch, 4)).await.unwrap();
    let third = client.submit(spec(JobKind::Batch, 3)).await.unwrap();
    let other = agent.assigned().await;
    assert_eq!(
        other.job, third,
        "what fits is not blocked by what does not"
    );
    agent.launched().await;
    assert!(
        !held.nodes[0]
            .share
            .gpus
            .intersects(&other.nodes[0].share.gpus)
    );
    client
        .job_until(second, "a reason", |view| view.reason == Reason::Resources)
        .await;

    assert_eq!(client.cancel(first).await, None);
    assert_eq!(agent.revoked().await, (first, held.generation));
    let view = client.state_until(first, JobState::Cancelled).await;
    assert!(view.completing);
    // A report that is acknowledged is behind every decision before it: still nothing for the second job.
    agent
        .report_durably(Report::Cleaned {
            job: JobId(99),
            generation: held.generation,
        })
        .await;
    assert_eq!(
        client.job(second).await.state,
        JobState::Pending,
        "no GPU is granted before it is free"
    );
    agent.cleaned(first, held.generation).await;
    let last = agent.assigned().await;
    assert_eq!(last.job, second);
    assert!(
        !last.nodes[0]
            .share
            .gpus
            .intersects(&other.nodes[0].share.gpus)
    );
}

#[tokio::test]
async fn a_run_is_submitted_placed_and_granted_in_one_call() {
    let controller = Controller::start();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let run = Request::Run {
        spec: Box::new(spec(JobKind::Run, 1)),
        step: step(),
        immediate: None,
    };
    let Reply::Granted(grant) = client.ask(&run).await.unwrap() else {
        panic!("no grant")
    };
    assert_eq!(grant.nodes.len(), 1);
    assert_eq!(
        (
            grant.nodes[0].name.as_str(),
            grant.nodes[0].address.as_str()
        ),
        ("n1", "unix:/nowhere/n1")
    );
    let Reply::Stats(stats) = client.ask(&Request::Stats).await.unwrap() else {
        panic!("no stats")
    };
    assert!(
        stats.log_batches <= 2,
        "one commit for the node, one for submission, placement and grant: {stats:?}"
    );

    let order = agent.assigned().await;
    let launch = agent.launched().await;
    assert_eq!(
        (launch.job, launch.step),
        (grant.step.job, StepKind::Numbered(0))
    );
    assert_eq!(launch.batch, None);
    let key = crate::process::TOKEN.as_bytes();
    let ticket = spur_proto::ticket::verify(key, &grant.nodes[0].ticket, Millis(0)).unwrap();
    assert_eq!(
        (ticket.uid, ticket.generation, ticket.step),
        (Uid(0), order.generation, grant.step)
    );

    let end = tokio::spawn({
        let (client, job) = (client.clone(), grant.step.job);
        async move { client.ask(&Request::AwaitEnd { job }).await }
    });
    agent
        .step_ended(order.job, StepKind::Numbered(0), order.generation, 0)
        .await;
    let Ok(Reply::Ended { job }) = end.await.unwrap() else {
        panic!("no end")
    };
    assert_eq!((job.state, job.exit.code), (JobState::Completed, 0));
}

#[tokio::test]
async fn a_gang_gets_all_of_its_nodes_or_none() {
    let controller = Controller::start();
    let (mut one, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let (mut two, _) = Agent::connect(&controller, "n2").await;
    let small = client.submit(spec(JobKind::Batch, 8)).await.unwrap();
    let held = one.assigned().await;
    one.launched().await;
    let mut gang = spec(JobKind::Batch, 8);
    (gang.nodes_min, gang.nodes_max, gang.nodes_set) = (2, 2, true);
    (gang.tasks, gang.tasks_set) = (4, true);
    let gang = client.submit(gang).await.unwrap();
    client
        .job_until(gang, "a reason", |view| view.reason == Reason::Resources)
        .await;
    // One that has ended, by its limit, before the gang's nodes are free at the latest.
    let mut brief = spec(JobKind::Batch, 1);
    brief.time_limit = Some(TimeLimit::Secs(60));
    let fits = client.submit(brief).await.unwrap();
    let fitting = two.assigned().await;
    two.launched().await;
    assert_eq!(fitting.job, fits);
    one.step_ended(small, StepKind::Batch, held.generation, 0)
        .await;
    two.step_ended(fits, StepKind::Batch, fitting.generation, 0)
        .await;
    one.revoked().await;
    two.revoked().await;
    one.cleaned(small, held.generation).await;
    two.cleaned(fits, fitting.generation).await;
    let parts = [one.assigned().await, two.assigned().await];
    assert!(
        parts
            .iter()
            .all(|part| part.job == gang && part.nodes.len() == 2)
    );
    assert_eq!(parts.map(|part| part.index), [0, 1]);
}

#[tokio::test]
async fn a_node_that_cannot_start_a_job_rests_and_the_job_is_held_with_the_reason() {
    let controller = Controller::start();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let job = client.submit(spec(JobKind::Batch, 1)).await.unwrap();
    let order = agent.assigned().await;
    let why = "the canary was not refused".to_owned();
    agent
        .report(Report::LaunchFailed {
            job,
            generation: order.generation,
            why,
            node_fault: true,
        })
        .await;
    let view = client
        .job_until(job, "held", |view| view.reason == Reason::LaunchFailedHeld)
        .await;
    assert_eq!(view.reason_text, "n1: the canary was not refused");
    let Reply::Nodes(nodes) = client.ask(&Request::Nodes).await.unwrap() else {
        panic!("no nodes")
    };
    let trouble = nodes[0].node.trouble.as_ref().expect("it rests");
    assert_eq!(trouble.why, "the canary was not refused");
    assert!(nodes[0].node.is_resting());
    let Reply::Explanation(why) = client.ask(&Request::Explain { job }).await.unwrap() else {
        panic!("no explanation")
    };
    assert_eq!(why.words, "launch failed requeued held");
    assert_eq!(why.cause, "n1: the canary was not refused");
}

#[tokio::test]
async fn a_second_connection_of_a_node_replaces_the_first_and_learns_all_it_should_have() {
    let controller = Controller::start();
    let (mut first, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let job = client.submit(spec(JobKind::Batch, 1)).await.unwrap();
    let order = first.assigned().await;
    let mut again = hello("n1");
    again.jobs = vec![(job, order.generation)];
    let (mut second, welcome) = Agent::connect_with(&controller, crate::process::TOKEN, again)
        .await
        .unwrap();
    assert_eq!(welcome.jobs, std::slice::from_ref(&order));
    assert_eq!(welcome.steps.len(), 1);
    assert_eq!(
        welcome.steps[0].batch.as_ref().unwrap().payload,
        script(),
        "read back from the store"
    );
    while first.maybe_next().await.is_some() {}
    first
        .step_ended(job, StepKind::Batch, order.generation, 1)
        .await;
    second
        .step_ended(job, StepKind::Batch, order.generation, 0)
        .await;
    assert_eq!(second.revoked().await.0, job);
    assert_eq!(
        client.job(job).await.state,
        JobState::Completed,
        "the old stream is not listened to"
    );
}

#[tokio::test]
async fn a_wrong_token_gets_nowhere() {
    let controller = Controller::start();
    let refused = Agent::connect_with(
        &controller,
        "not the token, but just as long!!",
        hello("n1"),
    )
    .await;
    assert_eq!(refused.err().unwrap().code(), tonic::Code::Unauthenticated);
    let client = controller.client().await;
    assert_eq!(
        client.ask(&Request::Nodes).await.unwrap(),
        Reply::Nodes(vec![])
    );
}

#[tokio::test]
async fn signals_reach_the_agents_and_nothing_is_logged_for_them() {
    let controller = Controller::start();
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let client = controller.client().await;
    let job = client.submit(spec(JobKind::Batch, 1)).await.unwrap();
    agent.assigned().await;
    agent.launched().await;
    let filter = JobFilter {
        ids: vec![job, JobId(77)],
        ..JobFilter::default()
    };
    let signal = Request::Cancel {
        filter,
        signal: Some(10),
        batch_only: true,
        step: None,
        children: false,
    };
    let Reply::PerJob(outcomes) = client.ask(&signal).await.unwrap() else {
        panic!("no outcomes")
    };
    assert_eq!(outcomes[0], (job, None));
    assert_eq!(
        outcomes[1].1.as_ref().unwrap().kind,
        RefusalKind::InvalidJobId
    );
    let expected = ToAgent::Signal {
        job,
        step: Some(StepKind::Batch),
        signal: 10,
        group: false,
    };
    assert_eq!(agent.order().await, expected);
    assert_eq!(client.job(job).await.state, JobState::Running);
}

#[tokio::test]
async fn an_ended_job_cannot_be_cancelled_and_an_unknown_one_is_named() {
    let controller = Controller::start();
    let client = controller.client().await;
    let (mut agent, _) = Agent::connect(&controller, "n1").await;
    let job = client.submit(spec(JobKind::Batch, 0)).await.unwrap();
    let order = agent.assigned().await;
    agent
        .step_ended(job, StepKind::Batch, order.generation, 0)
        .await;
    client.state_until(job, JobState::Completed).await;
    assert_eq!(
        client.cancel(job).await.unwrap().kind,
        RefusalKind::AlreadyDone
    );
    let finish = Request::Finish {
        job,
        exit: ExitStatus::default(),
    };
    assert_eq!(
        client.ask(&finish).await.unwrap_err().kind,
        RefusalKind::AlreadyDone
    );
    let filter = JobFilter {
        ids: vec![JobId(9)],
        ..JobFilter::default()
    };
    assert_eq!(
        client
            .ask(&Request::Jobs { filter })
            .await
            .unwrap_err()
            .kind,
        RefusalKind::InvalidJobId
    );
}
