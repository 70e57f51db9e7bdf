//! Steps as users see them: terminals, programs by task, joining a step, several steps in one allocation.

use crate::possible;
use std::time::Duration;
use vm_tests::cluster::Cluster;
use vm_tests::user::{NOBODY, Output, UNKNOWN, User};

/// Runs a script at a terminal of 30 lines of 90 characters; what it printed there, and its exit code.
fn at_terminal(cluster: &Cluster, keys: &str, script: &str) -> Output {
    let home = cluster.home(NOBODY);
    let file = home.join("at-terminal.sh");
    std::fs::write(&file, format!("stty rows 30 cols 90\n{script}\n")).expect("root may");
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

/// `--full` comes to a step once, by its srun; a job without a script has steps alone. `-i` asks for steps by their own name, and does not
/// ask for what is over; what ended of an array stays so when the rest is requeued.
#[test]
fn signals_and_requeues_reach_just_what_they_are_for() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 1);
    let script = "printf '%s\\n' 'trap \"echo got >> got\" USR1' ': > up' 'until test -e end; do sleep 0.05; done' > task
         job=$(sbatch --parsable -o /dev/null --wrap 'trap : USR1; srun sh task & wait; wait; wait')
         until test -e up; do sleep 0.05; done; scancel --full -s USR1 $job
         until test -s got; do sleep 0.05; done; sleep 0.5; wc -l < got
         echo n | scancel -i $job.0 | sed s/$job/JOB/; : > end
         while squeue -h -j $job -t all -o %T | grep -q RUNNING; do sleep 0.1; done
         echo y | scancel -i $job 2>&1 | sed s/$job/JOB/
         rm -f up got end
         salloc -Q sh -c 'srun sh task & until test -e up; do sleep 0.05; done; scancel --full -s USR1 $SLURM_JOB_ID
           until test -s got; do sleep 0.05; done; : > end; wait'; wc -l < got";
    let output = sh(&cluster, NOBODY, script);
    assert_eq!(
        output.good(),
        "1\nCancel step_id=JOB.0 name=wrap partition=gpu [y/n]? \
         scancel: error: Kill job error on job id JOB: Job/step already completing or completed\n1\n"
    );
    let script = "job=$(sbatch --parsable -o /dev/null --requeue --array=1-2 --wrap ': > up$SLURM_ARRAY_TASK_ID; test $SLURM_ARRAY_TASK_ID = 1 || sleep 1000')
         until test -e up1 && test -e up2; do sleep 0.05; done
         until squeue -h -t all -j ${job}_1 -o %T | grep -q COMPLETED; do sleep 0.1; done
         scontrol requeue incomplete $job
         until scontrol show job ${job}_2 | grep -q Restarts=1; do sleep 0.1; done
         scontrol show job ${job}_1 | grep -oE 'JobState=[A-Z]*|Restarts=.'; scancel $job
         job=$(sbatch --parsable -o /dev/null --array=1-2 --wrap ': > now$SLURM_ARRAY_TASK_ID; sleep 1000')
         until test -e now1 && test -e now2; do sleep 0.05; done
         for task in 2 1; do echo y | scancel -i ${job}_$task | sed s/$job/JOB/; until ! squeue -h -j ${job}_$task | grep -q ' R '; do sleep 0.1; done
           squeue -h -r -j $job -t R -o %K; done";
    let output = sh(&cluster, NOBODY, script);
    assert_eq!(
        output.good(),
        "JobState=COMPLETED\nRestarts=0\nCancel job_id=JOB_2 name=wrap partition=gpu [y/n]? 1\n\
         Cancel job_id=JOB_1 name=wrap partition=gpu [y/n]? "
    );
    cluster.down();
}

#[test]
fn jobs_may_have_more_tasks_than_cpus() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 1);
    let told = "echo $SLURM_NTASKS $SLURM_TASKS_PER_NODE $SLURM_OVERCOMMIT $SLURM_JOB_CPUS_PER_NODE; srun true && srun hostname | wc -l";
    let output = sh(
        &cluster,
        NOBODY,
        &format!("salloc -Q -O -N1 -n100 sh -c '{told}'"),
    );
    assert_eq!(output.good(), "100 100 1 1\n100\n");
    let output = sh(
        &cluster,
        NOBODY,
        &format!("sbatch -W -O -N2 -n5 -o out --wrap '{told}' > /dev/null; cat out"),
    );
    assert_eq!(output.good(), "5 3,2 1 1(x2)\n5\n");
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
        "sattach $STEP < /dev/null > left & until grep -qs ping left; do echo ping > in; sleep 0.1; done\n\
         kill -INT $!; wait $!; echo $?",
    );
    assert_eq!(output.good(), "0\n");
    // One hears all with labels, also what was said before, one only a task, and says something to one alone.
    let output = run("sattach -l $STEP < /dev/null > all 2> all.err & A=$!\n\
         until grep -qs ping all; do echo ping > in; sleep 0.1; done\n\
         (echo mine; until test -e over; do sleep 0.1; done) | sattach --input-filter 2 --output-filter 2 $STEP > two 2> two.err & B=$!\n\
         until grep -qs mine all && grep -qs mine two; do sleep 0.1; done\n\
         echo err > in; until test $(wc -l < all.err) = 4; do sleep 0.1; done\n\
         echo end > in; wait $A; echo $?; : > over; wait $B; sort all | grep -v ping; grep -v ping two; sort all.err two.err");
    assert_eq!(
        output.good(),
        "3\n0: 0 end\n0: 0 err\n0: 0 up\n1: 1 end\n1: 1 err\n1: 1 up\n2: 2 end\n2: 2 err\n2: 2 mine\n2: 2 up\n\
         3: 3 end\n3: 3 err\n3: 3 up\n\
         2 up\n2 mine\n2 err\n2 end\n\
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
fn only_owner_and_root_join_a_step() {
    if !possible() {
        return;
    }
    let mut cluster = Cluster::up(1, 1);
    cluster.configure("operators = [\"daemon\"]");
    let script = "mkfifo in; srun cat < in > out & exec 3> in; echo up >&3; until test -s out; do sleep 0.1; done; \
                  until test -e over; do sleep 0.1; done";
    let srun = cluster.spawn(NOBODY, &["sh", "-c", script]);
    let home = cluster.home(NOBODY);
    let ready = format!("until test -s {}/out; do sleep 0.1; done", home.display());
    let operator = User::Id(1);
    for user in [UNKNOWN, operator] {
        let other = sh(&cluster, user, &format!("{ready}; sattach 1.0"));
        assert_eq!(
            (other.code, other.err.as_str()),
            (
                1,
                "sattach: error: Could not get job step info: Access/permission denied\n"
            )
        );
    }
    // Who may else do much with it.
    sh(&cluster, operator, "scontrol update JobId=1 Comment=seen").good();
    let root = format!("{ready}; (echo more; sleep 2) | timeout 3 sattach 1.0 | head -2");
    assert_eq!(sh(&cluster, User::Root, &root).out, "up\nmore\n");
    std::fs::write(home.join("over"), "").unwrap();
    assert_eq!(Output::of(srun).code, 0);
    cluster.down();
}

#[test]
fn steps_of_an_allocation_share_what_they_say() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 4);
    // Two CPUs of the job's own: a step that has both keeps another that wants one to itself waiting, but none that shares.
    let script = "srun --exact -n2 sh -c ': > up$SLURM_PROCID; until test -e go; do sleep 0.1; done' & A=$!\n\
                  until test -e up0 && test -e up1; do sleep 0.1; done\n\
                  srun --exact -n1 echo waited 2> err & B=$!\n\
                  until grep -qs disabled err; do sleep 0.1; done\n\
                  srun --overlap -n1 echo shared; srun -n1 echo unasked\n\
                  srun --exact --immediate -n1 true; echo $?\n\
                  : > go; wait $A $B; cat err";
    let job = format!("salloc -Q -N1 -n2 sh -c \"$(cat <<'END'\n{script}\nEND\n)\"");
    let output = sh(&cluster, NOBODY, &job);
    assert_eq!(
        output.out,
        "shared\nunasked\n1\nwaited\n\
         srun: Job 1 step creation temporarily disabled, retrying (Requested nodes are busy)\n\
         srun: Step created for StepId=1.3\n"
    );
    assert_eq!(
        output.err,
        "srun: error: Unable to create step for job 1: Requested nodes are busy\n"
    );
    // One of four GPUs, and only that, four times at once; a fifth waits; one that overlaps does not.
    let probe = "for gpu in $DEVICES; do (: < $gpu) 2>&1; done | grep -c permitted";
    let script = format!(
        "for n in 0 1 2 3; do srun --exact -n1 --gres=gpu:1 sh -c \
           'echo $CUDA_VISIBLE_DEVICES $SLURM_GPUS_ON_NODE $({probe}) > seen'$n'; until test -e over; do sleep 0.1; done' & done\n\
         for n in 0 1 2 3; do until test -s seen$n; do sleep 0.1; done; done\n\
         srun --exact -n1 --gres=gpu:1 echo fifth 2> err & B=$!\n\
         until grep -qs disabled err; do sleep 0.1; done\n\
         srun --overlap -n1 --gres=gpu:2 sh -c 'echo overlap $SLURM_GPUS_ON_NODE'\n\
         : > over; wait; sort seen?"
    );
    let devices = cluster.devices("n1").join(" ");
    let job = format!(
        "export DEVICES='{devices}'; salloc -Q -w n1 -N1 -n5 --gres=gpu:4 sh -c \"$(cat <<'END'\n{script}\nEND\n)\""
    );
    let output = sh(&cluster, NOBODY, &job);
    assert_eq!(
        output.out, "overlap 2\nfifth\n0 1 3\n1 1 3\n2 1 3\n3 1 3\n",
        "{}",
        output.err
    );
    cluster.down();
}

#[test]
fn a_step_that_waits_asks_twice_however_long_it_waits() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 1);
    let asked = || {
        let report = sh(&cluster, User::Root, "sdiag").out;
        let line = report
            .lines()
            .find(|line| line.contains("REQUEST_JOB_STEP_CREATE"));
        let count = line.and_then(|line| line.split_once("count:")?.1.split_whitespace().next());
        count.map_or(0, |count| count.parse::<u32>().unwrap())
    };
    let script = "srun --exact -n2 sh -c ': > up$SLURM_PROCID; until test -e go; do sleep 0.1; done' &\n\
                  until test -e up0 && test -e up1; do sleep 0.1; done\n\
                  for n in 1 2 3; do srun --exact -n2 sh -c 'echo ran' & done; wait";
    let job = format!("exec salloc -Q -N1 -n2 sh -c \"$(cat <<'END'\n{script}\nEND\n)\"");
    let salloc = cluster.spawn(NOBODY, &["sh", "-c", &job]);
    // Counted when answered: one for the step that runs, and of each other one that is refused; the other one waits.
    while asked() < 4 {
        std::thread::sleep(Duration::from_millis(100));
    }
    std::thread::sleep(Duration::from_secs(2));
    std::fs::write(cluster.home(NOBODY).join("go"), "").unwrap();
    let output = Output::of(salloc);
    assert_eq!((output.code, asked()), (0, 7), "{}", output.err);
    assert_eq!(output.out.matches("ran").count(), 6, "{}", output.out);
    cluster.down();
}

#[test]
fn tasks_are_placed_and_bound_as_asked() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(3, 4);
    let job = "salloc -Q -N3 -n6 --gres=gpu:2 sh -c \"$(cat <<'END'\n\
               srun -m cyclic -n5 -l sh -c 'echo $SLURMD_NODENAME' | sort\n\
               srun -m plane=2 -n5 -l sh -c 'echo $SLURMD_NODENAME' | sort\n\
               srun -r 1 -n2 sh -c 'echo $SLURMD_NODENAME' | sort\n\
               srun -r 2 -N1 -n1 sh -c 'echo $SLURMD_NODENAME'\n\
               srun -r 2 -N2 true; srun -r 1 -w n1 true; srun -n 10 true\n\
               srun -O -N1 -n 7 -w n2 sh -c 'echo $SLURM_NTASKS' | uniq -c\n\
               srun -N1 -n2 --gpu-bind=single:1 -l sh -c 'echo $CUDA_VISIBLE_DEVICES' | sort\n\
               srun -N1 -n2 --gpu-bind=map_gpu:1,0 -l sh -c 'echo $CUDA_VISIBLE_DEVICES' | sort\n\
               END\n)\"; until test -z \"$(squeue -h)\"; do sleep 0.05; done; srun -O -N2 -n5 -l sh -c 'echo $SLURMD_NODENAME' | sort"
        .replace("               ", "");
    let output = sh(&cluster, NOBODY, &job);
    assert_eq!(
        output.out,
        "0: n1\n1: n2\n2: n3\n3: n1\n4: n2\n\
         0: n1\n1: n1\n2: n2\n3: n2\n4: n3\n\
         n2\nn3\nn3\n      7 7\n\
         0: 0\n1: 1\n0: 1\n1: 0\n\
         0: n1\n1: n1\n2: n1\n3: n2\n4: n2\n"
    );
    assert_eq!(
        output.err,
        "srun: error: Unable to create step for job 1: Requested node configuration is not available\n\
         srun: error: -r,--relative not allowed with -w,--nodelist or -x,--exclude.\n\
         srun: error: Unable to create step for job 1: More processors requested than permitted\n"
    );
    cluster.down();
}

#[test]
fn programs_run_around_a_step_and_its_tasks() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 1);
    let home = cluster.home(NOBODY);
    for (name, text) in [
        (
            "before",
            "echo before $SLURM_SCRIPT_CONTEXT $*; test ! -e refuse",
        ),
        ("after", "echo after $SLURM_SCRIPT_CONTEXT; cat ended"),
        (
            "each",
            "echo export ADDED=more; echo print task $SLURM_PROCID",
        ),
        ("ended", "echo $SLURM_PROCID $SLURM_SCRIPT_CONTEXT >> ended"),
    ] {
        let path = home.join(format!("{name}.sh"));
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    let srun =
        "srun --prolog=before.sh --epilog=./after.sh --task-prolog=each.sh --task-epilog=ended.sh";
    let output = sh(&cluster, NOBODY, &format!("{srun} sh -c 'echo run $ADDED'"));
    assert_eq!(
        (output.out.as_str(), output.err.as_str()),
        (
            "before prolog_srun sh -c echo run $ADDED\ntask 0\nrun more\nafter epilog_srun\n0 epilog_task\n",
            ""
        )
    );
    let output = sh(
        &cluster,
        NOBODY,
        &format!(
            "touch refuse; {srun} echo never; echo $?; salloc -Q {srun} echo never; echo $?; srun --prolog=none --epilog=nowhere true; \
             salloc -Q --gres=gpu:1 sh -c '{srun} --exact --gres=gpu:1 true; srun --exact --gres=gpu:1 -o /none/x true; srun --exact --gres=gpu:1 echo free'"
        ),
    );
    assert_eq!(
        output.out,
        "before prolog_srun echo never\n1\nbefore prolog_srun echo never\n1\nbefore prolog_srun true\nfree\n"
    );
    let refused = "srun: error: srun prolog failed rc = 1. Aborting step.\n";
    let nowhere = format!(
        "srun: error: epilog 'nowhere' not found in PATH or CWD ({}), or wrong permissions\n",
        home.display()
    );
    assert!(
        output
            .err
            .starts_with(&format!("{refused}{refused}{nowhere}{refused}")),
        "{}",
        output.err
    );
    cluster.down();
}

#[test]
fn a_program_is_copied_to_its_nodes_first() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 1);
    let home = cluster.home(NOBODY);
    let path = home.join("tool");
    std::fs::write(&path, "#!/bin/sh\necho $0 $*\n").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let script = "srun -N2 --bcast=$PWD/copy ./tool a b; salloc -Q srun --bcast ./tool c | sed \"s,$PWD/,,\"; mkdir there; \
                  salloc -Q srun -D there --bcast ../tool d | sed \"s,$PWD/,,\"; srun -D there --bcast ../tool e | sed \"s,$PWD/,,\"; \
                  srun --bcast=/none/copy ./tool; echo $?; srun --bcast nowhere; echo $?; until test -z \"$(squeue -h)\"; do sleep 0.1; done";
    let output = sh(&cluster, NOBODY, script);
    let home = home.display();
    assert_eq!(
        output.out,
        format!(
            "{home}/copy a b\n{home}/copy a b\nslurm_bcast_2.0 c\nthere/slurm_bcast_3.0 d\nthere/slurm_bcast_4.0 e\n1\n1\n"
        ),
        "{}",
        output.err
    );
    for text in [
        "REQUEST_FILE_BCAST(n1): cannot write /none/copy",
        "Step launch aborted.\n",
        "srun: fatal: Can not execute nowhere\n",
    ] {
        assert!(output.err.contains(text), "{}", output.err);
    }
    cluster.down();
}

#[test]
fn bad_exits_first_exits_and_single_readers() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 1);
    let run = |script: &str| sh(&cluster, NOBODY, script);
    // The others end when one task fails, or some time after one has ended.
    let output =
        run("srun -K -N2 sh -c 'if test $SLURM_PROCID = 1; then exit 5; fi; sleep 1000'; echo $?");
    assert!(
        output
            .err
            .contains("srun: error: n2: task 1: Exited with exit code 5\n")
            && output.err.contains("srun: error: n1: task 0: Terminated\n"),
        "{}",
        output.err
    );
    assert_eq!(output.out, "143\n");
    let output = run("srun -W 1 -N2 sh -c 'test $SLURM_PROCID = 1 || sleep 1000'; echo $?");
    let said = |text: &str| output.err.matches(text).count();
    // What is about to happen is said to those who ask for more.
    assert_eq!(
        (
            said("First task exited"),
            said("srun: First task exited 1s ago\n")
        ),
        (1, 1),
        "{}",
        output.err
    );
    assert_eq!(output.out, "143\n");
    // One task reads, and each writes to its own file.
    let output = run(
        "echo input | srun -n3 -i 1 -o out-%t-%s.txt sh -c 'echo $SLURM_PROCID $(cat); echo wrong >&2'; \
         for file in out-*; do echo $file $(cat $file); done",
    );
    assert_eq!(
        output.good(),
        "out-0-0.txt 0 wrong\nout-1-0.txt 1 input wrong\nout-2-0.txt 2 wrong\n"
    );
    let output = run(
        "srun -n2 -o o%t -e e%t sh -c 'echo $SLURM_PROCID; echo $SLURM_PROCID >&2'; cat o0 e0 o1 e1",
    );
    assert_eq!(output.good(), "0\n0\n1\n1\n");
    cluster.down();
}

#[test]
fn a_gigabyte_comes_as_it_is_and_a_slow_reader_stops_only_the_writer() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 1);
    let run = |script: &str| cluster.run(NOBODY, &["sh", "-c", script]);
    let output = run(
        "write() { $1 sh -c 'yes 0123456789abcdefghijklmnopqrstuvwxyz | head -c 1073741824'; }; \
         write srun | cksum; write '' | cksum",
    )
    .good();
    let sums: Vec<&str> = output.lines().collect();
    assert_eq!(sums[0], sums[1]);
    assert!(sums[0].ends_with(" 1073741824"), "{output}");
    // While nobody reads, srun still takes signals, other steps run, and the end comes when it is asked for.
    let script = "salloc -Q -n2 sh -c \"$(cat <<'END'\n\
                  mkfifo pipe; srun -n1 sh -c 'yes' > pipe & A=$!; exec 3< pipe; head -c 10 <&3; \n\
                  srun -n1 echo other; scancel $SLURM_JOB_ID.0; cat <&3 > /dev/null; wait $A; echo $?\n\
                  END\n)\""
        .replace("                  ", "");
    let output = run(&script);
    assert_eq!(output.out, "y\ny\ny\ny\ny\nother\n137\n", "{}", output.err);
    cluster.down();
}

#[test]
fn clients_end_when_they_are_told_to_though_nobody_reads_them() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 1);
    let run = |script: &str| sh(&cluster, NOBODY, script);
    // Open at both ends, so that nobody waits for a reader, and nobody reads.
    let open = "mkfifo pipe; exec 3<> pipe; ended() { FROM=$(date +%s); kill -$1 $A; wait $A; echo $?; \
                test $(($(date +%s) - FROM)) -lt 10 || echo late; }";
    for both in ["", "2>&1"] {
        let script = format!(
            "rm -f pipe; {open}; srun yes > pipe {both} 3>&- & A=$!; sleep 4; ended TERM; \
             until test -z \"$(squeue -h)\"; do sleep 0.1; done"
        );
        assert_eq!(run(&script).out, "137\n", "{both}");
    }
    // A step of an allocation ends too, and one who only listens leaves it as it is.
    let script = format!(
        "rm -f pipe; {open}; salloc -Q -n2 sh -c 'srun --exact -n1 yes > pipe 3>&- & echo $! > pid; wait $!; \
         srun -n2 --exact echo free | sort -u; echo $SLURM_JOB_ID > job; srun -o /dev/null yes' & ALLOC=$!; \
         until test -s pid; do sleep 0.1; done; sleep 4; kill $(cat pid); until test -s job; do sleep 0.1; done; sleep 1; \
         sattach $(cat job).2 > pipe 3>&- & A=$!; sleep 4; ended TERM; squeue -h --steps -o %i; scancel $(cat job); wait $ALLOC"
    );
    let output = run(&script);
    let lines: Vec<&str> = output.out.lines().collect();
    assert_eq!(lines[..2], ["free", "0"], "{}", output.err);
    assert!(
        lines[2..].iter().any(|line| line.ends_with(".2")),
        "{}",
        output.out
    );
    cluster.down();
}

#[test]
fn what_comes_before_a_step_may_take_its_time_and_ends_when_it_is_told_to() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 1);
    let path = cluster.home(NOBODY).join("slow");
    std::fs::write(&path, "#!/bin/sh\necho begun > begun\nexec sleep 40\n").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // Longer than the controller waits for an owner that does not watch its job.
    let script = "srun -n1 --prolog=./slow echo ran > ran & RAN=$!; mkfifo fifo; until test -s begun; do sleep 0.1; done; rm begun\n\
                  ended() { FROM=$(date +%s); kill $A; wait $A; echo $?; test $(($(date +%s) - FROM)) -lt 10 || echo late; }\n\
                  srun -n1 --prolog=./slow echo never & A=$!; until test -s begun; do sleep 0.1; done; ended\n\
                  for way in -o -i; do srun -n1 $way fifo echo never & A=$!; sleep 2; ended; done\n\
                  until test $(squeue -h | wc -l) = 1; do sleep 0.1; done; echo 1; wait $RAN; echo $?; cat ran";
    let output = cluster.run(NOBODY, &["timeout", "100", "sh", "-c", script]);
    assert_eq!(output.out, "1\n1\n1\n1\n0\nran\n", "{}", output.err);
    assert!(
        output
            .err
            .contains("was not launched: srun got signal 15\n"),
        "{}",
        output.err
    );
    cluster.down();
}
