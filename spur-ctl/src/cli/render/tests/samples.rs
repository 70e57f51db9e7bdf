//! A small cluster like the recorded one: four nodes of 64 CPUs and eight `h200`.

use crate::cli::render::View;
use crate::cli::render::clock::Clock;
use spur_core::agent::order::AllocatedNode;
use spur_core::api::{JobView, NodeView};
use spur_core::denial::DenialCount;
use spur_core::id::{Generation, Gid, JobId, NodeId, NodeName, Uid};
use spur_core::job::spec::{JobKind, JobSpec, Owner};
use spur_core::job::state::{ExitStatus, JobState, Reason};
use spur_core::node::{AdminState, FenceState, Node};
use spur_core::partition::{Partition, PartitionState};
use spur_core::resources::{Gpu, GpuCount, GpuVendor, IdSet, Inventory, MemoryRequest, NodeShare};
use spur_core::time::{Millis, TimeLimit};
use std::sync::Arc;

/// 2026-11-30T01:41:00.
pub(crate) const SUBMITTED: Millis = Millis(1_796_002_860_000);

pub(crate) fn at(secs: u64) -> Millis {
    SUBMITTED.plus_secs(secs)
}

pub(crate) fn view(now: Millis) -> View {
    let users = [(0, "root".to_owned())].into();
    View {
        clock: Clock::utc(now),
        users,
        raw_sizes: false,
        cluster: String::new(),
        expand_patterns: false,
    }
}

pub(crate) fn ids(list: &[(u32, u32)]) -> IdSet {
    list.iter()
        .flat_map(|(first, last)| *first..=*last)
        .collect()
}

fn owner() -> Owner {
    Owner {
        uid: Uid(1001),
        gid: Gid(1001),
        groups: Vec::new(),
        user: "slurmtest".to_owned(),
        group: "slurmtest".to_owned(),
        home: "/home/slurmtest".to_owned(),
        shell: "/bin/bash".to_owned(),
    }
}

pub(crate) fn spec(name: &str) -> JobSpec {
    JobSpec {
        kind: JobKind::Batch,
        owner: owner(),
        name: name.to_owned(),
        account: "research".to_owned(),
        partition: "gpu".to_owned(),
        qos: "normal".to_owned(),
        memory: MemoryRequest::PerCpu(1024),
        time_limit: Some(TimeLimit::Secs(3600)),
        requeue: true,
        work_dir: "/home/slurmtest/jobs".to_owned(),
        command: "/home/slurmtest/jobs/sleep.sh".to_owned(),
        submit_host: "localhost".to_owned(),
        submit_sid: 18_559,
        ..JobSpec::default()
    }
}

pub(crate) fn job(id: u32, spec: JobSpec) -> JobView {
    JobView {
        id: JobId(id),
        spec: Arc::new(spec),
        state: JobState::Pending,
        completing: false,
        reason: Reason::None,
        reason_text: String::new(),
        priority: 1,
        submitted: SUBMITTED,
        eligible: SUBMITTED,
        started: None,
        ended: None,
        nodes: Vec::new(),
        gpu_models: Vec::new(),
        steps: Vec::new(),
        exit: ExitStatus::default(),
        derived_exit: ExitStatus::default(),
        restarts: 0,
        denials: DenialCount::default(),
        generation: Generation(0),
        cancelled_by: None,
        idle: Vec::new(),
        due: SUBMITTED,
        avoid: Vec::new(),
        uncleaned: Vec::new(),
        unavailable: Vec::new(),
        expected: None,
        array: None,
        dependency: String::new(),
        suspended: None,
        suspended_ms: 0,
        turned: None,
        ran_before_ms: 0,
        het: None,
        backfilled: false,
        written: Default::default(),
    }
}

pub(crate) fn running(mut job: JobView, shares: &[(&str, IdSet, u64, IdSet)]) -> JobView {
    job.state = JobState::Running;
    job.started = Some(at(1));
    if let Some(TimeLimit::Secs(secs)) = job.spec.time_limit {
        job.ended = Some(at(1 + secs));
    }
    let held = |(node, (name, cpus, memory_mib, gpus)): (u32, &(&str, IdSet, u64, IdSet))| {
        let (cpus, gpus) = (cpus.clone(), gpus.clone());
        let share = NodeShare {
            node: NodeId(node),
            cpus,
            memory_mib: *memory_mib,
            gpus,
            tasks: 1,
        };
        AllocatedNode {
            name: NodeName::new(*name).unwrap(),
            share,
        }
    };
    job.nodes = (0..).zip(shares).map(held).collect();
    job.gpu_models = vec!["h200".to_owned(); shares.len()];
    job
}

/// Job 4 of the recordings, `train`.
pub(crate) fn train() -> JobView {
    let spec = JobSpec {
        nodes_min: 2,
        nodes_max: 2,
        nodes_set: true,
        tasks: 8,
        tasks_per_node: 4,
        cpus_per_task: 2,
        cpus_per_task_set: true,
        memory: MemoryRequest::PerNode(65_536),
        gpus_per_node: Some(GpuCount {
            model: String::new(),
            count: 4,
        }),
        time_limit: Some(TimeLimit::Secs(9000)),
        stdout: "train-%j.out".to_owned(),
        comment: "golden".to_owned(),
        command: "/home/slurmtest/jobs/dir.sh".to_owned(),
        ..spec("train")
    };
    let first = ids(&[(3, 6), (32, 35)]);
    let second = ids(&[(0, 3), (32, 35)]);
    let shares = [
        ("n0001", first, 65_536, ids(&[(2, 5)])),
        ("n0002", second, 65_536, ids(&[(0, 3)])),
    ];
    running(job(4, spec), &shares)
}

/// Job 3 of the recordings: two GPUs.
pub(crate) fn wrapped() -> JobView {
    let spec = JobSpec {
        gpus_per_node: Some(GpuCount {
            model: String::new(),
            count: 2,
        }),
        command: String::new(),
        ..spec("wrapped-with-a-long-name")
    };
    running(
        job(3, spec),
        &[("n0001", ids(&[(2, 2)]), 1024, ids(&[(0, 1)]))],
    )
}

/// Job 5 of the recordings: held.
pub(crate) fn held() -> JobView {
    let mut held = job(
        5,
        JobSpec {
            hold: true,
            ..spec("held")
        },
    );
    held.priority = 0;
    held.reason = Reason::JobHeldUser;
    held
}

/// Job 8 of the recordings: waits for four nodes.
pub(crate) fn big() -> JobView {
    let mut big = job(
        8,
        JobSpec {
            nodes_min: 4,
            nodes_max: 4,
            nodes_set: true,
            tasks: 4,
            gpus_per_node: Some(GpuCount {
                model: String::new(),
                count: 8,
            }),
            time_limit: Some(TimeLimit::Secs(1800)),
            ..spec("bigpending")
        },
    );
    big.reason = Reason::Resources;
    big
}

fn gpu(index: u32) -> Gpu {
    Gpu {
        index,
        vendor: GpuVendor::Simulated,
        model: "h200".to_owned(),
        uuid: String::new(),
        pci: String::new(),
        numa: None,
        memory_mib: 144_384,
        files: Vec::new(),
        links: Vec::new(),
        rail: None,
        parent: None,
    }
}

pub(crate) fn node(number: u32) -> NodeView {
    let name = NodeName::new(format!("n{number:04}")).unwrap();
    let inventory = Inventory {
        cpus: 64,
        sockets: 2,
        cores_per_socket: 32,
        threads_per_core: 1,
        memory_mib: 1_000_000,
        gpus: (0..8).map(gpu).collect(),
        simulated: false,
        cpus_by_numa: Vec::new(),
        features: Vec::new(),
    };
    let node = Node {
        id: NodeId(number),
        name,
        inventory,
        admin: AdminState::Up,
        reason: String::new(),
        reason_by: None,
        connected: true,
        lost: false,
        next_inventory: None,
        fence_suffices: None,
        trouble: None,
        gpu_notes: Vec::new(),
        stuck: Vec::new(),
        utilization: Default::default(),
        last_seen: SUBMITTED,
        boot_id: String::new(),
        boot_time: at(0),
        agent_start: at(0),
        fence: FenceState::Guarded,
        fence_note: String::new(),
        version: "24.11.5".to_owned(),
        os: "Linux 6.18.44-fc-v782 #1 SMP PREEMPT_DYNAMIC @0".to_owned(),
        hostname: "vm".to_owned(),
        address: "unix:/run/spur/spurd.sock".to_owned(),
        load_x100: 201,
        free_mib: 21_501,
        cpus_used: IdSet::new(),
        memory_used: 0,
        gpus_used: IdSet::new(),
        gpus_sick: IdSet::new(),
        jobs: Default::default(),
        generation: Generation(0),
        last_busy: at(0),
    };
    NodeView {
        node,
        partitions: vec!["gpu".to_owned()],
        completing: false,
        planned: false,
        features: Vec::new(),
        weight: 1,
        comment: String::new(),
        extra: String::new(),
        reservations: Vec::new(),
        maintenance: false,
    }
}

pub(crate) fn nodes() -> Vec<Arc<NodeView>> {
    (1..=4).map(|number| Arc::new(node(number))).collect()
}

/// Node 1 of the recordings while jobs run on it.
pub(crate) fn mixed() -> NodeView {
    let mut mixed = node(1);
    mixed.node.cpus_used = IdSet::first(13);
    mixed.node.memory_used = 70_656;
    mixed.node.gpus_used = IdSet::first(6);
    mixed.planned = true;
    mixed
}

/// Node 3 of the recordings, drained.
pub(crate) fn drained() -> NodeView {
    let mut drained = node(3);
    drained.node.admin = AdminState::Drain;
    drained.node.reason = "bad fan".to_owned();
    drained.node.reason_by = Some((Uid(0), at(118)));
    drained
}

pub(crate) fn partition() -> Partition {
    Partition {
        name: "gpu".to_owned(),
        default: true,
        nodes: None,
        max_time: TimeLimit::Secs(86_400),
        default_time: Some(TimeLimit::Secs(3600)),
        default_mem_per_cpu: 0,
        state: PartitionState::Up,
        priority_tier: 1,
        ..Partition::default()
    }
}
