//! Input that makes no sense: Slurm's message and exit code where it has them, and nothing half done.

use crate::possible;
use std::fs;
use vm_tests::cluster::{Cluster, SOON};
use vm_tests::user::{NOBODY, User};
use vm_tests::wait;

/// Words, the line of standard error that must be there, exit code.
type Case = (&'static [&'static str], &'static str, i32);

const CASES: &[Case] = &[
    (
        &["sbatch", "-p", "nope", "--wrap", "true"],
        "sbatch: error: Batch job submission failed: Invalid partition name specified",
        1,
    ),
    (
        &["sbatch", "-p", "nope", "--wrap", "true"],
        "sbatch: error: invalid partition specified: nope",
        1,
    ),
    (
        &["srun", "-p", "nope", "true"],
        "srun: error: Unable to allocate resources: Invalid partition name specified",
        1,
    ),
    (
        &["sbatch", "-w", "nope01", "--wrap", "true"],
        "sbatch: error: Batch job submission failed: Invalid node name specified",
        1,
    ),
    (
        &["sbatch", "--gres=gpu:9", "--wrap", "true"],
        "sbatch: error: Batch job submission failed: Requested node configuration is not available",
        1,
    ),
    (
        &["srun", "--gres=gpu:9", "true"],
        "srun: error: Unable to allocate resources: Requested node configuration is not available",
        1,
    ),
    (
        &["sbatch", "-t", "abc", "--wrap", "true"],
        "sbatch: error: Invalid --time specification",
        255,
    ),
    (
        &["srun", "-t", "abc", "true"],
        "srun: error: Invalid --time specification",
        255,
    ),
    (
        &["sbatch", "--gres=tpu:1", "--wrap", "true"],
        "sbatch: error: Invalid generic resource (gres) specification",
        1,
    ),
    (
        &["sbatch", "--mem=lots", "--wrap", "true"],
        "sbatch: error: Invalid --mem specification",
        255,
    ),
    (
        &["sbatch", "/nonexistent.sh"],
        "sbatch: error: Unable to open file /nonexistent.sh",
        1,
    ),
    (
        &["sbatch", "--nope", "--wrap", "true"],
        "sbatch: unrecognized option '--nope'",
        255,
    ),
    (
        &["srun", "--nope", "true"],
        "srun: unrecognized option '--nope'",
        255,
    ),
    (&["srun"], "srun: fatal: No command given to execute.", 1),
    (
        &["srun", "-n", "0", "true"],
        "srun: error: Invalid numeric value \"0\" for --ntasks.",
        1,
    ),
    (
        &["srun", "/nonexistent"],
        "execve(): /nonexistent: No such file or directory",
        2,
    ),
];

/// Scripts that are refused.
const SCRIPTS: &[(&str, &str, i32)] = &[
    ("", "sbatch: error: Batch script is empty!", 1),
    (
        "echo no interpreter\n",
        "This does not look like a batch script.",
        1,
    ),
    (
        "#!/bin/sh\n#SBATCH --nope\ntrue\n",
        "sbatch: unrecognized option '--nope'",
        255,
    ),
];

#[test]
fn bad_input_gets_the_message_and_leaves_no_job() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 8);
    let mut wrong = Vec::new();
    let mut check = |what: String, output: vm_tests::user::Output, message: &str, code: i32| {
        if output.code != code || !output.err.contains(message) {
            wrong.push(format!("{what}: {output:?}, wanted {message:?} and {code}"));
        }
    };
    for (words, message, code) in CASES {
        check(words.join(" "), cluster.run(NOBODY, words), message, *code);
    }
    let path = cluster.home(NOBODY).join("script.sh");
    for (script, message, code) in SCRIPTS {
        fs::write(&path, script).expect("a script can be written");
        check(
            format!("{script:?}"),
            cluster.run(NOBODY, &["sbatch", "script.sh"]),
            message,
            *code,
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    wait::until_true("no job is left", SOON, || {
        cluster.run(User::Root, &["squeue", "-h"]).good().is_empty()
    });
    cluster.await_idle();
    cluster.down();
}

#[test]
fn a_dead_controller_is_said_to_be_dead() {
    if !possible() {
        return;
    }
    let mut cluster = Cluster::up(1, 1);
    let controller = cluster.kill("spurctld");
    // The kernel may still be closing what it had open.
    wait::until_true("nobody listens", SOON, || {
        let asked = cluster.run(NOBODY, &["squeue"]);
        asked.err.contains("Unable to contact")
    });
    for words in [
        &["squeue"][..],
        &["sinfo"],
        &["sbatch", "--wrap", "true"],
        &["srun", "true"],
    ] {
        let output = cluster.run(NOBODY, words);
        assert_eq!(output.code, 1, "{words:?}: {output:?}");
        assert!(
            output.err.contains("Unable to contact slurm controller"),
            "{words:?}: {output:?}"
        );
    }
    cluster.restart(&controller);
    cluster.await_idle();
    cluster.down();
}
