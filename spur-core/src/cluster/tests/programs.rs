//! Programs around jobs that fail.

use crate::event::Event;
use crate::fixture::{World, batch, gang, spec};
use crate::id::{JobId, NodeId, Uid};
use crate::job::spec::{JobKind, JobSpec};
use crate::job::state::{JobState, Reason};
use crate::node::AdminState;

fn failed(world: &World, job: JobId, epilog: bool) -> Event {
    let node = world
        .job(job)
        .allocation
        .first()
        .or(world.job(job).last_nodes.first());
    Event::ProgramFailed {
        job,
        node: node.unwrap().node,
        generation: world.job(job).generation,
        epilog,
        why: "exit status: 3".to_owned(),
    }
}

#[test]
fn a_prolog_that_fails_drains_the_node_and_has_a_batch_job_held() {
    let mut world = World::new(1, 8);
    let job = world.start(JobSpec {
        requeue: false,
        ..batch()
    });
    let event = failed(&world, job, false);
    world.does(event.clone());
    let back = world.job(job);
    assert_eq!(
        (back.state, back.reason),
        (JobState::Pending, Reason::LaunchFailedHeld)
    );
    assert_eq!(
        (back.priority, back.reason_text.as_str()),
        (0, "n1: exit status: 3")
    );
    let node = world.node(0);
    assert_eq!(
        (node.admin, node.reason.as_str()),
        (AdminState::Drain, "Prolog error")
    );
    world.ignores(event);
    world.clean_all(job);
    world.does(Event::NodeUpdated {
        node: NodeId(0),
        admin: AdminState::Up,
        reason: String::new(),
        by: Uid(0),
    });
    world.does(Event::Released { job });
    world.plan();
    assert_eq!(
        world.job(job).state,
        JobState::Running,
        "it may go there again"
    );
}

#[test]
fn other_jobs_fail_with_their_prolog() {
    let mut world = World::new(2, 8);
    for kind in [JobKind::Run, JobKind::Alloc] {
        let job = world.start(spec(kind));
        world.does(failed(&world, job, false));
        let over = world.job(job);
        assert_eq!(
            (over.state, over.reason),
            (JobState::Failed, Reason::JobLaunchFailure)
        );
    }
}

#[test]
fn an_epilog_that_fails_drains_the_node_and_leaves_its_job_as_it_ended() {
    let mut world = World::new(1, 8);
    let job = world.start(gang(1, 1));
    let other = world.start(gang(1, 1));
    world.does(Event::Cancelled { job, by: Uid(0) });
    world.does(failed(&world, job, true));
    assert_eq!(world.job(job).state, JobState::Cancelled);
    assert_eq!(world.job(other).state, JobState::Running);
    let node = world.node(0);
    assert_eq!(
        (node.admin, node.reason.as_str()),
        (AdminState::Drain, "Epilog error")
    );
}

#[test]
fn a_node_that_an_operator_drained_keeps_his_reason() {
    let mut world = World::new(1, 8);
    let job = world.start(batch());
    world.does(Event::NodeUpdated {
        node: NodeId(0),
        admin: AdminState::Drain,
        reason: "fan".to_owned(),
        by: Uid(0),
    });
    world.does(failed(&world, job, false));
    assert_eq!(world.node(0).reason, "fan");
    assert_eq!(world.job(job).reason, Reason::LaunchFailedHeld);
}
