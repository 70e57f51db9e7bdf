//! `scontrol show step`.

use super::record::Record;
use super::step_columns::{Row, distribution, tres};
use super::{View, or_null};
use spur_core::id::StepKind;
use spur_core::job::step::StepState;

/// The record of one step.
pub fn record(view: &View, row: &Row, one_line: bool) -> String {
    let (job, step) = (&row.job, &row.step);
    let first = format!(
        "StepId={} UserId={} StartTime={} TimeLimit=UNLIMITED",
        row.id(),
        job.spec.owner.uid,
        view.clock.stamp(step.started)
    );
    let mut record = Record::new(first, one_line);
    let state = match step.state {
        StepState::Running => "RUNNING",
        StepState::Ended => "COMPLETED",
    };
    record.line(format_args!(
        "State={state} Partition={} NodeList={}",
        job.spec.partition,
        row.nodes()
    ));
    // Slurm counts no CPUs for the batch script.
    let batch = step.kind == StepKind::Batch;
    let cpus = if batch { 0 } else { row.cpus() };
    record.line(format_args!(
        "Nodes={} CPUs={cpus} Tasks={} Name={} Network=(null)",
        step.shares.len().max(1),
        row.tasks(),
        step.name
    ));
    record.line(format_args!("TRES={}", or_null(&tres(view, row))));
    record.line("ResvPorts=(null)");
    let distribution = match distribution(job, step) {
        "Unknown" => String::new(),
        word => format!(" Dist={word}"),
    };
    record.line(format_args!("CPUFreqReq=Default{distribution}"));
    let host = if batch {
        "(null)"
    } else {
        job.spec.submit_host.as_str()
    };
    record.line(format_args!("SrunHost:Pid={host}:0"));
    record.end();
    record.into_text()
}
