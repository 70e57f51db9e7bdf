//! Nodes where launches fail.

use crate::event::{Event, NodeHello};
use crate::fixture::{OK, World, batch, gang, hello, inventory};
use crate::id::{JobId, NodeId, StepKind, Uid};
use crate::job::spec::JobSpec;
use crate::job::state::{JobState, Reason};
use crate::node::AdminState;
use crate::time::Millis;

/// The node at fault says that it could not start the job.
fn fails(world: &mut World, job: JobId, node: u32) {
    let generation = world.job(job).generation;
    world.does(Event::LaunchFailed {
        job,
        node: NodeId(node),
        generation,
        why: "no space left on device".to_owned(),
        node_fault: true,
        rests: true,
    });
    world.clean(job, node);
}

/// Lets time pass until the node has rested; gives how many seconds it rested.
fn rests(world: &mut World, node: u32) -> u64 {
    let trouble = world.node(node).trouble.clone().unwrap();
    let until = trouble.until.unwrap();
    assert!(world.cluster.expired(Millis(until.0 - 1)).is_empty());
    let node = NodeId(node);
    assert_eq!(world.cluster.expired(until), [Event::NodeRested { node }]);
    world.now = until;
    world.does(Event::NodeRested { node });
    until.secs_since(trouble.last)
}

/// Submits a job that must run on the first node and lets that fail.
fn fails_anew(world: &mut World) -> JobId {
    let job = world.start(JobSpec {
        nodelist: vec!["n1".to_owned()],
        ..batch()
    });
    fails(world, job, 0);
    job
}

/// ROCm/spur#520: the node where every launch fails is always the emptiest, gets every job, fails it, and gets the next, four times a
/// second.
#[test]
fn a_bad_node_does_not_eat_the_queue() {
    let mut world = World::new(4, 8);
    let jobs: Vec<JobId> = (0..200).map(|_| world.submit(gang(1, 1))).collect();
    let (begun, mut failed, mut done) = (world.now, 0, 0);
    while done < jobs.len() {
        assert!(
            world.now.secs_since(begun) < 20_000,
            "{failed} failed, {done} done"
        );
        let due = world.cluster.expired(world.now);
        for event in due {
            world.does(event);
        }
        world.plan();
        for job in jobs.iter().copied() {
            let known = world.cluster.jobs.get(&job);
            let Some(share) = known.and_then(|job| job.allocation.first()) else {
                continue;
            };
            if share.node == NodeId(0) {
                fails(&mut world, job, 0);
                failed += 1;
            } else {
                let node = share.node.0;
                world.step_ended(job, StepKind::Batch, node, OK);
                assert_eq!(world.job(job).state, JobState::Completed);
                world.clean(job, node);
                done += 1;
            }
        }
    }
    let rests_possible = 1 + world.now.secs_since(begun) / 30;
    assert!(
        failed <= 8 * rests_possible.min(8),
        "{failed} launches failed on the bad node in {} s",
        world.now.secs_since(begun)
    );
    assert!(world.node(0).trouble.is_some());
}

#[test]
fn a_node_rests_longer_each_time_and_is_drained_in_the_end() {
    let mut world = World::new(2, 8);
    let mut rested = Vec::new();
    for _ in 0..7 {
        fails_anew(&mut world);
        assert_eq!(world.node(0).admin, AdminState::Up);
        let other = world.start(batch());
        assert_eq!(world.job(other).allocation[0].node, NodeId(1), "n1 rests");
        world.does(Event::Cancelled {
            job: other,
            by: Uid(0),
        });
        rested.push(rests(&mut world, 0));
    }
    assert_eq!(rested, [30, 60, 120, 240, 480, 960, 1920]);
    fails_anew(&mut world);
    let node = world.node(0);
    assert_eq!(node.admin, AdminState::Drain);
    assert!(
        node.reason
            .starts_with("8 launches failed in a row, last job ")
    );
}

#[test]
fn jobs_that_were_there_when_the_rest_began_count_once() {
    let mut world = World::new(2, 8);
    let jobs: Vec<JobId> = (0..3)
        .map(|_| {
            world.start(JobSpec {
                nodelist: vec!["n1".to_owned()],
                ..batch()
            })
        })
        .collect();
    for job in jobs {
        fails(&mut world, job, 0);
    }
    assert_eq!(world.node(0).trouble.as_ref().unwrap().failures, 1);
    assert_eq!(rests(&mut world, 0), 30);
}

#[test]
fn a_job_that_runs_forgives_the_node() {
    let mut world = World::new(1, 8);
    let early = world.start(batch());
    fails_anew(&mut world);
    world.step_ended(early, StepKind::Batch, 0, OK);
    assert!(
        world.node(0).is_resting(),
        "it was started before the failure"
    );
    rests(&mut world, 0);
    let works = world.start(batch());
    world.step_ended(works, StepKind::Batch, 0, OK);
    assert_eq!(world.node(0).trouble, None);
}

#[test]
fn a_failure_beside_a_job_that_runs_well_is_the_first_again() {
    let mut world = World::new(1, 8);
    fails_anew(&mut world);
    rests(&mut world, 0);
    let long = world.start(batch());
    fails_anew(&mut world);
    assert_eq!(
        world.node(0).trouble.as_ref().unwrap().failures,
        2,
        "too early to tell"
    );
    rests(&mut world, 0);
    assert_eq!(world.job(long).state, JobState::Running);
    let later = world.start(batch());
    world.now = world.now.plus_secs(60);
    fails_anew(&mut world);
    assert_eq!(world.node(0).trouble.as_ref().unwrap().failures, 1);
    assert_eq!(world.job(later).state, JobState::Running);
}

#[test]
fn people_and_reboots_end_a_rest() {
    let mut world = World::new(1, 8);
    let node = NodeId(0);
    let again = |boot: &str, start| {
        Event::NodeConnected(NodeHello {
            boot_id: boot.to_owned(),
            agent_start: Millis(start),
            ..hello("n1", inventory(8, 16_384, 8))
        })
    };
    fails_anew(&mut world);
    world.does(again("boot-1", 0));
    assert!(world.node(0).is_resting(), "only its stream was cut");
    world.does(again("boot-1", 5));
    assert!(!world.node(0).is_resting(), "its agent was started anew");
    assert_eq!(world.node(0).trouble.as_ref().unwrap().failures, 1);
    fails_anew(&mut world);
    assert_eq!(world.node(0).trouble.as_ref().unwrap().failures, 2);
    world.does(Event::NodeUpdated {
        node,
        admin: AdminState::Up,
        reason: String::new(),
        by: Uid(0),
    });
    assert_eq!(world.node(0).trouble, None, "resumed");
    fails_anew(&mut world);
    world.does(again("boot-2", 6));
    assert_eq!(world.node(0).trouble, None, "rebooted");
    assert_eq!(
        world.ignores(Event::NodeRested { node }),
        "no launch failed there"
    );
}

#[test]
fn a_job_is_tried_on_other_nodes_and_held_when_three_failed() {
    let mut world = World::new(5, 8);
    let job = world.start(gang(1, 8));
    for node in 0..3 {
        assert_eq!(world.job(job).allocation[0].node, NodeId(node));
        fails(&mut world, job, node);
        world.plan();
    }
    let held = world.job(job);
    assert_eq!((held.priority, held.reason), (0, Reason::LaunchFailedHeld));
    assert_eq!(held.reason_text, "n3: no space left on device");
    world.does(Event::Released { job });
    world.plan();
    assert_eq!(
        world.job(job).allocation[0].node,
        NodeId(3),
        "the others rest"
    );
}

#[test]
fn a_job_is_held_at_once_where_no_other_node_will_do() {
    let mut world = World::new(2, 8);
    let named = fails_anew(&mut world);
    assert_eq!(world.job(named).reason, Reason::LaunchFailedHeld);
    rests(&mut world, 0);
    let both = world.start(gang(2, 8));
    let generation = world.job(both).generation;
    world.does(Event::LaunchFailed {
        job: both,
        node: NodeId(1),
        generation,
        why: "x".to_owned(),
        node_fault: true,
        rests: true,
    });
    assert_eq!(world.job(both).reason, Reason::LaunchFailedHeld);
}
