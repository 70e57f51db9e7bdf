//! Jobs and clients in odd surroundings: closed terminals, interrupts while waiting, full disks, folders that may not be written to,
//! users who are gone, very many variables, very long scripts.

use crate::possible;
use rustix::mount::{MountFlags, mount};
use std::fs;
use std::path::Path;
use vm_tests::cluster::{Cluster, SOON};
use vm_tests::daemons::Daemons;
use vm_tests::user::{NOBODY, Output, User};
use vm_tests::wait;

/// Functions for the scripts here.
const SHELL: &str = "await() { until test -e $1; do sleep 0.05; done; }
over() { while squeue -h | grep -q .; do sleep 0.05; done; }
waits() { until squeue -h -t PD -n $1 -o %i | grep -q .; do sleep 0.05; done; }
code() { sacct -X -n -P -j $1 -o state,exitcode; }
";

fn sh(cluster: &Cluster, script: &str) -> Output {
    let script = format!("{SHELL}{script}");
    cluster.run(NOBODY, &["timeout", "120", "sh", "-c", &script])
}

/// A file system of some megabytes, which goes with the cluster's folder.
fn small_disk(at: &Path, megabytes: u32) {
    fs::create_dir_all(at).expect("a folder");
    let options = std::ffi::CString::new(format!("size={megabytes}m,mode=1777")).expect("no NUL");
    mount(
        "tmpfs",
        at,
        "tmpfs",
        MountFlags::empty(),
        options.as_c_str(),
    )
    .expect("root may mount");
}

fn unmount(at: &Path) {
    rustix::mount::unmount(at, rustix::mount::UnmountFlags::DETACH).expect("it is mounted");
}

#[test]
fn a_closed_terminal_ends_what_runs_or_waits_at_it() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 0);
    // `script` is the terminal: killed, it closes it. What is started there says so by a file, and what ends there by another.
    let script = "closed() { script -qefc \"$1\" /dev/null > /dev/null < /dev/null & terminal=$!; }
        closed \"srun sh -c ': > srun; sleep 1000'\"; await srun; kill -9 $terminal; over; echo srun
        closed \"salloc -Q sh -c ': > salloc; sleep 1000'\"; await salloc; kill -9 $terminal; over; echo salloc
        closed \"srun --pty sh -c ': > pty; sleep 1000'\"; await pty; kill -9 $terminal; over; echo pty
        salloc -Q --exclusive sh -c ': > all; until test -e go; do sleep 0.05; done' & await all
        closed 'srun -J one true'; waits one; kill -9 $terminal
        closed 'salloc -J two true'; waits two; kill -9 $terminal
        while squeue -h -t PD | grep -q .; do sleep 0.05; done; echo waiting; : > go; wait";
    let output = sh(&cluster, script);
    assert_eq!(output.out, "srun\nsalloc\npty\nwaiting\n", "{}", output.err);
    cluster.down();
}

#[test]
fn an_interrupt_ends_what_waits_for_an_allocation() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 0);
    let script = "salloc -Q --exclusive sh -c ': > all; until test -e go; do sleep 0.05; done' & await all
        for signal in INT TERM; do
          env --default-signal=INT srun -J one$signal true 2> err & waits one$signal; kill -$signal $!; wait $!; echo $?
          env --default-signal=INT salloc -J two$signal true 2> err & waits two$signal; kill -$signal $!; wait $!; echo $?; tail -1 err | sed 's/[0-9][0-9]*/N/'
        done; while squeue -h -t PD | grep -q .; do sleep 0.05; done; : > go; wait %1";
    let output = sh(&cluster, script);
    let revoked = "salloc: Job allocation N has been revoked.";
    let due = format!("130\n1\n{revoked}\n143\n1\n{revoked}\n");
    assert_eq!(output.out, due, "{}", output.err);
    cluster.down();
}

#[test]
fn output_that_cannot_be_written_is_the_jobs_own_trouble_or_said_clearly() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 0);
    let home = cluster.home(NOBODY);
    small_disk(&home.join("small"), 1);
    fs::create_dir(home.join("closed")).expect("a folder of root's");
    let script = "say='head -c 4000000 /dev/zero 2> err; echo $? > code'
        sbatch -Q -W -o small/out --wrap \"$say; exit 3\"; echo $?; cat code; grep -o 'No space left.*' err; rm small/out
        srun -o small/out sh -c \"$say; exit 4\" 2> says; echo $?; cat says; rm -f small/out
        srun sh -c 'head -c 4000000 /dev/zero' > small/out 2> says; echo $?; cat says; rm small/out
        job=$(sbatch --parsable -o closed/out --wrap true); over; code $job; scontrol show job $job | grep -o 'Reason=[^ ]*'
        srun -o closed/out true; echo $?
        srun sh -c 'echo goes on'";
    let output = sh(&cluster, script);
    unmount(&home.join("small"));
    // What a batch script does is its own affair; srun writes for its tasks, and says what it cannot.
    let due = "3\n1\nNo space left on device\n4\n\
               srun: error: cannot write to the output file: No space left on device (os error 28)\n\
               srun: error: n1: task 0: Exited with exit code 4\n1\n\
               srun: error: cannot write to standard output: No space left on device (os error 28)\n\
               FAILED|0:53\nReason=JobLaunchFailure\n1\ngoes on\n";
    let closed = home.join("closed/out");
    let why = format!(
        "srun: error: Could not open file {}: Permission denied\n",
        closed.display()
    );
    assert_eq!((output.out.as_str(), output.err), (due, why));
    cluster.down();
}

#[test]
fn ten_thousand_variables_and_scripts_of_megabytes() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 0);
    let script = "n=0; while test $n -lt 10000; do export VARIABLE_$n=$n; n=$((n + 1)); done
        srun sh -c 'env | grep -c ^VARIABLE_; echo $VARIABLE_9999'
        sbatch -Q -W -o out --wrap 'env | grep -c ^VARIABLE_; echo $VARIABLE_9999; srun env | grep -c ^VARIABLE_'; cat out
        long() { printf '#!/bin/sh\\necho %s\\nexit 5\\n' $1; head -c $2 /dev/zero | tr '\\0' '#'; }
        long whole 4194000 > script; sbatch -Q -W -o out script; echo $?; cat out
        long more 4194304 > script; sbatch script; echo $?
        long most 16777216 > script; sbatch script; echo $?; sbatch < script; echo $?; squeue -h | wc -l";
    let output = sh(&cluster, script);
    let due = "10000\n9999\n10000\n9999\n10000\n5\nwhole\n1\n1\n1\n0\n";
    let why = |of: &str| format!("sbatch: error: {of}: a script may have 4194304 bytes at most\n");
    let why = [why("script"), why("script"), why("standard input")].concat();
    assert_eq!((output.out.as_str(), output.err), (due, why));
    cluster.down();
}

/// `/etc/passwd` with one user more, for a while.
struct OneMore(tempfile::TempDir);

impl OneMore {
    fn new(line: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("passwd");
        let known = fs::read_to_string("/etc/passwd").expect("users are known");
        fs::write(&file, format!("{known}{line}\n")).expect("a file");
        rustix::mount::mount_bind(&file, "/etc/passwd").expect("root may mount");
        Self(dir)
    }
}

impl Drop for OneMore {
    fn drop(&mut self) {
        rustix::mount::unmount("/etc/passwd", rustix::mount::UnmountFlags::DETACH).ok();
        let _ = &self.0;
    }
}

#[test]
fn a_job_whose_user_is_gone_runs_as_it_was_submitted() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 0);
    let user = User::Id(61_235);
    let more = OneMore::new("vanished:x:61235:61235::/nonexistent:/bin/sh");
    let job = cluster.sbatch(
        user,
        &["--hold", "-o", "out"],
        "id -u; echo $SLURM_JOB_USER; srun id -u",
    );
    let shown = |words: &[&str]| cluster.run(User::Root, words).good();
    assert_eq!(shown(&["squeue", "-h", "-o", "%u"]), "vanished\n");
    drop(more);
    shown(&["scontrol", "release", &job]);
    wait::until_true("the job is over", SOON, || {
        shown(&["squeue", "-h", "-o", "%i"]).is_empty()
    });
    let said = fs::read_to_string(cluster.home(user).join("out")).expect("it has run");
    assert_eq!(said, "61235\nvanished\n61235\n");
    let node = shown(&["sinfo", "-h", "-o", "%T"]);
    assert_eq!(node, "idle\n", "the node is not at fault");
    cluster.down();
}

#[test]
fn an_agent_whose_disk_is_full_takes_no_job_and_forgets_no_end() {
    if !possible() {
        return;
    }
    let state = |dir: &Path| small_disk(&dir.join("agent"), 16);
    let mut daemons = Daemons::start_prepared("[declare]\ncpus = 4\nmemory_mib = 1000\n", state);
    let home = daemons.home(NOBODY);
    let waits = "until test -e go; do sleep 0.05; done";
    let batch = daemons.wrap(NOBODY, &["-o", "out"], &format!(": > up; {waits}; exit 3"));
    wait::until_true("the job runs", SOON, || home.join("up").exists());
    let ballast = daemons.dir().join("agent/ballast");
    assert!(fs::write(&ballast, vec![0; 32 << 20]).is_err());
    let node = |daemons: &Daemons, field: &str| {
        let shown = daemons.run(User::Root, &["sinfo", "-h", "-o", field]).out;
        shown.trim().to_owned()
    };
    wait::until_true("the node takes no more", SOON, || {
        node(&daemons, "%T") == "draining"
    });
    let why = daemons
        .run(User::Root, &["sinfo", "-h", "-R", "-o", "%E"])
        .out;
    assert!(
        why.contains("the disk under") && why.contains("is full"),
        "{why}"
    );
    let next = daemons.wrap(NOBODY, &["-o", "out"], "exit 4");
    fs::write(home.join("go"), "").expect("root may");
    wait::until_true("the job has ended", SOON, || {
        daemons.job_field(&batch, "JobState").as_deref() == Some("FAILED")
    });
    assert_eq!(
        daemons.job_field(&batch, "ExitCode").as_deref(),
        Some("3:0")
    );
    // Nor does the next agent lose it, if this one could not write down that it was told.
    daemons.kill_agent();
    daemons.start_agent();
    assert_eq!(
        daemons.job_field(&next, "JobState").as_deref(),
        Some("PENDING")
    );
    fs::remove_file(&ballast).expect("it is there");
    wait::until_true("the next job has ended", SOON, || {
        daemons.job_field(&next, "ExitCode").as_deref() == Some("4:0")
    });
    daemons.await_idle();
}
