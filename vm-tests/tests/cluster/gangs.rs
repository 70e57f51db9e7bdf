//! Jobs over several nodes: all or nothing.

use crate::possible;
use std::collections::BTreeMap;
use std::fs;
use vm_tests::cluster::{Cluster, SOON};
use vm_tests::user::NOBODY;
use vm_tests::wait;

#[test]
fn a_gang_runs_on_all_its_nodes() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(4, 8);
    let script = "echo $SLURMD_NODENAME $SLURM_PROCID $(hostname)";
    let output = cluster
        .run(
            NOBODY,
            &["srun", "-N4", "-n8", "--gres=gpu:8", "sh", "-c", script],
        )
        .good();
    let mut per_node: BTreeMap<&str, u32> = BTreeMap::new();
    let mut ranks: Vec<u32> = Vec::new();
    for line in output.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        *per_node.entry(words[0]).or_default() += 1;
        ranks.push(words[1].parse().expect("SLURM_PROCID is a number"));
    }
    ranks.sort_unstable();
    assert_eq!(
        per_node,
        [("n1", 2), ("n2", 2), ("n3", 2), ("n4", 2)].into(),
        "{output}"
    );
    assert_eq!(ranks, (0..8).collect::<Vec<_>>(), "{output}");
    cluster.down();
}

#[test]
fn a_gang_that_does_not_fit_waits_and_blocks_nothing_that_fits() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(4, 8);
    let home = cluster.home(NOBODY);
    let holder = cluster.sbatch(
        NOBODY,
        &["--gres=gpu:1"],
        "while ! test -e go; do sleep 0.1; done",
    );
    cluster.await_state(&holder, &["RUNNING"]);
    let gang = cluster.sbatch(
        NOBODY,
        &["-N4", "--gres=gpu:8", "-t", "10"],
        "srun -n4 true",
    );
    // It would never fit before the holder ends; what needs less and ends sooner runs past it.
    cluster
        .run(NOBODY, &["srun", "-t", "1", "--gres=gpu:2", "true"])
        .good();
    assert_eq!(
        cluster.job_field(&gang, "JobState").as_deref(),
        Some("PENDING")
    );
    let reason = cluster.job_field(&gang, "Reason");
    assert!(
        matches!(reason.as_deref(), Some("Resources" | "Priority")),
        "{reason:?}"
    );
    fs::write(home.join("go"), "").expect("a file can be made");
    cluster.await_state(&gang, &["COMPLETED"]);
    wait::until_true("the queue is empty", SOON, || {
        cluster.run(NOBODY, &["squeue", "-h"]).good().is_empty()
    });
    cluster.down();
}
