use super::*;
use crate::fixture::{World, batch, gang};
use crate::job::spec::JobSpec;
use crate::time::TimeLimit;

const HOUR: u64 = 3600;

fn limited(secs: u64) -> JobSpec {
    JobSpec {
        time_limit: Some(TimeLimit::Secs(secs)),
        ..batch()
    }
}

/// Seconds from a job's coming to its due time.
fn patience(world: &World, job: JobId) -> u64 {
    let job = world.job(job);
    due(job).secs_since(job.submitted)
}

#[test]
fn patience_grows_with_the_expected_run_time_up_to_a_bound() {
    let mut world = World::new(4, 8);
    let hour = world.submit(limited(HOUR));
    let month = world.submit(limited(30 * 24 * HOUR));
    let endless = world.submit(JobSpec {
        time_limit: Some(TimeLimit::Unlimited),
        ..batch()
    });
    assert_eq!(patience(&world, hour), 2 * HOUR);
    assert_eq!(patience(&world, month), 14 * 24 * HOUR);
    assert_eq!(patience(&world, endless), 14 * 24 * HOUR);
    let wide = world.submit(JobSpec {
        time_limit: Some(TimeLimit::Secs(HOUR)),
        ..gang(2, 8)
    });
    assert_eq!(patience(&world, wide), HOUR);
}

#[test]
fn predictions_order_only_jobs_whose_limits_say_little() {
    let mut world = World::new(1, 8);
    let id = world.submit(limited(8 * HOUR));
    let mut job = world.job(id).clone();
    for (expected, patience) in [
        (None, 16),
        (Some(HOUR), 2),
        (Some(2 * HOUR), 16),
        (Some(9 * HOUR), 16),
    ] {
        job.expected = expected;
        assert_eq!(
            due(&job).secs_since(job.submitted),
            patience * HOUR,
            "{expected:?}"
        );
    }
}

#[test]
fn a_job_waits_from_its_begin_time_and_keeps_its_age_when_requeued() {
    let mut world = World::new(1, 8);
    let begin = world.now.plus_secs(10 * HOUR);
    let later = world.submit(JobSpec {
        begin: Some(begin),
        ..limited(HOUR)
    });
    assert_eq!(due(world.job(later)), begin.plus_secs(2 * HOUR));
    let job = world.submit(limited(HOUR));
    let before = due(world.job(job));
    let mut again = world.job(job).clone();
    again.eligible = again.eligible.plus_secs(5 * HOUR);
    again.restarts = 1;
    assert_eq!(due(&again), before);
}

#[test]
fn operators_and_users_come_before_due_times() {
    let key = |tier, priority, nice, due, job| Key {
        tier: Reverse(tier),
        priority: Reverse(priority),
        nice,
        due: Millis(due),
        job: JobId(job),
    };
    let order = [
        key(2, 1, 0, 9, 5),
        key(1, 7, 0, 9, 4),
        key(1, 1, -5, 9, 3),
        key(1, 1, 0, 8, 2),
        key(1, 1, 0, 9, 1),
        key(1, 1, 0, 9, 6),
    ];
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn the_first_the_wide_and_the_overdue_get_reservations_within_bounds() {
    let (now, mut reserved) = (Millis(1000), Reserved::default());
    let claim = |nodes, due| Claim {
        nodes,
        due: Millis(due),
    };
    assert!(
        reserved.grants(claim(1, 9000), now),
        "the first, whatever it is"
    );
    assert!(
        !reserved.grants(claim(1, 9000), now),
        "neither wide nor overdue"
    );
    let granted =
        |reserved: &mut Reserved, claim| (0..20).filter(|_| reserved.grants(claim, now)).count();
    assert_eq!(granted(&mut reserved, claim(2, 9000)), WIDE as usize);
    assert!(!reserved.is_full());
    assert_eq!(granted(&mut reserved, claim(1, 1000)), OVERDUE as usize);
    assert!(reserved.is_full());
}
