//! Why jobs wait: each reason made, and what `squeue`, `scontrol` and `spur why` then say.

use crate::possible;
use vm_tests::cluster::{Cluster, SOON};
use vm_tests::user::{NOBODY, UNKNOWN, User};
use vm_tests::wait;

/// Nodes that run nothing: enough for everything that waits.
fn cluster() -> Cluster {
    Cluster::up_with(&[
        "--hollow", "--nodes", "3", "--gpus", "8", "--cpus", "64", "--memory", "256G",
    ])
}

fn submit(cluster: &Cluster, options: &[&str]) -> String {
    cluster.sbatch(NOBODY, options, "true")
}

/// Waits until `squeue` shows this reason.
fn waits_for(cluster: &Cluster, job: &str, reason: &str) {
    let shown = format!("({reason})");
    wait::until_true(&format!("job {job} waits for {reason}"), SOON, || {
        let list = cluster.run(NOBODY, &["squeue", "-h", "-j", job, "-o", "%R"]);
        list.good().trim_end() == shown
    });
}

fn why(cluster: &Cluster, job: &str) -> String {
    cluster.run(NOBODY, &["spur", "why", job]).good()
}

fn operator(cluster: &Cluster, words: &[&str]) {
    cluster.run(User::Root, words).good();
}

fn says(text: &str, part: &str) {
    assert!(text.contains(part), "no {part:?} in:\n{text}");
}

#[test]
fn jobs_that_find_no_room_say_what_is_missing_and_who_gives_it_back() {
    if !possible() {
        return;
    }
    let cluster = cluster();
    let holders: Vec<String> = (1..=3)
        .map(|n| {
            let (minutes, node) = ((n * 10).to_string(), format!("n{n}"));
            let options = ["-N1", "--gpus-per-node=6", "-t", &minutes, "-w", &node];
            submit(&cluster, &options)
        })
        .collect();
    for holder in &holders {
        cluster.await_state(holder, &["RUNNING"]);
    }
    let first = submit(&cluster, &["-N1", "--gpus-per-node=4", "-t", "5"]);
    waits_for(&cluster, &first, "Resources");
    let second = submit(&cluster, &["-N1", "--gpus-per-node=4", "-t", "5"]);
    waits_for(&cluster, &second, "Priority");

    let text = why(&cluster, &first);
    says(&text, "needs 4 GPUs");
    says(&text, "n1, n2 and n3: 2 of 8 GPUs free");
    let back = format!("job {} of ", holders[0]);
    says(&text, &back);
    says(&text, "gives 6 GPUs back on n1 by ");
    says(&text, "2 GPUs are free on n");
    says(
        &why(&cluster, &second),
        "1 job is before it in partition gpu",
    );

    let json = cluster
        .run(NOBODY, &["spur", "why", &first, "--json"])
        .good();
    says(&json, "\"reason\": \"Resources\"");
    says(&json, "\"by\": \"busy\"");

    // The first holder's limit is the earliest end: the first job is kept its devices from then.
    let list = cluster.run(NOBODY, &["squeue", "--start"]).good();
    let head = "             JOBID PARTITION     NAME     USER ST          START_TIME  NODES SCHEDNODES           NODELIST(REASON)";
    assert_eq!(list.lines().next(), Some(head));
    let end = cluster
        .job_field(&holders[0], "EndTime")
        .expect("it has a limit");
    let line = list
        .lines()
        .find(|line| line.contains(&format!(" {first} ")));
    let line = line.unwrap_or_else(|| panic!("no job {first} in:\n{list}"));
    says(line, "n1 ");
    says(line, &end);
    assert_eq!(cluster.job_field(&first, "StartTime"), Some(end));
    assert_eq!(
        cluster.job_field(&first, "SchedNodeList").as_deref(),
        Some("n1")
    );

    // Others learn what squeue shows them, and no more.
    let outside = cluster.run(UNKNOWN, &["spur", "why", &first]).good();
    says(&outside, "Resources");
    assert!(!outside.contains("needs 4"), "{outside}");
    cluster.down();
}

#[test]
fn jobs_that_are_kept_from_starting_say_by_what() {
    if !possible() {
        return;
    }
    let cluster = cluster();
    let later = submit(&cluster, &["--begin", "now+2hours"]);
    waits_for(&cluster, &later, "BeginTime");
    says(&why(&cluster, &later), "it may not start before ");
    assert_ne!(
        cluster.job_field(&later, "StartTime").as_deref(),
        Some("Unknown")
    );

    let held = submit(&cluster, &["-H"]);
    waits_for(&cluster, &held, "JobHeldUser");
    says(&why(&cluster, &held), "held by its owner");
    operator(&cluster, &["scontrol", "release", &held]);
    cluster.await_state(&held, &["RUNNING"]);
    let stopped = submit(&cluster, &["--begin", "now+2hours"]);
    operator(&cluster, &["scontrol", "hold", &stopped]);
    waits_for(&cluster, &stopped, "JobHeldAdmin");
    says(&why(&cluster, &stopped), "held by an operator");
    says(&why(&cluster, &stopped), "never, as things stand");

    operator(
        &cluster,
        &[
            "scontrol",
            "update",
            "NodeName=n3",
            "State=DRAIN",
            "Reason=bad fan",
        ],
    );
    let named = submit(&cluster, &["-w", "n3"]);
    waits_for(&cluster, &named, "ReqNodeNotAvail, UnavailableNodes:n3");
    says(&why(&cluster, &named), "n3 is drained (bad fan)");
    assert_eq!(
        cluster.job_field(&named, "Reason").as_deref(),
        Some("ReqNodeNotAvail,_UnavailableNodes:n3")
    );

    for (state, reason) in [("DOWN", "PartitionDown"), ("INACTIVE", "PartitionInactive")] {
        operator(
            &cluster,
            &["scontrol", "update", "PartitionName=gpu", "State=UP"],
        );
        let job = submit(&cluster, &["-H"]);
        let set = format!("State={state}");
        operator(&cluster, &["scontrol", "update", "PartitionName=gpu", &set]);
        operator(&cluster, &["scontrol", "release", &job]);
        waits_for(&cluster, &job, reason);
        let text = why(&cluster, &job);
        says(&text, &format!("partition gpu is {}", state.to_lowercase()));
    }
    cluster.down();
}
