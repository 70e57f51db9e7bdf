//! Where recordings of the real Slurm lie beside the repository, the same jobs must give the same variables.

use super::*;
use std::path::Path;

/// Not ours to set: Slurm's configuration file and sockets, the client's own, what differs by run, and the shell's.
const APART: [&str; 16] = [
    "HOME",
    "PWD",
    "USER",
    "SLURM_CONF",
    "SLURM_DISTRIBUTION",
    "SLURM_GPUS",
    "SLURM_GPUS_PER_NODE",
    "SLURM_JOBID",
    "SLURM_JOB_END_TIME",
    "SLURM_JOB_ID",
    "SLURM_JOB_START_TIME",
    "SLURM_LAUNCH_NODE_IPADDR",
    "SLURM_SRUN_COMM_HOST",
    "SLURM_SRUN_COMM_PORT",
    "SLURM_STEP_LAUNCHER_PORT",
    "SLURM_TASK_PID",
];

#[expect(
    clippy::disallowed_methods,
    reason = "a test reads recordings; the crate itself does no I/O"
)]
fn read(file: &str) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/slurm-golden");
    std::fs::read_to_string(folder.join(file)).ok()
}

/// The recorded variables of one task; `None` where there are no recordings.
fn recorded(file: &str, procid: u32) -> Option<Vec<String>> {
    let text = read(file)?;
    let lines = text
        .lines()
        .map(|line| line.strip_prefix(&format!("{procid}: ")).unwrap_or(line));
    let lines = lines.filter(|line| {
        line.split_once('=').is_some_and(|(name, _)| {
            name.chars()
                .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        })
    });
    // Several tasks follow one another; each ends its alphabetical run.
    let mut tasks: Vec<Vec<String>> = vec![];
    for line in lines {
        match tasks.last_mut() {
            Some(task) if task.last().is_some_and(|last| last.as_str() < line) => {
                task.push(line.to_owned())
            }
            _ => tasks.push(vec![line.to_owned()]),
        }
    }
    let wanted = format!("SLURM_PROCID={procid}");
    tasks.into_iter().find(|task| task.contains(&wanted))
}

fn apart(entry: &str) -> bool {
    let name = crate::slurm::export::name_of(entry);
    APART.contains(&name)
}

fn like_recorded(file: &str, job: &JobOrder, step: &StepOrder, local: u32, base: &[&str]) {
    let procid = step.task_ids[local as usize];
    let Some(mut recorded) = recorded(file, procid) else {
        eprintln!("no recording {file}: not compared");
        return;
    };
    let base: Vec<&str> = ["SLURM_SUBMIT_DIR=/home/slurmtest/jobs", "TMPDIR=/tmp"]
        .iter()
        .chain(base)
        .copied()
        .collect();
    let mut ours = build(job, step, local, &stand_ins(), &base);
    let batch = step.step == StepKind::Batch;
    recorded.retain(|entry| !apart(entry));
    ours.retain(|entry| !apart(entry) && (batch || entry != "TMPDIR=/tmp"));
    if file == "env-srun-gpus-per-task.txt" {
        // This recording left out the variable.
        ours.retain(|entry| !entry.starts_with("ZE_"));
    }
    ours.sort();
    recorded.sort();
    assert_eq!(ours, recorded, "{file}");
}

fn recorded_job(shares: Vec<NodeShare>, name: &str) -> JobOrder {
    let mut order = job(shares);
    order.owner.user = "slurmtest".to_owned();
    order.owner.group = "slurmtest".to_owned();
    order.owner.gid = Gid(1001);
    order.name = name.to_owned();
    order.submit_host = "vm".to_owned();
    order
}

#[test]
fn batch_jobs_match() {
    let batch = |job: &JobOrder| step(job, StepKind::Batch, vec![0]);
    let plain = recorded_job(vec![share(1, [], 1)], "env.sh");
    like_recorded("env-sbatch.txt", &plain, &batch(&plain), 0, &[]);
    let gres = recorded_job(vec![share(1, [0, 1], 1)], "env.sh");
    like_recorded("env-sbatch-gres2.txt", &gres, &batch(&gres), 0, &[]);
    let typed = recorded_job(vec![share(1, [0, 1, 2], 1)], "env.sh");
    like_recorded("env-sbatch-gpus3-typed.txt", &typed, &batch(&typed), 0, &[]);
    let mut memory = recorded_job(vec![share(2, [], 2)], "named");
    (memory.tasks_set, memory.mem_per_cpu) = (true, Some(2048));
    like_recorded(
        "env-sbatch-mem-per-cpu.txt",
        &memory,
        &batch(&memory),
        0,
        &[],
    );
    let mut multi = recorded_job(vec![share(6, [0, 1], 2), share(6, [0, 1], 2)], "env.sh");
    (
        multi.tasks_per_node,
        multi.cpus_per_task,
        multi.cpus_per_task_set,
    ) = (2, 3, true);
    (multi.mem_per_cpu, multi.mem_per_node) = (None, Some(4096));
    like_recorded("env-sbatch-N2-multi.txt", &multi, &batch(&multi), 0, &[]);
    let none = ["SLURM_EXPORT_ENV=NONE", "SLURM_GET_USER_ENV=1"];
    let mut login = build(&plain, &batch(&plain), 0, &[], &none);
    login.retain(|entry| {
        ["SHELL=", "HOME=", "USER="]
            .iter()
            .any(|name| entry.starts_with(name))
    });
    assert_eq!(
        login,
        ["HOME=/home/alice", "SHELL=/bin/bash", "USER=slurmtest"]
    );
}

#[test]
fn steps_match() {
    let alone = recorded_job(vec![share(1, [], 1)], "sh");
    let first = |job: &JobOrder, ids| step(job, StepKind::Numbered(0), ids);
    let umask = "SLURM_UMASK=0022";
    like_recorded("env-srun.txt", &alone, &first(&alone, vec![0]), 0, &[umask]);
    let gres = recorded_job(vec![share(1, [0, 1], 1)], "sh");
    like_recorded(
        "env-srun-gres2.txt",
        &gres,
        &first(&gres, vec![0]),
        0,
        &[umask],
    );
    let each = recorded_job(vec![share(4, [0, 1, 2, 3], 4)], "sh");
    let base = [
        umask,
        "SLURM_LABELIO=1",
        "SLURM_TRES_BIND=gres/gpu:per_task:1",
        "SLURM_TRES_PER_TASK=gres/gpu=1",
    ];
    for local in 0..4 {
        like_recorded(
            "env-srun-gpus-per-task.txt",
            &each,
            &first(&each, vec![0, 1, 2, 3]),
            local,
            &base,
        );
    }
    let mut inside = recorded_job(vec![share(2, [0, 1, 2, 3], 2)], "envsrun.sh");
    inside.tasks_set = true;
    let batch = build(
        &inside,
        &step(&inside, StepKind::Batch, vec![0]),
        0,
        &stand_ins(),
        &[],
    );
    let base: Vec<&str> = batch
        .iter()
        .map(String::as_str)
        .filter(|e| !e.starts_with("SLURM_SUBMIT_DIR"))
        .chain([umask])
        .collect();
    for local in 0..2 {
        like_recorded(
            "env-step-in-batch.txt",
            &inside,
            &first(&inside, vec![0, 1]),
            local,
            &base,
        );
    }
}

#[test]
fn heterogeneous_jobs_match() {
    use crate::event::Event;
    use crate::fixture::{World, batch, hello, inventory};
    let mut world = World::new(0, 0);
    world.cluster.name = "base".to_owned();
    for name in ["n0001", "n0002"] {
        world.does(Event::NodeConnected(hello(name, inventory(8, 16_384, 8))));
    }
    let component = |node: &str| crate::job::spec::JobSpec {
        owner: recorded_job(Vec::new(), "").owner,
        name: "env.sh".to_owned(),
        account: "research".to_owned(),
        qos: "normal".to_owned(),
        tasks_set: true,
        nodelist: vec![node.to_owned()],
        submit_host: "vm".to_owned(),
        ..batch()
    };
    world.cluster.next_job = JobId(79);
    let leader = world.submit_het(vec![component("n0001"), component("n0002")]);
    world.plan();
    let mut rolls = crate::cluster::orders::Rolls::default();
    let order = world.cluster.job_order(leader, NodeId(0), &mut rolls);
    let batch = (leader, StepKind::Batch);
    let step = world.cluster.step_order(batch, NodeId(0), &mut rolls);
    let (order, step) = (order.unwrap(), step.unwrap());
    like_recorded("env-sbatch-het.txt", &order, &step, 0, &[]);
    // A task of the other component belongs to the same job.
    let other = world
        .cluster
        .job_order(JobId(80), NodeId(1), &mut rolls)
        .unwrap();
    let mut own = self::step(&other, StepKind::Numbered(0), vec![1]);
    (own.tasks, own.index) = (2, 1);
    own.nodes = vec![
        (NodeName::new("n0001").unwrap(), 1),
        (NodeName::new("n0002").unwrap(), 1),
    ]
    .into();
    let of_batch = build(&order, &step, 0, &[], &[]);
    let of_batch: Vec<&str> = of_batch.iter().map(String::as_str).collect();
    let env = build(&other, &own, 0, &[], &of_batch);
    for wanted in [
        "SLURM_JOB_ID=79",
        "SLURM_JOB_ID_HET_GROUP_1=80",
        "SLURM_HET_SIZE=2",
        "SLURM_PROCID=1",
        "SLURM_NTASKS=2",
        "SLURM_NODEID=1",
        "SLURM_STEP_NODELIST=n[0001-0002]",
        "SLURM_JOB_NODELIST=n[0001-0002]",
    ] {
        assert!(env.iter().any(|entry| entry == wanted), "{wanted}: {env:?}");
    }
}
