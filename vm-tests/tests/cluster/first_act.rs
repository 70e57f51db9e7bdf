//! No unfenced instant: what a job does first is refused like all that follows.

use crate::possible;
use vm_tests::cluster::Cluster;
use vm_tests::user::NOBODY;

/// Jobs, each with a cgroup and a fence of its own.
const JOBS: u32 = 200;

/// Tasks of each: processes whose first act is to open a device that they do not hold.
const TASKS: u32 = 50;

#[test]
fn the_first_act_is_refused_ten_thousand_times() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 8);
    let device = cluster.devices("n1").swap_remove(7);
    let probe = cluster.probe();
    let tasks = TASKS.to_string();
    for job in 0..JOBS {
        // The probe exits with 0 only if the kernel said EPERM; srun exits with the highest status of its tasks.
        let output = cluster.run(NOBODY, &["srun", "-n", &tasks, &probe, "first", &device]);
        assert_eq!(
            output.code,
            0,
            "job {job} of {JOBS}: {output:?}\n{}",
            cluster.logs()
        );
    }
    cluster.down();
}
