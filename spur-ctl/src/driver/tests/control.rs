//! Jobs and tasks of arrays as their owners and operators command them.

use super::*;
use spur_core::api::JobFilter;
use spur_core::job::array::{JobTarget, SHOWN_DEFAULT};
use spur_core::job::change::{JobAct, JobChange};
use spur_core::job::state::Reason;

fn targets(text: &str) -> Vec<JobTarget> {
    spur_core::slurm::array::targets(text).unwrap()
}

/// What came of the only target.
fn only(answer: Answer) -> Result<(), RefusalKind> {
    let Ok(Reply::PerTarget(outcome)) = answer else {
        panic!("{answer:?}")
    };
    let [(_, refusal)] = outcome.as_slice() else {
        panic!("{outcome:?}")
    };
    refusal.as_ref().map_or(Ok(()), |refusal| Err(refusal.kind))
}

fn named(jobs: &str) -> Act {
    Act::Cancel {
        jobs: Vec::new(),
        named: Some(Box::new(JobFilter {
            targets: targets(jobs),
            ..JobFilter::default()
        })),
        signal: None,
        batch_only: false,
        step: None,
        children: false,
    }
}

/// Every job as `NUMBER STATE REASON NAME`, with the reason if it is held: others depend on when a pass came.
fn table(bench: &Bench) -> Vec<String> {
    let view = bench.readers.view();
    let row = |row: &Arc<spur_core::api::JobView>| {
        let array = row.array.as_ref();
        let name = array.map(|array| array.id_text(SHOWN_DEFAULT));
        let name = name.unwrap_or_default();
        let held = row.priority == 0;
        let reason = if held { row.reason } else { Reason::None };
        format!("{} {} {reason} {name}", row.id, row.state)
    };
    view.jobs.iter().map(row).collect()
}

async fn array(bench: &Bench, tasks: &str) -> JobId {
    let spec = JobSpec {
        array: tasks.into(),
        requeue: true,
        ..spec(JobKind::Batch, 1)
    };
    let payload = Payload {
        script: b"#!/bin/sh\n".to_vec(),
        ..Payload::default()
    };
    let answer = bench.answer(Act::Submit(Box::new(spec), Some(payload)));
    let Ok(Reply::Submitted { job, .. }) = answer.await else {
        panic!("not submitted")
    };
    job
}

#[tokio::test(start_paused = true)]
async fn tasks_are_commanded_one_by_one_or_all_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path());
    let head = array(&bench, "0-9%3").await;
    let act = |jobs: &str, act| Act::Control(targets(jobs), act);
    assert_eq!(
        only(bench.answer(act("1_[3,5]", JobAct::Hold)).await),
        Ok(())
    );
    assert_eq!(
        only(bench.answer(act("1_77", JobAct::Hold)).await),
        Err(RefusalKind::InvalidJobId)
    );
    assert_eq!(
        only(bench.answer(act("9", JobAct::Hold)).await),
        Err(RefusalKind::InvalidJobId)
    );
    assert_eq!(
        table(&bench),
        [
            "1 PENDING None 1_[0-2,4,6-9%3]",
            "2 PENDING JobHeldUser 1_3",
            "3 PENDING JobHeldUser 1_5"
        ]
    );
    assert_eq!(bench.readers.view().records(head).count(), 3);
    let cancelled = bench.answer(named("1_[7-8],1_3")).await;
    assert_eq!(
        cancelled,
        Ok(Reply::PerJob(vec![(JobId(4), None), (JobId(2), None)]))
    );
    assert_eq!(only(bench.answer(act("1", JobAct::Release)).await), Ok(()));
    assert_eq!(
        table(&bench),
        [
            "1 PENDING None 1_[0-2,4,6,9%3]",
            "2 CANCELLED JobHeldUser 1_3",
            "3 PENDING None 1_5",
            "4 CANCELLED None 1_[7-8%3]"
        ]
    );
    let change = JobChange {
        throttle: Some(0),
        name: Some("new".into()),
        ..JobChange::default()
    };
    let change = Act::ChangeJobs(targets("1"), Box::new(change));
    assert_eq!(only(bench.answer(change).await), Ok(()));
    assert_eq!(table(&bench)[0], "1 PENDING None 1_[0-2,4,6,9]");
    assert!(matches!(
        bench.answer(Act::Script(JobId(3))).await,
        Ok(Reply::Script(_))
    ));
    bench.stop().await;

    let bench = Bench::start(dir.path());
    assert_eq!(table(&bench).len(), 4, "all of it is durable");
    let (_, ended) = bench.ask(Await::End(head)).await;
    bench.answer(named("1")).await.unwrap();
    let Ok(Reply::Ended { job }) = ended.await.unwrap() else {
        panic!("the array has not ended")
    };
    assert_eq!(job.state, JobState::Cancelled);
    bench.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_is_suspended_changed_and_requeued() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path());
    let mut orders = bench.connect("n1").await;
    let job = array(&bench, "7").await;
    bench.flush().await;
    let act = |act| Act::Control(targets("1_7"), act);
    assert_eq!(bench.state(job), JobState::Running);
    let refused = only(bench.answer(act(JobAct::Suspend)).await);
    assert_eq!(refused, Err(RefusalKind::AccessDenied));
    let admin = async |act| only(bench.ask_as(act, true).await.1.await.unwrap());
    assert_eq!(
        admin(act(JobAct::Resume)).await,
        Err(RefusalKind::JobNotRunning)
    );
    assert_eq!(admin(act(JobAct::Suspend)).await, Ok(()));
    assert_eq!(bench.state(job), JobState::Suspended);
    assert_eq!(
        admin(act(JobAct::Suspend)).await,
        Err(RefusalKind::JobSuspended)
    );
    assert_eq!(admin(act(JobAct::Resume)).await, Ok(()));
    let mut told = Vec::new();
    while let Ok(order) = orders.try_recv() {
        if let ToAgent::Freeze { frozen, .. } = order {
            told.push(frozen);
        }
    }
    assert_eq!(told, [true, false]);
    let change = |change| Act::ChangeJobs(targets("1"), Box::new(change));
    let moved = JobChange {
        nodelist: Some("n1".into()),
        ..JobChange::default()
    };
    assert_eq!(
        only(bench.answer(change(moved.clone())).await),
        Err(RefusalKind::JobNotPending)
    );
    assert_eq!(only(bench.answer(act(JobAct::RequeueHold)).await), Ok(()));
    assert_eq!(table(&bench), ["1 PENDING JobHeldUser 1_7"]);
    assert_eq!(only(bench.answer(change(moved)).await), Ok(()));
    let circle = JobChange {
        dependency: Some("afterok:1".into()),
        ..JobChange::default()
    };
    assert_eq!(
        only(bench.answer(change(circle)).await),
        Err(RefusalKind::CircularDependency)
    );
    assert_eq!(
        bench.readers.view().job(job).unwrap().reason,
        Reason::JobHeldUser
    );
    bench.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_heterogeneous_job_is_commanded_and_stepped_into_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path());
    let _orders = bench.connect("n1").await;
    let component = || JobSpec {
        memory: MemoryRequest::PerNode(10),
        ..spec(JobKind::Alloc, 1)
    };
    let submit = Act::SubmitHet(vec![component(), component()], None);
    let Ok(Reply::Submitted { job, .. }) = bench.answer(submit).await else {
        panic!("not submitted")
    };
    let (_, _allocated) = bench.ask(Await::End(job)).await;
    bench.sleep(40).await;
    let second = JobId(job.0 + 1);
    assert_eq!(bench.state(job), JobState::Running);
    assert_eq!(
        bench.state(second),
        JobState::Running,
        "its client waits for the leader"
    );
    let view = bench.readers.view();
    assert_eq!(view.records(job).count(), 2);
    assert_eq!(view.records(second).count(), 1);
    let act = |jobs: &str, act| Act::Control(targets(jobs), act);
    let admin = async |act| only(bench.ask_as(act, true).await.1.await.unwrap());
    let alone = Err(RefusalKind::NotWholeHetJob);
    assert_eq!(admin(act("1+1", JobAct::Suspend)).await, alone);
    assert_eq!(admin(act("2", JobAct::Suspend)).await, alone);
    assert_eq!(admin(act("1", JobAct::Suspend)).await, Ok(()));
    assert_eq!(bench.state(second), JobState::Suspended);
    assert_eq!(admin(act("1", JobAct::Resume)).await, Ok(()));
    assert_eq!(
        admin(act("1+2", JobAct::Hold)).await,
        Err(RefusalKind::InvalidJobId)
    );
    let part = || StepSpec { tasks: 1, ..step() };
    let both = Act::Step(Asked::Het(job, vec![(0, part()), (1, part())]));
    let Ok(Reply::GrantedHet(grants)) = bench.answer(both).await else {
        panic!("not granted")
    };
    let parts = grants
        .iter()
        .map(|grant| (grant.step.job, grant.nodes[0].task_ids.clone()));
    assert_eq!(
        parts.collect::<Vec<_>>(),
        [(job, vec![0]), (second, vec![1])]
    );
    assert_eq!(grants[0].step.step, grants[1].step.step);
    let none = Act::Step(Asked::Het(job, vec![(2, part())]));
    assert!(bench.answer(none).await.is_err());
    // A component is cancelled alone, the leader with all that is left.
    let cancelled = bench.answer(named("1+1")).await;
    assert_eq!(cancelled, Ok(Reply::PerJob(vec![(second, None)])));
    assert_eq!(bench.state(job), JobState::Running);
    let cancelled = bench.answer(named("1")).await;
    assert_eq!(cancelled, Ok(Reply::PerJob(vec![(job, None)])));
    assert_eq!(bench.state(job), JobState::Cancelled);
    bench.stop().await;
}

/// A job of the bench's user that waits, as nothing is connected.
async fn waiting(bench: &Bench, tasks: u32) -> JobId {
    let answer = bench.answer(Act::Submit(
        Box::new(spec(JobKind::Batch, tasks)),
        Some(Payload {
            script: b"#!/bin/sh\n".to_vec(),
            ..Payload::default()
        }),
    ));
    let Ok(Reply::Submitted { job, .. }) = answer.await else {
        panic!("not submitted")
    };
    job
}

#[tokio::test(start_paused = true)]
async fn an_operators_hold_is_lifted_by_operators_only() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path());
    let job = waiting(&bench, 1).await;
    let act = |act| Act::Control(targets("1"), act);
    let admin = async |act| only(bench.ask_as(act, true).await.1.await.unwrap());
    let reason = || bench.readers.view().job(job).unwrap().reason;
    assert_eq!(admin(act(JobAct::Hold)).await, Ok(()));
    let zero = JobChange {
        priority: Some(0),
        ..JobChange::default()
    };
    for command in [
        act(JobAct::Hold),
        act(JobAct::HoldByUser),
        act(JobAct::RequeueHold),
        Act::ChangeJobs(targets("1"), Box::new(zero)),
    ] {
        bench.answer(command).await.unwrap();
        assert_eq!(reason(), Reason::JobHeldAdmin);
        assert_eq!(
            only(bench.answer(act(JobAct::Release)).await),
            Err(RefusalKind::AccessDenied)
        );
    }
    assert_eq!(admin(act(JobAct::HoldByUser)).await, Ok(()));
    assert_eq!(reason(), Reason::JobHeldUser);
    assert_eq!(only(bench.answer(act(JobAct::Release)).await), Ok(()));
    bench.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_is_refused_when_it_is_made_and_not_when_the_next_one_is() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path());
    let job = waiting(&bench, 2).await;
    only(bench.answer(Act::Control(targets("1"), JobAct::Hold)).await).unwrap();
    let change = async |change| {
        only(
            bench
                .answer(Act::ChangeJobs(targets("1"), Box::new(change)))
                .await,
        )
    };
    let reservation = JobChange {
        reservation: Some("nope".into()),
        ..JobChange::default()
    };
    assert_eq!(
        change(reservation).await,
        Err(RefusalKind::InvalidReservation)
    );
    let licenses = JobChange {
        licenses: Some("nope".into()),
        ..JobChange::default()
    };
    assert_eq!(change(licenses).await, Err(RefusalKind::InvalidLicense));
    let nodes = JobChange {
        nodes_min: Some(3),
        nodes_max: Some(3),
        ..JobChange::default()
    };
    // Nothing has registered, so any number of nodes may come to be.
    assert_eq!(change(nodes).await, Ok(()));
    let view = bench.readers.view();
    let spec = &view.job(job).unwrap().spec;
    assert_eq!((spec.nodes_min, spec.nodes_max, spec.tasks), (3, 3, 3));
    bench.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_not_to_be_run_again_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path());
    let _orders = bench.connect("n1").await;
    let job = waiting(&bench, 1).await;
    bench.flush().await;
    assert_eq!(bench.state(job), JobState::Running);
    for act in [JobAct::Requeue, JobAct::RequeueHold] {
        assert_eq!(
            only(bench.answer(Act::Control(targets("1"), act)).await),
            Err(RefusalKind::UpdateUnavailable)
        );
    }
    assert_eq!(bench.state(job), JobState::Running);
    bench.stop().await;
}
