//! Cells of `squeue` that are more than a field.

use crate::cli::render::View;
use crate::cli::render::job_row::{JobRow, push};
use crate::cli::render::job_text as text;
use spur_core::job::spec::JobKind;
use spur_core::slurm::timespec;
use spur_core::time::TimeLimit;

pub(super) fn or_na(text: Option<String>) -> String {
    text.unwrap_or_else(|| "N/A".to_owned())
}

pub(super) fn or_not(text: &str) -> &str {
    if text.is_empty() { "N/A" } else { text }
}

pub(super) fn is_batch(row: &JobRow) -> bool {
    text::is_batch(&row.job)
}

/// Where the script runs; for others, where the command was given.
pub(super) fn exec_host(row: &JobRow) -> &str {
    let host = match row.job.spec.kind {
        JobKind::Batch => text::batch_host(&row.job),
        JobKind::Run | JobKind::Alloc => Some(row.job.spec.submit_host.as_str()),
    };
    host.filter(|host| !host.is_empty()).unwrap_or("n/a")
}

pub(super) fn core_spec(_: &View, row: &JobRow) -> String {
    let extras = row.job.spec.extras();
    match (extras.core_spec, extras.thread_spec) {
        (Some(cores), _) => cores.to_string(),
        (None, Some(threads)) => format!("{threads} Threads"),
        (None, None) => "N/A".to_owned(),
    }
}

pub(super) fn cpus_per_task(_: &View, row: &JobRow) -> String {
    row.job.spec.cpus_per_task.max(1).to_string()
}

pub(super) fn elapsed(out: &mut String, secs: u64) {
    timespec::write_elapsed(secs, out);
}

pub(super) fn end_time(view: &View, row: &JobRow, out: &mut String) {
    match text::end(view, &row.job) {
        Some(at) => view.clock.write(at, out),
        None if text::runs_for_ever(&row.job) => out.push_str("NONE"),
        None => out.push_str("N/A"),
    }
}

pub(super) fn gpus_per_node(_: &View, row: &JobRow) -> String {
    text::tres_gpus(row.job.spec.gpus_per_node.as_ref())
}

pub(super) fn max_nodes(row: &JobRow) -> u64 {
    match text::max_nodes(&row.job) {
        0 => text::node_count(&row.job),
        most => most.into(),
    }
}

pub(super) fn min_time(_: &View, row: &JobRow, out: &mut String) {
    match row.job.spec.extras().time_min {
        Some(TimeLimit::Secs(secs)) => elapsed(out, secs),
        Some(TimeLimit::Unlimited) | None => elapsed(out, 0),
    }
}

/// Seconds from submission to start, or until now.
pub(super) fn pending_time(view: &View, row: &JobRow, out: &mut String) {
    let until = row.job.started.unwrap_or(view.clock.now);
    push(out, until.secs_since(row.job.submitted));
}

pub(super) fn priority_share(_: &View, row: &JobRow) -> String {
    format!(
        "{:16.14}",
        f64::from(row.job.priority) / f64::from(u32::MAX)
    )
}

/// `NotSet` unless it was asked for.
pub(super) fn profile(row: &JobRow) -> &str {
    match row.job.spec.extras().profile.as_str() {
        "" => "NotSet",
        profile => profile,
    }
}

pub(super) fn reason(_: &View, row: &JobRow, out: &mut String) {
    text::write_reason(&row.job, out);
    out.push_str(&row.more_reasons);
}

pub(super) fn nodes_or_reason(view: &View, row: &JobRow, out: &mut String) {
    if !text::shows_reason(&row.job) {
        return text::write_nodes(&row.job, out);
    }
    out.push('(');
    reason(view, row, out);
    out.push(')');
}

pub(super) fn sockets_cores_threads(_: &View, row: &JobRow) -> String {
    let (spec, extras) = (&row.job.spec, row.job.spec.extras());
    let [sockets, cores, threads] = [
        spec.sockets_per_node,
        extras.cores_per_socket,
        extras.threads_per_core,
    ]
    .map(|count| text::given(count, "*"));
    format!("{sockets}:{cores}:{threads}")
}

pub(super) fn time_limit(_: &View, row: &JobRow, out: &mut String) {
    match row.job.spec.time_limit {
        None => out.push_str("NOT_SET"),
        Some(TimeLimit::Unlimited) => out.push_str("UNLIMITED"),
        Some(TimeLimit::Secs(secs)) => elapsed(out, secs),
    }
}

pub(super) fn switch_wait(_: &View, row: &JobRow, out: &mut String) {
    let wait = row
        .job
        .spec
        .switches
        .and_then(|switches| switches.max_wait_secs);
    elapsed(out, wait.unwrap_or(0));
}
