use super::*;
use crate::event::Event;
use crate::fixture::{OK, World, batch, gang, hello, inventory};
use crate::id::{NodeId, StepKind};
use crate::job::spec::JobSpec;
use crate::job::state::JobState;

fn asks(user: u32, name: &str, limit: u64) -> JobSpec {
    let mut spec = batch();
    spec.owner.uid = Uid(user);
    name.clone_into(&mut spec.name);
    spec.time_limit = Some(TimeLimit::Secs(limit));
    spec
}

fn after(runs: &[(&JobSpec, u64)]) -> History {
    let mut history = History::default();
    for (spec, secs) in runs {
        history.record(spec, *secs);
    }
    history
}

#[test]
fn the_narrowest_kind_that_has_enough_runs_tells() {
    let (train, test) = (asks(1, "train-1", 7200), asks(1, "test", 7200));
    let mut runs = vec![(&test, 60); 3];
    assert_eq!(
        after(&runs).expected(&test),
        None,
        "three runs tell nothing"
    );
    runs.extend(vec![(&train, 3600); 4]);
    let history = after(&runs);
    let another = asks(1, "train-25", 7200);
    assert_eq!(
        history.expected(&another),
        Some(3600),
        "digits do not count"
    );
    // The test's own three runs do not suffice; the user's seven do.
    assert_eq!(history.expected(&test), Some(3600));
    let stranger = asks(2, "x", 7000);
    assert_eq!(
        history.expected(&stranger),
        Some(3600),
        "limits of one magnitude"
    );
    assert_eq!(history.expected(&asks(2, "x", 60)), None, "another limit");
    let spec = JobSpec {
        time_limit: stranger.time_limit,
        ..gang(1, 2)
    };
    assert_eq!(history.expected(&spec), None, "another size");
}

#[test]
fn a_prediction_is_within_the_limit_and_forgets_what_is_old() {
    let long = asks(1, "a", 8000);
    let mut history = after(&[(&long, 7900); 4]);
    assert_eq!(history.expected(&asks(1, "a", 5000)), Some(5000));
    for secs in 0..REMEMBERED as u64 {
        history.record(&long, secs);
    }
    assert_eq!(history.expected(&long), Some(14));
}

#[test]
fn it_stays_small_and_is_the_same_when_read_back() {
    let mut history = History::default();
    for user in 0..20_000 {
        history.record(&asks(user, "a", 60), 1);
        assert!(history.kinds.len() <= MOST_KINDS);
    }
    for _ in 0..4 {
        history.record(&asks(20_000, "b", 60), 9);
    }
    assert_eq!(history.expected(&asks(20_000, "b", 60)), Some(9));
    let bytes = rmp_serde::to_vec_named(&history).unwrap();
    assert!(bytes.len() < 1 << 20, "{}", bytes.len());
    assert_eq!(rmp_serde::from_slice::<History>(&bytes).unwrap(), history);
}

#[test]
fn a_job_that_ends_teaches_and_the_next_one_knows() {
    let mut world = World::new(1, 8);
    for _ in 0..LEAST {
        let job = world.start(gang(1, 1));
        world.now = world.now.plus_secs(100);
        world.step_ended(job, StepKind::Batch, 0, OK);
        world.clean_all(job);
    }
    let job = world.start(gang(1, 1));
    let job = world.job(job);
    assert_eq!(job.expected, Some(101));
    let after = |secs| run_secs(job, job.started.unwrap().plus_secs(secs));
    assert_eq!(after(100), Some(101));
    assert_eq!(after(500), Some(1000), "it outlived the prediction");
    assert_eq!(after(3000), Some(3600), "never beyond the limit");
}

#[test]
fn jobs_that_the_cluster_ended_teach_nothing() {
    let mut world = World::new(1, 8);
    for _ in 0..LEAST {
        let job = world.start(gang(1, 1));
        world.does(Event::NodeDisconnected { node: NodeId(0) });
        world.does(Event::NodeLost { node: NodeId(0) });
        world.does(Event::NodeConnected(hello("n1", inventory(8, 16_384, 8))));
        assert_eq!(world.job(job).state, JobState::NodeFail);
    }
    let job = world.submit(gang(1, 1));
    assert_eq!(world.job(job).expected, None);
}
