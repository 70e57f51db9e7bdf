//! The text of each column: who, what was asked for and got. [`times`] has states and times, [`used`] what was used.

pub(super) mod times;
pub(super) mod used;

use super::super::{Context, Row, numbers};
use crate::cli::render::job_text::{self as text, Stream};
use spur_core::api::JobView;
use spur_core::id::{StepId, StepKind};
use spur_core::job::spec::JobKind;
use spur_core::slurm::hostlist;

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

/// Bytes of a list of tasks, as Slurm cuts it off.
const TASKS_SHOWN: usize = spur_core::job::array::SHOWN_DEFAULT;

/// `9`, `9+1`, `9_3`, `9_[5-9%2]`, `9_3.batch`.
pub(super) fn job_id(_: &Context, row: &Row) -> String {
    let job = job(row);
    let name = match &job.array {
        Some(array) => array.id_text(TASKS_SHOWN),
        None => match job.het {
            Some(part) => part.to_string(),
            None => job.id.to_string(),
        },
    };
    match &row.step {
        None => name,
        Some(step) => format!("{name}.{}", step.kind),
    }
}

/// By the number alone.
pub(super) fn job_id_raw(_: &Context, row: &Row) -> String {
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

pub(super) fn admin_comment(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.spec.extras().admin_comment.clone())
}

pub(super) fn container(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.spec.extras().container.clone())
}

pub(super) fn extra(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.spec.extras().extra.clone())
}

pub(super) fn licenses(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.spec.extras().licenses.clone())
}

pub(super) fn mcs_label(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.spec.extras().mcs_label.clone())
}

pub(super) fn reservation(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.spec.extras().reservation.clone())
}

pub(super) fn submit_line(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.spec.submit_line.clone())
}

pub(super) fn wckey(_: &Context, row: &Row) -> String {
    of_job(row, |job| job.spec.extras().wckey.clone())
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

/// A batch job's file: as the record has it, or with its symbols replaced.
fn file(context: &Context, row: &Row, stream: Stream) -> String {
    of_job(row, |job| match job.spec.kind {
        JobKind::Batch if context.expand => text::file(job, stream),
        JobKind::Batch => text::pattern(job, stream),
        JobKind::Run | JobKind::Alloc => String::new(),
    })
}

pub(super) fn std_in(context: &Context, row: &Row) -> String {
    file(context, row, Stream::In)
}

pub(super) fn std_out(context: &Context, row: &Row) -> String {
    file(context, row, Stream::Out)
}

/// Empty where errors go to the file of the output.
pub(super) fn std_err(context: &Context, row: &Row) -> String {
    if job(row).spec.stderr.is_empty() {
        return String::new();
    }
    file(context, row, Stream::Err)
}

/// How it came to start, as Slurm's record has it.
pub(super) fn flags(_: &Context, row: &Row) -> String {
    of_job(row, |job| {
        let at_once = job.spec.kind != JobKind::Batch
            && job
                .started
                .is_some_and(|at| at.secs_since(job.eligible) == 0);
        match job.started {
            None => "StartReceived",
            Some(_) if at_once => "SchedSubmit,StartReceived",
            Some(_) if job.backfilled => "SchedBackfill,StartReceived",
            Some(_) => "SchedMain,StartReceived",
        }
        .to_owned()
    })
}

pub(super) fn association(context: &Context, row: &Row) -> String {
    of_job(row, |job| match context.association(job) {
        0 => String::new(),
        id => id.to_string(),
    })
}

pub(super) fn qos_raw(context: &Context, row: &Row) -> String {
    of_job(row, |job| {
        let mut known = context.accounts.qos.iter();
        let own = known.find(|qos| qos.name == job.spec.qos);
        own.map(|qos| qos.id.to_string()).unwrap_or_default()
    })
}

pub(super) fn wckey_id(_: &Context, row: &Row) -> String {
    of_job(row, |_| "0".to_owned())
}

/// Nothing here measures the clock of CPUs, which Slurm writes as 0 on a step's line.
pub(super) fn ave_frequency(_: &Context, row: &Row) -> String {
    row.step
        .as_ref()
        .map(|_| "0".to_owned())
        .unwrap_or_default()
}

pub(super) fn reason(_: &Context, row: &Row) -> String {
    of_job(row, super::super::recorded_reason)
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

/// MiB in the unit that is asked for.
fn memory(context: &Context, mib: u64) -> String {
    match context.units {
        Some(unit) => numbers::memory(mib.saturating_mul(1 << 20), Some(unit), false),
        None => context.view.mib(mib),
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
        parts.push(format!("mem={}", memory(context, mib)));
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
    of_job(row, |job| memory(context, text::memory_wanted(job)))
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
