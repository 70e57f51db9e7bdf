//! The text of each column.

use super::super::{Context, Row, numbers};
use crate::cli::render::job_text::{self as text, Stream};
use spur_core::api::JobView;
use spur_core::id::{NodeName, StepId, StepKind};
use spur_core::job::spec::JobKind;
use spur_core::job::state::JobState;
use spur_core::job::step::StepState;
use spur_core::slurm::{codes, hostlist, signal, timespec};
use spur_core::time::{Millis, TimeLimit};
use spur_core::usage::summary::Processes;

fn job(row: &Row) -> &JobView {
    &row.run.job
}

/// Text that only a job's line has.
fn of_job(row: &Row, text: impl FnOnce(&JobView) -> String) -> String {
    if row.step.is_some() {
        return String::new();
    }
    text(job(row))
}

pub(super) fn blank(_: &Context, _: &Row) -> String {
    String::new()
}

pub(super) fn account(_: &Context, row: &Row) -> String {
    job(row).spec.account.clone()
}

pub(super) fn cluster(context: &Context, _: &Row) -> String {
    context.cluster.clone()
}

pub(super) fn comment(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.spec.comment.clone())
}

pub(super) fn constraints(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.spec.constraint.clone())
}

pub(super) fn job_id(_: &Context, row: &Row) -> String {
    let job = job(row).id;
    match &row.step {
        None => job.to_string(),
        Some(step) => StepId {
            job,
            step: step.kind,
        }
        .to_string(),
    }
}

pub(super) fn job_name(_: &Context, row: &Row) -> String {
    match &row.step {
        None => job(row).spec.name.clone(),
        Some(step) => step.name.clone(),
    }
}

pub(super) fn partition(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.spec.partition.clone())
}

pub(super) fn user(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.spec.owner.user.clone())
}

pub(super) fn uid(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.spec.owner.uid.to_string())
}

pub(super) fn group(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.spec.owner.group.clone())
}

pub(super) fn gid(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.spec.owner.gid.to_string())
}

pub(super) fn qos(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.spec.qos.clone())
}

pub(super) fn priority(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.priority.to_string())
}

pub(super) fn restarts(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.restarts.to_string())
}

pub(super) fn work_dir(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.spec.work_dir.clone())
}

fn file(row: &Row, stream: Stream) -> String {
    of_job(row, |job| match job.spec.kind {
        JobKind::Batch => text::file(job, stream),
        JobKind::Run | JobKind::Alloc => String::new(),
    })
}

pub(super) fn std_in(_: &Context, row: &Row) -> String {
    file(row, Stream::In)
}

pub(super) fn std_out(_: &Context, row: &Row) -> String {
    file(row, Stream::Out)
}

pub(super) fn std_err(_: &Context, row: &Row) -> String {
    file(row, Stream::Err)
}

pub(super) fn reason(_: &Context, row: &Row) -> String {
    of_job(row, text::reason)
}

pub(super) fn suspended(_: &Context, _: &Row) -> String {
    "00:00:00".to_owned()
}

pub(super) fn frequency(_: &Context, row: &Row) -> String {
    match &row.step {
        Some(step) if step.kind == StepKind::Batch => "0",
        Some(_) | None => "Unknown",
    }
    .to_owned()
}

// What it asked for and got.

fn cpus(row: &Row) -> u64 {
    match &row.step {
        Some(step) => {
            let shares = step.shares.iter();
            shares.map(|share| u64::from(share.share.cpus.len())).sum()
        }
        None => {
            let nodes = job(row).nodes.iter();
            nodes.map(|node| u64::from(node.share.cpus.len())).sum()
        }
    }
}

pub(super) fn alloc_cpus(_: &Context, row: &Row) -> String {
    cpus(row).to_string()
}

pub(super) fn alloc_nodes(_: &Context, row: &Row) -> String {
    match &row.step {
        Some(step) => step.shares.len(),
        None => job(row).nodes.len(),
    }
    .to_string()
}

pub(super) fn node_count(context: &Context, row: &Row) -> String {
    match row.step {
        Some(_) => alloc_nodes(context, row),
        None => text::node_count(job(row)).to_string(),
    }
}

/// Resources as a list, in order of their names, as the record has them.
fn tres(
    context: &Context,
    billing: Option<u64>,
    cpus: u64,
    gpus: u64,
    mib: u64,
    nodes: u64,
) -> String {
    let mut parts = Vec::new();
    parts.extend(billing.map(|billing| format!("billing={billing}")));
    parts.push(format!("cpu={cpus}"));
    if gpus > 0 {
        parts.push(format!("gres/gpu={gpus}"));
    }
    if mib > 0 {
        parts.push(format!("mem={}", context.view.mib(mib)));
    }
    parts.push(format!("node={nodes}"));
    parts.join(",")
}

pub(super) fn alloc_tres(context: &Context, row: &Row) -> String {
    let (shares, billing): (Vec<_>, _) = match &row.step {
        Some(step) => (step.shares.iter().map(|share| &share.share).collect(), None),
        None => {
            let held = job(row).nodes.iter().map(|node| &node.share).collect();
            (held, Some(cpus(row)))
        }
    };
    if shares.is_empty() {
        return String::new();
    }
    let gpus = shares.iter().map(|share| u64::from(share.gpus.len())).sum();
    let mib = shares.iter().map(|share| share.memory_mib).sum();
    tres(context, billing, cpus(row), gpus, mib, shares.len() as u64)
}

pub(super) fn req_tres(context: &Context, row: &Row) -> String {
    of_job(row, |job| {
        let cpus = text::cpus_wanted(job);
        let (gpus, mib) = (text::gpus_wanted(job), text::memory_wanted(job));
        tres(context, Some(cpus), cpus, gpus, mib, text::node_count(job))
    })
}

pub(super) fn req_cpus(_: &Context, row: &Row) -> String {
    match row.step {
        Some(_) => cpus(row),
        None => text::cpus_wanted(job(row)),
    }
    .to_string()
}

pub(super) fn req_nodes(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.spec.nodes_min.max(1).to_string())
}

pub(super) fn req_mem(context: &Context, row: &Row) -> String {
    of_job(row, |job| match (context.units, text::memory_wanted(job)) {
        (Some(unit), mib) => numbers::memory(mib << 20, Some(unit), false),
        (None, mib) => context.view.mib(mib),
    })
}

pub(super) fn node_list(_: &Context, row: &Row) -> String {
    let list = match &row.step {
        Some(step) => {
            let on = step.shares.iter().map(|share| share.share.node);
            let held = |node| job(row).nodes.iter().find(|held| held.share.node == node);
            let names: Vec<&str> = on.filter_map(held).map(|held| held.name.as_str()).collect();
            hostlist::compress(&names)
        }
        None => text::node_list(job(row)),
    };
    if list.is_empty() {
        "None assigned".to_owned()
    } else {
        list
    }
}

fn task_count(row: &Row) -> u64 {
    let shares = row.step.iter().flat_map(|step| &step.shares);
    shares.map(|share| u64::from(share.share.tasks)).sum()
}

pub(super) fn tasks(_: &Context, row: &Row) -> String {
    match row.step {
        Some(_) => task_count(row).to_string(),
        None => String::new(),
    }
}

// States and times.

pub(super) fn state(_: &Context, row: &Row) -> String {
    if let Some(step) = &row.step {
        let word = match (step.state, step.exit.signal, step.exit.code) {
            (StepState::Running, _, _) => "RUNNING",
            (StepState::Ended, 0, 0) => "COMPLETED",
            (StepState::Ended, 0, _) => "FAILED",
            (StepState::Ended, _, _) => "CANCELLED",
        };
        return word.to_owned();
    }
    let job = job(row);
    match (row.run.requeued, job.state, job.cancelled_by) {
        (Some(_), _, _) => "REQUEUED".to_owned(),
        (None, JobState::Cancelled, Some(by)) => format!("CANCELLED by {by}"),
        (None, state, _) => codes::job_state(state, false).to_owned(),
    }
}

pub(super) fn exit_code(_: &Context, row: &Row) -> String {
    match &row.step {
        Some(step) => signal::pair(step.exit),
        // What ended such a job is said by its state.
        None if matches!(job(row).state, JobState::Cancelled | JobState::Timeout) => {
            "0:0".to_owned()
        }
        None => signal::pair(job(row).exit),
    }
}

pub(super) fn derived_exit(_: &Context, row: &Row) -> String {
    of_job(row, |job| signal::pair(job.derived_exit))
}

/// When the line's thing started and ended, as far as it did.
fn span(row: &Row) -> (Option<Millis>, Option<Millis>) {
    match &row.step {
        Some(step) => (Some(step.started), step.ended.or(row.run.requeued)),
        None => {
            let job = job(row);
            let ended = job.ended.filter(|_| job.state.is_terminal());
            (job.started, row.run.requeued.or(ended))
        }
    }
}

fn secs(context: &Context, row: &Row) -> u64 {
    let (started, ended) = span(row);
    let until = ended.unwrap_or(context.view.clock.now);
    started.map_or(0, |started| until.secs_since(started))
}

pub(super) fn elapsed(context: &Context, row: &Row) -> String {
    timespec::elapsed_long(secs(context, row))
}

pub(super) fn elapsed_raw(context: &Context, row: &Row) -> String {
    secs(context, row).to_string()
}

pub(super) fn cpu_time(context: &Context, row: &Row) -> String {
    timespec::elapsed_long(secs(context, row) * cpus(row))
}

pub(super) fn cpu_time_raw(context: &Context, row: &Row) -> String {
    (secs(context, row) * cpus(row)).to_string()
}

pub(super) fn submit(context: &Context, row: &Row) -> String {
    let at = row
        .step
        .as_ref()
        .map_or(job(row).submitted, |step| step.started);
    context.view.clock.stamp(at)
}

pub(super) fn eligible(context: &Context, row: &Row) -> String {
    let job = job(row);
    let held = job.state == JobState::Pending && job.priority == 0;
    match &row.step {
        Some(step) => context.view.clock.stamp(step.started),
        None if held => "Unknown".to_owned(),
        None => context.view.clock.stamp(job.eligible),
    }
}

pub(super) fn start(context: &Context, row: &Row) -> String {
    let (started, ended) = span(row);
    let unknown = if ended.is_some() { "None" } else { "Unknown" };
    context.view.clock.stamp_or(started, unknown)
}

pub(super) fn end(context: &Context, row: &Row) -> String {
    context.view.clock.stamp_or(span(row).1, "Unknown")
}

fn waited(row: &Row) -> Option<u64> {
    let job = job(row);
    Some(job.started?.secs_since(job.eligible))
}

pub(super) fn planned(_: &Context, row: &Row) -> String {
    of_job(row, |_| {
        waited(row).map(timespec::elapsed_long).unwrap_or_default()
    })
}

pub(super) fn planned_cpu(_: &Context, row: &Row) -> String {
    let held = |secs| timespec::elapsed_long(secs * cpus(row));
    of_job(row, |_| waited(row).map(held).unwrap_or_default())
}

pub(super) fn planned_cpu_raw(_: &Context, row: &Row) -> String {
    let held = |secs: u64| (secs * cpus(row)).to_string();
    of_job(row, |_| waited(row).map(held).unwrap_or_default())
}

pub(super) fn time_limit(_: &Context, row: &Row) -> String {
    of_job(row, |job| match job.spec.time_limit {
        Some(limit) => timespec::limit_long(limit),
        None => "Partition_Limit".to_owned(),
    })
}

pub(super) fn time_limit_raw(_: &Context, row: &Row) -> String {
    of_job(row, |job| match job.spec.time_limit {
        Some(TimeLimit::Secs(secs)) => (secs / 60).to_string(),
        Some(TimeLimit::Unlimited) => "UNLIMITED".to_owned(),
        None => "Partition_Limit".to_owned(),
    })
}

// What it used.

/// CPU time that something tells; of what never ran it is known to be none.
fn cpu(row: &Row, of: impl Fn(&Processes) -> Option<u64>) -> String {
    match row.sum() {
        Some(sum) => of(&sum).map(numbers::cpu_time).unwrap_or_default(),
        None if job(row).started.is_none() => numbers::cpu_time(0),
        None => String::new(),
    }
}

pub(super) fn total_cpu(_: &Context, row: &Row) -> String {
    cpu(row, |sum| Some(sum.cpu_us))
}

pub(super) fn user_cpu(_: &Context, row: &Row) -> String {
    cpu(row, |sum| sum.user_us)
}

pub(super) fn system_cpu(_: &Context, row: &Row) -> String {
    cpu(row, |sum| sum.system_us)
}

/// The node with the most of something, of a step's.
fn most(row: &Row, of: impl Fn(&Processes) -> Option<u64>) -> Option<(u64, &NodeName)> {
    row.step.as_ref()?;
    let told = row.used.iter();
    let told = told.filter_map(|(node, used)| Some((of(used)?, node)));
    told.max_by_key(|(value, _)| *value)
}

/// The mean over a step's tasks.
fn mean(row: &Row, of: impl Fn(&Processes) -> Option<u64>) -> Option<u64> {
    row.step.as_ref()?;
    of(&row.sum()?)?.checked_div(task_count(row))
}

fn size(context: &Context, bytes: Option<u64>) -> String {
    let text = |bytes| numbers::memory(bytes, context.units, context.view.raw_sizes);
    bytes.map(text).unwrap_or_default()
}

fn disk(context: &Context, bytes: Option<u64>) -> String {
    let text = |bytes| numbers::disk(bytes, context.units);
    bytes.map(text).unwrap_or_default()
}

fn name(most: Option<(u64, &NodeName)>) -> String {
    most.map(|(_, node)| node.to_string()).unwrap_or_default()
}

pub(super) fn max_rss(context: &Context, row: &Row) -> String {
    size(
        context,
        most(row, |used| used.memory_peak).map(|most| most.0),
    )
}

pub(super) fn max_rss_node(_: &Context, row: &Row) -> String {
    name(most(row, |used| used.memory_peak))
}

pub(super) fn ave_rss(context: &Context, row: &Row) -> String {
    size(context, mean(row, |used| used.memory_mean))
}

pub(super) fn max_pages(_: &Context, row: &Row) -> String {
    let most = most(row, |used| used.major_faults);
    most.map(|most| most.0.to_string()).unwrap_or_default()
}

pub(super) fn max_pages_node(_: &Context, row: &Row) -> String {
    name(most(row, |used| used.major_faults))
}

pub(super) fn ave_pages(_: &Context, row: &Row) -> String {
    let mean = mean(row, |used| used.major_faults);
    mean.map(|mean| mean.to_string()).unwrap_or_default()
}

pub(super) fn ave_cpu(_: &Context, row: &Row) -> String {
    let mean = mean(row, |used| Some(used.cpu_us));
    mean.map(|us| timespec::elapsed_long(us / 1_000_000))
        .unwrap_or_default()
}

/// The least CPU time of a task, where each node has one task and so is one.
fn least_cpu(row: &Row) -> Option<(u64, &NodeName)> {
    let step = row.step.as_ref()?;
    let single = step.shares.iter().all(|share| share.share.tasks == 1);
    let told = row.used.iter().map(|(node, used)| (used.cpu_us, node));
    told.filter(|_| single).min_by_key(|(us, _)| *us)
}

pub(super) fn min_cpu(_: &Context, row: &Row) -> String {
    let least = least_cpu(row);
    least
        .map(|(us, _)| timespec::elapsed_long(us / 1_000_000))
        .unwrap_or_default()
}

pub(super) fn min_cpu_node(_: &Context, row: &Row) -> String {
    name(least_cpu(row))
}

pub(super) fn max_disk_read(context: &Context, row: &Row) -> String {
    disk(
        context,
        most(row, |used| used.read_bytes).map(|most| most.0),
    )
}

pub(super) fn max_disk_read_node(_: &Context, row: &Row) -> String {
    name(most(row, |used| used.read_bytes))
}

pub(super) fn ave_disk_read(context: &Context, row: &Row) -> String {
    disk(context, mean(row, |used| used.read_bytes))
}

pub(super) fn max_disk_write(context: &Context, row: &Row) -> String {
    disk(
        context,
        most(row, |used| used.write_bytes).map(|most| most.0),
    )
}

pub(super) fn max_disk_write_node(_: &Context, row: &Row) -> String {
    name(most(row, |used| used.write_bytes))
}

pub(super) fn ave_disk_write(context: &Context, row: &Row) -> String {
    disk(context, mean(row, |used| used.write_bytes))
}

/// Totals of a step; a job's line has those of its GPUs. While it runs, GPUs show what they do at this moment, as Slurm's do.
pub(super) fn tres_in(context: &Context, row: &Row) -> String {
    let sum = row.sum();
    let mut parts = Vec::new();
    if let Some(sum) = sum.as_ref().filter(|_| row.step.is_some()) {
        parts.push(format!(
            "cpu={}",
            timespec::elapsed_long(sum.cpu_us / 1_000_000)
        ));
    }
    let joules = row.totals.gpu_energy_mj.map(|mj| mj / 1000);
    parts.extend(joules.map(|joules| format!("energy={joules}")));
    if let Some(sum) = sum.as_ref().filter(|_| row.step.is_some()) {
        parts.extend(sum.read_bytes.map(|bytes| format!("fs/disk={bytes}")));
    }
    let memory = gpu_memory(row);
    parts.extend(memory.map(|bytes| format!("gres/gpumem={}", size(context, Some(bytes)))));
    parts.extend(gpu_percent(row).map(|share| format!("gres/gpuutil={share}")));
    if let Some(sum) = sum.filter(|_| row.step.is_some()) {
        let memory = sum.memory_peak;
        parts.extend(memory.map(|bytes| format!("mem={}", size(context, Some(bytes)))));
    }
    parts.join(",")
}

pub(super) fn tres_out(_: &Context, row: &Row) -> String {
    let sum = row.sum().filter(|_| row.step.is_some());
    let bytes = sum.and_then(|sum| sum.write_bytes);
    bytes
        .map(|bytes| format!("fs/disk={bytes}"))
        .unwrap_or_default()
}

// GPUs, which are the job's as a whole.

pub(super) fn energy(_: &Context, row: &Row) -> String {
    row.totals
        .gpu_energy_mj
        .map(numbers::energy)
        .unwrap_or_default()
}

pub(super) fn energy_raw(_: &Context, row: &Row) -> String {
    let joules = row.totals.gpu_energy_mj.map(|mj| mj / 1000);
    joules.map(|joules| joules.to_string()).unwrap_or_default()
}

/// Memory of all its GPUs together: now, or the most of each.
fn gpu_memory(row: &Row) -> Option<u64> {
    let sum = |all: Vec<u64>| (!all.is_empty()).then(|| all.iter().sum());
    if row.now.is_empty() {
        let gpus = row.run.nodes.iter().flat_map(|node| &node.gpus);
        return sum(gpus.filter_map(|gpu| gpu.memory_peak).collect());
    }
    sum(row.now.iter().filter_map(|gpu| gpu.memory).collect())
}

/// Percent of all its GPUs together, as Slurm adds them: now, or on the whole.
fn gpu_percent(row: &Row) -> Option<u64> {
    let sum = |all: Vec<u64>| (!all.is_empty()).then(|| all.iter().sum::<u64>() / 10);
    if row.now.is_empty() {
        let gpus = row.run.nodes.iter().flat_map(|node| &node.gpus);
        return sum(gpus
            .filter_map(spur_core::usage::summary::GpuUsage::busy_permille)
            .collect());
    }
    sum(row
        .now
        .iter()
        .filter_map(|gpu| gpu.busy.map(u64::from))
        .collect())
}

fn share(permille: Option<u64>) -> String {
    permille.map(numbers::percent).unwrap_or_default()
}

pub(super) fn gpu_util(_: &Context, row: &Row) -> String {
    share(row.totals.gpu_permille())
}

pub(super) fn gpu_p50(_: &Context, row: &Row) -> String {
    share(row.totals.utilization.quantile(50))
}

pub(super) fn gpu_p95(_: &Context, row: &Row) -> String {
    share(row.totals.utilization.quantile(95))
}

pub(super) fn gpu_mem(context: &Context, row: &Row) -> String {
    size(context, gpu_memory(row))
}

pub(super) fn gpu_hours(_: &Context, row: &Row) -> String {
    match row.totals.gpus {
        0 => String::new(),
        _ => numbers::hours(row.totals.gpu_held_us),
    }
}

/// GPUs that did nothing at all.
pub(super) fn gpu_idle(_: &Context, row: &Row) -> String {
    let idle = row
        .totals
        .gpus_used
        .map(|used| row.totals.gpus.saturating_sub(used));
    idle.map(|idle| idle.to_string()).unwrap_or_default()
}
