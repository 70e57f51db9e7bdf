//! Heterogeneous jobs: one script over components of different kinds, all started together and ended together.

use crate::possible;
use std::fs;
use vm_tests::cluster::{Cluster, SOON};
use vm_tests::user::NOBODY;
use vm_tests::wait;

/// What a task tells of itself.
const TELL: &str =
    "echo $SLURM_PROCID $SLURM_JOB_ID $SLURM_NTASKS $SLURM_JOB_PARTITION_HET_GROUP_1";

#[test]
fn a_script_starts_one_step_over_all_components() {
    if !possible() {
        return;
    }
    let mut cluster = Cluster::up(2, 4);
    let home = cluster.home(NOBODY);
    let script = format!(
        "#SBATCH -N1 -n1 --gres=gpu:1 -J parted -o out.txt\n\
         #SBATCH hetjob\n\
         #SBATCH -N1 -n2 --gres=gpu:3\n\
         test ! -e first && touch first && while ! test -e go; do sleep 0.1; done\n\
         echo $SLURM_HET_SIZE $SLURM_JOB_ID_HET_GROUP_1\n\
         srun --het-group=0,1 sh -c '{TELL}' | sort -n\n\
         srun --het-group=1 sh -c 'echo $SLURM_PROCID $SLURM_GPUS_ON_NODE' | sort -n\n\
         srun -l sh -c 'echo a' : sh -c 'echo b' | sort -n"
    );
    let job = cluster.sbatch(NOBODY, &[], &script);
    cluster.await_state(&job, &["RUNNING"]);
    let second = job.parse::<u32>().expect("a number") + 1;
    let listed = |cluster: &Cluster| {
        let shown = cluster.run(NOBODY, &["squeue", "-h", "-o", "%i %A %t", "-j", &job]);
        let mut lines: Vec<String> = shown.good().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let both = [format!("{job}+0 {job} R"), format!("{job}+1 {second} R")];
    assert_eq!(listed(&cluster), both);
    let offset = cluster.job_field(&format!("{job}+1"), "HetJobOffset");
    assert_eq!(offset.as_deref(), Some("1"));
    let set = cluster.job_field(&job, "HetJobIdSet");
    assert_eq!(set, Some(format!("{job}-{second}")));
    // The controller comes back to a job that is whole.
    let controller = cluster.kill("spurctld");
    cluster.restart(&controller);
    wait::until_true("the controller answers", SOON, || {
        cluster.run(NOBODY, &["scontrol", "ping"]).code == 0
    });
    assert_eq!(listed(&cluster), both);
    fs::write(home.join("go"), "").expect("a file can be made");
    cluster.await_state(&job, &["COMPLETED"]);
    cluster.await_state(&second.to_string(), &["COMPLETED"]);
    let out = fs::read_to_string(home.join("out.txt")).expect("the script's output");
    let tasks: String = (0..3).map(|task| format!("{task} {job} 3 gpu\n")).collect();
    let wanted = format!("2 {second}\n{tasks}0 3\n1 3\n0: a\n1: b\n2: b\n");
    assert_eq!(out, wanted);
    let told = cluster.run(
        NOBODY,
        &[
            "sacct",
            "-X",
            "-n",
            "-P",
            "-o",
            "JobID,JobIDRaw",
            "-j",
            &job,
        ],
    );
    assert_eq!(told.good(), format!("{job}+0|{job}\n{job}+1|{second}\n"));
    cluster.down();
}

#[test]
fn srun_and_salloc_make_such_jobs_of_their_own() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 4);
    let run = [
        "srun",
        "-n1",
        "sh",
        "-c",
        TELL,
        ":",
        "-n2",
        "--gres=gpu:2",
        "sh",
        "-c",
        TELL,
    ];
    let out = cluster.run(NOBODY, &run).good();
    let mut lines: Vec<&str> = out.lines().collect();
    lines.sort_unstable();
    let job = lines[0].split(' ').nth(1).expect("a number").to_owned();
    let wanted: Vec<String> = (0..3).map(|task| format!("{task} {job} 3 gpu")).collect();
    assert_eq!(lines, wanted, "{out}");
    cluster.await_state(&job, &["COMPLETED"]);

    let shell =
        "echo $SLURM_HET_SIZE $SLURM_JOB_NODELIST_HET_GROUP_1; srun --het-group=1 hostname | wc -l";
    let alloc = ["salloc", "-n1", ":", "-n2", "-w", "n2", "sh", "-c", shell];
    assert_eq!(cluster.run(NOBODY, &alloc).good(), "2 n2\n2\n");
    wait::until_true("the queue is empty", SOON, || {
        cluster.run(NOBODY, &["squeue", "-h"]).good().is_empty()
    });
    cluster.down();
}

#[test]
fn a_component_ends_alone_once_it_runs_and_the_leader_takes_all_with_it() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 4);
    let sleep = "sleep 600";
    let job = cluster.sbatch(NOBODY, &["--gres=gpu:1", ":", "--gres=gpu:1"], sleep);
    cluster.await_state(&job, &["RUNNING"]);
    // What does not fit beside it waits as a whole, and is cancelled as a whole.
    let wide = cluster.sbatch(NOBODY, &["--gres=gpu:1", ":", "--gres=gpu:2"], sleep);
    let part = format!("{wide}+1");
    let refused = cluster.run(NOBODY, &["scancel", &part]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("individual component"), "{refused:?}");
    assert_eq!(
        cluster.job_field(&part, "JobState").as_deref(),
        Some("PENDING")
    );
    cluster.run(NOBODY, &["scancel", &wide]).good();
    cluster.await_state(&part, &["CANCELLED"]);
    let part = format!("{job}+1");
    cluster.run(NOBODY, &["scancel", &part]).good();
    cluster.await_state(&part, &["CANCELLED"]);
    assert_eq!(
        cluster.job_field(&job, "JobState").as_deref(),
        Some("RUNNING")
    );
    cluster.run(NOBODY, &["scancel", &job]).good();
    cluster.await_state(&job, &["CANCELLED"]);
    cluster.down();
}
