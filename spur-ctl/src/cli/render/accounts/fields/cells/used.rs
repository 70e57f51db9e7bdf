//! What was used.

use super::super::super::{Context, Row, numbers};
use super::{job, task_count};
use spur_core::id::NodeName;
use spur_core::job::spec::JobKind;
use spur_core::slurm::timespec;
use spur_core::usage::summary::{JobTotals, Processes};

/// CPU time that something tells; of what never ran it is known to be none.
fn cpu(row: &Row, of: impl Fn(&Processes) -> Option<u64>) -> String {
    match row.sum() {
        Some(sum) => of(&sum).map(numbers::cpu_time).unwrap_or_default(),
        None if job(row).started.is_none() => numbers::cpu_time(0),
        None => String::new(),
    }
}

pub(in super::super) fn total_cpu(_: &Context, row: &Row) -> String {
    cpu(row, |sum| Some(sum.cpu_us))
}

pub(in super::super) fn user_cpu(_: &Context, row: &Row) -> String {
    cpu(row, |sum| sum.user_us)
}

pub(in super::super) fn system_cpu(_: &Context, row: &Row) -> String {
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

pub(in super::super) fn max_rss(context: &Context, row: &Row) -> String {
    size(
        context,
        most(row, |used| used.memory_peak).map(|most| most.0),
    )
}

pub(in super::super) fn max_rss_node(_: &Context, row: &Row) -> String {
    name(most(row, |used| used.memory_peak))
}

pub(in super::super) fn ave_rss(context: &Context, row: &Row) -> String {
    size(context, mean(row, |used| used.memory_mean))
}

pub(in super::super) fn max_pages(_: &Context, row: &Row) -> String {
    let most = most(row, |used| used.major_faults);
    most.map(|most| most.0.to_string()).unwrap_or_default()
}

pub(in super::super) fn max_pages_node(_: &Context, row: &Row) -> String {
    name(most(row, |used| used.major_faults))
}

pub(in super::super) fn ave_pages(_: &Context, row: &Row) -> String {
    let mean = mean(row, |used| used.major_faults);
    mean.map(|mean| mean.to_string()).unwrap_or_default()
}

pub(in super::super) fn ave_cpu(_: &Context, row: &Row) -> String {
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

pub(in super::super) fn min_cpu(_: &Context, row: &Row) -> String {
    let least = least_cpu(row);
    least
        .map(|(us, _)| timespec::elapsed_long(us / 1_000_000))
        .unwrap_or_default()
}

pub(in super::super) fn min_cpu_node(_: &Context, row: &Row) -> String {
    name(least_cpu(row))
}

pub(in super::super) fn max_disk_read(context: &Context, row: &Row) -> String {
    disk(
        context,
        most(row, |used| used.read_bytes).map(|most| most.0),
    )
}

pub(in super::super) fn max_disk_read_node(_: &Context, row: &Row) -> String {
    name(most(row, |used| used.read_bytes))
}

pub(in super::super) fn ave_disk_read(context: &Context, row: &Row) -> String {
    disk(context, mean(row, |used| used.read_bytes))
}

pub(in super::super) fn max_disk_write(context: &Context, row: &Row) -> String {
    disk(
        context,
        most(row, |used| used.write_bytes).map(|most| most.0),
    )
}

pub(in super::super) fn max_disk_write_node(_: &Context, row: &Row) -> String {
    name(most(row, |used| used.write_bytes))
}

pub(in super::super) fn ave_disk_write(context: &Context, row: &Row) -> String {
    disk(context, mean(row, |used| used.write_bytes))
}

/// Totals of a step; a job's line has those of its GPUs. While it runs, GPUs show what they do at this moment, as Slurm's do.
pub(in super::super) fn tres_in(context: &Context, row: &Row) -> String {
    let sum = row.sum().filter(|_| row.step.is_some());
    let mut parts = Vec::new();
    parts.extend(sum.as_ref().map(|sum| cpu_part(sum.cpu_us)));
    let joules = row.totals.gpu_energy_mj.map(|mj| mj / 1000);
    let joules = joules.or_else(|| row.step.as_ref().map(|_| 0));
    parts.extend(joules.map(|joules| format!("energy={joules}")));
    if let Some(sum) = &sum {
        parts.extend(sum.read_bytes.map(|bytes| format!("fs/disk={bytes}")));
    }
    let memory = gpu_memory(row);
    parts.extend(memory.map(|bytes| format!("gres/gpumem={}", size(context, Some(bytes)))));
    parts.extend(gpu_percent(row).map(|share| format!("gres/gpuutil={share}")));
    if let Some(sum) = &sum {
        parts.extend(memory_part(context, sum.memory_peak));
        parts.extend(sum.major_faults.map(|pages| format!("pages={pages}")));
    }
    parts.join(",")
}

fn cpu_part(us: u64) -> String {
    format!("cpu={}", timespec::elapsed_long(us / 1_000_000))
}

fn memory_part(context: &Context, bytes: Option<u64>) -> Option<String> {
    bytes.map(|bytes| format!("mem={}", size(context, Some(bytes))))
}

/// What a step's tasks used each, on the whole; nothing but the energy, which nobody measured, where nothing told.
pub(in super::super) fn tres_in_ave(context: &Context, row: &Row) -> String {
    if row.step.is_none() {
        return String::new();
    }
    let mut parts: Vec<String> = Vec::new();
    parts.extend(mean(row, |used| Some(used.cpu_us)).map(cpu_part));
    parts.push("energy=0".to_owned());
    let read = mean(row, |used| used.read_bytes);
    parts.extend(read.map(|bytes| format!("fs/disk={bytes}")));
    parts.extend(memory_part(context, mean(row, |used| used.memory_mean)));
    let pages = mean(row, |used| used.major_faults);
    parts.extend(pages.map(|pages| format!("pages={pages}")));
    parts.join(",")
}

/// The most of each on one node: tasks are not measured one by one.
pub(in super::super) fn tres_in_max(context: &Context, row: &Row) -> String {
    let value = |of: fn(&Processes) -> Option<u64>| most(row, of).map(|most| most.0);
    let mut parts: Vec<String> = Vec::new();
    parts.extend(value(|used| Some(used.cpu_us)).map(cpu_part));
    parts.extend(value(|used| used.read_bytes).map(|bytes| format!("fs/disk={bytes}")));
    parts.extend(memory_part(context, value(|used| used.memory_peak)));
    parts.extend(value(|used| used.major_faults).map(|pages| format!("pages={pages}")));
    parts.join(",")
}

pub(in super::super) fn tres_in_max_node(_: &Context, row: &Row) -> String {
    let node = |of: fn(&Processes) -> Option<u64>| most(row, of).map(|most| most.1);
    let parts = [
        ("cpu", node(|used| Some(used.cpu_us))),
        ("fs/disk", node(|used| used.read_bytes)),
        ("mem", node(|used| used.memory_peak)),
        ("pages", node(|used| used.major_faults)),
    ];
    let parts = parts.into_iter();
    let parts = parts.filter_map(|(name, node)| Some(format!("{name}={}", node?)));
    parts.collect::<Vec<_>>().join(",")
}

fn written(energy: bool, bytes: Option<u64>) -> String {
    let energy = energy.then(|| "energy=0".to_owned());
    let disk = bytes.map(|bytes| format!("fs/disk={bytes}"));
    energy.into_iter().chain(disk).collect::<Vec<_>>().join(",")
}

pub(in super::super) fn tres_out(_: &Context, row: &Row) -> String {
    let sum = row.sum().filter(|_| row.step.is_some());
    written(row.step.is_some(), sum.and_then(|sum| sum.write_bytes))
}

pub(in super::super) fn tres_out_ave(_: &Context, row: &Row) -> String {
    written(row.step.is_some(), mean(row, |used| used.write_bytes))
}

pub(in super::super) fn tres_out_max(_: &Context, row: &Row) -> String {
    written(false, most(row, |used| used.write_bytes).map(|most| most.0))
}

pub(in super::super) fn tres_out_max_node(_: &Context, row: &Row) -> String {
    let node = name(most(row, |used| used.write_bytes));
    if node.is_empty() {
        return node;
    }
    format!("fs/disk={node}")
}

// GPUs, which are the job's as a whole.

pub(in super::super) fn energy(_: &Context, row: &Row) -> String {
    let told = row.totals.gpu_energy_mj.map(numbers::energy);
    told.unwrap_or_else(|| unmeasured(row))
}

pub(in super::super) fn energy_raw(_: &Context, row: &Row) -> String {
    let joules = row.totals.gpu_energy_mj.map(|mj| mj / 1000);
    let told = joules.map(|joules| joules.to_string());
    told.unwrap_or_else(|| unmeasured(row))
}

/// Energy that nobody measured: 0 in Slurm's record, but unknown of a batch job that ran.
fn unmeasured(row: &Row) -> String {
    let batch = job(row).spec.kind == JobKind::Batch && job(row).started.is_some();
    if row.step.is_none() && batch {
        return String::new();
    }
    "0".to_owned()
}

/// Memory of all its GPUs together: now, or the most of each.
fn gpu_memory(row: &Row) -> Option<u64> {
    let sum = |all: Vec<u64>| (!all.is_empty()).then(|| all.iter().sum());
    if row.now.is_empty() {
        of_job(row)?;
        let gpus = row.run.nodes.iter().flat_map(|node| &node.gpus);
        return sum(gpus.filter_map(|gpu| gpu.memory_peak).collect());
    }
    sum(row.now.iter().filter_map(|gpu| gpu.memory).collect())
}

/// Percent of all its GPUs together, as Slurm adds them: now, or on the whole.
fn gpu_percent(row: &Row) -> Option<u64> {
    let sum = |all: Vec<u64>| (!all.is_empty()).then(|| all.iter().sum::<u64>() / 10);
    if row.now.is_empty() {
        of_job(row)?;
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

/// The job on the whole: what of its GPUs one step used is not known, and the total on every line would add up to too much.
fn of_job(row: &Row) -> Option<&JobTotals> {
    (row.step.is_none() || !row.now.is_empty()).then_some(&*row.totals)
}

pub(in super::super) fn gpu_util(_: &Context, row: &Row) -> String {
    share(of_job(row).and_then(JobTotals::gpu_permille))
}

pub(in super::super) fn gpu_p50(_: &Context, row: &Row) -> String {
    share(of_job(row).and_then(|job| job.utilization.quantile(50)))
}

pub(in super::super) fn gpu_p95(_: &Context, row: &Row) -> String {
    share(of_job(row).and_then(|job| job.utilization.quantile(95)))
}

pub(in super::super) fn gpu_mem(context: &Context, row: &Row) -> String {
    size(context, gpu_memory(row))
}

pub(in super::super) fn gpu_hours(_: &Context, row: &Row) -> String {
    let held = of_job(row).filter(|job| job.gpus > 0);
    held.map(|job| numbers::hours(job.gpu_held_us))
        .unwrap_or_default()
}

pub(in super::super) fn gpu_time_raw(_: &Context, row: &Row) -> String {
    let held = of_job(row).filter(|job| job.gpus > 0);
    held.map(|job| (job.gpu_held_us / 1_000_000).to_string())
        .unwrap_or_default()
}

/// GPUs that did nothing at all.
pub(in super::super) fn gpu_idle(_: &Context, row: &Row) -> String {
    let idle = of_job(row).and_then(|job| Some(job.gpus.saturating_sub(job.gpus_used?)));
    idle.map(|idle| idle.to_string()).unwrap_or_default()
}
