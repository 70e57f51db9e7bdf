//! A fence that cannot be proven starts no job.

use crate::possible;
use std::fs;
use vm_tests::cluster::{Cluster, SOON};
use vm_tests::user::{NOBODY, User};
use vm_tests::{host, probe, wait};

#[test]
fn a_broken_fence_starts_no_job_and_says_why() {
    if !possible() {
        return;
    }
    let mut cluster = Cluster::up(1, 2);
    let object = cluster.dir().join("broken.o");
    fs::write(&object, probe::BROKEN_FENCE).expect("an object can be written");
    let agent = cluster.kill("n1");
    let config = agent
        .args
        .iter()
        .skip_while(|arg| *arg != "--config")
        .nth(1);
    let config = config.expect("the agent was given its configuration");
    let text = host::read(config.as_ref());
    let broken = format!("fence_object = \"{}\"\n{text}", object.display());
    fs::write(config, broken).expect("a configuration can be changed");
    cluster.restart(&agent);

    let job = cluster.sbatch(NOBODY, &["--gres=gpu:1"], "echo ran > ran");
    wait::until_true("the node says why", SOON, || {
        let shown = cluster
            .run(User::Root, &["scontrol", "show", "node", "n1"])
            .out;
        shown
            .lines()
            .any(|line| line.contains("Reason=") && line.to_lowercase().contains("fence"))
    });
    wait::until_true("the job says that it waits, and why", SOON, || {
        let shown = cluster
            .run(NOBODY, &["squeue", "-h", "-j", &job, "-o", "%T %r"])
            .out;
        let words: Vec<&str> = shown.trim().splitn(2, ' ').collect();
        matches!(words[..], ["PENDING", reason] if reason != "None")
    });
    let direct = cluster.run(
        NOBODY,
        &["srun", "--immediate=2", "sh", "-c", "echo ran > ran"],
    );
    assert_ne!(direct.code, 0, "{direct:?}");
    assert!(
        !cluster.home(NOBODY).join("ran").exists(),
        "a job ran without a fence"
    );
    cluster.down();
}
