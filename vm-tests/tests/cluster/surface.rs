//! What the commands say and take as users meet it, where only a whole cluster would show a fault.

use crate::possible;
use vm_tests::cluster::{Cluster, SOON};
use vm_tests::user::{NOBODY, Output, UNKNOWN, User};
use vm_tests::wait;

/// Functions for the scripts here.
const SHELL: &str = "await() { until test -e $1; do sleep 0.05; done; }
over() { while squeue -h -j $1 2> /dev/null | grep -q .; do sleep 0.05; done; }
";

fn sh(cluster: &Cluster, user: User, script: &str) -> Output {
    let script = format!("{SHELL}{script}");
    cluster.run(user, &["timeout", "120", "sh", "-c", &script])
}

/// What a script prints, with `JOB` for a job's number.
fn said(cluster: &Cluster, user: User, job: &str, script: &str) -> String {
    let script = script.replace("JOB", job);
    let output = sh(cluster, user, &script);
    (output.out + &output.err).replace(job, "JOB")
}

#[test]
fn jobs_of_others_are_in_the_record_and_what_they_do_is_their_own() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 0);
    let home = cluster.home(NOBODY);
    let job = cluster.sbatch(NOBODY, &["-J", "theirs"], ": > up; sleep 1000");
    wait::until_true("it runs", SOON, || home.join("up").exists());
    let of = |user: User, script: &str| said(&cluster, user, &job, script);
    for query in [
        "-a",
        "-u nobody",
        "-j JOB",
        "-a -s R -S now-1hour -E now+1hour",
    ] {
        let script = format!("sacct -X -n -P -o JobID,User {query}");
        assert_eq!(of(UNKNOWN, &script), "JOB|nobody\n", "{query}");
    }
    assert_eq!(of(UNKNOWN, "sacct -X -n -P -o JobID"), "", "only one's own");
    let told = of(UNKNOWN, "seff JOB");
    assert!(
        told.contains("Job ID: JOB\n") && told.contains("State: RUNNING"),
        "{told}"
    );
    for refused in [
        "sstat -n -j JOB.batch",
        "spur usage JOB",
        "scontrol write batch_script JOB -",
    ] {
        let told = of(UNKNOWN, refused);
        assert!(
            told.contains("Access/permission denied"),
            "{refused}: {told}"
        );
    }
    cluster.run(User::Root, &["scancel", &job]).good();
    cluster.await_state(&job, &["CANCELLED"]);
    assert_eq!(
        of(UNKNOWN, "sacct -X -n -P -o JobID,User,State -j JOB"),
        "JOB|nobody|CANCELLED by 0\n"
    );
    cluster.down();
}

#[test]
fn a_task_of_an_array_is_named_wherever_a_job_is() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(1, 0);
    let script = "job=$(sbatch --parsable -a 1-2 -o out%a --wrap 'srun sleep 1000 & : > up$SLURM_ARRAY_TASK_ID; wait')
        await up1; await up2
        until squeue -h -s -o %i | grep -q ${job}_2.0; do sleep 0.05; done
        until sstat -n -P -o JobID -j ${job}_1.0 2> /dev/null | grep -q .; do sleep 0.05; done
        sstat -n -P -o JobID -j ${job}_1.0 2>&1
        for id in ${job}_1 ${job}_2; do
            seff $id 2>&1 | sed -n 's/State: //p'
            scontrol write batch_script $id - | tail -n1 | cut -c1-12
            spur usage $id 2>&1 | head -n1 | cut -d' ' -f3-4
            spur fence show $id > /dev/null 2>&1; echo $?
            srun --jobid=$id --overlap printenv SLURM_ARRAY_TASK_ID
            timeout 0.3 sattach $id.0; echo $?
        done
        scontrol show job 0 | grep -c ^JobId; scontrol show job 0_2 | grep ^JobId
        env SLURM_JOB_ID=2 SLURM_NTASKS=6 SLURM_NNODES=3 srun -E -n1 -N1 --overlap printenv SLURM_NTASKS SLURM_NNODES
        scontrol write batch_script ${job}_2 > told; ls slurm-${job}_2.sh; cat told
        spur why ${job}_2
        scancel $job; over $job; seff ${job}_2 2>&1 | sed -n 's/State: //p'
        for id in ${job}_7 \"${job}_[1-2]\"; do seff $id; sstat -n -j $id; srun --jobid=$id true; scontrol write batch_script $id; done";
    let output = sh(&cluster, NOBODY, script);
    let task = |index: u32| format!("RUNNING\nsrun sleep 1\n(wrap) of\n0\n{index}\n124\n");
    let due = format!(
        "1_1.0\n{}{}2\nJobId=1 ArrayJobId=1 ArrayTaskId=2 JobName=wrap\n6\n3\nslurm-1_2.sh\nbatch script for job 1_2 written to slurm-1_2.sh\n\
         Job 1 waits no more: it is RUNNING.\nCANCELLED (exit code 0)\n",
        task(1),
        task(2)
    );
    assert_eq!(output.out, due, "{}", output.err);
    for id in ["1_7", "1_[1-2]"] {
        for said in [
            format!("Unable to confirm allocation for job {id}: Invalid job id specified"),
            "job script retrieval failed: Invalid job id specified".to_owned(),
        ] {
            assert!(output.err.contains(&said), "{said}: {}", output.err);
        }
    }
    for said in [
        "seff: error: Invalid job id specified\n",
        "seff: error: Invalid job id: 1_[1-2]\n",
        "sstat: error: couldn't get steps for job 1_7\n",
        "sstat: fatal: Bad job/step specified: 1_[1-2]\n",
    ] {
        assert!(output.err.contains(said), "{said}: {}", output.err);
    }
    cluster.down();
}

#[test]
fn processes_are_told_by_their_jobs_and_steps() {
    if !possible() {
        return;
    }
    let cluster = Cluster::up(2, 0);
    let script = "job=$(sbatch --parsable -N1 -n2 -t10 -o out --wrap 'scontrol pidinfo $$; srun -n2 sleep 1000 & : > up; wait')
        await up
        until [ $(scontrol listpids $job.0 | grep -cE ' 0 +[01] +[01] *$') = 2 ]; do sleep 0.05; done
        scontrol listpids $job.0 | head -n1; scontrol listpids | awk '{print $2, $3}' | sort -u | tr '\\n' ','; echo
        cut -d' ' -f1-6 out | cut -d= -f1,2 | sed 's/at .*/at/; s/ [0-9]* seconds/ N/'
        scontrol listpids $job.7; echo $?; scontrol listpids 99; echo $?; scontrol listpids $job n2; echo $?
        scontrol pidinfo $$; echo $?; scontrol pidinfo; echo $?
        scancel $job; over $job; scontrol listpids; echo $?";
    let output = sh(&cluster, NOBODY, script);
    assert_eq!(
        output.out,
        "PID      JOBID    STEPID   LOCALID GLOBALID\n1 0,1 batch,JOBID STEPID,\nSlurm JobId=1 ends at\nJob remaining time is N\n\
         1\n1\n1\n1\n1\n1\n",
        "{}",
        output.err
    );
    let host = cluster.run(NOBODY, &["hostname"]).out;
    for said in [
        format!("StepId=1.7 does not exist on node {}.\n", host.trim()),
        format!("There are no steps for job 99 on node {}.\n", host.trim()),
        "JobId=1 does not exist on node n2.\n".to_owned(),
        "Failed to locate job for requested pid\n".to_owned(),
        "missing argument for keyword:pidinfo\n".to_owned(),
        "No job steps exist on this node.\n".to_owned(),
    ] {
        assert!(output.err.contains(&said), "{said}: {}", output.err);
    }
}
