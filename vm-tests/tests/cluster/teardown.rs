//! `spur dev down`, whatever happened before.

use crate::possible;
use vm_tests::cluster::Cluster;
use vm_tests::user::NOBODY;

#[test]
fn nothing_is_left_after_everything_was_killed() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 8);
    let linger = format!("{} linger {}", cluster.probe(), cluster.devices("n1")[0]);
    let jobs = [
        cluster.sbatch(NOBODY, &["--gres=gpu:2", "-w", "n1"], "sleep 1000"),
        cluster.sbatch(NOBODY, &["--gres=gpu:2", "-w", "n2"], &linger),
    ];
    for job in &jobs {
        cluster.await_state(job, &["RUNNING"]);
    }
    cluster.kill_everything();
    cluster.down();
}

#[test]
fn nothing_is_left_with_everything_running() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 8);
    let linger = format!("{} linger {}", cluster.probe(), cluster.devices("n1")[0]);
    let job = cluster.sbatch(NOBODY, &["-N2", "--gres=gpu:2"], &linger);
    cluster.await_state(&job, &["RUNNING"]);
    cluster.down();
}

#[test]
fn a_cluster_that_cannot_start_says_why_and_leaves_nothing() {
    if !possible() {
        return;
    }
    // A folder that is in use already.
    let cluster = Cluster::up(1, 1);
    let dir = cluster.dir().to_string_lossy().into_owned();
    let spur = vm_tests::host::bins()
        .join("spur")
        .to_string_lossy()
        .into_owned();
    let again = cluster.run(
        vm_tests::user::User::Root,
        &[spur.as_str(), "dev", "up", "--dir", &dir],
    );
    assert_ne!(again.code, 0);
    assert!(again.err.contains(&dir), "{again:?}");
    // And the first is unharmed.
    cluster.run(NOBODY, &["srun", "true"]).good();
    cluster.down();
}
