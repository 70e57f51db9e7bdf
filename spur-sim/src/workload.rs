//! What clients submit.

use crate::params::Params;
use crate::rng::Rng;
use spur_core::id::{Gid, Uid};
use spur_core::job::spec::{JobKind, JobSpec, Owner};
use spur_core::partition::{Partition, PartitionState};
use spur_core::resources::GpuCount;
use spur_core::time::TimeLimit;

/// A request with some chance in everything that matters to placement.
pub(crate) fn any_spec(rng: &mut Rng, params: &Params) -> JobSpec {
    let kind = match rng.between(0, 9) {
        0..=5 => JobKind::Batch,
        6..=7 => JobKind::Run,
        _ => JobKind::Alloc,
    };
    let nodes = if rng.chance(300) {
        rng.small(1, params.nodes)
    } else {
        0
    };
    let gpus = GpuCount {
        model: String::new(),
        count: rng.small(1, params.gpus.max(1)),
    };
    let way = if params.gpus == 0 {
        9
    } else {
        rng.between(0, 5)
    };
    let tasks = if rng.chance(300) { rng.small(1, 4) } else { 0 };
    JobSpec {
        nodes_min: nodes,
        nodes_max: nodes,
        nodes_set: nodes > 0,
        tasks,
        tasks_set: tasks > 0,
        cpus_per_task: rng.small(1, 2),
        gpus_per_node: (way < 3).then(|| gpus.clone()),
        gpus_total: (way == 3).then(|| gpus.clone()),
        gpus_per_task: (way == 4).then_some(GpuCount { count: 1, ..gpus }),
        exclusive: rng.chance(30),
        hold: rng.chance(30),
        requeue: rng.chance(500),
        time_limit: Some(TimeLimit::Secs(params.longest_secs * 3 / 4)),
        ..plain(kind)
    }
}

/// A partition of all nodes without limits.
pub(crate) fn open_partition(name: &str, default_mem_per_cpu: u64) -> Partition {
    Partition {
        name: name.to_owned(),
        default: true,
        nodes: None,
        max_time: TimeLimit::Unlimited,
        default_time: None,
        default_mem_per_cpu,
        state: PartitionState::Up,
        priority_tier: 1,
        ..Partition::default()
    }
}

/// A request that leaves everything open.
pub(crate) fn plain(kind: JobKind) -> JobSpec {
    JobSpec {
        kind,
        owner: Owner {
            uid: Uid(1000),
            gid: Gid(1000),
            groups: Vec::new(),
            user: "sim".to_owned(),
            group: "sim".to_owned(),
            home: "/".to_owned(),
            shell: "/bin/sh".to_owned(),
        },
        name: "sim".to_owned(),
        submit_host: "sim".to_owned(),
        ..JobSpec::default()
    }
}
