//! Jobs of crontabs.

use crate::event::Event;
use crate::fixture::{OK, World, batch};
use crate::id::{JobId, StepKind, Uid};
use crate::job::admit::admit;
use crate::job::extras::Cron;
use crate::job::spec::JobSpec;
use crate::job::state::{ExitStatus, JobState, Reason};
use crate::time::Millis;
use std::sync::Arc;

const ALICE: Uid = Uid(1000);
const TABLE: &str = "# mine\n#SCRON -t 5\n*/5 * * * * one\n@hourly two\n";

fn entry(times: &str, (first_line, last_line): (u32, u32)) -> JobSpec {
    let mut spec = batch();
    spec.extras_mut().cron = Some(Cron {
        times: times.to_owned(),
        utc_offset: 0,
        first_line,
        last_line,
    });
    spec
}

/// Sets alice's table.
fn set(world: &mut World, table: Option<&str>, entries: Vec<JobSpec>) -> Vec<JobId> {
    let first = world.cluster.next_job_id().unwrap();
    let admitted = |(mut spec, number): (JobSpec, u32)| {
        let priority = admit(&world.cluster, &mut spec, world.now)
            .unwrap()
            .priority;
        spec.begin = spec.extras().cron.as_ref().unwrap().next(world.now);
        (JobId(number), Arc::new(spec), priority)
    };
    let jobs: Vec<_> = entries.into_iter().zip(first.0..).map(admitted).collect();
    let ids = jobs.iter().map(|(id, ..)| *id).collect();
    world.does(Event::CrontabSet {
        uid: ALICE,
        table: table.map(str::to_owned),
        jobs,
    });
    ids
}

fn both(world: &mut World) -> (JobId, JobId) {
    let entries = vec![entry("0-59/5 * * * *", (1, 2)), entry("0 * * * *", (3, 3))];
    let jobs = set(world, Some(TABLE), entries);
    (jobs[0], jobs[1])
}

/// The job begins, and ends so.
fn runs(world: &mut World, job: JobId, exit: ExitStatus) {
    world.now = world.job(job).eligible;
    world.plan();
    assert_eq!(world.job(job).state, JobState::Running);
    let node = world.job(job).allocation[0].node.0;
    world.step_ended(job, StepKind::Batch, node, exit);
    world.clean_all(job);
}

#[test]
fn an_entry_begins_again_at_its_next_time_under_the_same_number() {
    let mut world = World::new(1, 8);
    // 00:16:40 and a second.
    let (job, _) = both(&mut world);
    assert_eq!(world.cluster.crontabs[&ALICE], TABLE);
    assert_eq!(world.job(job).eligible, Millis(1_200_000));
    world.plan();
    assert_eq!(
        (world.job(job).state, world.job(job).reason),
        (JobState::Pending, Reason::BeginTime)
    );
    for (exit, ended, next) in [
        (OK, JobState::Completed, 1_500_000),
        (
            ExitStatus { code: 3, signal: 0 },
            JobState::Failed,
            1_800_000,
        ),
    ] {
        runs(&mut world, job, exit);
        assert_eq!(world.job(job).state, ended, "its end is to be seen");
        let (due, _) = world.cluster.next_deadline(world.now).unwrap();
        assert_eq!(
            world.cluster.expired(due),
            [Event::CronAgain { job, next: None }]
        );
        world.does(Event::CronAgain { job, next: None });
        let again = world.job(job);
        assert_eq!(
            (again.state, again.eligible),
            (JobState::Pending, Millis(next))
        );
        assert_eq!(again.restarts, 0, "it is no requeue");
    }
    world.ignores(Event::CronAgain { job, next: None });
}

#[test]
fn an_entry_goes_on_after_a_node_that_is_lost_with_something_of_it() {
    let mut world = World::new(2, 8);
    let (job, _) = both(&mut world);
    world.now = world.job(job).eligible;
    world.plan();
    let node = world.job(job).allocation[0].node;
    world.step_ended(job, StepKind::Batch, node.0, OK);
    assert!(!world.job(job).uncleaned.is_empty());
    let (due, _) = world.cluster.next_deadline(world.now).unwrap();
    assert_eq!(
        world.cluster.expired(due),
        [Event::CronAgain { job, next: None }]
    );
    world.does(Event::CronAgain { job, next: None });
    world.now = world.job(job).eligible;
    world.plan();
    assert_eq!(world.job(job).reason, Reason::Cleaning);
    world.does(Event::NodeDisconnected { node });
    world.does(Event::NodeLost { node });
    world.plan();
    assert_eq!(world.job(job).state, JobState::Running);
    assert_ne!(world.job(job).allocation[0].node, node);
}

#[test]
fn a_new_table_takes_the_place_of_the_old_one() {
    let mut world = World::new(1, 8);
    let (runs_on, waits) = both(&mut world);
    world.now = world.job(runs_on).eligible;
    world.plan();
    let fresh = set(
        &mut world,
        Some("@daily x\n"),
        vec![entry("0 0 * * *", (0, 0))],
    )[0];
    assert_eq!(world.cluster.crontabs[&ALICE], "@daily x\n");
    assert_eq!(world.job(waits).state, JobState::Cancelled);
    assert_eq!(world.job(waits).cancelled_by, Some(ALICE));
    assert_eq!(world.job(runs_on).state, JobState::Running);
    let node = world.job(runs_on).allocation[0].node.0;
    world.step_ended(runs_on, StepKind::Batch, node, OK);
    world.clean_all(runs_on);
    assert!(world.job(runs_on).cron().is_none(), "for the last time");
    set(&mut world, None, Vec::new());
    assert!(world.cluster.crontabs.is_empty());
    assert_eq!(world.job(fresh).state, JobState::Cancelled);
}

#[test]
fn a_cancelled_entry_is_made_a_comment() {
    let mut world = World::new(1, 8);
    let (first, second) = both(&mut world);
    world.does(Event::Cancelled {
        job: first,
        by: ALICE,
    });
    assert_eq!(
        world.cluster.crontabs[&ALICE],
        "# mine\n#DISABLED: #SCRON -t 5\n#DISABLED: */5 * * * * one\n@hourly two\n"
    );
    assert_eq!(world.job(first).state, JobState::Cancelled);
    world.ignores(Event::CronAgain {
        job: first,
        next: None,
    });
    assert_eq!(world.job(second).state, JobState::Pending);
}

#[test]
fn a_table_of_somebody_elses_jobs_is_none() {
    let mut world = World::new(1, 8);
    let mut spec = entry("* * * * *", (0, 0));
    spec.owner.uid = Uid(7);
    let job = world.cluster.next_job_id().unwrap();
    let why = world.ignores(Event::CrontabSet {
        uid: ALICE,
        table: None,
        jobs: vec![(job, Arc::new(spec), 1)],
    });
    assert_eq!(why, "the job is no entry of the user's crontab");
}
