//! Processes that do not want to end.

use crate::possible;
use std::fs;
use vm_tests::cluster::{Cluster, SOON};
use vm_tests::user::NOBODY;
use vm_tests::{procs, wait};

#[test]
fn what_ignores_signals_is_gone_before_its_gpu_is_granted_again() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 1);
    let home = cluster.home(NOBODY);
    let device = cluster.devices("n1").swap_remove(0);
    let script = format!("{} linger {device} > pid", cluster.probe());
    let first = cluster.sbatch(NOBODY, &["--gres=gpu:1"], &script);
    let pid = wait::until("the job has forked twice", SOON, || {
        let text = fs::read_to_string(home.join("pid")).ok()?;
        text.trim().strip_prefix("pid ")?.parse::<i32>().ok()
    });
    // Whoever gets the GPU next looks whether the first holder is still there; one that is only waited for holds nothing.
    let script = format!(
        "case $(cat /proc/{pid}/stat 2> /dev/null) in ''|*') Z '*) echo gone ;; *) echo there ;; esac > next"
    );
    let second = cluster.sbatch(NOBODY, &["--gres=gpu:1"], &script);
    assert_eq!(
        cluster.job_field(&second, "JobState").as_deref(),
        Some("PENDING")
    );
    assert!(procs::alive(pid), "it did not even outlive its submission");
    cluster.run(NOBODY, &["scancel", &first]).good();
    cluster.await_state(&second, &["COMPLETED"]);
    assert_eq!(vm_tests::host::read(&home.join("next")), "gone\n");
    assert_eq!(cluster.await_state(&first, &["CANCELLED"]), "CANCELLED");
    cluster.down();
}
