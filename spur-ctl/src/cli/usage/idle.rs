//! `spur usage --idle`: GPUs that are held and not used.

use crate::cli::render::View;
use crate::cli::render::accounts::numbers;
use serde::Serialize;
use spur_core::api::{IdleGpu, JobView};
use spur_core::slurm::timespec;
use spur_core::time::Millis;
use std::sync::Arc;

/// One GPU, as JSON. What nothing tells is null.
#[derive(Debug, Serialize)]
pub(super) struct Held<'a> {
    job: u32,
    name: &'a str,
    user: &'a str,
    uid: u32,
    account: &'a str,
    partition: &'a str,
    node: &'a str,
    gpu: u32,
    /// Since when, ms since the epoch.
    since_ms: u64,
    /// Seconds without work until now.
    idle_seconds: u64,
    /// Seconds that the job had held it when it was first called idle; the evidence is of then.
    held_seconds: u64,
    /// Whether the job ever opened it.
    opened: Option<bool>,
    /// Whether it has it open.
    open_now: Option<bool>,
    /// Busy share over all the time held, percent.
    busy_percent: Option<f64>,
    /// Device memory that it keeps, bytes.
    memory_bytes: Option<u64>,
}

fn held<'a>(job: &'a JobView, idle: &'a IdleGpu, now: Millis) -> Held<'a> {
    let (spec, evidence) = (&job.spec, &idle.idle);
    Held {
        job: job.id.0,
        name: &spec.name,
        user: &spec.owner.user,
        uid: spec.owner.uid.0,
        account: &spec.account,
        partition: &spec.partition,
        node: idle.node.as_str(),
        gpu: idle.gpu,
        since_ms: evidence.since.0,
        idle_seconds: now.secs_since(evidence.since),
        held_seconds: evidence.held / 1000,
        opened: evidence.opened,
        open_now: evidence.open_now,
        busy_percent: evidence.busy.map(|busy| f64::from(busy) / 10.0),
        memory_bytes: evidence.memory,
    }
}

/// All of them.
pub(super) fn report(jobs: &[Arc<JobView>], now: Millis) -> Vec<Held<'_>> {
    let of = |job: &'_ Arc<JobView>| job.idle.len();
    let mut all = Vec::with_capacity(jobs.iter().map(of).sum());
    for job in jobs {
        all.extend(job.idle.iter().map(|idle| held(job, idle, now)));
    }
    all
}

/// A line for each, the longest idle first. `everything`: the caller sees all users' jobs.
pub(super) fn text(view: &View, jobs: &[Arc<JobView>], everything: bool) -> String {
    let mut all: Vec<(&JobView, &IdleGpu)> = jobs
        .iter()
        .flat_map(|job| job.idle.iter().map(move |idle| (job.as_ref(), idle)))
        .collect();
    if all.is_empty() {
        return if everything {
            "No GPU is held and idle.\n"
        } else {
            "No GPU of your jobs is held and idle (other users' jobs are shown to operators only).\n"
        }
        .to_owned();
    }
    all.sort_by_key(|(job, idle)| (idle.idle.since, job.id, idle.gpu));
    let mut text = format!(
        "{:>10} {:<12} {:<16} {:<10} {:>4} {:<19} {:>11} EVIDENCE\n",
        "JOBID", "NAME", "USER", "NODE", "GPU", "IDLE SINCE", "IDLE FOR"
    );
    for (job, idle) in all {
        let since = idle.idle.since;
        let line = format!(
            "{:>10} {:<12} {:<16} {:<10} {:>4} {:<19} {:>11} {}\n",
            job.id,
            job.spec.name,
            job.spec.owner.user,
            idle.node.as_str(),
            idle.gpu,
            view.clock.stamp(since),
            timespec::elapsed_long(view.clock.now.secs_since(since)),
            evidence(idle)
        );
        text.push_str(&line);
    }
    text
}

/// In a few words: opened or not, how busy it was before, what it keeps.
pub(crate) fn evidence(idle: &IdleGpu) -> String {
    let evidence = &idle.idle;
    let mut words = Vec::new();
    words.push(match (evidence.opened, evidence.open_now) {
        (Some(false), _) => "never opened".to_owned(),
        (_, Some(true)) => "open".to_owned(),
        (_, Some(false)) => "not open now".to_owned(),
        (_, None) => "not known whether open".to_owned(),
    });
    if let Some(busy) = evidence.busy {
        let held = timespec::elapsed_long(evidence.held / 1000);
        words.push(format!(
            "{} busy in {held} held",
            numbers::percent(u64::from(busy))
        ));
    }
    if let Some(memory) = evidence.memory.filter(|memory| *memory > 0) {
        words.push(format!("keeps {}", numbers::bytes(memory)));
    }
    words.join(", ")
}
