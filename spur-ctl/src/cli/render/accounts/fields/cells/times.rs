//! States and times.

use super::super::super::{Context, Row};
use super::{cpus, job, of_job};
use crate::cli::render::job_text;
use spur_core::job::state::JobState;
use spur_core::job::step::StepState;
use spur_core::slurm::{codes, signal, timespec};
use spur_core::time::{Millis, TimeLimit};

/// The state in one word.
pub fn state_word(row: &Row) -> &'static str {
    if let Some(step) = &row.step {
        return match (step.state, step.exit.signal, step.exit.code) {
            (StepState::Running, _, _) => "RUNNING",
            (StepState::Ended, 0, 0) => "COMPLETED",
            // As its job, it could not be set up.
            (StepState::Ended, 0, _) | (StepState::Ended, 53, 0) => "FAILED",
            (StepState::Ended, _, _) => "CANCELLED",
        };
    }
    match row.run.requeued {
        Some(_) => "REQUEUED",
        None => codes::job_state(job(row).state, false),
    }
}

/// The same, with who cancelled a job.
pub(in super::super) fn state(_: &Context, row: &Row) -> String {
    let word = state_word(row);
    let by = job(row)
        .cancelled_by
        .filter(|_| row.step.is_none() && word == "CANCELLED");
    by.map_or_else(|| word.to_owned(), |by| format!("{word} by {by}"))
}

pub(in super::super) fn exit_code(_: &Context, row: &Row) -> String {
    match &row.step {
        Some(step) => signal::pair(step.exit),
        // What ended such a job is said by its state.
        None if matches!(job(row).state, JobState::Cancelled | JobState::Timeout) => {
            "0:0".to_owned()
        }
        None => signal::pair(job(row).exit),
    }
}

pub(in super::super) fn derived_exit(_: &Context, row: &Row) -> String {
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

/// Seconds that it ran, and that it stood still.
pub fn clocks(context: &Context, row: &Row) -> (u64, u64) {
    let (Some(started), ended) = span(row) else {
        return (0, 0);
    };
    let until = ended.unwrap_or(context.view.clock.now);
    let stopped = match &row.step {
        Some(step) => job(row).step_stopped_ms(step, until),
        None => job(row).stopped_ms(until),
    } / 1000;
    let ran = until.secs_since(started).saturating_sub(stopped);
    (ran, stopped)
}

fn secs(context: &Context, row: &Row) -> u64 {
    clocks(context, row).0
}

pub(in super::super) fn suspended(context: &Context, row: &Row) -> String {
    timespec::elapsed_long(clocks(context, row).1)
}

pub(in super::super) fn elapsed(context: &Context, row: &Row) -> String {
    timespec::elapsed_long(secs(context, row))
}

pub(in super::super) fn elapsed_raw(context: &Context, row: &Row) -> String {
    secs(context, row).to_string()
}

pub(in super::super) fn cpu_time(context: &Context, row: &Row) -> String {
    timespec::elapsed_long(secs(context, row) * cpus(row))
}

pub(in super::super) fn cpu_time_raw(context: &Context, row: &Row) -> String {
    (secs(context, row) * cpus(row)).to_string()
}

pub(in super::super) fn submit(context: &Context, row: &Row) -> String {
    let at = row
        .step
        .as_ref()
        .map_or(job(row).submitted, |step| step.started);
    context.view.clock.stamp(at)
}

pub(in super::super) fn eligible(context: &Context, row: &Row) -> String {
    let at = match &row.step {
        Some(step) => Some(step.started),
        None => job_text::eligible(job(row)),
    };
    context.view.clock.stamp_or(at, "Unknown")
}

pub(in super::super) fn start(context: &Context, row: &Row) -> String {
    let (started, ended) = span(row);
    let unknown = if ended.is_some() { "None" } else { "Unknown" };
    context.view.clock.stamp_or(started, unknown)
}

pub(in super::super) fn end(context: &Context, row: &Row) -> String {
    context.view.clock.stamp_or(span(row).1, "Unknown")
}

fn waited(row: &Row) -> Option<u64> {
    let job = job(row);
    Some(job.started?.secs_since(job.eligible))
}

pub(in super::super) fn planned(_: &Context, row: &Row) -> String {
    of_job(row, |_| {
        waited(row).map(timespec::elapsed_long).unwrap_or_default()
    })
}

pub(in super::super) fn planned_cpu(_: &Context, row: &Row) -> String {
    let held = |secs| timespec::elapsed_long(secs * cpus(row));
    of_job(row, |_| waited(row).map(held).unwrap_or_default())
}

pub(in super::super) fn planned_cpu_raw(_: &Context, row: &Row) -> String {
    let held = |secs: u64| (secs * cpus(row)).to_string();
    of_job(row, |_| waited(row).map(held).unwrap_or_default())
}

pub(in super::super) fn time_limit(_: &Context, row: &Row) -> String {
    of_job(row, |job| match job.spec.time_limit {
        Some(limit) => timespec::limit_long(limit),
        None => "Partition_Limit".to_owned(),
    })
}

pub(in super::super) fn time_limit_raw(_: &Context, row: &Row) -> String {
    of_job(row, |job| match job.spec.time_limit {
        Some(TimeLimit::Secs(secs)) => (secs / 60).to_string(),
        Some(TimeLimit::Unlimited) => "UNLIMITED".to_owned(),
        None => "Partition_Limit".to_owned(),
    })
}
