//! Licenses of the whole cluster: who starts with how many free, and that they are never given twice.

use crate::event::Event;
use crate::fixture::{OK, World, batch, partition};
use crate::id::{JobId, StepKind};
use crate::job::extras::Extras;
use crate::job::licenses::Licenses;
use crate::job::spec::JobSpec;
use crate::job::state::{JobState, Reason};
use proptest::prelude::*;

fn all(text: &str) -> Licenses {
    Licenses::read(text).unwrap()
}

/// Nodes of 8 CPUs, and these licenses.
fn world(nodes: u32, licenses: &str) -> World {
    let mut world = World::new(nodes, 0);
    configure(&mut world, licenses);
    world
}

fn configure(world: &mut World, licenses: &str) {
    world.does(Event::Configured {
        max_array_size: 0,
        licenses: all(licenses),
        default_memory: Default::default(),
        cluster: "test".to_owned(),
        partitions: vec![partition("gpu")],
        min_job_age: 300,
        node_timeout: 60,
        node_config: Default::default(),
        topology: Default::default(),
    });
}

fn wants(licenses: &str) -> JobSpec {
    let extras = Extras {
        licenses: licenses.to_owned(),
        ..Extras::default()
    };
    JobSpec {
        extras: Some(Box::new(extras)),
        ..batch()
    }
}

fn reason(world: &World, job: JobId) -> (JobState, Reason) {
    (world.job(job).state, world.job(job).reason)
}

const WAITS: (JobState, Reason) = (JobState::Pending, Reason::Licenses);
const RUNS: (JobState, Reason) = (JobState::Running, Reason::None);

#[test]
fn a_job_waits_for_licenses_and_those_behind_it_that_want_none_do_not() {
    let mut world = world(2, "a:3,b");
    let first = world.start(wants("a:2"));
    let second = world.submit(wants("a:2,b"));
    let (third, plain) = (world.submit(wants("a")), world.submit(batch()));
    world.plan();
    assert_eq!(reason(&world, second), WAITS);
    assert_eq!(world.job(second).reason_text, "waits for 2 licenses of a");
    assert_eq!((reason(&world, third), reason(&world, plain)), (RUNS, RUNS));
    assert_eq!(world.cluster.licenses_used(), &all("a:3"));
    world.step_ended(first, StepKind::Batch, 0, OK);
    world.plan();
    assert_eq!(reason(&world, second), RUNS);
    assert_eq!(world.cluster.licenses_free(), Licenses::default());
}

#[test]
fn licenses_are_shared_out_within_a_pass_and_by_a_heterogeneous_job() {
    let mut world = world(4, "a:3");
    let jobs: Vec<JobId> = (0..5).map(|_| world.submit(wants("a"))).collect();
    world.plan();
    let run = jobs.iter().filter(|job| reason(&world, **job) == RUNS);
    assert_eq!(run.count(), 3);
    for job in &jobs[..3] {
        world.step_ended(*job, StepKind::Batch, 0, OK);
    }
    let het = world.submit_het(vec![wants("a:2"), wants("a:2")]);
    for job in &jobs[3..] {
        world.does(Event::Cancelled {
            job: *job,
            by: crate::id::Uid(0),
        });
    }
    world.plan();
    assert_eq!(world.job(het).state, JobState::Pending, "four of three");
    configure(&mut world, "a:4");
    world.plan();
    assert_eq!(world.job(het).state, JobState::Running);
    assert_eq!(world.cluster.licenses_used(), &all("a:4"));
}

#[test]
fn what_an_old_job_waits_for_is_not_taken_by_others() {
    let mut world = world(4, "a:3,b:9");
    let holder = world.start(wants("a:2"));
    let large = world.submit(wants("a:3"));
    let small = world.start(wants("a"));
    world.step_ended(small, StepKind::Batch, 0, OK);
    world.now = world.now.plus_secs(3 * 3600);
    let late = (world.submit(wants("a")), world.submit(wants("b")));
    world.plan();
    assert_eq!(
        (reason(&world, large), reason(&world, late.0)),
        (WAITS, WAITS)
    );
    assert_eq!(reason(&world, late.1), RUNS);
    world.step_ended(holder, StepKind::Batch, 0, OK);
    world.plan();
    assert_eq!(
        (reason(&world, large), reason(&world, late.0)),
        (RUNS, WAITS)
    );
}

#[test]
fn what_the_cluster_does_not_have_is_refused_and_what_it_lost_is_waited_for() {
    let mut world = world(1, "a:3");
    for bad in ["c", "a:4", "a:1:1", "a|b", "a b"] {
        let refused = crate::job::admit::admit(&world.cluster, &mut wants(bad), world.now);
        let kind = refused.map(drop).unwrap_err().kind;
        assert_eq!(kind, crate::api::RefusalKind::InvalidLicense, "{bad}");
    }
    let (first, second) = (world.start(wants("a:2")), world.submit(wants("a:2")));
    configure(&mut world, "a");
    world.step_ended(first, StepKind::Batch, 0, OK);
    world.plan();
    assert_eq!(reason(&world, second), WAITS);
    let event = Event::Placed {
        job: second,
        shares: vec![crate::resources::NodeShare {
            node: crate::id::NodeId(0),
            cpus: [5].into_iter().collect(),
            memory_mib: 1,
            gpus: Default::default(),
            tasks: 1,
        }],
        generation: crate::id::Generation(99),
        backfilled: false,
        time_limit: None,
    };
    assert_eq!(world.ignores(event), "too few licenses are free");
}

#[derive(Clone, Debug)]
enum Op {
    Submit(u32, u32),
    Pass,
    End(usize),
    Requeue(usize),
    Configure(u32, u32),
    Later(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0u32..4, 0u32..3).prop_map(|(a, b)| Op::Submit(a, b)),
        3 => Just(Op::Pass),
        2 => (0usize..50).prop_map(Op::End),
        1 => (0usize..50).prop_map(Op::Requeue),
        1 => (1u32..6, 1u32..4).prop_map(|(a, b)| Op::Configure(a, b)),
        1 => (1u64..10_000).prop_map(Op::Later),
    ]
}

fn counted(world: &World) -> Licenses {
    let mut held = Licenses::default();
    world
        .cluster
        .running()
        .for_each(|job| held.add(&job.spec.licenses()));
    held
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A pass gives out no more than is free, and leaves nobody waiting for licenses that are free after it but an old job's.
    #[test]
    fn licenses_are_never_given_twice(ops in prop::collection::vec(op(), 1..60)) {
        let mut world = world(6, "a:5,b:3");
        let mut jobs = Vec::new();
        let mut young = true;
        for op in ops {
            match op {
                Op::Submit(a, b) => {
                    let spec = wants(&format!("a:{a},b:{b}"));
                    if crate::job::admit::admit(&world.cluster, &mut spec.clone(), world.now).is_ok() {
                        jobs.push(world.submit(spec));
                    }
                }
                Op::Pass => {
                    let before = (counted(&world), world.cluster.licenses_free());
                    world.plan();
                    let mut given = counted(&world);
                    given.subtract(&before.0);
                    prop_assert_eq!(before.1.lacks(&given), None);
                    let free = world.cluster.licenses_free();
                    let barred = world.cluster.pending().find(|job| {
                        job.reason == Reason::Licenses && free.lacks(&job.spec.licenses()).is_none()
                    });
                    prop_assert!(!young || barred.is_none(), "{:?} of {:?}", barred.map(|job| job.id), free);
                }
                Op::End(at) | Op::Requeue(at) if jobs.is_empty() || at >= jobs.len() => {}
                Op::End(at) => {
                    world.apply(Event::Cancelled { job: jobs[at], by: crate::id::Uid(0) });
                    world.clean_all(jobs[at]);
                }
                Op::Requeue(at) => {
                    world.apply(Event::Requeued { job: jobs[at] });
                    world.clean_all(jobs[at]);
                }
                Op::Configure(a, b) => configure(&mut world, &format!("a:{a},b:{b}")),
                Op::Later(secs) => {
                    young &= secs < 60;
                    world.now = world.now.plus_secs(secs);
                }
            }
            prop_assert_eq!(world.cluster.licenses_used(), &counted(&world));
            prop_assert!(world.cluster.index_is_true());
        }
    }
}
