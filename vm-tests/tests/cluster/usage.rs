//! What jobs really use: every command says the same, idle GPUs are named, and nothing is lost while the controller is away.

use crate::possible;
use std::fs;
use std::time::Duration;
use vm_tests::cluster::{Cluster, SOON};
use vm_tests::user::{NOBODY, UNKNOWN, User};
use vm_tests::wait;

/// Burns CPU, with one of the job's GPUs at full work, until a file appears; then says what the shell itself counted.
fn load(busy: &str) -> String {
    format!(
        "echo 1000 > {busy}; echo up > up\n\
         while ! test -e go; do n=0; while test $n -lt 20000; do n=$((n + 1)); done; done\n\
         echo 0 > {busy}; times > times"
    )
}

/// The value of a line `KEY: VALUE`.
fn line<'a>(text: &'a str, key: &str) -> &'a str {
    let value = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(": "));
    value.unwrap_or_else(|| panic!("no line {key:?} in\n{text}"))
}

/// The value of the first `"KEY": VALUE` in JSON on several lines.
fn value<'a>(json: &'a str, key: &str) -> &'a str {
    let key = format!("\"{key}\": ");
    let found = json
        .lines()
        .find_map(|line| line.trim().strip_prefix(key.as_str()));
    found
        .unwrap_or_else(|| panic!("no {key} in\n{json}"))
        .trim_end_matches(',')
}

/// Seconds that `times` printed: two lines of `0m1.250000s 0m0.300000s`.
fn shell_times(text: &str) -> f64 {
    let secs = |word: &str| {
        let (minutes, secs) = word.trim_end_matches('s').split_once('m').expect("minutes");
        minutes.parse::<f64>().expect("a number") * 60.0 + secs.parse::<f64>().expect("a number")
    };
    text.split_whitespace().map(secs).sum()
}

/// Waits until the record of an ended job is final; its JSON.
fn final_numbers(cluster: &Cluster, job: &str) -> String {
    let mut last = String::new();
    wait::until_true("the record is final", SOON, || {
        last = cluster.run(NOBODY, &["spur", "usage", job, "--json"]).out;
        last.contains("\"live\": false") && last.contains("\"nodes_told\": 1")
    });
    last
}

#[test]
fn every_command_says_the_same_of_a_job_that_used_one_of_its_four_gpus() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up_with(&[
        "--nodes",
        "1",
        "--gpus",
        "4",
        "--cpus",
        "8",
        "--memory",
        "16G",
        "--idle-after",
        "3",
    ]);
    let busy = format!("{}.busy", cluster.devices("n1")[2]);
    let home = cluster.home(NOBODY);
    let job = cluster.sbatch(NOBODY, &["--gres=gpu:4", "--mem=1G"], &load(&busy));
    wait::until_true("the job runs", SOON, || home.join("up").exists());
    // Idle GPUs are named while they are held, with their owner.
    wait::until_true("three GPUs are named idle", SOON, || {
        let named = cluster.run(User::Root, &["spur", "usage", "--idle"]).out;
        let mine = |line: &&str| {
            line.split_whitespace().next() == Some(job.as_str()) && line.contains(" n1 ")
        };
        named.lines().filter(mine).count() == 3
    });
    let named = cluster.run(User::Root, &["spur", "usage", "--idle"]).out;
    assert!(named.contains("nobody"), "{named}");
    let own = cluster
        .run(NOBODY, &["spur", "usage", "--idle", "--json"])
        .good();
    assert!(
        own.contains("\"user\": \"nobody\"") && !own.contains("\"gpu\": 2,"),
        "{own}"
    );
    let others = cluster.run(UNKNOWN, &["spur", "usage", "--idle"]).good();
    assert!(!others.contains("n1"), "{others}");
    let record = cluster
        .run(User::Root, &["scontrol", "-d", "show", "job", &job])
        .good();
    assert_eq!(record.matches("IdleGpu=n1:").count(), 3, "{record}");
    // While it runs: from memory.
    wait::until_true("sstat shows it", SOON, || {
        let list = "JobID,TotalCPU,TRESUsageInTot";
        let shown = cluster
            .run(NOBODY, &["sstat", "-a", "-n", "-P", "-o", list, "-j", &job])
            .out;
        shown.starts_with(&format!("{job}.batch|")) && shown.contains("gres/gpuutil=1")
    });
    let live = cluster.run(NOBODY, &["seff", &job]).good();
    assert_eq!(line(&live, "State"), "RUNNING");
    assert_eq!(line(&live, "GPUs Utilized"), "1 of 4");
    fs::write(home.join("go"), "").expect("a file can be made");
    cluster.await_state(&job, &["COMPLETED"]);
    let json = final_numbers(&cluster, &job);
    agree(&cluster, &job, &json);
    let told: f64 = value(&json, "cpu_us").parse::<f64>().expect("a number") / 1e6;
    let own = shell_times(&fs::read_to_string(home.join("times")).expect("the job said it"));
    assert!(
        told >= own * 0.95 - 0.1 && told <= own * 1.2 + 1.0,
        "{told} s for {own} s"
    );
    cluster.down();
}

/// The same numbers in `spur usage`, `seff` and `sacct`.
fn agree(cluster: &Cluster, job: &str, json: &str) {
    assert_eq!(
        (value(json, "gpus"), value(json, "gpus_used")),
        ("4", "1"),
        "{json}"
    );
    let effort = cluster.run(NOBODY, &["seff", job]).good();
    assert_eq!(line(&effort, "State"), "COMPLETED (exit code 0)");
    assert_eq!(line(&effort, "GPUs Utilized"), "1 of 4");
    let share = value(json, "gpu_efficiency_percent");
    assert!(
        line(&effort, "GPU Efficiency").starts_with(&format!("{share}0% of ")),
        "{share}\n{effort}"
    );
    let fields = "TotalCPU,GpuUtil,GpuIdle,State";
    let shown = cluster
        .run(
            NOBODY,
            &["sacct", "-X", "-n", "-P", "-j", job, "-o", fields],
        )
        .good();
    let words: Vec<&str> = shown.trim().split('|').collect();
    assert_eq!(
        (words[1], words[2], words[3]),
        (format!("{share}%").as_str(), "3", "COMPLETED")
    );
    let micros: u64 = value(json, "cpu_us").parse().expect("a number");
    let (secs, millis) = (micros / 1_000_000, micros / 1000 % 1000);
    assert_eq!(
        words[0],
        format!("{:02}:{:02}.{millis:03}", secs / 60, secs % 60)
    );
    let used = format!("00:{:02}:{:02}", secs / 60, secs % 60);
    assert_eq!(line(&effort, "CPU Utilized"), used);
    let text = cluster.run(NOBODY, &["spur", "usage", job]).good();
    assert!(
        text.contains("GPUs    1 used of 4 held") && text.contains(words[0]),
        "{text}"
    );
    let step = cluster.run(
        NOBODY,
        &[
            "sacct",
            "-n",
            "-P",
            "-j",
            &format!("{job}.batch"),
            "-o",
            "JobID,TotalCPU,MaxRSS",
        ],
    );
    let step = step.good();
    assert!(step.starts_with(&format!("{job}.batch|")), "{step}");
    let file = cluster.home(NOBODY).join("use.svg");
    let path = file.to_str().expect("a plain name");
    cluster
        .run(NOBODY, &["spur", "usage", job, "--plot", path])
        .good();
    let picture = fs::read_to_string(&file).expect("the picture is there");
    assert!(
        picture.starts_with("<svg ") && picture.contains("GPU busy"),
        "{picture}"
    );
}

#[test]
fn counters_are_whole_after_the_controller_was_killed_and_away() {
    if !possible() {
        return;
    }
    let mut cluster = Cluster::up_with(&[
        "--nodes", "1", "--gpus", "2", "--cpus", "8", "--memory", "16G",
    ]);
    let busy = format!("{}.busy", cluster.devices("n1")[0]);
    let home = cluster.home(NOBODY);
    let job = cluster.sbatch(NOBODY, &["--gres=gpu:2"], &load(&busy));
    wait::until_true("the job runs", SOON, || home.join("up").exists());
    std::thread::sleep(Duration::from_secs(3));
    let controller = cluster.kill("spurctld");
    // Long enough to be spooled, and the job ends meanwhile.
    std::thread::sleep(Duration::from_secs(12));
    fs::write(home.join("go"), "").expect("a file can be made");
    wait::until_true("the job has ended", SOON, || home.join("times").exists());
    std::thread::sleep(Duration::from_secs(2));
    cluster.restart(&controller);
    cluster.await_state(&job, &["COMPLETED"]);
    let json = final_numbers(&cluster, &job);
    let told: f64 = value(&json, "cpu_us").parse::<f64>().expect("a number") / 1e6;
    let own = shell_times(&fs::read_to_string(home.join("times")).expect("the job said it"));
    assert!(own > 5.0, "the job worked: {own} s");
    assert!(
        told >= own * 0.95 - 0.1 && told <= own * 1.2 + 1.0,
        "{told} s for {own} s"
    );
    assert_eq!(
        (value(&json, "gpus"), value(&json, "gpus_used")),
        ("2", "1"),
        "{json}"
    );
    let busy: f64 = value(&json, "gpu_busy_us")
        .parse::<f64>()
        .expect("a number")
        / 1e6;
    assert!(busy > 13.0, "also while nobody listened: {busy} s");
    cluster.down();
}
