//! Limits that give way, and deadlines.

use crate::event::Event;
use crate::fixture::{World, batch, gang};
use crate::id::JobId;
use crate::job::spec::JobSpec;
use crate::job::state::{JobState, Reason};
use crate::time::{Millis, TimeLimit};

const HOUR: u64 = 3_600;

fn secs(nodes: u32, gpus: u32, secs: u64) -> JobSpec {
    JobSpec {
        time_limit: Some(TimeLimit::Secs(secs)),
        ..gang(nodes, gpus)
    }
}

/// A job that would do with less time.
fn yielding(mut spec: JobSpec, least: u64) -> JobSpec {
    spec.extras_mut().time_min = Some(TimeLimit::Secs(least));
    spec
}

/// A job that must end by then.
fn until(mut spec: JobSpec, deadline: Millis) -> JobSpec {
    spec.extras_mut().deadline = Some(deadline);
    spec
}

fn limit(world: &World, job: JobId) -> Option<TimeLimit> {
    world.job(job).spec.time_limit
}

/// Half of the node runs for two hours, and all of it is kept for a job after that.
fn kept_in_two_hours() -> (World, Millis) {
    let mut world = World::new(1, 8);
    let first = world.start(secs(1, 4, 2 * HOUR));
    world.submit(secs(1, 8, HOUR));
    let found = world.plan();
    let start = found.outlook.reserved.values().next().unwrap().start;
    assert_eq!(Some(start), world.job(first).ended);
    (world, start)
}

#[test]
fn a_limit_is_as_long_as_there_is_room_for_it() {
    let (mut world, kept) = kept_in_two_hours();
    let rigid = world.submit(secs(1, 1, 8 * HOUR));
    let yields = world.submit(yielding(secs(1, 1, 8 * HOUR), 600));
    world.plan();
    assert_eq!(world.job(rigid).state, JobState::Pending);
    assert_eq!(world.job(yields).state, JobState::Running);
    // To the minute: a minute more would not end in time.
    let Some(TimeLimit::Secs(given)) = limit(&world, yields) else {
        panic!("{:?}", limit(&world, yields));
    };
    let started = world.job(yields).started.unwrap();
    assert!(
        started.plus_secs(given) <= kept && kept < started.plus_secs(given + 60),
        "{given}"
    );
    assert_eq!(given % 60, 0);
    assert_eq!(world.job(yields).ended, Some(started.plus_secs(given)));
}

#[test]
fn nothing_is_shortened_where_there_is_room_or_where_it_would_not_help() {
    let mut world = World::new(1, 8);
    let roomy = world.start(yielding(secs(1, 1, 8 * HOUR), 600));
    assert_eq!(limit(&world, roomy), Some(TimeLimit::Secs(8 * HOUR)));
    let (mut world, _) = kept_in_two_hours();
    let still_long = world.submit(yielding(secs(1, 1, 8 * HOUR), 4 * HOUR));
    world.plan();
    assert_eq!(world.job(still_long).state, JobState::Pending);
    assert_eq!(limit(&world, still_long), Some(TimeLimit::Secs(8 * HOUR)));
}

#[test]
fn a_limit_above_the_partitions_gives_way_too() {
    let mut world = World::new(1, 8);
    let job = world.submit(yielding(secs(1, 1, 48 * HOUR), HOUR));
    let rigid = world.submit(secs(1, 1, 48 * HOUR));
    world.plan();
    assert_eq!(limit(&world, job), Some(TimeLimit::Secs(24 * HOUR)));
    assert_eq!(world.job(rigid).reason, Reason::PartitionTimeLimit);
}

#[test]
fn a_job_that_starts_late_gets_what_is_left_until_its_deadline() {
    let mut world = World::new(1, 8);
    let deadline = world.now.plus_secs(HOUR);
    let job = world.start(until(yielding(secs(1, 1, 2 * HOUR), 600), deadline));
    let Some(TimeLimit::Secs(given)) = limit(&world, job) else {
        panic!("{:?}", limit(&world, job));
    };
    let left = deadline.secs_since(world.job(job).started.unwrap());
    assert_eq!(given, left / 60 * 60);
}

#[test]
fn a_job_that_cannot_end_in_time_is_dropped_then_and_not_before() {
    let mut world = World::new(1, 8);
    let blocks = world.start(secs(1, 8, 10 * HOUR));
    let deadline = world.now.plus_secs(2 * HOUR);
    let job = world.submit(until(secs(1, 8, HOUR), deadline));
    let held = world.submit(JobSpec {
        hold: true,
        ..until(secs(1, 8, HOUR), deadline)
    });
    let last = Millis(deadline.0 - HOUR * 1000);
    let (due, _) = world.cluster.next_deadline(world.now).unwrap();
    assert_eq!(due, Millis(last.0 + 1));
    assert!(world.cluster.expired(last).is_empty());
    let missed = |job| Event::DeadlineMissed { job };
    assert_eq!(world.cluster.expired(due), [missed(job), missed(held)]);
    assert_eq!(
        world.ignores(missed(blocks)),
        "the job has no deadline, or can still keep to it"
    );
    world.now = last;
    let fx = world.does(missed(job));
    assert!(fx.effects.len() == 1, "{fx:?}");
    let over = world.job(job);
    assert_eq!(
        (over.state, over.reason),
        (JobState::Deadline, Reason::DeadLine)
    );
    assert_eq!(over.exit.to_string(), "0:1");
    assert_eq!(over.ended, Some(world.now));
    world.does(missed(held));
    assert_eq!(world.cluster.expired(world.now), []);
}

#[test]
fn a_job_that_runs_is_left_alone_and_one_that_is_put_back_is_not() {
    let mut world = World::new(1, 8);
    let deadline = world.now.plus_secs(2 * HOUR);
    let job = world.start(until(
        JobSpec {
            requeue: true,
            ..secs(1, 1, HOUR)
        },
        deadline,
    ));
    world.now = deadline;
    assert!(world.job(job).too_late_from().is_none());
    world.does(Event::Requeued { job });
    assert_eq!(
        world.cluster.expired(world.now),
        [Event::DeadlineMissed { job }]
    );
}

#[test]
fn what_waits_for_a_job_that_was_dropped_hears_of_it() {
    let mut world = World::new(1, 8);
    world.start(secs(1, 8, 10 * HOUR));
    let first = world.submit(until(secs(1, 8, HOUR), world.now.plus_secs(2 * HOUR)));
    let after = |kind: &str| JobSpec {
        dependency: format!("{kind}:{first}"),
        ..batch()
    };
    let (ok, not_ok) = (
        world.submit(after("afterok")),
        world.submit(after("afternotok")),
    );
    world.now = world.now.plus_secs(2 * HOUR);
    world.does(Event::DeadlineMissed { job: first });
    assert_eq!(world.job(ok).reason, Reason::DependencyNeverSatisfied);
    assert_eq!(world.job(not_ok).kept(), None);
}

#[test]
fn all_components_of_a_heterogeneous_job_are_dropped_with_one() {
    let mut world = World::new(2, 8);
    world.start(secs(2, 8, 10 * HOUR));
    let deadline = world.now.plus_secs(2 * HOUR);
    let leader = world.submit_het(vec![secs(1, 1, 60), until(secs(1, 1, HOUR), deadline)]);
    let late = JobId(leader.0 + 1);
    world.now = deadline;
    world.does(Event::DeadlineMissed { job: late });
    for job in [leader, late] {
        assert_eq!(world.job(job).state, JobState::Deadline);
    }
}
