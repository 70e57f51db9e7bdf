mod golden;

use super::*;
use crate::agent::order::AllocatedNode;
use crate::agent::roll::Roll;
use crate::id::{Generation, Gid, JobId, NodeId, NodeName, Uid};
use crate::job::spec::Owner;
use crate::resources::{GpuVendor, NodeShare};
use crate::time::{Millis, TimeLimit};
use proptest::prelude::*;

fn share(cpus: u32, gpus: impl IntoIterator<Item = u32>, tasks: u32) -> NodeShare {
    NodeShare {
        node: NodeId(0),
        cpus: IdSet::first(cpus),
        memory_mib: 1024,
        gpus: gpus.into_iter().collect(),
        tasks,
    }
}

fn owner() -> Owner {
    Owner {
        uid: Uid(1001),
        gid: Gid(1002),
        groups: vec![],
        user: "alice".to_owned(),
        group: "staff".to_owned(),
        home: "/home/alice".to_owned(),
        shell: "/bin/bash".to_owned(),
    }
}

/// A job on `n0001`, `n0002`, … that asked for nothing.
fn job(shares: Vec<NodeShare>) -> JobOrder {
    let nodes = (1..).zip(shares).map(|(n, share)| {
        let name = NodeName::new(format!("n{n:04}")).unwrap();
        AllocatedNode { name, share }
    });
    let nodes: Roll<_> = nodes.collect();
    JobOrder {
        job: JobId(42),
        generation: Generation(7),
        cluster: "base".to_owned(),
        owner: owner(),
        name: "train".to_owned(),
        account: "research".to_owned(),
        partition: "gpu".to_owned(),
        qos: "normal".to_owned(),
        tasks: nodes.iter().map(|node| node.share.tasks).sum(),
        nodes,
        index: 0,
        cpus_per_task: 1,
        cpus_per_task_set: false,
        tasks_set: false,
        tasks_per_node: 0,
        mem_per_cpu: Some(1024),
        mem_per_node: None,
        work_dir: "/work".to_owned(),
        submit_host: "login".to_owned(),
        started: Millis(1_000_000_000),
        time_limit: TimeLimit::Secs(3600),
        restarts: 0,
        licenses: String::new(),
        array: None,
        het: None,
        node_timeout: 0,
    }
}

/// A step with the whole of its job: `task_ids` run on the order's own node.
fn step(job: &JobOrder, kind: StepKind, task_ids: Vec<u32>) -> StepOrder {
    StepOrder {
        job: job.job,
        step: kind,
        generation: job.generation,
        nodes: job
            .nodes
            .iter()
            .map(|node| (node.name.clone(), node.share.tasks))
            .collect(),
        index: job.index,
        share: job.here().unwrap().share.clone(),
        task_ids,
        tasks: job.tasks,
        cpus_per_task: job.cpus_per_task,
        batch: None,
    }
}

fn gpu(index: u32, vendor: GpuVendor, uuid: &str) -> Gpu {
    Gpu {
        index,
        vendor,
        model: "h200".to_owned(),
        uuid: uuid.to_owned(),
        pci: String::new(),
        numa: None,
        memory_mib: 0,
        files: vec![],
        links: vec![],
        rail: None,
        parent: None,
    }
}

fn stand_ins() -> Vec<Gpu> {
    (0..8)
        .map(|index| gpu(index, GpuVendor::Simulated, ""))
        .collect()
}

fn text(env: Vec<Vec<u8>>) -> Vec<String> {
    env.into_iter()
        .map(|entry| String::from_utf8(entry).unwrap())
        .collect()
}

fn build(job: &JobOrder, step: &StepOrder, local: u32, gpus: &[Gpu], base: &[&str]) -> Vec<String> {
    text(task(
        &Task {
            job,
            step,
            local,
            pid: Some(99),
            gpus,
            conf: "/etc/spur/spur.toml",
            preserve: false,
        },
        base,
    ))
}

fn value<'a>(env: &'a [String], name: &str) -> Option<&'a str> {
    env.iter()
        .find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='))
}

#[test]
fn a_plain_batch_job_is_described_completely() {
    let job = job(vec![share(1, [], 1)]);
    let env = build(
        &job,
        &step(&job, StepKind::Batch, vec![0]),
        0,
        &[],
        &["A=1", "SLURM_SUBMIT_DIR=/home/alice"],
    );
    let expected = [
        "A=1",
        "SLURMD_NODENAME=n0001",
        "SLURM_CLUSTER_NAME=base",
        "SLURM_CONF=/etc/spur/spur.toml",
        "SLURM_CPUS_ON_NODE=1",
        "SLURM_GTIDS=0",
        "SLURM_JOBID=42",
        "SLURM_JOB_ACCOUNT=research",
        "SLURM_JOB_CPUS_PER_NODE=1",
        "SLURM_JOB_END_TIME=1003600",
        "SLURM_JOB_GID=1002",
        "SLURM_JOB_ID=42",
        "SLURM_JOB_NAME=train",
        "SLURM_JOB_NODELIST=n0001",
        "SLURM_JOB_NUM_NODES=1",
        "SLURM_JOB_PARTITION=gpu",
        "SLURM_JOB_QOS=normal",
        "SLURM_JOB_START_TIME=1000000",
        "SLURM_JOB_UID=1001",
        "SLURM_JOB_USER=alice",
        "SLURM_LOCALID=0",
        "SLURM_MEM_PER_CPU=1024",
        "SLURM_NNODES=1",
        "SLURM_NODEID=0",
        "SLURM_NODELIST=n0001",
        "SLURM_OOM_KILL_STEP=0",
        "SLURM_PRIO_PROCESS=0",
        "SLURM_PROCID=0",
        "SLURM_SUBMIT_DIR=/home/alice",
        "SLURM_SUBMIT_HOST=login",
        "SLURM_TASKS_PER_NODE=1",
        "SLURM_TASK_PID=99",
        "SLURM_TOPOLOGY_ADDR=n0001",
        "SLURM_TOPOLOGY_ADDR_PATTERN=node",
        "TMPDIR=/tmp",
    ];
    assert_eq!(env, expected);
}

#[test]
fn what_was_asked_for_is_told_to_the_batch_script() {
    let two = || share(6, [0, 1], 2);
    let mut job = job(vec![two(), two(), share(3, [], 1)]);
    (job.tasks_set, job.tasks_per_node) = (true, 2);
    (job.cpus_per_task, job.cpus_per_task_set) = (3, true);
    (job.mem_per_cpu, job.mem_per_node) = (None, Some(4096));
    (job.time_limit, job.restarts) = (TimeLimit::Unlimited, 2);
    let env = build(
        &job,
        &step(&job, StepKind::Batch, vec![0]),
        0,
        &stand_ins(),
        &[],
    );
    for (name, expected) in [
        ("SLURM_NTASKS", Some("5")),
        ("SLURM_NPROCS", Some("5")),
        ("SLURM_NTASKS_PER_NODE", Some("2")),
        ("SLURM_TASKS_PER_NODE", Some("2(x2),1")),
        ("SLURM_JOB_CPUS_PER_NODE", Some("6(x2),3")),
        ("SLURM_CPUS_PER_TASK", Some("3")),
        ("SLURM_TRES_PER_TASK", Some("cpu=3")),
        ("SLURM_MEM_PER_NODE", Some("4096")),
        ("SLURM_MEM_PER_CPU", None),
        ("SLURM_JOB_NODELIST", Some("n[0001-0003]")),
        ("SLURM_GPUS_ON_NODE", Some("2")),
        ("SLURM_JOB_GPUS", Some("0,1")),
        ("SLURM_STEP_GPUS", None),
        ("SLURM_STEP_ID", None),
        ("SLURM_RESTART_COUNT", Some("2")),
        ("SLURM_JOB_END_TIME", Some("32536000")),
    ] {
        assert_eq!(value(&env, name), expected, "{name}");
    }
}

#[test]
fn a_step_adds_itself_and_counts_its_own_tasks() {
    let mut job = job(vec![share(4, [2, 5], 4), share(2, [0], 1)]);
    job.index = 1;
    let mut step = step(&job, StepKind::Numbered(3), vec![4, 5]);
    step.nodes = vec![(NodeName::new("n0002").unwrap(), 2)].into();
    (step.index, step.tasks, step.cpus_per_task) = (0, 2, 2);
    let env = build(&job, &step, 1, &stand_ins(), &["SLURM_UMASK=0022"]);
    for (name, expected) in [
        ("SLURMD_NODENAME", Some("n0002")),
        ("SLURM_STEP_ID", Some("3")),
        ("SLURM_STEPID", Some("3")),
        ("SLURM_STEP_NODELIST", Some("n0002")),
        ("SLURM_STEP_NUM_NODES", Some("1")),
        ("SLURM_STEP_NUM_TASKS", Some("2")),
        ("SLURM_STEP_TASKS_PER_NODE", Some("2")),
        ("SLURM_NNODES", Some("1")),
        ("SLURM_NTASKS", Some("2")),
        ("SLURM_JOB_NUM_NODES", Some("2")),
        ("SLURM_NODELIST", Some("n[0001-0002]")),
        ("SLURM_JOB_CPUS_PER_NODE", Some("4,2")),
        ("SLURM_CPUS_ON_NODE", Some("2")),
        ("SLURM_CPUS_PER_TASK", Some("2")),
        ("SLURM_GTIDS", Some("4,5")),
        ("SLURM_LOCALID", Some("1")),
        ("SLURM_PROCID", Some("5")),
        ("SLURM_NODEID", Some("0")),
        ("SLURM_GPUS_ON_NODE", Some("1")),
        ("SLURM_STEP_GPUS", Some("0")),
        ("SLURM_JOB_GPUS", None),
        ("SLURM_JOB_GROUP", Some("staff")),
        ("SLURM_UMASK", Some("0022")),
        ("SLURMD_DEBUG", Some("2")),
    ] {
        assert_eq!(value(&env, name), expected, "{name}");
    }
}

#[test]
fn a_step_inherits_its_own_job_and_no_other() {
    let job = job(vec![share(1, [], 1)]);
    let step = step(&job, StepKind::Numbered(0), vec![0]);
    let base = |id| {
        [
            id,
            "SLURM_JOB_GPUS=0,1",
            "SLURM_NTASKS_PER_NODE=7",
            "SLURM_ARRAY_TASK_ID=3",
            "SLURM_CONF=/c",
            "SLURM_GPUS_ON_NODE=4",
        ]
    };
    let inside = build(&job, &step, 0, &[], &base("SLURM_JOB_ID=42"));
    let outside = build(&job, &step, 0, &[], &base("SLURM_JOB_ID=41"));
    for (name, here, elsewhere) in [
        ("SLURM_JOB_GPUS", Some("0,1"), None),
        ("SLURM_NTASKS_PER_NODE", Some("7"), None),
        ("SLURM_ARRAY_TASK_ID", Some("3"), None),
        ("SLURM_GPUS_ON_NODE", None, None),
        ("SLURM_CONF", Some("/c"), Some("/c")),
        ("SLURM_JOB_GROUP", None, Some("staff")),
    ] {
        assert_eq!(
            (value(&inside, name), value(&outside, name)),
            (here, elsewhere),
            "{name}"
        );
    }
}

#[test]
fn a_task_with_gpus_of_its_own_sees_those() {
    let job = job(vec![share(4, [1, 3, 4, 6], 2)]);
    let step = step(&job, StepKind::Numbered(0), vec![0, 1, 2]);
    let base = ["SLURM_TRES_BIND=gres/gpu:per_task:2"];
    for (local, gpus) in [(0, Some("1,3")), (1, Some("4,6")), (2, None)] {
        let env = build(&job, &step, local, &stand_ins(), &base);
        assert_eq!(value(&env, "SLURM_STEP_GPUS"), gpus);
        assert_eq!(value(&env, "CUDA_VISIBLE_DEVICES"), gpus);
        assert_eq!(value(&env, "SLURM_GPUS_ON_NODE"), Some("4"));
        assert_eq!(value(&env, "SLURMD_TRES_BIND"), Some("gres/gpu:per_task:2"));
    }
    let env = build(
        &job,
        &step,
        0,
        &stand_ins(),
        &["SLURM_TRES_BIND=gres/gpu:none"],
    );
    assert_eq!(value(&env, "CUDA_VISIBLE_DEVICES"), Some("1,3,4,6"));
}

const VENDORS: [&str; 6] = [
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ZE_AFFINITY_MASK",
];

#[test]
fn each_vendor_gets_its_variables_and_the_others_lose_theirs() {
    use GpuVendor::{Amd, Drm, Nvidia, Simulated};
    let pci = Some("PCI_BUS_ID");
    type Expected = [Option<&'static str>; 6];
    let cases: [(&[(GpuVendor, &str)], Expected); 8] = [
        (&[], [None; 6]),
        (
            &[(Nvidia, "GPU-a"), (Nvidia, "GPU-b")],
            [Some("GPU-a,GPU-b"), pci, None, None, None, None],
        ),
        (
            &[(Nvidia, "GPU-a"), (Nvidia, "")],
            [Some("0,1"), pci, None, None, None, None],
        ),
        (
            &[(Nvidia, "MIG-a")],
            [Some("MIG-a"), pci, None, None, None, None],
        ),
        (
            &[(Amd, "0a"), (Amd, "GPU-0b")],
            [None, None, Some("GPU-0a,GPU-0b"), None, Some("0,1"), None],
        ),
        (
            &[(Drm, ""), (Drm, "")],
            [None, None, None, None, None, Some("0,1")],
        ),
        (
            &[(Simulated, ""), (Simulated, "")],
            [
                Some("2,3"),
                None,
                Some("2,3"),
                None,
                Some("2,3"),
                Some("2,3"),
            ],
        ),
        (
            &[(Nvidia, "GPU-a"), (Amd, "0b")],
            [
                Some("GPU-a"),
                pci,
                Some("GPU-0b"),
                Some("0"),
                Some("0"),
                None,
            ],
        ),
    ];
    for (granted, expected) in cases {
        // The node has two more, which the job does not get.
        let others = [gpu(0, Nvidia, "GPU-x"), gpu(1, Amd, "0y")];
        let mine = (2..)
            .zip(granted)
            .map(|(index, (vendor, uuid))| gpu(index, *vendor, uuid));
        let all: Vec<Gpu> = others.into_iter().chain(mine).collect();
        let indices = all[2..].iter().map(|gpu| gpu.index);
        let job = job(vec![share(1, indices, 1)]);
        let inherited: Vec<String> = VENDORS.iter().map(|name| format!("{name}=7")).collect();
        let inherited: Vec<&str> = inherited.iter().map(String::as_str).collect();
        for kind in [StepKind::Batch, StepKind::Numbered(0)] {
            let env = build(&job, &step(&job, kind, vec![0]), 0, &all, &inherited);
            assert_eq!(
                VENDORS.map(|name| value(&env, name)),
                expected,
                "{granted:?}"
            );
        }
    }
}

#[test]
fn a_login_is_imitated_only_where_asked_for() {
    let job = job(vec![share(1, [], 1)]);
    let step = step(&job, StepKind::Batch, vec![0]);
    let env = build(
        &job,
        &step,
        0,
        &[],
        &["SLURM_GET_USER_ENV=1", "SHELL=/bin/zsh"],
    );
    for (name, expected) in [
        ("HOME", "/home/alice"),
        ("USER", "alice"),
        ("LOGNAME", "alice"),
        ("SHELL", "/bin/zsh"),
        ("PATH", LOGIN_PATH),
    ] {
        assert_eq!(value(&env, name), Some(expected));
    }
    let env = build(&job, &step, 0, &[], &[]);
    assert_eq!(value(&env, "HOME"), None);
    let numbered = self::step(&job, StepKind::Numbered(0), vec![0]);
    let env = build(&job, &numbered, 0, &[], &["SLURM_GET_USER_ENV=1"]);
    assert_eq!(
        value(&env, "HOME"),
        None,
        "the script's login is not its steps'"
    );
}

#[test]
fn a_job_submitted_from_within_a_job_starts_afresh() {
    let env: Vec<String> = [
        "A=1",
        "SLURM_JOB_ID=1",
        "SLURM_TRES_BIND=x",
        "SLURM_CONF=/c",
        "SLURM_UMASK=1",
        "SLURM_STEP_GPUS=0",
    ]
    .map(str::to_owned)
    .to_vec();
    assert_eq!(without_job(&env), ["A=1", "SLURM_CONF=/c"]);
}

#[test]
fn a_step_keeps_the_numbers_of_its_script_where_it_is_told_to() {
    let job = job(vec![share(4, [], 4), share(4, [], 4)]);
    let one = step(&job, StepKind::Numbered(0), vec![0]);
    let base = ["SLURM_JOB_ID=42", "SLURM_NNODES=3", "SLURM_NTASKS=6"];
    let of = |preserve| {
        let task = Task {
            job: &job,
            step: &one,
            local: 0,
            pid: None,
            gpus: &[],
            conf: "",
            preserve,
        };
        text(super::task(&task, &base))
    };
    let kept = of(true);
    assert_eq!(value(&kept, "SLURM_NNODES"), Some("3"));
    assert_eq!(value(&kept, "SLURM_NTASKS"), Some("6"));
    assert_eq!(
        value(&kept, "SLURM_NPROCS"),
        value(&of(false), "SLURM_NPROCS"),
        "was not set"
    );
    assert_ne!(value(&of(false), "SLURM_NTASKS"), Some("6"));
    assert_ne!(value(&of(false), "SLURM_NNODES"), Some("3"));
}

#[test]
fn numbers_of_neighbours_fold() {
    for (numbers, text) in [
        (vec![], ""),
        (vec![4], "4"),
        (vec![4, 4, 3, 4], "4(x2),3,4"),
        (vec![1; 3], "1(x3)"),
    ] {
        assert_eq!(folded(numbers), text);
    }
}

proptest! {
    #[test]
    fn any_base_gives_a_sound_environment(
        base: Vec<Vec<u8>>,
        near in proptest::collection::vec("(SLURM_|CUDA_)?[A-Z]{0,3}=?[a-z\0]{0,3}", 0..12),
        local in 0u32..4,
    ) {
        let job = job(vec![share(4, [1, 2], 2)]);
        let base: Vec<Vec<u8>> = base.into_iter().chain(near.into_iter().map(String::into_bytes)).collect();
        for kind in [StepKind::Batch, StepKind::Numbered(0)] {
            let step = step(&job, kind, vec![0, 1]);
            let gpus = stand_ins();
            let wanted = Task { job: &job, step: &step, local, pid: None, gpus: &gpus, conf: "", preserve: false };
            let env = task(&wanted, &base);
            let mut names: Vec<_> = env.iter().map(|entry| entry.split(|b| *b == b'=').next().unwrap()).collect();
            prop_assert!(names.iter().all(|name| !name.is_empty()));
            prop_assert!(env.iter().all(|entry| entry.contains(&b'=') && !entry.contains(&0)));
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            prop_assert_eq!(names.len(), count);
            // A step that starts within its job learns how its tasks lie, too.
            let mut again = task(&wanted, &env);
            again.retain(|entry| env.contains(entry) || !entry.starts_with(b"SLURM_DISTRIBUTION="));
            prop_assert_eq!(&again, &env);
        }
    }
}
