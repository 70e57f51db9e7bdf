//! What was asked for decides where the next job goes.

use crate::fixture::{World, batch, gang};
use crate::job::spec::JobSpec;

/// A job that only says what people want.
fn wish(gpus: u32, cpus: u32) -> JobSpec {
    JobSpec {
        hold: true,
        cpus_per_task: cpus,
        ..gang(1, gpus)
    }
}

#[test]
fn a_job_without_gpus_leaves_cpus_to_free_gpus() {
    let mut world = World::new(2, 4);
    for _ in 0..20 {
        world.submit(wish(1, 2));
    }
    let on_second = JobSpec {
        nodelist: vec!["n2".to_owned()],
        ..gang(1, 4)
    };
    world.start(on_second);
    let job = world.start(JobSpec {
        cpus_per_task: 4,
        ..batch()
    });
    assert!(world.places(job).starts_with("n2"), "{}", world.places(job));
}

#[test]
fn a_small_job_keeps_off_the_node_that_a_wide_one_could_have() {
    let mut world = World::new(2, 8);
    for _ in 0..10 {
        world.submit(wish(8, 1));
        world.submit(wish(1, 1));
    }
    let on_second = JobSpec {
        nodelist: vec!["n2".to_owned()],
        ..gang(1, 1)
    };
    world.start(on_second);
    let job = world.start(gang(1, 1));
    assert!(world.places(job).starts_with("n2"), "{}", world.places(job));
}
