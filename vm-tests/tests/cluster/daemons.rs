//! Daemons that are killed at the worst time.

use crate::possible;
use std::collections::BTreeSet;
use std::fs;
use vm_tests::cluster::{Cluster, SOON};
use vm_tests::probe::{reached, verdicts};
use vm_tests::user::{NOBODY, Output, User};
use vm_tests::{procs, wait};

#[test]
fn a_killed_agent_lets_nothing_through_and_loses_nothing() {
    if !possible() {
        return;
    }
    let mut cluster = Cluster::up(1, 8);
    let devices = cluster.devices("n1");
    let home = cluster.home(NOBODY);
    let script = format!(
        "while ! test -e go; do {} scan . {} > part; mv part scan.$((n = n + 1)); sleep 0.1; done; exit 7",
        cluster.probe(),
        devices.join(" ")
    );
    let job = cluster.sbatch(NOBODY, &["--gres=gpu:2"], &script);
    let scans = || {
        (1..)
            .take_while(|n| home.join(format!("scan.{n}")).exists())
            .count()
    };
    let more = |when: &str| {
        let before = scans();
        wait::until_true(&format!("the job scans {when}"), SOON, || {
            scans() > before + 2
        });
    };
    more("under its agent");
    let agent = cluster.kill("n1");
    more("while no agent lives");
    cluster.restart(&agent);
    more("under the restarted agent");
    wait::until_true("the node is back", SOON, || {
        cluster
            .run(User::Root, &["sinfo", "-h", "-o", "%T"])
            .out
            .trim()
            == "mixed"
    });
    fs::write(home.join("go"), "").expect("a file can be made");
    cluster.await_state(&job, &["FAILED"]);
    assert_eq!(cluster.job_field(&job, "ExitCode").as_deref(), Some("7:0"));
    let mut own = BTreeSet::new();
    for n in 1..=scans() {
        let scan = vm_tests::host::read(&home.join(format!("scan.{n}")));
        assert_eq!(verdicts(&scan).len(), 8);
        own.insert(reached(&scan));
    }
    assert!(
        own.len() == 1 && own.iter().all(|set| set.len() == 2),
        "{own:?}"
    );
    // Its GPUs are free again: all eight can be had.
    cluster
        .run(NOBODY, &["srun", "--gres=gpu:8", "true"])
        .good();
    cluster.down();
}

#[test]
fn a_step_of_srun_lives_through_its_agent() {
    if !possible() {
        return;
    }
    let mut cluster = Cluster::up(1, 1);
    let home = cluster.home(NOBODY);
    let script =
        "echo begun > begun; while ! test -e go; do sleep 0.1; done; echo said at the end; exit 9";
    let srun = cluster.spawn(NOBODY, &["srun", "sh", "-c", script]);
    wait::until_true("the step runs", SOON, || home.join("begun").exists());
    let agent = cluster.kill("n1");
    cluster.restart(&agent);
    fs::write(home.join("go"), "").expect("a file can be made");
    let output = Output::of(srun);
    assert_eq!(
        (output.code, output.out.as_str()),
        (9, "said at the end\n"),
        "{output:?}\n{}",
        cluster.logs()
    );
    cluster.await_idle();
    cluster.down();
}

#[test]
fn an_srun_that_waits_in_the_queue_lives_through_the_controller() {
    if !possible() {
        return;
    }
    let mut cluster = Cluster::up(1, 1);
    let home = cluster.home(NOBODY);
    let first = cluster.sbatch(
        NOBODY,
        &["--exclusive"],
        "while ! test -e go; do sleep 0.1; done",
    );
    let line = "srun -n2 --exclusive sh -c 'echo said' 2> told; exit $?";
    let srun = cluster.spawn(NOBODY, &["sh", "-c", line]);
    wait::until_true("srun says that it waits", SOON, || {
        fs::read_to_string(home.join("told")).is_ok_and(|text| text.contains("queued and waiting"))
    });
    let controller = cluster.kill("spurctld");
    cluster.restart(&controller);
    cluster.await_state(&first, &["RUNNING"]);
    fs::write(home.join("go"), "").expect("a file can be made");
    let output = Output::of(srun);
    assert_eq!(
        (output.code, output.out.as_str()),
        (0, "said\nsaid\n"),
        "{output:?}\n{}",
        cluster.logs()
    );
    cluster.await_idle();
    cluster.down();
}

/// Batches submitted at once, and jobs in each: a thousand in all.
const SUBMITTERS: u32 = 4;
const EACH: u32 = 250;

#[test]
fn a_killed_controller_keeps_every_acknowledged_job() {
    if !possible() {
        return;
    }
    let mut cluster = Cluster::up(1, 2);
    let home = cluster.home(NOBODY);
    // Holds the whole node, so that the others wait.
    let running = cluster.sbatch(
        NOBODY,
        &["--exclusive"],
        "echo $$ > pid; while ! test -e go; do sleep 0.1; done; exit 5",
    );
    wait::until_true("the first job runs", SOON, || home.join("pid").exists());
    let pid: i32 = vm_tests::host::read(&home.join("pid"))
        .trim()
        .parse()
        .expect("a number");
    let script = format!(
        "for i in $(seq {EACH}); do sbatch --parsable --exclusive --wrap true || exit 1; done"
    );
    let submitters: Vec<_> = (0..SUBMITTERS)
        .map(|_| cluster.spawn(NOBODY, &["sh", "-c", &script]))
        .collect();
    let mut acknowledged = BTreeSet::new();
    for submitter in submitters {
        for id in Output::of(submitter).good().lines() {
            assert!(acknowledged.insert(id.to_owned()), "{id} was given twice");
        }
    }
    let controller = cluster.kill("spurctld");
    assert_eq!(acknowledged.len(), 1000);
    cluster.restart(&controller);
    wait::until_true("the new controller answers", SOON, || {
        cluster.run(User::Root, &["squeue", "-h"]).code == 0
    });
    let shown = cluster
        .run(User::Root, &["squeue", "-h", "-o", "%i"])
        .good();
    let known: BTreeSet<String> = shown.lines().map(|id| id.trim().to_owned()).collect();
    assert!(
        acknowledged.is_subset(&known),
        "{} of 1000 are known",
        acknowledged.intersection(&known).count()
    );
    assert!(procs::alive(pid), "the running job was lost");
    let fresh = cluster.sbatch(NOBODY, &["--exclusive"], "true");
    assert!(!known.contains(&fresh), "{fresh} was given twice");
    cluster
        .run(NOBODY, &["scancel", "--state=PENDING", "-u", "nobody"])
        .good();
    fs::write(home.join("go"), "").expect("a file can be made");
    cluster.await_state(&running, &["FAILED"]);
    assert_eq!(
        cluster.job_field(&running, "ExitCode").as_deref(),
        Some("5:0")
    );
    cluster.down();
}

#[test]
fn a_job_of_a_lost_node_runs_again_and_never_twice_at_once() {
    if !possible() {
        return;
    }
    let mut cluster = Cluster::up(2, 1);
    cluster.configure("node_timeout = 5");
    // Each run says whether the one before it still lives.
    let script = "test ! -e pid || ! kill -0 $(cat pid) || echo twice >> runs; echo $$ > pid; \
                  echo $SLURMD_NODENAME $SLURM_RESTART_COUNT >> runs; while ! test -e go; do sleep 0.1; done; exit 4";
    let home = cluster.home(NOBODY);
    let again = cluster.sbatch(NOBODY, &["--requeue", "--exclusive"], script);
    let runs = || fs::read_to_string(home.join("runs")).unwrap_or_default();
    wait::until_true("the job runs", SOON, || !runs().is_empty());
    let node = runs().split_whitespace().next().map(str::to_owned);
    let node = node.expect("it says where");
    let agent = cluster.kill(&node);
    wait::until_true("the job runs elsewhere", SOON, || {
        runs().lines().count() > 1
    });
    let other = if node == "n1" { "n2" } else { "n1" };
    assert_eq!(runs(), format!("{node}\n{other} 1\n"));
    assert_eq!(
        cluster
            .run(User::Root, &["sinfo", "-h", "-n", &node, "-o", "%t"])
            .good(),
        "down*\n"
    );

    // The agent finds nothing left of it, and the node serves again.
    cluster.restart(&agent);
    fs::write(home.join("go"), "").expect("a file can be made");
    cluster.await_state(&again, &["FAILED"]);
    assert_eq!(
        cluster.job_field(&again, "ExitCode").as_deref(),
        Some("4:0")
    );
    cluster.await_idle();
    assert_eq!(runs().lines().count(), 2);
    cluster.down();
}
