//! Refusals that people can see.

use crate::possible;
use vm_tests::cluster::{Cluster, SOON};
use vm_tests::user::{NOBODY, UNKNOWN, User};
use vm_tests::{procs, wait};

#[test]
fn a_refusal_is_shown_to_its_owner_and_to_operators_only() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 8);
    let device = cluster.devices("n1").swap_remove(3);
    let script = format!("{} flood {device} 1; echo $$ > pid", cluster.probe());
    let job = cluster.sbatch(NOBODY, &[], &script);
    cluster.await_state(&job, &["COMPLETED"]);
    for user in [NOBODY, User::Root] {
        wait::until_true("the refusal is shown", SOON, || {
            let shown = cluster.run(user, &["spur", "fence", "log"]).out;
            let has = |line: &str| {
                [job.as_str(), "probe", "gpu3"]
                    .iter()
                    .all(|word| line.contains(word))
            };
            shown.lines().any(has)
        });
        wait::until_true("the job counts it", SOON, || {
            let shown = cluster
                .run(user, &["scontrol", "show", "job", "-d", &job])
                .out;
            shown.contains("FenceDenials=1 ")
        });
    }
    let others = cluster.run(UNKNOWN, &["spur", "fence", "log"]).out;
    assert!(!others.contains("probe"), "{others}");
    cluster.down();
}

#[test]
fn whoever_follows_refusals_is_let_go_when_the_job_or_the_reader_is_gone() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 2);
    let device = cluster.devices("n1").swap_remove(1);
    let job = cluster.sbatch(
        NOBODY,
        &[],
        &format!("{} flood {device} 2", cluster.probe()),
    );
    cluster.await_state(&job, &["COMPLETED"]);
    wait::until_true("the refusals are shown", SOON, || {
        let lines = cluster.run(NOBODY, &["spur", "fence", "log", &job]).out;
        lines.lines().count() == 2
    });
    let followed = cluster
        .run(NOBODY, &["spur", "fence", "log", "-f", &job])
        .good();
    assert_eq!(followed.lines().count(), 2, "{followed}");
    let head = "spur fence log -f | head -n 1";
    let first = cluster.run(NOBODY, &["sh", "-c", head]).good();
    assert_eq!(first.lines().count(), 1, "{first}");
    cluster.down();
}

/// Refused opens of one job.
const FLOOD: u64 = 1_000_000;

/// What the agent may grow by in that time, in KiB.
const GROWTH: u64 = 32 * 1024;

#[test]
fn a_flood_of_refusals_costs_bounded_memory_and_loses_no_job() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 8);
    let device = cluster.devices("n1").swap_remove(3);
    let pids = ["n1", "spurctld"].map(|name| cluster.daemon(name).pid);
    let before = pids.map(procs::resident_kib);
    let count = FLOOD.to_string();
    let output = cluster
        .run(
            NOBODY,
            &["srun", &cluster.probe(), "flood", &device, &count],
        )
        .good();
    assert_eq!(output, format!("refused {FLOOD} of {FLOOD}\n"));
    for (pid, before) in pids.into_iter().zip(before) {
        let after = procs::resident_kib(pid);
        assert!(before > 0 && after > 0, "a daemon died");
        assert!(after < before + GROWTH, "{before} KiB became {after} KiB");
    }
    // Others run meanwhile and after.
    cluster
        .run(NOBODY, &["srun", "--gres=gpu:8", "true"])
        .good();
    // The count is exact, though not every refusal has a line.
    wait::until_true("the count is whole", SOON, || {
        let told = cluster
            .run(User::Root, &["spur", "fence", "explain", "1"])
            .out;
        told.contains(&format!("Refused: {FLOOD} in all"))
    });
    cluster.down();
}
