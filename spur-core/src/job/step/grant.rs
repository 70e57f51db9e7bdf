//! Granting a step: Slurm's block distribution within the job's allocation.

use super::{Sharing, StepShare, StepSpec, StepState};
use crate::api::{Refusal, RefusalKind};
use crate::cluster::Cluster;
use crate::id::{NodeId, StepKind};
use crate::job::Job;
use crate::job::state::JobState;
use crate::plan::fit::deal;
use crate::resources::{GpuCount, IdSet, MemoryRequest, NodeShare};
use crate::slurm::multi_prog::TASK_MAX;
use std::collections::BTreeSet;

/// The shares of a step in a running job, in node order. Without `-c`, a step may use all CPUs that the job holds on its
/// nodes, as Slurm has it; memory is always the job's. GPUs that it asks for by number are not shared with other running
/// steps that hold a part of the job's GPUs, nor are its CPUs with other such steps if it shares nothing; one that shares
/// everything takes what others hold, and its own is free for them. If too little is left, the refusal is `NodesBusy`, and the client is to
/// try again.
pub fn grant(cluster: &Cluster, job: &Job, spec: &StepSpec) -> Result<Vec<StepShare>, Refusal> {
    match job.state {
        JobState::Running if job.is_preparing() => return Err(refuse(RefusalKind::NodesBusy, "")),
        JobState::Running if job.suspended.is_none() => {}
        JobState::Running | JobState::Suspended => {
            return Err(refuse(RefusalKind::JobSuspended, ""));
        }
        JobState::Pending => return Err(refuse(RefusalKind::JobPending, "")),
        JobState::Completed
        | JobState::Failed
        | JobState::Cancelled
        | JobState::Timeout
        | JobState::NodeFail
        | JobState::OutOfMemory
        | JobState::Deadline => return Err(refuse(RefusalKind::AlreadyDone, "")),
    }
    let nodes = choose_nodes(cluster, job, spec)?;
    let tasks = deal_tasks(job, spec, &nodes)?;
    let mut ids = number(&tasks, spec.plane).into_iter();
    let mut shares = Vec::new();
    for (whole, tasks) in nodes.into_iter().zip(tasks).filter(|(_, tasks)| *tasks > 0) {
        let gpus = choose_gpus(cluster, job, spec, whole, tasks)?;
        let cpus = match spec.cpus_per_task {
            0 => whole.cpus.clone(),
            each => choose_cpus(job, spec, whole, tasks.saturating_mul(each))?,
        };
        let memory_mib = whole.memory_mib;
        let cpus_wanted = tasks.saturating_mul(spec.cpus_per_task.max(1));
        if memory_wanted(spec, (cpus_wanted, gpus.len())) > memory_mib && memory_mib > 0 {
            return Err(refuse(RefusalKind::TaskMemory, ""));
        }
        let share = NodeShare {
            node: whole.node,
            cpus,
            memory_mib,
            gpus,
            tasks,
        };
        shares.push(StepShare {
            share,
            task_ids: ids.next().unwrap_or_default(),
        });
    }
    Ok(shares)
}

/// MiB that a step asks for on a node where it has so many CPUs and GPUs.
fn memory_wanted(spec: &StepSpec, (cpus, gpus): (u32, u32)) -> u64 {
    match spec.memory.unwrap_or_default() {
        MemoryRequest::Default => 0,
        MemoryRequest::PerNode(mib) => mib,
        MemoryRequest::PerCpu(mib) => mib.saturating_mul(cpus.into()),
        MemoryRequest::PerGpu(mib) => mib.saturating_mul(gpus.into()),
    }
}

/// The numbers of the tasks on each node that has any: block by block, or by `plane` of them in turn.
fn number(tasks: &[u32], plane: u32) -> Vec<Vec<u32>> {
    let left = tasks.iter().copied().filter(|tasks| *tasks > 0);
    // Nodes whose turn comes again: each turn numbers a task, however unequal they are.
    let mut turns: Vec<(usize, u32)> = left.enumerate().collect();
    let mut ids = vec![Vec::new(); turns.len()];
    let mut next = 0;
    while !turns.is_empty() {
        turns.retain_mut(|(node, left)| {
            let some = if plane == 0 { *left } else { plane.min(*left) };
            ids[*node].extend(next..next + some);
            next += some;
            *left -= some;
            *left > 0
        });
    }
    ids
}

fn refuse(kind: RefusalKind, text: &str) -> Refusal {
    Refusal {
        kind,
        text: text.to_owned(),
    }
}

/// The nodes of the allocation that the step may use, as many as it asks for: those of `-w` first, none of `-x`.
fn choose_nodes<'a>(
    cluster: &Cluster,
    job: &'a Job,
    spec: &StepSpec,
) -> Result<Vec<&'a NodeShare>, Refusal> {
    let held = &job.allocation;
    let name_of = |share: &NodeShare| {
        let node = cluster.nodes.get(&share.node);
        node.map(|node| node.name.as_str())
    };
    let listed_names: BTreeSet<&str> = spec.nodelist.iter().map(String::as_str).collect();
    let excluded: BTreeSet<&str> = spec.exclude.iter().map(String::as_str).collect();
    let among = |names: &BTreeSet<&str>, share: &NodeShare| {
        name_of(share).is_some_and(|own| names.contains(own))
    };
    let named = |share: &&&NodeShare| among(&listed_names, share);
    let own: BTreeSet<&str> = held.iter().filter_map(name_of).collect();
    let mut asked = spec.nodelist.iter();
    let missing = asked.find(|name| !own.contains(name.as_str()));
    if let Some(name) = missing {
        let text = format!("node {name} is not in the job's allocation");
        return Err(refuse(RefusalKind::InvalidNode, &text));
    }
    let all: Vec<&NodeShare> = held
        .iter()
        .filter(|share| !among(&excluded, share))
        .collect();
    let listed = spec.nodelist.len();
    let from = spec.relative.unwrap_or(0) as usize;
    let rest = all.len().saturating_sub(from);
    let wanted = match (spec.nodes as usize, spec.tasks as usize) {
        (0, 0) if listed > 0 => listed,
        (0, 0) => rest,
        (0, tasks) => rest.min(tasks).max(listed),
        (nodes, 0) => nodes.max(listed),
        (nodes, tasks) => nodes.min(tasks).max(listed),
    };
    let mut chosen: Vec<&NodeShare> = all.iter().filter(named).copied().collect();
    if wanted > rest || wanted == 0 || chosen.len() < listed {
        return Err(refuse(RefusalKind::NodeConfigUnavailable, ""));
    }
    let others = all.iter().skip(from).filter(|share| !named(share));
    chosen.extend(others.take(wanted.saturating_sub(chosen.len())));
    let position = |node: NodeId| all.iter().position(|share| share.node == node);
    chosen.sort_by_key(|share| position(share.node));
    Ok(chosen)
}

/// Tasks on each node: dealt out round and round as far as CPUs and GPUs go, numbered block by block.
fn deal_tasks(job: &Job, spec: &StepSpec, nodes: &[&NodeShare]) -> Result<Vec<u32>, Refusal> {
    // What the job was submitted with comes by the step's environment, or not at all.
    let cpus_per_task = spec.cpus_per_task.max(1);
    let per_task = spec.gpus_per_task.as_ref().map_or(0, |gpus| gpus.count);
    let room_on = |share: &&NodeShare| {
        let by_cpus = if spec.overcommit {
            u32::MAX
        } else {
            share.cpus.len() / cpus_per_task
        };
        let by_gpus = share.gpus.len().checked_div(per_task).unwrap_or(u32::MAX);
        let by_request = if spec.tasks_per_node == 0 {
            u32::MAX
        } else {
            spec.tasks_per_node
        };
        by_cpus.min(by_gpus).min(by_request)
    };
    let room: Vec<u32> = nodes.iter().map(room_on).collect();
    let per_node = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    let tasks = match (spec.tasks, spec.tasks_per_node) {
        (0, 0) => return as_the_job(job, nodes, &room),
        (0, each) => each.saturating_mul(per_node),
        (tasks, _) => tasks,
    };
    // Before anything is done for each: with `--overcommit` no room bounds them.
    if tasks > TASK_MAX {
        let text = format!("a step of {tasks} tasks: at most {TASK_MAX} are possible");
        return Err(refuse(RefusalKind::Invalid, &text));
    }
    deal(tasks, &room).ok_or_else(too_many)
}

/// Without any number, a step has as many tasks on each node as the job was laid out for.
fn as_the_job(job: &Job, nodes: &[&NodeShare], room: &[u32]) -> Result<Vec<u32>, Refusal> {
    let tasks: Vec<u32> = nodes.iter().map(|share| share.tasks.max(1)).collect();
    if tasks.iter().zip(room).all(|(tasks, room)| tasks <= room) {
        return Ok(tasks);
    }
    debug_assert!(job.state == JobState::Running);
    deal(tasks.iter().sum(), room).ok_or_else(too_many)
}

fn too_many() -> Refusal {
    refuse(
        RefusalKind::Invalid,
        "More processors requested than permitted",
    )
}

fn choose_gpus(
    cluster: &Cluster,
    job: &Job,
    spec: &StepSpec,
    whole: &NodeShare,
    tasks: u32,
) -> Result<IdSet, Refusal> {
    let Some((model, count)) = gpus_here(spec, tasks) else {
        return Ok(whole.gpus.clone());
    };
    let gpus = cluster
        .nodes
        .get(&whole.node)
        .map(|node| node.inventory.gpus.as_slice());
    let is_model = |index: u32| {
        let gpu = gpus.unwrap_or_default().get(index as usize);
        model.is_empty() || gpu.is_some_and(|gpu| gpu.model == model)
    };
    let of_model: Vec<u32> = whole.gpus.iter().filter(|index| is_model(*index)).collect();
    let busy = if spec.sharing == Sharing::Everything {
        IdSet::new()
    } else {
        busy_gpus(job, whole)
    };
    let free = of_model
        .iter()
        .copied()
        .filter(|index| !busy.contains(*index));
    let chosen: IdSet = free.take(count as usize).collect();
    if chosen.len() == count {
        Ok(chosen)
    } else if of_model.len() < count as usize {
        Err(refuse(
            RefusalKind::Invalid,
            "Invalid generic resource (gres) specification",
        ))
    } else {
        Err(refuse(
            RefusalKind::NodesBusy,
            "other steps of the job hold its GPUs",
        ))
    }
}

/// Model and number of GPUs that the step asks for on a node with so many of its tasks; `None`: all of the job's.
fn gpus_here(spec: &StepSpec, tasks: u32) -> Option<(&str, u32)> {
    let part = |gpus: &'_ GpuCount, times: u32| gpus.count.saturating_mul(times);
    match (&spec.gpus_per_task, &spec.gpus_per_node) {
        (Some(gpus), _) => Some((gpus.model.as_str(), part(gpus, tasks))),
        (None, Some(gpus)) => Some((gpus.model.as_str(), part(gpus, 1))),
        (None, None) => None,
    }
}

/// The parts of running `srun` steps on a node, but for those that share everything; and what each shares.
fn running_parts(job: &Job, node: NodeId) -> impl Iterator<Item = (Sharing, &StepShare)> {
    let numbered = job
        .steps
        .values()
        .filter(|step| step.kind != StepKind::Batch);
    let running = numbered.filter(|step| step.state == StepState::Running);
    let running = running.filter(|step| step.sharing != Sharing::Everything);
    let open = running.filter(move |step| !step.reported.contains_key(&node));
    open.flat_map(|step| step.shares.iter().map(|part| (step.sharing, part)))
        .filter(move |(_, part)| part.share.node == node)
}

/// GPUs of running steps that hold only a part of the job's; a step that holds all of them shares them.
fn busy_gpus(job: &Job, whole: &NodeShare) -> IdSet {
    let mut busy = IdSet::new();
    for (_, part) in running_parts(job, whole.node) {
        if part.share.gpus != whole.gpus {
            busy.union_with(&part.share.gpus);
        }
    }
    busy
}

/// CPUs that no running step was given alone, then the others, unless the step is to have its own.
fn choose_cpus(
    job: &Job,
    spec: &StepSpec,
    whole: &NodeShare,
    count: u32,
) -> Result<IdSet, Refusal> {
    let mut busy = IdSet::new();
    for (sharing, part) in running_parts(job, whole.node) {
        if part.share.cpus != whole.cpus || sharing == Sharing::Nothing {
            busy.union_with(&part.share.cpus);
        }
    }
    let (used, free): (Vec<u32>, Vec<u32>) = whole.cpus.iter().partition(|cpu| busy.contains(*cpu));
    let too_few = count as usize > free.len() && count <= whole.cpus.len();
    if spec.sharing == Sharing::Nothing && too_few && !spec.overcommit {
        let text = "other steps of the job hold its CPUs";
        return Err(refuse(RefusalKind::NodesBusy, text));
    }
    Ok(free.into_iter().chain(used).take(count as usize).collect())
}
