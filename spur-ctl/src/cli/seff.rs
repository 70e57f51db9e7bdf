//! `seff`: how well a job used what it held, in a few lines.

use super::failure::Failure;
use super::flags::getopt::Options;
use super::flags::{Command, help};
use super::link;
use super::render::accounts::numbers;
use super::render::job_text;
use super::{named, output, process, sacct};
use spur_core::api::{AccountedJob, Reply, Request, UsageReport};
use spur_core::job::state::JobState;
use spur_core::slurm::timespec;
use spur_core::time::Millis;
use spur_core::usage::summary::{GpuUsage, JobTotals, JobUsage};
use std::fmt::Write as _;

/// What stands where nothing was measured.
const UNTOLD: &str = "not measured";

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    let words: Vec<String> = options
        .operands
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let [job] = words.as_slice() else {
        return Err(Failure {
            text: help::usage(Command::Seff),
            code: 1,
        });
    };
    let failed = |why: String| Failure::error(Command::Seff, why);
    let Some(named) = named::read(job) else {
        return Err(failed(format!("Invalid job id: {job}")));
    };
    let job = named.job_of().map_err(|trouble| failed(trouble.text()))?;
    let context = sacct::context(options)?;
    let request = Request::Usage {
        job,
        watch: false,
        details: false,
    };
    match link::question(&request) {
        Ok(Reply::Usage(report)) => {
            output::print(&text(&report, &context.cluster, process::now()));
            Ok(0)
        }
        Ok(_) => Err(failed(link::unexpected().text())),
        Err(trouble) => Err(failed(trouble.text())),
    }
}

/// Writes a line. A string grows, so that it cannot fail.
fn line(text: &mut String, key: &str, value: impl std::fmt::Display) {
    writeln!(text, "{key}: {value}").expect("a string grows");
}

/// The whole text.
pub(crate) fn text(report: &UsageReport, cluster: &str, now: Millis) -> String {
    let run = &report.record;
    let job = &run.job;
    let mut text = String::new();
    line(&mut text, "Job ID", job.id);
    line(&mut text, "Cluster", cluster);
    let owner = &job.spec.owner;
    line(
        &mut text,
        "User/Group",
        format_args!("{}/{}", owner.user, owner.group),
    );
    let state = job_text::state(job);
    if job.state.is_terminal() {
        let code = job.exit.code;
        line(
            &mut text,
            "State",
            format_args!("{state} (exit code {code})"),
        );
    } else {
        line(&mut text, "State", state);
    }
    let Some(started) = job.started else {
        line(
            &mut text,
            "Efficiency",
            format_args!("not available for a job that never ran ({state})"),
        );
        return text;
    };
    let cores: u64 = job
        .nodes
        .iter()
        .map(|node| u64::from(node.share.cpus.len()))
        .sum();
    if cores == 1 {
        line(&mut text, "Cores", 1);
    } else {
        line(&mut text, "Nodes", job.nodes.len());
        let per_node = cores.checked_div(job.nodes.len() as u64).unwrap_or(0);
        line(&mut text, "Cores per node", per_node);
    }
    let ended = job.ended.filter(|_| job.state.is_terminal()).unwrap_or(now);
    let totals = JobTotals::of_run(run);
    processors(&mut text, &totals);
    line(
        &mut text,
        "Job Wall-clock time",
        timespec::elapsed_long(
            ended
                .secs_since(started)
                .saturating_sub(job.stopped_ms(ended) / 1000),
        ),
    );
    memory(&mut text, run, &totals);
    gpus(&mut text, run, &totals);
    warnings(&mut text, run, &totals, now);
    text
}

fn processors(text: &mut String, totals: &JobTotals) {
    if totals.nodes == 0 {
        line(text, "CPU Utilized", UNTOLD);
        line(text, "CPU Efficiency", UNTOLD);
        return;
    }
    line(
        text,
        "CPU Utilized",
        timespec::elapsed_long(totals.used.cpu_us / 1_000_000),
    );
    let held = timespec::elapsed_long(totals.cpu_held_us / 1_000_000);
    match totals.cpu_permille() {
        Some(share) => line(
            text,
            "CPU Efficiency",
            format_args!("{} of {held} core-walltime", two_decimals(share)),
        ),
        None => line(text, "CPU Efficiency", UNTOLD),
    }
}

/// Thousandths as `seff` writes a percentage.
fn two_decimals(permille: u64) -> String {
    format!("{}.{}0%", permille / 10, permille % 10)
}

fn memory(text: &mut String, run: &AccountedJob, totals: &JobTotals) {
    let Some(peak) = totals.used.memory_peak else {
        line(text, "Memory Utilized", UNTOLD);
        line(text, "Memory Efficiency", UNTOLD);
        return;
    };
    let several = run.job.nodes.len() > 1;
    let more = if several {
        " (the most of any node)"
    } else {
        ""
    };
    line(
        text,
        "Memory Utilized",
        format_args!("{}{more}", numbers::bytes(peak)),
    );
    let tightest = totals.tightest.as_ref();
    let Some((tightest, share)) = tightest.and_then(|on| Some((on, on.permille()?))) else {
        let all = "it was given all of its nodes' memory";
        return line(text, "Memory Efficiency", all);
    };
    let place = match several {
        true => format!(" on {}", tightest.node),
        false => String::new(),
    };
    line(
        text,
        "Memory Efficiency",
        format_args!(
            "{} of {}{place}",
            two_decimals(share),
            numbers::bytes(tightest.given)
        ),
    );
}

fn gpus(text: &mut String, run: &AccountedJob, totals: &JobTotals) {
    let held: u32 = run.job.nodes.iter().map(|node| node.share.gpus.len()).sum();
    if held == 0 {
        return;
    }
    match totals.gpus_used {
        Some(used) => line(text, "GPUs Utilized", format_args!("{used} of {held}")),
        None => line(text, "GPUs Utilized", format_args!("{UNTOLD}, of {held}")),
    }
    let hours = numbers::hours(totals.gpu_told_us);
    match totals.gpu_permille() {
        Some(share) => line(
            text,
            "GPU Efficiency",
            format_args!("{} of {hours} GPU-hours", two_decimals(share)),
        ),
        None => line(text, "GPU Efficiency", UNTOLD),
    }
    if let Some(energy) = totals.gpu_energy_mj {
        line(text, "GPU Energy", format_args!("{} J", energy / 1000));
    }
    if let Some(idle) = totals.longest_idle_us {
        line(
            text,
            "GPU Longest Idle",
            timespec::elapsed_long(idle / 1_000_000),
        );
    }
    for node in &run.nodes {
        for gpu in &node.gpus {
            line(
                text,
                &format!("  GPU {}:{}", node.node, gpu.index),
                one(gpu),
            );
        }
    }
}

/// One GPU: busy share and its source, memory, idle stretch.
fn one(gpu: &GpuUsage) -> String {
    let busy = match (gpu.busy_permille(), gpu.busy) {
        (Some(share), Some(busy)) => format!(
            "{} busy ({}, {})",
            numbers::percent(share),
            busy.source.word(),
            busy.quality.word()
        ),
        (_, _) => format!("busy time {UNTOLD}"),
    };
    let memory = gpu
        .memory_peak
        .map(|peak| format!(", {} at most", numbers::bytes(peak)));
    let opened = match gpu.opened {
        Some(false) => ", never opened",
        Some(true) | None => "",
    };
    format!("{busy}{}{opened}", memory.unwrap_or_default())
}

fn warnings(text: &mut String, run: &AccountedJob, totals: &JobTotals, now: Millis) {
    for idle in &run.job.idle {
        let lasts = timespec::elapsed_long(now.secs_since(idle.idle.since));
        line(
            text,
            "WARNING",
            format_args!(
                "GPU {}:{} is held and does nothing, for {lasts} now",
                idle.node, idle.gpu
            ),
        );
    }
    let told: Vec<&JobUsage> = run.nodes.iter().collect();
    let nodes = run.job.nodes.len();
    if told.len() < nodes {
        line(
            text,
            "WARNING",
            format_args!(
                "{} of {nodes} nodes reported nothing, so this is of the others",
                nodes - told.len()
            ),
        );
    } else if totals.coverage < if run.live { 900 } else { 990 } {
        let share = numbers::percent(u64::from(totals.coverage));
        line(
            text,
            "WARNING",
            format_args!("only {share} of the time was measured"),
        );
    }
    if run.job.state == JobState::Running {
        text.push_str("WARNING: Efficiency statistics can be misleading for RUNNING jobs.\n");
    } else if run.live {
        text.push_str("WARNING: Some nodes have not reported their final numbers yet.\n");
    }
}
