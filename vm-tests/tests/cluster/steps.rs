//! Steps as users see them: terminals, programs by task, joining a step, several steps in one allocation.

use crate::possible;
use vm_tests::cluster::Cluster;
use vm_tests::user::{NOBODY, Output, UNKNOWN, User};

/// Runs a script at a terminal of 30 lines of 90 characters; what it printed there, and its exit code.
fn at_terminal(cluster: &Cluster, keys: &str, script: &str) -> Output {
    let home = cluster.home(NOBODY);
    let file = home.join("at-terminal.sh");
    std::fs::write(&file, format!("stty rows 30 cols 90\n{script}\n")).unwrap();
    let line = format!("({keys}) | script -qefc 'sh {}' /dev/null", file.display());
    let output = cluster.run(NOBODY, &["sh", "-c", &line]);
    Output {
        out: output.out.replace('\r', ""),
        ..output
    }
}

fn sh(cluster: &Cluster, user: User, script: &str) -> Output {
    cluster.run(user, &["timeout", "60", "sh", "-c", script])
}

#[test]
fn the_first_task_has_a_terminal_that_is_the_users_own() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 1);
    let script = "stty -g > before\n\
                  srun -N2 --pty sh -c 'test -t 0 && test -t 1 && stty size; echo $SLURM_PTY_WIN_COL; exit $((5 + SLURM_PROCID))'\n\
                  echo code $?\n\
                  stty -g | cmp - before && echo as before";
    let output = at_terminal(&cluster, ":", script);
    // What srun says itself may come between.
    let (own, of_task): (Vec<&str>, Vec<&str>) = output
        .out
        .lines()
        .partition(|line| line.starts_with("srun:"));
    assert_eq!(of_task, ["30 90", "90", "code 6", "as before"]);
    assert_eq!(
        own,
        [
            "srun: error: n1: task 0: Exited with exit code 5",
            "srun: error: n2: task 1: Exited with exit code 6",
        ]
    );
    // A shell in an allocation, by keys; Ctrl-C reaches what it runs and not srun, and the end of input ends it.
    let keys = "printf 'echo $((6*7))\\n'; until test -e up; do sleep 0.1; done; printf '\\003'; \
                until test -e again; do sleep 0.1; done; printf '\\004'";
    let script = "salloc -Q srun --pty sh -c 'trap \"echo interrupted; : > again\" INT; \
                  read line; eval \"$line\"; : > up; sleep 1000; cat; exit 9'; echo code $?; stty -g | cmp - before && echo as before";
    let output = at_terminal(&cluster, keys, script);
    for text in [
        "\n42\n",
        "interrupted\n",
        "code 9\nas before\n",
        "task 0: Exited with exit code 9",
    ] {
        assert!(output.out.contains(text), "{text}: {}", output.out);
    }
    assert!(!output.out.contains("sending Ctrl-C"), "{}", output.out);
    cluster.down();
}

#[test]
fn a_terminal_follows_its_size_and_is_as_before_however_srun_ends() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 1);
    let script = "stty -g > before\n\
                  (until test -e up; do sleep 0.1; done; stty -F $(tty) rows 11 cols 22) < /dev/tty &\n\
                  srun --pty sh -c 'trap \"stty size; exit 4\" WINCH; : > up; while :; do sleep 0.1; done'\n\
                  echo code $?\n\
                  rm up\n\
                  (until test -e up; do sleep 0.1; done; kill $(cat pid)) &\n\
                  sh -c 'echo $$ > pid; exec srun --pty sh -c \": > up; sleep 1000\"'\n\
                  echo code $?\n\
                  stty -g | cmp - before && echo as before";
    let output = at_terminal(&cluster, ":", script);
    for text in ["11 22\n", "code 4\n", "code 137\nas before\n"] {
        assert!(output.out.contains(text), "{text}: {}", output.out);
    }
    let output = sh(
        &cluster,
        NOBODY,
        "srun --pty sh -c 'test -t 0 || echo none'; srun --pty=x true; srun --pty -o f true",
    );
    assert_eq!(output.out, "none\n");
    assert_eq!(
        output.err,
        "srun: error: Not using a pseudo-terminal, disregarding --pty option\n\
         srun: fatal: --pty=x must be numeric file descriptor\n\
         srun: error: --error/--input/--output are incompatible with --pty\n"
    );
    cluster.down();
}

#[test]
fn tasks_run_what_a_file_says() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 1);
    let home = cluster.home(NOBODY);
    let file =
        "# who does what\n2-3 sh -c 'echo $SLURM_PROCID of %o' sh\n0,1 echo 'at %o' \\\n  %t:%o\n";
    std::fs::write(home.join("conf"), file).unwrap();
    let run = |script: &str| sh(&cluster, NOBODY, script);
    let output = run("srun -l --multi-prog conf more | sort");
    assert_eq!(
        (output.out.as_str(), output.err.as_str()),
        (
            "0: at %o 0:0 more\n1: at %o 1:1 more\n2: 2 of %o\n3: 3 of %o\n",
            ""
        )
    );
    let output =
        run("srun -n2 --multi-prog conf; echo $?; srun --multi-prog none; srun --multi-prog");
    assert_eq!(output.out, "1\n");
    assert_eq!(
        output.err,
        "srun: error: Invalid task id, 3 >= ntasks\n\
         srun: error: Line 2 of configuration file conf invalid\n\
         srun: error: Unable to open configuration file none\n\
         srun: error: configuration file not specified\n"
    );
    std::fs::write(home.join("rest"), "1 echo one\n* echo rest %o\n").unwrap();
    let output = run("salloc -Q -n3 srun --multi-prog rest | sort");
    assert_eq!(output.out, "one\nrest 0\nrest 2\n");
    cluster.down();
}

#[test]
fn a_running_step_can_be_joined_by_its_user() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 1);
    let program = "srun -n4 -N2 --input all sh -c 'while read line; do echo \"$SLURM_PROCID $line\"; \
                   case $line in end) exit $SLURM_PROCID;; err) echo \"wrong $SLURM_PROCID\" >&2;; esac; done' < in > out 2> err";
    let script = format!(
        "mkfifo in; {program} & exec 3> in; echo up >&3; \
                          until test $(wc -l < out) = 4; do sleep 0.1; done; squeue -h --steps -o %i > step; wait"
    );
    let srun = cluster.spawn(NOBODY, &["sh", "-c", &script]);
    let step = "until test -s step; do sleep 0.1; done; STEP=$(grep -v batch step | grep '\\.0' | head -1)";
    let run = |rest: &str| sh(&cluster, NOBODY, &format!("{step}; {rest}"));
    let output = run("sattach --layout $STEP");
    assert_eq!(
        output.good(),
        "Job step layout:\n\t4 tasks, 2 nodes (n[1-2])\n\n\tNode 0 (n1), 2 task(s): 0 1 \n\tNode 1 (n2), 2 task(s): 2 3 \n"
    );
    // Ctrl-C only leaves.
    let output = run(
        "sattach $STEP < /dev/null > left & until grep -q ping left; do echo ping > in; sleep 0.1; done\n\
         kill -INT $!; wait $!; echo $?",
    );
    assert_eq!(output.good(), "0\n");
    // One hears all with labels, one only a task, and says something to one alone.
    let output = run("sattach -l $STEP < /dev/null > all 2> all.err & A=$!\n\
         until grep -q ping all; do echo ping > in; sleep 0.1; done\n\
         (echo mine; until test -e over; do sleep 0.1; done) | sattach --input-filter 2 --output-filter 2 $STEP > two 2> two.err & B=$!\n\
         until grep -q mine all && grep -q mine two; do sleep 0.1; done\n\
         echo err > in; until test $(wc -l < all.err) = 4; do sleep 0.1; done\n\
         echo end > in; wait $A; echo $?; : > over; wait $B; sort all | grep -v ping; grep -v ping two; sort all.err two.err");
    assert_eq!(
        output.good(),
        "3\n0: 0 end\n0: 0 err\n1: 1 end\n1: 1 err\n2: 2 end\n2: 2 err\n2: 2 mine\n3: 3 end\n3: 3 err\n\
         2 mine\n2 err\n2 end\n\
         0: wrong 0\n1: wrong 1\n2: wrong 2\n3: wrong 3\n\
         sattach: error: task 1 exited with exit code 1\n\
         sattach: error: task 1 exited with exit code 1\n\
         sattach: error: task 2 exited with exit code 2\n\
         sattach: error: task 2 exited with exit code 2\n\
         sattach: error: task 3 exited with exit code 3\n\
         sattach: error: task 3 exited with exit code 3\n\
         wrong 2\n"
    );
    drop(Output::of(srun));
    let output = run("sattach $STEP; sattach 5; sattach 99.0");
    assert_eq!(output.code, 1);
    assert!(
        output
            .err
            .starts_with("sattach: error: Could not get job step info: Invalid job id specified\n"),
        "{}",
        output.err
    );
    cluster.down();
}

#[test]
fn only_owner_and_operators_join_a_step() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 1);
    let script = "mkfifo in; srun cat < in > out & exec 3> in; echo up >&3; until test -s out; do sleep 0.1; done; \
                  until test -e over; do sleep 0.1; done";
    let srun = cluster.spawn(NOBODY, &["sh", "-c", script]);
    let home = cluster.home(NOBODY);
    let ready = format!("until test -s {}/out; do sleep 0.1; done", home.display());
    let other = sh(&cluster, UNKNOWN, &format!("{ready}; sattach 1.0"));
    assert_eq!(
        (other.code, other.err.as_str()),
        (
            1,
            "sattach: error: Could not get job step info: Access/permission denied\n"
        )
    );
    let root = format!("{ready}; (echo more; sleep 1000) | timeout 20 sattach 1.0 | head -1");
    assert_eq!(sh(&cluster, User::Root, &root).out, "more\n");
    std::fs::write(home.join("over"), "").unwrap();
    assert_eq!(Output::of(srun).code, 0);
    cluster.down();
}
