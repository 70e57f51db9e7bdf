//! What happens in a random history.

use crate::fixture::{batch, gpus};
use crate::job::spec::{JobKind, JobSpec};
use crate::node::{AdminState, FenceState};
use crate::resources::MemoryRequest;
use crate::time::TimeLimit;
use proptest::prelude::*;

/// Nodes of a history.
pub(super) const NODES: u32 = 4;

/// A thing to try; numbers choose among what is there.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Submit(Box<JobSpec>),
    SubmitHet(Vec<JobSpec>),
    Plan,
    Step {
        job: usize,
        gpus: Option<u32>,
    },
    End {
        job: usize,
        node: u32,
        code: u8,
        oom: bool,
        stale: u64,
    },
    Clean {
        job: usize,
        node: u32,
        stale: u64,
    },
    Fail {
        job: usize,
        node: u32,
        node_fault: bool,
    },
    Cancel {
        job: usize,
    },
    Finish {
        job: usize,
    },
    Requeue {
        job: usize,
    },
    Hold {
        job: usize,
        hold: bool,
    },
    Update {
        job: usize,
        priority: u32,
    },
    Change {
        job: usize,
        throttle: Option<u32>,
        dependency: String,
    },
    Split {
        job: usize,
        from: u32,
        many: bool,
    },
    Pause {
        job: usize,
        on: bool,
    },
    Connect {
        node: u32,
        reboot: bool,
        forget: bool,
        gpus: u32,
    },
    Disconnect {
        node: u32,
    },
    Admin {
        node: u32,
        admin: AdminState,
        fence: FenceState,
    },
    Use {
        job: usize,
        node: u32,
        gpu: u32,
        busy: Option<u16>,
    },
    Wait {
        secs: u64,
    },
    Garbage {
        job: u32,
        node: u32,
        generation: u64,
    },
}

fn any_spec() -> impl Strategy<Value = Box<JobSpec>> {
    let kind = prop_oneof![
        Just(JobKind::Batch),
        Just(JobKind::Run),
        Just(JobKind::Alloc)
    ];
    let memory = prop_oneof![
        3 => Just(MemoryRequest::Default),
        1 => (0u64..20_000).prop_map(MemoryRequest::PerNode),
        1 => (0u64..4_000).prop_map(MemoryRequest::PerCpu),
        1 => (0u64..4_000).prop_map(MemoryRequest::PerGpu),
    ];
    let counts = (0u32..4, 0u32..4, 0u32..9, 0u32..3, 1u32..4);
    let gpus_by = (0u32..4, 0u32..9);
    let flags = (
        any::<bool>(),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
        prop::option::weighted(0.3, any::<bool>()),
        prop::bool::weighted(0.3),
    );
    let array = prop_oneof![
        6 => Just(""),
        1 => Just("0-3"),
        1 => Just("1-9:2%2"),
        1 => Just("4"),
    ];
    (
        kind,
        memory,
        counts,
        gpus_by,
        flags,
        (array, any_dependency()),
    )
        .prop_map(
            |(kind, memory, counts, (way, count), flags, (array, dependency))| {
                let (nodes, more, tasks, tasks_per_node, cpus_per_task) = counts;
                let (requeue, exclusive, hold, kill_on_invalid_dep, no_kill) = flags;
                let mut spec = JobSpec {
                    kind,
                    memory,
                    nodes_min: nodes,
                    nodes_max: nodes + more,
                    nodes_set: nodes > 0,
                    tasks,
                    tasks_set: tasks > 0,
                    tasks_per_node,
                    cpus_per_task,
                    gpus_per_node: gpus(count).filter(|_| way == 1),
                    gpus_total: gpus(count).filter(|_| way == 2),
                    gpus_per_task: gpus(count).filter(|_| way == 3),
                    requeue,
                    exclusive,
                    hold,
                    array: array.to_owned(),
                    dependency,
                    kill_on_invalid_dep,
                    name: format!("job{count}"),
                    time_limit: Some(TimeLimit::Secs(500)),
                    ..batch()
                };
                spec.extras_mut().no_kill = no_kill;
                Box::new(spec)
            },
        )
}

fn any_dependency() -> impl Strategy<Value = String> {
    let kind = prop_oneof![
        Just("after"),
        Just("afterok"),
        Just("afternotok"),
        Just("afterany"),
        Just("aftercorr")
    ];
    let one = (kind, 1u32..12).prop_map(|(kind, job)| format!("{kind}:{job}"));
    let two = (one.clone(), one.clone(), any::<bool>())
        .prop_map(|(a, b, any)| [a, b].join(if any { "?" } else { "," }));
    prop_oneof![
        6 => Just(String::new()),
        2 => one,
        1 => two,
        1 => (1u32..9, 0u32..6).prop_map(|(job, task)| format!("afterok:{job}_{task}")),
        1 => Just("singleton".to_owned()),
    ]
}

/// Any of them.
pub(super) fn any_op() -> impl Strategy<Value = Op> {
    let job = any::<usize>();
    let node = 0..NODES + 1;
    let stale = prop_oneof![4 => Just(0u64), 1 => 1u64..3];
    let admin = prop_oneof![
        3 => Just(AdminState::Up),
        1 => Just(AdminState::Drain),
        1 => Just(AdminState::Down)
    ];
    let fence = prop_oneof![4 => Just(FenceState::Guarded), 1 => Just(FenceState::Unfenced)];
    prop_oneof![
        6 => any_spec().prop_map(Op::Submit),
        2 => prop::collection::vec(any_spec(), 2..4).prop_map(|specs| {
            Op::SubmitHet(specs.into_iter().map(|spec| *spec).collect())
        }),
        6 => Just(Op::Plan),
        2 => (job, prop::option::of(0u32..4)).prop_map(|(job, gpus)| Op::Step { job, gpus }),
        6 => (job, node.clone(), 0u8..2, any::<bool>(), stale.clone())
            .prop_map(|(job, node, code, oom, stale)| Op::End { job, node, code, oom, stale }),
        8 => (job, node.clone(), stale).prop_map(|(job, node, stale)| Op::Clean { job, node, stale }),
        1 => (job, node.clone(), any::<bool>())
            .prop_map(|(job, node, node_fault)| Op::Fail { job, node, node_fault }),
        2 => job.prop_map(|job| Op::Cancel { job }),
        1 => job.prop_map(|job| Op::Finish { job }),
        1 => job.prop_map(|job| Op::Requeue { job }),
        1 => (job, any::<bool>()).prop_map(|(job, hold)| Op::Hold { job, hold }),
        1 => (job, 0u32..9).prop_map(|(job, priority)| Op::Update { job, priority }),
        1 => (job, prop::option::of(0u32..4), any_dependency()).prop_map(|(job, throttle, dependency)| {
            Op::Change { job, throttle, dependency }
        }),
        1 => (job, 0u32..9, any::<bool>()).prop_map(|(job, from, many)| Op::Split { job, from, many }),
        1 => (job, any::<bool>()).prop_map(|(job, on)| Op::Pause { job, on }),
        3 => (node.clone(), prop::bool::weighted(0.2), any::<bool>(), 2u32..9)
            .prop_map(|(node, reboot, forget, gpus)| Op::Connect { node, reboot, forget, gpus }),
        2 => node.clone().prop_map(|node| Op::Disconnect { node }),
        1 => (node.clone(), admin, fence)
            .prop_map(|(node, admin, fence)| Op::Admin { node, admin, fence }),
        3 => (job, node.clone(), 0u32..10, prop::option::of(0u16..1200))
            .prop_map(|(job, node, gpu, busy)| Op::Use { job, node, gpu, busy }),
        2 => (0u64..200).prop_map(|secs| Op::Wait { secs }),
        1 => (0u32..50, node, 0u64..50)
            .prop_map(|(job, node, generation)| Op::Garbage { job, node, generation }),
    ]
}
