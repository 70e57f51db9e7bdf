//! What `docs/behaviours.md` says of jobs and steps as users see them, where no test on a lower level would fail.

use crate::possible;
use std::fs;
use vm_tests::cluster::{Cluster, SOON};
use vm_tests::user::{NOBODY, Output, User};
use vm_tests::wait;

/// Functions for the scripts here.
const SHELL: &str = "await() { until test -e $1; do sleep 0.05; done; }
over() { while squeue -h -j $1 2> /dev/null | grep -q .; do sleep 0.05; done; }
submit() { sbatch --parsable \"$@\"; }
batch() { out=$1; shift; sbatch -Q -W -o $out \"$@\"; }
";

fn sh(cluster: &Cluster, script: &str) -> Output {
    let script = format!("{SHELL}{script}");
    cluster.run(NOBODY, &["timeout", "120", "sh", "-c", &script])
}

#[test]
fn a_batch_job_reads_and_writes_where_it_is_told() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 0);
    let script = "sbatch -Q -W --wrap 'echo a; echo b >&2; cat'; cat slurm-1.out
        batch out -e err --wrap 'echo c; echo d >&2'; cat err out
        echo input > in; batch out -i in --wrap cat; cat out
        batch %x-%j-%u-%N.out -J named --wrap true; ls named-*
        batch out --wrap 'echo new'; batch out --open-mode=append --wrap 'echo more'; cat out
        batch out --wrap 'echo anew'; cat out
        printf '#!/bin/sh\\necho $# $1:$2\\n' > args; batch out args one 'two three'; cat out
        printf '#!/bin/sh\\necho first\\n' > change; job=$(submit -H -o out change)
        printf '#!/bin/sh\\necho second\\n' > change; scontrol release $job; over $job; cat out
        mkdir below; cd below; umask 027; sbatch -Q -W -o ../out --wrap 'pwd; umask'; sed s,$HERE,, ../out
        sbatch -Q -W -D / -o $HERE/out --wrap pwd; cat ../out";
    let home = cluster.home(NOBODY);
    let output = sh(&cluster, &format!("HERE={}\n{script}", home.display()));
    let due = "a\nb\nd\nc\ninput\nnamed-4-nobody-n1.out\nnew\nmore\nanew\n2 one:two three\nfirst\n/below\n0027\n/\n";
    assert_eq!((output.out.as_str(), output.err.as_str()), (due, ""));
    cluster.down();
}

#[test]
fn a_batch_job_has_the_environment_and_gives_the_code_that_it_should() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 0);
    // `env` is given by its path, as what is not exported is not there, `PATH` least of all.
    let script = "export A=1 B=2
        told() { batch out \"$@\" --wrap '/bin/echo A=$A B=$B C=$C ${HOME+home} ${SLURM_JOB_ID+job}'; cat out; }
        told; told --export=ALL; told --export=NONE; told --export=NIL; told --export=B,C=3; told --export=ALL,B=4
        printf 'A=x y\\0C=z\\0' > file; told --export=NIL --export-file=file
        srun --export=B /bin/sh -c '/bin/echo A=$A B=$B ${SLURM_JOB_ID+job}'; srun --export=NONE /bin/sh -c '/bin/echo A=$A'
        srun --export=ALL,A=5 sh -c 'echo A=$A B=$B'
        batch out --export=NONE --wrap \"$(command -v srun) /bin/sh -c '/bin/echo \\${HOME-none}'\"; cat out
        batch out --wrap 'exit 3'; echo $?; batch out --wrap 'kill -9 $$'; echo $?
        batch /dev/null -a 0-3 --wrap 'exit $((SLURM_ARRAY_TASK_ID * 2))'; echo $?; batch out --wrap true; echo $?
        for code in 7 0:9; do sacct -X -n -P -o state,exitcode | grep -c \"FAILED|3:0\\|FAILED|0:9\"; done | uniq";
    let output = sh(&cluster, script);
    let due = "A=1 B=2 C= job\nA=1 B=2 C= job\nA= B= C= home job\nA= B= C= job\nA= B=2 C=3 home job\nA=1 B=4 C= home job\n\
               A=x y B= C=z job\nA= B=2 job\nA=\nA=5 B=2\nnone\n3\n1\n6\n0\n2\n";
    assert_eq!((output.out.as_str(), output.err.as_str()), (due, ""));
    cluster.down();
}

#[test]
fn a_step_reads_and_writes_where_it_is_told() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 0);
    let script = "say='echo o$SLURM_PROCID; echo e$SLURM_PROCID >&2'
        echo hi | srun -n3 cat; echo hi | srun -i none cat; echo from a file > in; srun -n2 -i in cat
        srun -n2 -o none sh -c \"$say\" 2>&1; srun -n3 -o 1 sh -c \"$say\" 2>&1 | sort; echo --
        srun -n2 -e none sh -c \"$say\" 2>&1 | sort; srun -l -n2 sh -c \"$say\" 2>&1 | sort; echo --
        srun -n2 -o out sh -c \"$say\"; sort out; srun -o out echo new; srun -o out --open-mode=append echo more; cat out
        srun -n2 -o out -e err sh -c \"$say\"; sort out err
        srun -N2 -n2 -o %N-%n-%j.%s-%J.out true; ls n*
        salloc -Q -N2 srun -x n1 sh -c 'echo not on $SLURMD_NODENAME'
        salloc -Q -N2 srun -w n1 -x n1 true; echo $?
        srun -K0 -n2 sh -c 'test $SLURM_PROCID = 0 && exit 3; sleep 0.5; echo goes on'; echo $?";
    let output = sh(&cluster, script);
    let due = "hi\nhi\nhi\nfrom a file\nfrom a file\ne1\no1\n--\no0\no1\n0: e0\n0: o0\n1: e1\n1: o1\n--\n\
               e0\ne1\no0\no1\nnew\nmore\ne0\ne1\no0\no1\nn1-0-12.0-12.0.out\nn2-1-12.0-12.0.out\n\
               not on n2\n1\ngoes on\n3\n";
    assert_eq!(output.out, due, "{}", output.err);
    assert_eq!(
        output.err,
        "srun: error: Unable to create step for job 14: Requested node configuration is not available\n\
         srun: error: n1: task 0: Exited with exit code 3\n"
    );
    cluster.down();
}

/// A batch script, its child and its step say which signals they got, until the file `end` is there.
const SIGNALLED: &str = "#!/bin/sh
sh -c 'trap \"echo child USR1\" USR1; trap \"echo child USR2\" USR2; until test -e end; do sleep 0.05; done' &
trap 'echo shell USR1' USR1; trap 'echo shell USR2' USR2
srun sh -c 'trap \"echo step USR1\" USR1; trap \"echo step USR2\" USR2; echo up; until test -e end; do sleep 0.05; done' &
until wait; test -e end; do :; done
";

#[test]
fn signals_reach_whom_they_are_meant_for() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 0);
    let home = cluster.home(NOBODY);
    fs::write(home.join("signalled"), SIGNALLED).expect("root may");
    let script = "said() { until grep -qs \"$1\" $2; do sleep 0.05; done; }
        # Fifty-five seconds before its minute is over is now and a little.
        steps=$(submit -o steps -t 1 --signal=USR1@55 signalled)
        shell=$(submit -o shell -t 1 --signal=B:USR1@55 signalled)
        job=$(submit -o out signalled); said up out
        scancel -s USR1 $job; said 'step USR1' out; scancel -b -s USR2 $job; said 'shell USR2' out
        sleep 0.2; cp out before; scancel -f -s USR2 $job; said 'child USR2' out; said 'step USR2' out
        srun -n2 sh -c 'trap \"echo got it; exit 4\" USR1; : > up$SLURM_PROCID; while :; do sleep 0.05; done' > told 2>&1 &
        await up0; await up1; kill -USR1 $!; wait $!; echo $?; sort told
        srun sh -c 'trap \"echo int\" INT; : > up; while :; do sleep 0.05; done' > told 2> err &
        await up; kill -INT $!; said 'task 0: running' err; kill -INT $!; wait $!; echo $?
        grep -v Waiting err | sed 's/[0-9]*[.]0/STEP/'
        said USR1 steps; said USR1 shell; : > end; over $steps; over $shell; over $job; cat steps shell before
        salloc -Q -n2 sh -c 'srun -n1 sh -c \": > first; sleep 1000\" 2> /dev/null & until test -e first; do sleep 0.05; done
          srun --overlap -n1 sh -c \": > second; until test -e third; do sleep 0.05; done; echo other\" &
          until test -e second; do sleep 0.05; done; scancel $SLURM_JOB_ID.0; wait %1; : > third; wait'";
    let output = sh(&cluster, script);
    let due = "4\ngot it\ngot it\nsrun: error: n1: tasks 0-1: Exited with exit code 4\n\
               137\nsrun: interrupt (one more within 1 sec to abort)\nsrun: StepId=STEP task 0: running\n\
               srun: sending Ctrl-C to StepId=STEP\nsrun: forcing job termination\n\
               srun: error: n1: task 0: Killed\nsrun: Force Terminated StepId=STEP\n\
               up\nstep USR1\nup\nshell USR1\nup\nstep USR1\nshell USR2\nother\n";
    assert_eq!((output.out.as_str(), output.err.as_str()), (due, ""));
    cluster.down();
}

#[test]
fn a_suspended_job_stands_still_and_a_requeued_one_runs_again() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 0);
    let home = cluster.home(NOBODY);
    let script = "while :; do echo x >> ticks; sleep 0.05; done";
    let job = cluster.sbatch(
        NOBODY,
        &["-n2", "--exclusive"],
        &format!("{script} & srun sh -c '{script}'"),
    );
    let ticks = || fs::read(home.join("ticks")).map_or(0, |ticks| ticks.len());
    let grows = |when: &str| {
        let before = ticks();
        wait::until_true(&format!("the job goes on {when}"), SOON, || {
            ticks() > before + 20
        });
    };
    grows("at first");
    let root = |words: &[&str]| cluster.run(User::Root, words).good();
    root(&["scontrol", "suspend", &job]);
    assert_eq!(root(&["squeue", "-h", "-o", "%t"]), "S\n");
    wait::until_true("it stands still", SOON, || {
        let before = ticks();
        std::thread::sleep(std::time::Duration::from_millis(300));
        ticks() == before
    });
    root(&["scontrol", "resume", &job]);
    grows("again");
    root(&["scancel", &job]);

    // Its file begins anew, or goes on if that is asked for.
    fs::write(
        home.join("again"),
        "#!/bin/sh\necho ${SLURM_RESTART_COUNT-never}; test -n \"$SLURM_RESTART_COUNT\" && exit; : > up$SLURM_JOB_ID; sleep 1000\n",
    )
    .expect("root may");
    let script = "for mode in truncate append; do
          rm -f out; job=$(submit --requeue -o out --open-mode=$mode again); await up$job; scontrol requeue $job; over $job
          grep -v CANCELLED out; scontrol show job $job | grep -o 'Restarts=.'
        done
        job=$(submit --no-requeue -o out again); await up$job; scontrol requeue $job; echo $?; scancel $job";
    let output = sh(&cluster, script);
    assert_eq!(
        output.out, "1\nRestarts=1\nnever\n1\nRestarts=1\n1\n",
        "{}",
        output.err
    );
    assert!(
        output
            .err
            .contains("Requested operation is presently disabled"),
        "{}",
        output.err
    );
    cluster.down();
}

#[test]
fn a_job_that_still_waits_goes_with_the_srun_that_waits_for_it() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 0);
    let script = "said() { until grep -qs \"$1\" $2; do sleep 0.05; done; }
        srun --begin=now+1hour -A Physics true 2> err &
        said queued err; squeue -h -A PHYSICS -o '%i %a'; kill -INT $!; wait $!; echo $?; cat err; squeue -h
        scontrol show step 1.0; scontrol show step 99.0 2>&1; echo $?
        srun --begin=now+2hour --deadline=now+1hour true 2>&1; echo $?";
    let output = sh(&cluster, script);
    let due = "1 physics\n1\nsrun: job 1 queued and waiting for resources\n\
               srun: Job allocation 1 has been revoked.\nJob step 1.0 not found\n\
               slurm_get_job_steps error: Invalid job id specified\n1\n\
               srun: error: Incompatible begin and deadline time specification\n1\n";
    assert_eq!((output.out.as_str(), output.err.as_str()), (due, ""));
    cluster.down();
}

#[test]
fn an_allocation_lasts_as_long_as_its_command() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 0);
    let script = "salloc -n2 sh -c 'echo $SLURM_NTASKS $SLURM_JOB_NODELIST; srun hostname | wc -l; exit 7' 2>&1; echo $?
        salloc -Q sh -c 'kill -9 $$'; echo $?; salloc -Q sh -c 'kill $$'; echo $?; salloc -Q /none 2>&1; echo $?
        salloc sh -c 'scancel $SLURM_JOB_ID; sleep 0.5; echo goes on' 2>&1 | tail -3
        echo n2 > nodes; salloc -Q -F nodes sh -c 'echo $SLURM_JOB_NODELIST'
        job=$(submit -o /dev/null --wrap ': > up; sleep 1000'); await up; srun --jobid=$job --overlap sh -c 'echo $SLURM_STEP_ID'
        test $(srun --jobid=$job --overlap sh -c 'echo $SLURM_JOB_ID') = $job && echo joined; scancel $job
        srun --test-only true 2>&1 | sed 's/Job [0-9]* to start at [^ ]*/Job N to start at T/'
        echo data > from; chmod 640 from; touch -d @1000000000 from; mkdir to; cat > copy <<'END'\n\
#!/bin/sh
sbcast from to/a; stat -c %a to/a; sbcast from to/a; echo $?; sbcast -fp from to/a; stat -c '%a %Y' to/a; cat to/a
END
        batch out copy; grep -v srun: out";
    let output = sh(&cluster, script);
    let due = "salloc: Granted job allocation 1\nsalloc: Nodes n1 are ready for job\n2 n1\n2\n\
               salloc: Relinquishing job allocation 1\nsalloc: Job allocation 1 has been revoked.\n7\n\
               0\n1\nsalloc: error: Unable to exec command \"/none\": No such file or directory\n1\n\
               salloc: Job allocation 5 has been revoked.\ngoes on\nsalloc: Relinquishing job allocation 5\n\
               n2\n0\njoined\nsrun: Job N to start at T using 1 processors on nodes n1 in partition gpu\n\
               640\nsbcast: error: REQUEST_FILE_BCAST(n1): File exists\n1\n\
               640 1000000000\ndata\n";
    assert_eq!((output.out.as_str(), output.err.as_str()), (due, ""));
    cluster.down();
}
