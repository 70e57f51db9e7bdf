//! `scontrol show step`.

use super::View;
use super::record::Record;
use super::step_columns::Row;
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
    record.line(format_args!("TRES={}", tres(view, row)));
    record.line("ResvPorts=(null)");
    let distribution = if batch { "" } else { " Dist=Block" };
    record.line(format_args!("CPUFreqReq=Default{distribution}"));
    let host = if batch {
        "(null)"
    } else {
        job.spec.submit_host.as_str()
    };
    record.line(format_args!("SrunHost:Pid={host}:0"));
    record.end()
}

/// What it holds; `(null)` for the batch script.
fn tres(view: &View, row: &Row) -> String {
    if row.step.kind == StepKind::Batch {
        return "(null)".to_owned();
    }
    let shares = || row.step.shares.iter().map(|share| &share.share);
    let memory: u64 = shares().map(|share| share.memory_mib).sum();
    let gpus: u64 = shares().map(|share| u64::from(share.gpus.len())).sum();
    let memory = if memory > 0 {
        format!(",mem={}", view.mib(memory))
    } else {
        String::new()
    };
    let gpus = if gpus > 0 {
        format!(",gres/gpu={gpus}")
    } else {
        String::new()
    };
    format!(
        "cpu={}{memory},node={}{gpus}",
        row.cpus(),
        row.step.shares.len()
    )
}
