//! What is kept for jobs that wait, and for how long others wait for it.

use crate::event::Event;
use crate::fixture::{World, gang, partition};
use crate::id::{JobId, NodeId, Uid};
use crate::job::spec::JobSpec;
use crate::job::state::JobState;
use crate::node::AdminState;
use crate::plan::outlook::{Asked, Basis, Expected};
use crate::plan::{Budget, Plan, plan, policy};
use crate::time::{Millis, TimeLimit};

fn limited(nodes: u32, gpus: u32, limit: TimeLimit) -> JobSpec {
    JobSpec {
        time_limit: Some(limit),
        ..gang(nodes, gpus)
    }
}

fn secs(nodes: u32, gpus: u32, secs: u64) -> JobSpec {
    limited(nodes, gpus, TimeLimit::Secs(secs))
}

fn runs(world: &World, job: JobId) -> bool {
    world.job(job).state == JobState::Running
}

fn expected(world: &World, found: &Plan, id: JobId) -> Expected {
    let job = world.job(id);
    found.outlook.expected(&Asked {
        job: id,
        spec: &job.spec,
        priority: job.priority,
        eligible: job.eligible,
        due: policy::due(job),
        rank: None,
    })
}

/// A cluster in which limits are free.
fn unlimited(nodes: u32) -> World {
    let mut world = World::new(nodes, 8);
    let max_time = TimeLimit::Unlimited;
    world.does(Event::Configured {
        max_array_size: 0,
        cluster: "test".to_owned(),
        partitions: vec![crate::partition::Partition {
            max_time,
            ..partition("gpu")
        }],
        min_job_age: 300,
        node_timeout: 60,
        node_config: Default::default(),
        topology: Default::default(),
    });
    world
}

#[test]
fn only_what_ends_in_time_uses_what_is_reserved() {
    let mut world = unlimited(2);
    let first = world.start(secs(1, 5, 1_000));
    let end = world.job(first).ended.unwrap();
    let wide = world.submit(secs(2, 8, 500));
    let forever = world.submit(limited(1, 1, TimeLimit::Unlimited));
    let long = world.submit(secs(1, 1, 2_000));
    let short = world.submit(secs(1, 8, 900));
    let found = world.plan();
    assert_eq!(found.outlook.reserved[&wide].start, end);
    assert_eq!(found.outlook.reserved[&wide].shares.len(), 2);
    assert!(runs(&world, short), "it ends before");
    assert!(!runs(&world, long) && !runs(&world, forever));
    // What is over gives its devices to the job that they were kept for.
    for job in [first, short] {
        world.does(Event::Cancelled { job, by: Uid(0) });
        world.clean_all(job);
    }
    world.plan();
    assert!(runs(&world, wide));
    assert!(!runs(&world, long));
}

#[test]
fn devices_are_reserved_not_nodes() {
    let mut world = unlimited(1);
    world.start(secs(1, 4, 1_000));
    let six = world.submit(secs(1, 6, 500));
    let two = world.submit(limited(1, 2, TimeLimit::Unlimited));
    let one = world.submit(limited(1, 1, TimeLimit::Unlimited));
    let found = world.plan();
    assert!(found.outlook.reserved.contains_key(&six));
    assert!(runs(&world, two), "two of eight are never needed");
    assert!(!runs(&world, one));
}

#[test]
fn nothing_is_kept_where_nothing_can_be_had() {
    let mut world = unlimited(2);
    world.start(limited(1, 4, TimeLimit::Unlimited));
    let wide = world.submit(secs(2, 8, 500));
    let found = world.plan();
    assert_eq!(found.outlook.reserved.len(), 0, "it would never start");
    let other = world.start(limited(1, 8, TimeLimit::Unlimited));
    assert!(runs(&world, other), "so others need not wait for it");
    assert!(!runs(&world, wide));
}

#[test]
fn jobs_without_a_limit_pass_a_gang_until_it_is_aged() {
    let forever = |gpus| limited(1, gpus, TimeLimit::Unlimited);
    let mut world = unlimited(2);
    let (a, b) = (world.start(forever(4)), world.start(forever(4)));
    let gang = world.submit(secs(2, 8, 500));
    let passes = world.start(forever(4));
    assert!(runs(&world, passes), "nobody knows when the gang can start");
    world.now = world.now.plus_secs(3_600);
    let late = world.submit(forever(4));
    let short = world.submit(secs(1, 4, 500));
    let found = world.plan();
    let kept = &found.outlook.reserved[&gang];
    assert_eq!((kept.known_start(), kept.shares.len()), (None, 2));
    let told = expected(&world, &found, gang);
    assert_eq!((told.start, told.basis), (None, Basis::Reserved));
    assert!(!runs(&world, late), "it could hold the gang up for ever");
    assert!(runs(&world, short), "it ends in time");
    for job in [a, b, passes, short] {
        world.does(Event::Cancelled { job, by: Uid(0) });
        world.clean_all(job);
    }
    world.plan();
    assert!(runs(&world, gang) && !runs(&world, late));
}

#[test]
fn gangs_without_a_limit_start_one_after_the_other() {
    let forever = |nodes| limited(nodes, 8, TimeLimit::Unlimited);
    let mut world = unlimited(3);
    let holder = world.start(forever(1));
    let gangs = [world.submit(forever(3)), world.submit(forever(3))];
    world.now = world.now.plus_secs(3_600);
    let single = world.submit(forever(1));
    let found = world.plan();
    assert_eq!(found.outlook.reserved.len(), 2, "both are aged");
    for job in [holder, gangs[0], gangs[1]] {
        assert!(!runs(&world, single));
        world.does(Event::Cancelled { job, by: Uid(0) });
        world.clean_all(job);
        world.plan();
    }
    assert!(runs(&world, single));
}

#[test]
fn a_reservation_goes_with_its_node() {
    let mut world = unlimited(2);
    world.start(secs(1, 8, 1_000));
    world.start(secs(1, 8, 2_000));
    let waits = world.submit(secs(1, 8, 500));
    let start = |world: &mut World| world.plan().outlook.reserved[&waits].start;
    let (first, node) = (start(&mut world), NodeId(0));
    let admin = AdminState::Drain;
    world.does(Event::NodeUpdated {
        node,
        admin,
        reason: "x".to_owned(),
        by: Uid(0),
    });
    let later = start(&mut world);
    assert!(later > first, "{first:?}, then {later:?}");
}

#[test]
fn estimates_follow_the_queue() {
    let mut world = unlimited(1);
    let busy = world.start(secs(1, 8, 1_000));
    let jobs: Vec<JobId> = (0..5).map(|_| world.submit(secs(1, 8, 1_000))).collect();
    let impossible = world.submit(secs(1, 1, 1_000));
    world.does(Event::Held {
        job: impossible,
        by_admin: false,
    });
    let found = plan(&world.cluster, world.now, Budget::default());
    let end = world.job(busy).ended.unwrap();
    let first = expected(&world, &found, jobs[0]);
    assert_eq!(
        (first.start, first.basis, first.nodes),
        (Some(end), Basis::Reserved, vec![NodeId(0)])
    );
    let starts: Vec<Option<Millis>> = jobs
        .iter()
        .map(|job| expected(&world, &found, *job).start)
        .collect();
    assert!(starts.is_sorted(), "{starts:?}");
    assert!(starts.iter().all(Option::is_some));
    let held = expected(&world, &found, impossible);
    assert_eq!((held.start, held.basis), (None, Basis::Never));
}
