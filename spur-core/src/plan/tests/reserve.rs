//! What is kept for jobs that wait, and for how long others wait for it.

use crate::event::Event;
use crate::fixture::{World, batch, gang, gpus, inventory, partition};
use crate::id::{JobId, NodeId, Uid};
use crate::job::spec::JobSpec;
use crate::job::state::JobState;
use crate::node::AdminState;
use crate::plan::ask::{Ask, GpuAsk, Need};
use crate::plan::fit::{Source, pick};
use crate::plan::outlook::{Asked, Basis, Expected};
use crate::plan::shape::Shape;
use crate::plan::slot::Slot;
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
        licenses: crate::job::licenses::Licenses::default(),
        default_memory: Default::default(),
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

#[test]
fn what_is_kept_in_unequal_parts_does_not_move_when_something_else_is_taken() {
    let mut world = World::new(3, 8);
    for _ in 0..3 {
        world.start(secs(1, 7, 1_000));
    }
    let wide = world.submit(JobSpec {
        gpus_total: gpus(12),
        time_limit: Some(TimeLimit::Secs(1_000)),
        ..batch()
    });
    let before = world.plan().outlook.reserved[&wide].clone();
    let nodes: Vec<u32> = before.shares.iter().map(|share| share.node.0).collect();
    assert_eq!(nodes, [0, 1], "the first that hold it");
    // Free GPUs that are not kept: the nodes no longer have the same room then.
    let small = [0, 1, 2].map(|_| world.submit(secs(1, 1, 9_000)));
    let now = world.plan();
    assert!(small.iter().any(|job| runs(&world, *job)));
    assert_eq!(now.outlook.reserved[&wide].shares, before.shares);
    assert_eq!(world.plan().outlook.reserved[&wide].shares, before.shares);
}

#[test]
fn a_cpu_that_is_kept_and_in_use_counts_once() {
    let mut world = World::of(2, &inventory(4, 16_384, 4));
    let on = |node: &str, cpus: u32, gpus: u32, secs: u64| JobSpec {
        nodelist: vec![node.to_owned()],
        cpus_per_task: cpus,
        time_limit: Some(TimeLimit::Secs(secs)),
        ..gang(1, gpus)
    };
    let first = world.start(on("n1", 2, 1, 1_000));
    world.start(on("n2", 4, 0, 500));
    let kept = world.submit(on("n1", 2, 4, 5_000));
    let both = world.submit(JobSpec {
        cpus_per_task: 2,
        ..secs(2, 0, 5_000)
    });
    let budget = Budget {
        depth: Some(2),
        ..Budget::default()
    };
    let found = plan(&world.cluster, world.now, budget);
    let reserved = &found.outlook.reserved;
    assert_eq!(
        reserved[&kept].shares[0].cpus,
        world.job(first).allocation[0].cpus
    );
    // CPUs 2 and 3 of `n1` are free all the time.
    assert!(reserved[&both].start < reserved[&kept].start);
}

#[test]
fn a_total_of_gpus_is_on_no_more_nodes_than_it_has_gpus() {
    let spec = JobSpec {
        gpus_total: gpus(1),
        ..batch()
    };
    let wide = Ask {
        nodes_max: 3,
        ..Ask::of(&spec)
    };
    assert_eq!(wide.gpus, GpuAsk::Total(1));
    let shape = Shape::of(&inventory(4, 16_384, 4));
    let nodes = Nodes(vec![Slot::empty(&shape); 2], vec![0, 1]);
    assert_eq!(pick(&nodes, &wide), None);
}

/// Nodes, and which of them the job must get.
struct Nodes<'a>(Vec<Slot<'a>>, Vec<usize>);

impl<'a> Source<'a> for Nodes<'a> {
    fn candidates(&self, _: &Ask<'_>, _: Need) -> impl Iterator<Item = usize> {
        0..self.0.len()
    }

    fn slot(&self, position: usize) -> Slot<'a> {
        self.0[position]
    }

    fn required(&self) -> &[usize] {
        &self.1
    }
}

#[test]
fn what_fits_is_found_though_neither_the_most_tasks_nor_the_most_gpus_hold_it() {
    let spec = batch();
    // Two nodes of four; (CPUs, GPUs), and whether 4 tasks and 4 GPUs fit.
    let cases: [(&[(u32, u32)], bool); 4] = [
        (&[(4, 1), (1, 4), (2, 2), (2, 2)], true),
        (&[(4, 1), (1, 3), (3, 1), (1, 2)], true),
        (&[(3, 1), (1, 2), (2, 1)], false),
        (&[(4, 4), (4, 4)], true),
    ];
    for (sizes, fits) in cases {
        let shapes = sizes
            .iter()
            .map(|(cpus, gpus)| Shape::of(&inventory(*cpus, 16_384, *gpus)));
        let shapes: Vec<Shape> = shapes.collect();
        let nodes = Nodes(shapes.iter().map(Slot::empty).collect(), Vec::new());
        let ask = Ask {
            nodes_min: 2,
            nodes_max: 2,
            tasks: Some(4),
            gpus: GpuAsk::Total(4),
            ..Ask::of(&spec)
        };
        let parts = pick(&nodes, &ask);
        assert_eq!(parts.is_some(), fits, "{sizes:?}");
        let needs = parts
            .iter()
            .flatten()
            .map(|part| (part.need.tasks, part.need.gpus));
        let sum = needs.fold((0, 0), |sum, need| (sum.0 + need.0, sum.1 + need.1));
        assert!(!fits || sum == (4, 4), "{sizes:?}: {parts:?}");
    }
}
