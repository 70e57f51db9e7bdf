//! What a request leaves open.

use super::refuse;
use crate::api::{Refusal, RefusalKind};
use crate::cluster::Cluster;
use crate::job::spec::JobSpec;
use crate::job::{gpus, limits};
use crate::partition::Partition;
use crate::resources::MemoryRequest;
use crate::time::Millis;

/// The partition that the request names, or the default one, whose name is filled in.
pub(super) fn partition<'a>(
    cluster: &'a Cluster,
    spec: &mut JobSpec,
) -> Result<&'a Partition, Refusal> {
    if spec.partition.is_empty() {
        let default = cluster
            .partitions
            .iter()
            .find(|partition| partition.default);
        let default = default.ok_or_else(|| {
            refuse(
                RefusalKind::InvalidPartition,
                "no default partition is configured; use -p",
            )
        })?;
        spec.partition.clone_from(&default.name);
        return Ok(default);
    }
    let named = cluster
        .partitions
        .iter()
        .find(|partition| partition.name == spec.partition);
    named.ok_or_else(|| {
        let text = format!("invalid partition specified: {}", spec.partition);
        refuse(RefusalKind::InvalidPartition, text)
    })
}

/// Where accounts are kept: the account and the quality of service of the user's jobs that name none.
pub(super) fn account(cluster: &Cluster, spec: &mut JobSpec) {
    let accounts = &cluster.managed.accounts;
    if !accounts.in_use() {
        return;
    }
    if spec.account.is_empty()
        && let Some(user) = accounts.user(&spec.owner.user)
    {
        spec.account.clone_from(&user.default_account);
    }
    if spec.qos.is_empty() {
        let own = accounts.association(&spec.account, &spec.owner.user, "");
        let default = own.map_or("", |own| &own.default_qos);
        let normal = accounts.quality("normal").map_or("", |known| &known.name);
        let chosen = if default.is_empty() { normal } else { default };
        chosen.clone_into(&mut spec.qos);
    }
    charge(cluster, spec);
}

/// The number of the association that the job is charged to: that of its partition, if there is one.
pub(super) fn charge(cluster: &Cluster, spec: &mut JobSpec) {
    let (accounts, user) = (&cluster.managed.accounts, &spec.owner.user);
    let of = |partition: &str| accounts.association(&spec.account, user, partition);
    let own = of(&spec.partition).or_else(|| of(""));
    spec.association = own.map_or(0, |own| own.id);
}

/// Memory of a job that asks for none: what the partition says, else what the cluster says, else all that a node has.
fn memory(cluster: &Cluster, partition: &Partition) -> MemoryRequest {
    match (
        partition.default_mem_per_cpu,
        partition.default_mem_per_node,
    ) {
        (0, 0) if cluster.default_memory == MemoryRequest::Default => MemoryRequest::PerNode(0),
        (0, 0) => cluster.default_memory,
        (0, mib) => MemoryRequest::PerNode(mib),
        (mib, _) => MemoryRequest::PerCpu(mib),
    }
}

/// Time limit, memory, GPUs, tasks and nodes.
pub(super) fn fill(
    cluster: &Cluster,
    spec: &mut JobSpec,
    partition: &Partition,
    at: Millis,
) -> Result<(), Refusal> {
    let default_time = partition.default_time.unwrap_or(partition.max_time);
    spec.time_limit = Some(spec.time_limit.unwrap_or(default_time));
    spec.begin = spec.begin.filter(|begin| *begin > at);
    spec.cpus_per_task = spec.cpus_per_task.max(1);
    limits::gpu_defaults(partition, spec);
    if spec.memory == MemoryRequest::Default {
        spec.memory = memory(cluster, partition);
    }
    gpus::settle(spec).map_err(|why| refuse(RefusalKind::InvalidGres, why.to_string()))?;
    nodes_and_tasks(spec)?;
    limits::apply(partition, spec);
    Ok(())
}

/// `--gpus` alone may be on several nodes, each with a task: whether that is so, which is filled in then.
pub(super) fn spread(spec: &mut JobSpec) -> bool {
    let total = spec.gpus_total.as_ref().map_or(0, |gpus| gpus.count);
    let shaped = spec.nodes_set || spec.tasks_set || !spec.nodelist.is_empty();
    if shaped || total <= spec.nodes_max {
        return false;
    }
    spec.nodes_max = total;
    true
}

/// Slurm's rules: `-N` alone gives one task a node, `--ntasks-per-node` with `-N` multiplies, with `-n` it sets the nodes.
fn nodes_and_tasks(spec: &mut JobSpec) -> Result<(), Refusal> {
    let named = u32::try_from(spec.nodelist.len()).unwrap_or(u32::MAX);
    if spec.nodes_set {
        spec.nodes_min = spec.nodes_min.max(1);
        if spec.nodes_max < spec.nodes_min || spec.nodes_max < named {
            let most = spec.nodes_max;
            let text = if named > most {
                format!("-w names {named} nodes, and -N takes at most {most}")
            } else {
                String::new()
            };
            return Err(refuse(RefusalKind::InvalidNodeCount, text));
        }
        spec.nodes_min = spec.nodes_min.max(named);
    } else {
        spec.nodes_min = named.max(1);
        spec.nodes_max = u32::MAX;
    }
    if !spec.tasks_set {
        spec.tasks = spec.nodes_min.saturating_mul(spec.tasks_per_node.max(1));
        if !spec.nodes_set {
            spec.nodes_max = spec.nodes_min;
        }
        return Ok(());
    }
    spec.tasks = spec.tasks.max(1);
    if spec.tasks_per_node > 0 && !spec.nodes_set {
        spec.nodes_min = spec.nodes_min.max(spec.tasks.div_ceil(spec.tasks_per_node));
    }
    // A node without a task is of no use: -N4 -n2 runs on two nodes, as Slurm warns and does.
    spec.nodes_min = spec.nodes_min.min(spec.tasks).max(named.max(1));
    spec.nodes_max = spec.nodes_max.min(spec.tasks).max(spec.nodes_min);
    Ok(())
}
