//! Orders for tests.

use super::order::{AllocatedNode, BatchOrder, JobOrder, StepOrder, ToAgent};
use crate::id::{Generation, Gid, JobId, NodeId, NodeName, StepKind, Uid};
use crate::job::spec::Owner;
use crate::resources::{IdSet, NodeShare};
use crate::time::{Millis, TimeLimit};
use std::sync::Arc;

/// A share with these GPUs, and the CPUs of the same numbers.
pub(super) fn share(gpus: &[u32]) -> NodeShare {
    let set: IdSet = gpus.iter().copied().collect();
    NodeShare {
        node: NodeId(0),
        cpus: set.clone(),
        memory_mib: 1,
        gpus: set,
        tasks: 1,
    }
}

pub(super) fn job(job: u32, generation: u64, gpus: &[u32]) -> JobOrder {
    let owner = Owner {
        uid: Uid(1),
        gid: Gid(1),
        groups: vec![],
        user: String::new(),
        group: String::new(),
        home: String::new(),
        shell: String::new(),
    };
    JobOrder {
        job: JobId(job),
        generation: Generation(generation),
        cluster: String::new(),
        owner,
        name: String::new(),
        account: String::new(),
        partition: String::new(),
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
        tasks_set: false,
        tasks_per_node: 0,
        mem_per_cpu: None,
        mem_per_node: None,
        work_dir: String::new(),
        submit_host: String::new(),
        started: Millis(0),
        time_limit: TimeLimit::Unlimited,
        restarts: 0,
        licenses: String::new(),
        array: None,
        het: None,
        node_timeout: 0,
    }
}

pub(super) fn step(job: u32, generation: u64, kind: StepKind) -> StepOrder {
    StepOrder {
        job: JobId(job),
        step: kind,
        generation: Generation(generation),
        nodes: vec![(NodeName::new("n1").unwrap(), 1)].into(),
        index: 0,
        share: share(&[]),
        task_ids: vec![0],
        tasks: 1,
        cpus_per_task: 1,
        batch: (kind == StepKind::Batch).then(|| {
            Arc::new(BatchOrder {
                payload: crate::job::spec::Payload::default(),
                stdin: String::new(),
                stdout: String::new(),
                stderr: String::new(),
                append: false,
            })
        }),
    }
}

pub(super) fn welcome(jobs: Vec<JobOrder>, steps: Vec<StepOrder>) -> ToAgent {
    let generation = jobs
        .iter()
        .map(|order| order.generation)
        .max()
        .unwrap_or_default();
    ToAgent::Welcome {
        node: NodeId(0),
        generation,
        jobs,
        steps,
        programs: None,
        ticket_key: None,
    }
}

pub(super) fn revoke(job: u32, generation: u64) -> ToAgent {
    ToAgent::Revoke {
        job: JobId(job),
        generation: Generation(generation),
    }
}
