//! Who goes first, and why the others wait.

use crate::event::Event;
use crate::fixture::{World, batch, gang, partition};
use crate::id::{JobId, NodeId, Uid};
use crate::job::spec::JobSpec;
use crate::job::state::{JobState, Reason};
use crate::node::AdminState;
use crate::partition::{Partition, PartitionState};
use crate::plan::{Budget, plan};
use crate::time::TimeLimit;

fn prioritize(world: &mut World, job: JobId, priority: u32) {
    world.does(Event::JobUpdated {
        job,
        time_limit: None,
        name: None,
        comment: None,
        partition: None,
        priority: Some(priority),
    });
}

fn reason(world: &World, job: JobId) -> (Reason, &str) {
    (world.job(job).reason, &world.job(job).reason_text)
}

#[test]
fn a_gang_that_does_not_fit_waits_whole_and_blocks_nothing_that_fits() {
    let mut world = World::new(4, 8);
    let first = world.start(gang(1, 2));
    let big = world.submit(gang(4, 8));
    let limited = |nodes, secs| JobSpec {
        time_limit: Some(TimeLimit::Secs(secs)),
        ..gang(nodes, 4)
    };
    // The gang gets its nodes when the first job is over: what ends before that passes it, what does not waits.
    let small = world.submit(limited(2, 3_000));
    let long = world.submit(limited(1, 3_700));
    let more = world.submit(gang(4, 8));
    world.plan();
    assert_eq!(world.job(small).state, JobState::Running);
    assert_eq!(world.job(big).allocation, []);
    let text = "waits for 8 GPUs a node on 4 nodes; 4 of its partition's nodes take jobs now";
    assert_eq!(reason(&world, big), (Reason::Resources, text));
    for job in [long, more] {
        assert_eq!(reason(&world, job), (Reason::Priority, ""));
    }
    let again = plan(&world.cluster, world.now, Budget::default());
    assert_eq!(
        (again.placements.len(), again.reasons.len()),
        (0, 0),
        "only changes are said"
    );
    for job in [first, small] {
        world.does(Event::Cancelled { job, by: Uid(0) });
        world.clean_all(job);
    }
    world.plan();
    assert_eq!(world.job(big).allocation.len(), 4);
}

#[test]
fn a_job_that_starts_while_one_before_it_waits_says_so() {
    let mut world = World::new(2, 8);
    let first = world.start(gang(1, 2));
    let big = world.submit(gang(2, 8));
    prioritize(&mut world, big, 10);
    let small = world.start(JobSpec {
        time_limit: Some(TimeLimit::Secs(60)),
        ..gang(1, 2)
    });
    for job in [first, small] {
        world.does(Event::Cancelled { job, by: Uid(0) });
        world.clean_all(job);
    }
    world.plan();
    let said = [first, small, big].map(|job| world.job(job).backfilled);
    assert_eq!(said, [false, true, false]);
}

#[test]
fn tier_then_priority_then_niceness_then_age() {
    let mut world = World::new(1, 1);
    let tiers = [
        Partition {
            priority_tier: 1,
            ..partition("gpu")
        },
        Partition {
            priority_tier: 9,
            ..partition("urgent")
        },
    ];
    let cluster = "test".to_owned();
    let partitions = tiers.to_vec();
    world.does(Event::Configured {
        max_array_size: 0,
        licenses: crate::job::licenses::Licenses::default(),
        default_memory: Default::default(),
        cluster,
        partitions,
        min_job_age: 300,
        node_timeout: 60,
        node_config: Default::default(),
        topology: Default::default(),
    });
    let old = world.submit(gang(1, 1));
    let nice = world.submit(JobSpec {
        nice: 5,
        ..gang(1, 1)
    });
    let young = world.submit(gang(1, 1));
    let important = world.submit(gang(1, 1));
    prioritize(&mut world, important, 50);
    let urgent = world.submit(JobSpec {
        partition: "urgent".to_owned(),
        ..gang(1, 1)
    });
    let mut order = Vec::new();
    while let Some(placement) = world.plan().placements.first().cloned() {
        let job = placement.job;
        order.push(job);
        world.does(Event::Cancelled { job, by: Uid(0) });
        world.clean_all(job);
    }
    assert_eq!(order, [urgent, important, old, young, nice]);
}

fn configure(world: &mut World, partitions: &[&str]) {
    world.does(Event::Configured {
        max_array_size: 0,
        licenses: crate::job::licenses::Licenses::default(),
        default_memory: Default::default(),
        cluster: "test".to_owned(),
        partitions: partitions.iter().map(|name| partition(name)).collect(),
        min_job_age: 300,
        node_timeout: 60,
        node_config: Default::default(),
        topology: Default::default(),
    });
}

#[test]
fn every_reason_to_wait() {
    let mut world = World::new(2, 8);
    configure(&mut world, &["gpu", "down", "off", "gone"]);
    let within = |partition: &str| JobSpec {
        partition: partition.to_owned(),
        ..batch()
    };
    let begin = Some(world.now.plus_secs(1_000));
    let later = world.submit(JobSpec { begin, ..batch() });
    let held = world.submit(JobSpec {
        hold: true,
        ..batch()
    });
    let long = world.submit(JobSpec {
        time_limit: Some(TimeLimit::Secs(1_000_000)),
        ..batch()
    });
    let down = world.submit(within("down"));
    let off = world.submit(within("off"));
    let gone = world.submit(within("gone"));
    let named = world.submit(JobSpec {
        nodelist: vec!["n2".to_owned()],
        ..batch()
    });
    world.does(Event::PartitionUpdated {
        name: "down".into(),
        state: PartitionState::Down,
    });
    world.does(Event::PartitionUpdated {
        name: "off".into(),
        state: PartitionState::Inactive,
    });
    let (admin, reason_of_drain) = (AdminState::Drain, "x".to_owned());
    world.does(Event::NodeUpdated {
        node: NodeId(1),
        admin,
        reason: reason_of_drain,
        by: Uid(0),
    });
    configure(&mut world, &["gpu", "down", "off"]);
    assert!(world.plan().placements.is_empty());
    for (job, expected, text) in [
        (later, Reason::BeginTime, ""),
        (held, Reason::JobHeldUser, ""),
        (long, Reason::PartitionTimeLimit, ""),
        (down, Reason::PartitionDown, ""),
        (off, Reason::PartitionInactive, ""),
        (
            gone,
            Reason::PartitionInactive,
            "partition gone is not configured",
        ),
        (named, Reason::ReqNodeNotAvail, "node n2 takes no jobs now"),
    ] {
        assert_eq!(reason(&world, job), (expected, text));
    }
}

#[test]
fn a_draining_partition_starts_what_is_queued() {
    let mut world = World::new(1, 8);
    let job = world.submit(batch());
    world.does(Event::PartitionUpdated {
        name: "gpu".into(),
        state: PartitionState::Drain,
    });
    world.plan();
    assert_eq!(world.job(job).state, JobState::Running);
}

#[test]
fn a_budget_bounds_a_pass_and_says_so() {
    let mut world = World::new(1, 8);
    let jobs: Vec<JobId> = (0..3).map(|_| world.submit(gang(1, 1))).collect();
    let found = plan(
        &world.cluster,
        world.now,
        Budget {
            jobs: 2,
            placements: 9,
            ..Budget::default()
        },
    );
    assert_eq!((found.placements.len(), found.cut_short), (2, true));
    let found = plan(
        &world.cluster,
        world.now,
        Budget {
            jobs: 9,
            placements: 1,
            ..Budget::default()
        },
    );
    assert_eq!(
        (
            found.placements[0].job,
            found.placements.len(),
            found.cut_short
        ),
        (jobs[0], 1, true)
    );
    let found = plan(
        &world.cluster,
        world.now,
        Budget {
            jobs: 3,
            placements: 3,
            ..Budget::default()
        },
    );
    assert!(!found.cut_short);
}

#[test]
fn a_job_stays_away_from_nodes_that_could_not_start_it() {
    let mut world = World::new(2, 8);
    let job = world.submit(gang(1, 1));
    world
        .cluster
        .jobs
        .get_mut(&job)
        .unwrap()
        .avoid
        .insert(NodeId(0));
    let bytes = rmp_serde::to_vec_named(&world.cluster).unwrap();
    world.cluster = rmp_serde::from_slice(&bytes).unwrap();
    world.plan();
    assert_eq!(world.places(job), "n2:c0:g0:t1");
}
