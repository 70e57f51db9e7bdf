//! Orders as a controller sends them.

use super::node::{Node, TOKEN};
use spur_core::agent::order::{AllocatedNode, BatchOrder, JobOrder, StepOrder, ToAgent};
use spur_core::id::{Generation, Gid, JobId, NodeId, NodeName, StepId, StepKind, Uid};
use spur_core::job::spec::{Owner, Payload};
use spur_core::resources::{IdSet, NodeShare};
use spur_core::time::{Millis, TimeLimit};
use spur_proto::ticket::{Ticket, sign};
use std::sync::Arc;

/// The user of all jobs.
pub const USER: u32 = 65534;

/// A share of the node with CPU `gpus[0]` (so that jobs with different GPUs do not collide) and these GPUs.
pub fn share(gpus: &[u32]) -> NodeShare {
    let gpus: IdSet = gpus.iter().copied().collect();
    let cpu = gpus.iter().next().unwrap_or(7);
    NodeShare {
        node: NodeId(0),
        cpus: [cpu].into_iter().collect(),
        memory_mib: 512,
        gpus,
        tasks: 1,
    }
}

/// A job.
pub fn job(node: &Node, job: u32, generation: u64, gpus: &[u32]) -> JobOrder {
    JobOrder {
        job: JobId(job),
        generation: Generation(generation),
        cluster: "test".into(),
        owner: Owner {
            uid: Uid(USER),
            gid: Gid(USER),
            groups: vec![Gid(USER)],
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
            name: NodeName::new("n1").unwrap(),
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
        work_dir: node.dir.path().join("out").display().to_string(),
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

/// A step of it with one task.
pub fn step(job: &JobOrder, step: StepKind) -> StepOrder {
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

/// Its batch step.
pub fn batch(node: &Node, job: &JobOrder, script: &str) -> StepOrder {
    let out = node
        .out(&format!("slurm-{}.out", job.job))
        .display()
        .to_string();
    let payload = Payload {
        script: format!("#!/bin/sh\n{script}\n").into_bytes(),
        args: vec![],
        env: vec!["PATH=/usr/bin:/bin".into()],
        umask: 0o22,
        rlimits: vec![],
    };
    let batch = BatchOrder {
        payload,
        stdin: String::new(),
        stdout: out.clone(),
        stderr: out,
        append: false,
    };
    StepOrder {
        batch: Some(Arc::new(batch)),
        ..step(job, StepKind::Batch)
    }
}

/// Orders a job with a script, both at once, as the controller does.
pub fn run(node: &Node, number: u32, generation: u64, gpus: &[u32], script: &str) -> JobOrder {
    let order = job(node, number, generation, gpus);
    node.controller.send(&ToAgent::Assign(order.clone()));
    node.controller
        .send(&ToAgent::Launch(batch(node, &order, script)));
    order
}

/// A ticket for a step.
pub fn ticket(step: &StepOrder, uid: u32) -> Vec<u8> {
    let ticket = Ticket {
        node: NodeName::new("n1").unwrap(),
        step: StepId {
            job: step.job,
            step: step.step,
        },
        uid: Uid(uid),
        generation: step.generation,
        expires: Millis(u64::MAX / 2),
        attach: false,
    };
    sign(TOKEN, &ticket)
}
