//! What operators have run for jobs, and what owners hear: prologs, epilogs, mail; deadlines; crontabs.

use crate::possible;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use vm_tests::cluster::{Cluster, SOON};
use vm_tests::user::{NOBODY, Output, User};
use vm_tests::wait;

/// A program of root's.
fn program(cluster: &Cluster, name: &str, script: &str) -> PathBuf {
    let path = cluster.dir().join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a program can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("root may");
    path
}

/// Starts the controller anew with more in its configuration, before and behind what is there.
fn reconfigured(cluster: &mut Cluster, before: &str, behind: &str) {
    let path = cluster.dir().join("spur.toml");
    let text = fs::read_to_string(&path).expect("dev up wrote it");
    fs::write(&path, format!("{before}\n{text}\n{behind}\n")).expect("root may");
    let controller = cluster.kill("spurctld");
    cluster.restart(&controller);
    cluster.await_idle();
}

fn lines(path: &Path, count: usize) -> Vec<String> {
    let read = || fs::read_to_string(path).unwrap_or_default();
    let what = format!("{count} lines in {}", path.display());
    wait::until_true(&what, SOON, || read().lines().count() >= count);
    read().lines().map(str::to_owned).collect()
}

#[test]
fn the_controller_runs_programs_around_allocations() {
    if !possible() {
        return;
    }
    let mut cluster = Cluster::up(1, 2);
    let (said, go) = (cluster.dir().join("said"), cluster.dir().join("go"));
    let says = format!(
        "echo $SLURM_SCRIPT_CONTEXT $SLURM_JOB_ID $SLURM_JOB_USER $SLURM_JOB_NODELIST $SLURM_JOB_EXIT_CODE2 >> {}",
        said.display()
    );
    let waits = format!(
        "{says}; [ $SLURM_JOB_NAME != bad ] || exit 3; [ $SLURM_JOB_NAME != slow ] || until [ -e {} ]; do sleep 0.05; done",
        go.display()
    );
    let prolog = program(&cluster, "before", &waits);
    let epilog = program(&cluster, "after", &says);
    let programs =
        format!("[programs]\ncontroller_prolog = {prolog:?}\ncontroller_epilog = {epilog:?}\n");
    reconfigured(&mut cluster, "", &programs);

    let output = cluster.run(NOBODY, &["srun", "-J", "good", "sh", "-c", "exit 4"]);
    assert_eq!(output.code, 4, "{}", output.err);
    assert_eq!(
        lines(&said, 2),
        [
            "prolog_slurmctld 1 nobody n1",
            "epilog_slurmctld 1 nobody n1 4:0"
        ]
    );

    let job = cluster.sbatch(NOBODY, &["-J", "slow"], "touch ran");
    let told = |cluster: &Cluster| {
        cluster
            .run(NOBODY, &["squeue", "-h", "-t", "CF", "-o", "%i %T %t %r"])
            .out
    };
    lines(&said, 3);
    assert_eq!(
        told(&cluster).trim(),
        format!("{job} CONFIGURING CF Prolog")
    );
    // What had not ended is run again by the next controller; what it had begun is none of its business any more.
    let controller = cluster.kill("spurctld");
    cluster.restart(&controller);
    lines(&said, 4);
    assert_eq!(
        told(&cluster).trim(),
        format!("{job} CONFIGURING CF Prolog")
    );
    assert!(!cluster.home(NOBODY).join("ran").exists());
    let why = cluster.run(NOBODY, &["spur", "why", &job]).out;
    assert!(
        why.contains("the controller's prolog for it still runs"),
        "{why}"
    );
    fs::write(&go, "").expect("the folder is ours");
    cluster.await_state(&job, &["COMPLETED"]);
    assert!(cluster.home(NOBODY).join("ran").exists());

    let bad = cluster.sbatch(NOBODY, &["-J", "bad"], "touch ran_bad");
    wait::until_true("it is back", SOON, || {
        cluster.job_field(&bad, "Reason").as_deref() == Some("BeginTime")
    });
    let refused = cluster.run(NOBODY, &["srun", "-J", "bad", "touch", "ran_bad"]);
    assert_ne!(refused.code, 0);
    assert!(
        refused.err.contains("PrologSlurmctld failed"),
        "{}",
        refused.err
    );
    assert!(!cluster.home(NOBODY).join("ran_bad").exists());
    cluster.down();
}

#[test]
fn programs_run_around_jobs_and_owners_hear_of_them() {
    if !possible() {
        return;
    }
    let mut cluster = Cluster::up(1, 2);
    let (said, mails) = (cluster.dir().join("said"), cluster.dir().join("mails"));
    let says = format!(
        "echo $SLURM_SCRIPT_CONTEXT $SLURM_JOB_ID $SLURM_JOB_USER $SLURM_JOB_GPUS >> {}",
        said.display()
    );
    let prolog = program(
        &cluster,
        "prolog",
        &format!("{says}; test \"$SLURM_JOB_NAME\" != bad"),
    );
    let epilog = program(&cluster, "epilog", &says);
    let mail = program(
        &cluster,
        "mail",
        &format!("echo \"$3: $2\" >> {}", mails.display()),
    );
    let programs = format!("[programs]\nprolog = {prolog:?}\nepilog = {epilog:?}\n");
    reconfigured(&mut cluster, &format!("mail_prog = {mail:?}\n"), &programs);

    let options = [
        "--gres=gpu:1",
        "-J",
        "good",
        "--mail-type=BEGIN,END",
        "--mail-user=a@b",
    ];
    let job = cluster.sbatch(NOBODY, &options, &format!("cat {} > seen", said.display()));
    cluster.await_state(&job, &["COMPLETED"]);
    let line = |context: &str| format!("{context} {job} nobody 0");
    assert_eq!(
        lines(&said, 2),
        [line("prolog_slurmd"), line("epilog_slurmd")]
    );
    let seen = fs::read_to_string(cluster.home(NOBODY).join("seen")).expect("the script wrote it");
    assert_eq!(
        seen.trim_end(),
        line("prolog_slurmd"),
        "the prolog is over before the script begins"
    );
    let mut mail = lines(&mails, 2);
    mail.sort();
    let begins = |at: usize, text: String| assert!(mail[at].starts_with(&text), "{mail:?}");
    begins(
        0,
        format!("a@b: Slurm Job_id={job} Name=good Began, Queued time 00:00:"),
    );
    begins(
        1,
        format!("a@b: Slurm Job_id={job} Name=good Ended, Run time 00:00:"),
    );
    assert!(mail[1].ends_with(", COMPLETED, ExitCode 0"), "{mail:?}");

    let bad = cluster.sbatch(NOBODY, &["-J", "bad"], "touch ran");
    wait::until_true("the node is drained", SOON, || {
        cluster
            .run(User::Root, &["sinfo", "-h", "-o", "%T %E"])
            .out
            .trim()
            == "drained Prolog error"
    });
    assert_eq!(
        cluster.job_field(&bad, "Reason").as_deref(),
        Some("launch_failed_requeued_held")
    );
    assert!(!cluster.home(NOBODY).join("ran").exists());
    cluster.down();
}

#[test]
fn a_job_that_cannot_end_in_time_goes() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 2);
    let refused = cluster.run(
        NOBODY,
        &["sbatch", "--deadline=now", "-t", "5", "--wrap", "true"],
    );
    let why = "Requested time limit is invalid (missing or exceeds some limit)";
    assert_eq!(
        refused.err.trim_end(),
        format!("sbatch: error: Batch job submission failed: {why}")
    );
    let holder = cluster.sbatch(NOBODY, &["--exclusive", "-t", "60"], "sleep 600");
    cluster.await_state(&holder, &["RUNNING"]);
    let late = cluster.sbatch(NOBODY, &["-t", "1", "--deadline=now+65"], "true");
    cluster.await_state(&late, &["DEADLINE"]);
    let words = [
        "sacct",
        "-n",
        "-X",
        "-P",
        "-o",
        "state,exitcode,reason",
        "-j",
        &late,
    ];
    wait::until_true("sacct knows it", SOON, || {
        cluster
            .run(NOBODY, &words)
            .out
            .trim_end()
            .starts_with("DEADLINE|0:1|")
    });
    let queue = cluster
        .run(NOBODY, &["squeue", "-h", "-t", "DL", "-o", "%i %t %r"])
        .good();
    assert_eq!(queue.trim_end(), format!("{late} DL DeadLine"));
    cluster.down();
}

fn scrontab(cluster: &Cluster, table: &str) -> Output {
    let path = cluster.home(NOBODY).join("table");
    fs::write(&path, table).expect("root may");
    cluster.run(NOBODY, &["scrontab", path.to_str().expect("a plain name")])
}

#[test]
fn a_crontab_with_errors_is_refused_whole() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 2);
    let none = cluster.run(NOBODY, &["scrontab", "-l"]);
    assert_eq!(
        (none.code, none.err.as_str()),
        (1, "no crontab for nobody\n")
    );
    let bad = scrontab(&cluster, "* * * * * true\n* 25 * * * true\n");
    assert_eq!(
        (bad.code, bad.out.as_str()),
        (1, "There are errors in your crontab.\n")
    );
    assert!(
        bad.err.starts_with("scrontab: error: line 2: hour \"25\""),
        "{}",
        bad.err
    );
    let nowhere = scrontab(&cluster, "#SCRON -p nowhere\n@daily true\n");
    assert!(nowhere.out.contains("on lines 0-1\n"), "{nowhere:?}");
    assert_eq!(nowhere.code, 1);
    assert_eq!(cluster.run(NOBODY, &["scrontab", "-l"]).code, 1);
    cluster.down();
}

#[test]
fn a_crontab_is_kept_and_its_entries_run() {
    if !possible() {
        return;
    }
    let mut cluster = Cluster::up(1, 2);
    let home = cluster.home(NOBODY);
    let dir = home.display();
    let table = format!(
        "DIR={dir}\n#SCRON -D {dir} -o out-%j\n* * * * * id -un >> $DIR/ran\n@yearly true\n"
    );
    assert_eq!(scrontab(&cluster, &table).code, 0);
    assert_eq!(cluster.run(NOBODY, &["scrontab", "-l"]).good(), table);
    let queue = cluster
        .run(
            NOBODY,
            &["squeue", "--me", "-h", "-o", "%i %j %T", "-S", "i"],
        )
        .good();
    let jobs: Vec<Vec<&str>> = queue
        .lines()
        .map(|line| line.split(' ').collect())
        .collect();
    assert_eq!(jobs.len(), 2, "{queue}");
    let (first, second) = (jobs[0][0].to_owned(), jobs[1][0].to_owned());
    assert_eq!(jobs[1][1..], ["true", "PENDING"]);
    let shown = cluster
        .run(NOBODY, &["scontrol", "show", "job", &second])
        .good();
    assert!(
        shown.contains("CronJob=Yes CrontabSpec=\"0 0 1 1 *\""),
        "{shown}"
    );
    let changed = cluster.run(
        NOBODY,
        &[
            "scontrol",
            "update",
            &format!("jobid={second}"),
            "comment=x",
        ],
    );
    assert!(
        changed
            .err
            .contains("Cannot modify scrontab jobs through scontrol"),
        "{}",
        changed.err
    );

    // It outlives the controller, and runs more than once under its number.
    let controller = cluster.kill("spurctld");
    cluster.restart(&controller);
    assert_eq!(lines(&home.join("ran"), 2)[..2], ["nobody", "nobody"]);
    assert!(home.join(format!("out-{first}")).exists());
    cluster.run(NOBODY, &["scancel", &second]).good();
    let kept = cluster.run(NOBODY, &["scrontab", "-l"]).good();
    assert_eq!(kept, table.replace("@yearly", "#DISABLED: @yearly"));
    cluster.run(NOBODY, &["scrontab", "-r"]).good();
    assert_eq!(cluster.run(NOBODY, &["scrontab", "-l"]).code, 1);
    wait::until_true("nothing is left in the queue", SOON, || {
        cluster
            .run(NOBODY, &["squeue", "--me", "-h"])
            .good()
            .is_empty()
    });
    cluster.down();
}

#[test]
fn licenses_are_counted_over_the_cluster() {
    if !possible() {
        return;
    }
    let mut cluster = Cluster::up(2, 0);
    cluster.configure("licenses = { matlab = 2, ansys = 1 }");
    cluster.await_idle();
    let script = "first=$(sbatch --parsable -o first -L matlab:2 --wrap 'until test -e go; do sleep 0.05; done; srun printenv SLURM_JOB_LICENSES')
        until scontrol show lic matlab | grep -q Used=2; do sleep 0.05; done
        second=$(sbatch --parsable -o second -L matlab,ansys --wrap true)
        until squeue -h -j $second -o %r | grep -q Licenses; do sleep 0.05; done
        srun -L ansys true; echo $?; while squeue -h -t CG | grep -q .; do sleep 0.05; done; squeue -h -O JobID:3,Licenses:16,Reason:10; squeue -h -L ansys -o %W; scontrol show lic
        sbatch -L matlab:3 --wrap true; sbatch -L nastran --wrap true
        : > go; while squeue -h | grep -q .; do sleep 0.05; done; cat first; scontrol -o show licenses ansys";
    let output = cluster.run(NOBODY, &["timeout", "120", "sh", "-c", script]);
    let due = "0\n2  matlab,ansys    Licenses  \n1  matlab:2        None      \nmatlab,ansys\n\
               LicenseName=ansys\n    Total=1 Used=0 Free=1 Reserved=0 Remote=no\n\
               LicenseName=matlab\n    Total=2 Used=2 Free=0 Reserved=0 Remote=no\n\
               matlab:2\nLicenseName=ansys Total=1 Used=0 Free=1 Reserved=0 Remote=no\n";
    let refused = "sbatch: error: Batch job submission failed: Invalid license specification\n";
    assert_eq!((output.out.as_str(), output.err), (due, refused.repeat(2)));
    cluster.down();
}

#[test]
fn a_job_that_is_to_stay_goes_on_without_a_node_that_is_taken_down() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 2);
    let home = cluster.home(NOBODY);
    let script = "srun -N2 -n2 sleep 100; echo wide $?; until test -e go; do sleep 0.05; done
        srun printenv SLURM_STEP_NODELIST";
    let submit = [
        "sbatch",
        "--parsable",
        "-N2",
        "--gpus-per-node=1",
        "--no-kill",
        "-o",
        "out",
        "--wrap",
        script,
    ];
    let job = cluster.run(NOBODY, &submit).good();
    let job = job.trim();
    let steps = || {
        cluster
            .run(NOBODY, &["squeue", "-h", "-s", "-j", job, "-o", "%i"])
            .good()
    };
    wait::until_true("the wide step runs", SOON, || {
        steps().contains(&format!("{job}.0"))
    });
    let down = [
        "scontrol",
        "update",
        "nodename=n2",
        "state=down",
        "reason=test",
    ];
    cluster.run(User::Root, &down).good();
    let said = || lines(&home.join("out"), 0);
    wait::until_true("the wide step ends", SOON, || {
        said()
            .iter()
            .any(|line| line.starts_with("wide ") && line != "wide 0")
    });
    let shown = cluster
        .run(NOBODY, &["squeue", "-h", "-j", job, "-o", "%T %D %N"])
        .good();
    assert_eq!(shown, "RUNNING 1 n1\n");
    wait::until_true("what it had there is free", SOON, || {
        let node = cluster
            .run(NOBODY, &["scontrol", "show", "node", "n2"])
            .good();
        node.contains("AllocTRES=\n")
    });
    fs::write(home.join("go"), "").expect("root may");
    wait::until_true("a step runs on the other node", SOON, || {
        said().iter().any(|line| line == "n1")
    });
    wait::until_true("it completes", SOON, || {
        let args = ["sacct", "-X", "-n", "-P", "-j", job, "-o", "state"];
        cluster.run(NOBODY, &args).good() == "COMPLETED\n"
    });
    cluster.down();
}
