//! Values that several tests need.

use spur_core::agent::order::{AllocatedNode, JobOrder, StepOrder};
use spur_core::event::NodeHello;
use spur_core::id::{Generation, Gid, JobId, NodeId, NodeName, StepKind, Uid};
use spur_core::job::spec::Owner;
use spur_core::node::FenceState;
use spur_core::resources::{IdSet, Inventory, NodeShare};
use spur_core::time::{Millis, TimeLimit};

/// What a job holds here: CPU 0 and these GPUs.
pub(crate) fn share(gpus: &[u32]) -> NodeShare {
    let gpus: IdSet = gpus.iter().copied().collect();
    NodeShare {
        node: NodeId(0),
        cpus: IdSet::first(1),
        memory_mib: 64,
        gpus,
        tasks: 1,
    }
}

/// A job of `nobody` on the one node `n1`.
pub(crate) fn job_order(job: u32, generation: u64, gpus: &[u32]) -> JobOrder {
    let name = NodeName::new("n1").unwrap();
    JobOrder {
        job: JobId(job),
        generation: Generation(generation),
        cluster: "test".into(),
        owner: Owner {
            uid: Uid(65534),
            gid: Gid(65534),
            groups: vec![Gid(65534)],
            user: "nobody".into(),
            group: "nogroup".into(),
            home: "/".into(),
            shell: "/bin/sh".into(),
        },
        name: "job".into(),
        account: String::new(),
        partition: "gpu".into(),
        qos: String::new(),
        nodes: vec![AllocatedNode {
            name,
            share: share(gpus),
        }]
        .into(),
        index: 0,
        tasks: 1,
        cpus_per_task: 1,
        cpus_per_task_set: false,
        tasks_set: true,
        tasks_per_node: 0,
        mem_per_cpu: None,
        mem_per_node: None,
        work_dir: "/tmp".into(),
        submit_host: "here".into(),
        started: Millis(1_000),
        time_limit: TimeLimit::Unlimited,
        restarts: 0,
        licenses: String::new(),
        array: None,
        het: None,
        node_timeout: 0,
    }
}

/// A step of such a job with one task.
pub(crate) fn step_order(job: &JobOrder, step: StepKind) -> StepOrder {
    StepOrder {
        job: job.job,
        step,
        generation: job.generation,
        nodes: vec![(job.nodes[0].name.clone(), 1)].into(),
        index: 0,
        share: job.nodes[0].share.clone(),
        task_ids: vec![0],
        tasks: 1,
        cpus_per_task: 1,
        batch: None,
    }
}

/// What a node says of itself.
pub(crate) fn hello() -> NodeHello {
    NodeHello {
        name: NodeName::new("n1").unwrap(),
        inventory: Inventory::default(),
        boot_id: "boot".into(),
        boot_time: Millis(0),
        agent_start: Millis(0),
        fence: FenceState::Fenced,
        fence_note: String::new(),
        version: String::new(),
        os: String::new(),
        hostname: String::new(),
        address: String::new(),
        jobs: Vec::new(),
        fence_suffices: None,
        gpus_sick: None,
        gpu_notes: Vec::new(),
        keeps_gpus: Some(true),
        stuck: Vec::new(),
    }
}
