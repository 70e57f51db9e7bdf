//! The text of `spur usage JOB`.

use super::idle::evidence;
use super::json::event_words;
use crate::cli::render::View;
use crate::cli::render::accounts::numbers;
use crate::cli::render::job_text;
use spur_core::api::UsageReport;
use spur_core::slurm::timespec;
use spur_core::usage::summary::{GpuUsage, JobTotals, JobUsage, Processes};
use std::fmt::Write as _;

/// Most events that are shown; JSON has all.
const EVENTS_SHOWN: usize = 20;
/// What stands where nothing was measured.
const UNTOLD: &str = "not measured";

/// Writes a line. A string grows, so that it cannot fail.
fn line(text: &mut String, args: std::fmt::Arguments<'_>) {
    writeln!(text, "{args}").expect("a string grows");
}

fn or_untold(value: Option<String>) -> String {
    value.unwrap_or_else(|| UNTOLD.to_owned())
}

fn secs(micros: u64) -> String {
    timespec::elapsed_long(micros / 1_000_000)
}

/// The whole.
pub(super) fn text(view: &View, report: &UsageReport) -> String {
    let run = &report.record;
    let job = &run.job;
    let mut text = String::new();
    line(
        &mut text,
        format_args!(
            "Job {} ({}) of {}: {}, {} of {} nodes reported",
            job.id,
            job.spec.name,
            job.spec.owner.user,
            job_text::state(job),
            run.nodes.len(),
            job.nodes.len()
        ),
    );
    if job.started.is_none() {
        text.push_str("It never ran, so it used nothing.\n");
        return text;
    }
    if run.live {
        text.push_str("Some of this is as measured so far, not final.\n");
    }
    let totals = JobTotals::of_run(run);
    of_all(&mut text, &totals);
    for node in &run.nodes {
        of_node(&mut text, node);
    }
    now(&mut text, report);
    for idle in &job.idle {
        line(
            &mut text,
            format_args!(
                "Idle: GPU {} of {} since {}: {}",
                idle.gpu,
                idle.node,
                view.clock.stamp(idle.idle.since),
                evidence(idle)
            ),
        );
    }
    events(&mut text, view, report);
    text
}

fn of_all(text: &mut String, totals: &JobTotals) {
    if totals.nodes == 0 {
        line(text, format_args!("Use: {UNTOLD}"));
        return;
    }
    let share = |permille: Option<u64>| or_untold(permille.map(numbers::percent));
    line(
        text,
        format_args!(
            "CPU     {} used of {} held: {}",
            numbers::cpu_time(totals.used.cpu_us),
            secs(totals.cpu_held_us),
            share(totals.cpu_permille())
        ),
    );
    line(text, format_args!("{}", of_memory(totals)));
    if totals.gpus > 0 {
        let used = totals.gpus_used.map(|used| used.to_string());
        line(
            text,
            format_args!(
                "GPUs    {} used of {} held, {} GPU-hours: {} busy, p50 {}, p95 {}",
                or_untold(used),
                totals.gpus,
                numbers::hours(totals.gpu_held_us),
                share(totals.gpu_permille()),
                share(totals.utilization.quantile(50)),
                share(totals.utilization.quantile(95))
            ),
        );
        let energy = totals.gpu_energy_mj.map(|mj| format!("{} J", mj / 1000));
        line(
            text,
            format_args!(
                "        energy {}, longest idle {}",
                or_untold(energy),
                or_untold(totals.longest_idle_us.map(secs))
            ),
        );
    }
    line(
        text,
        format_args!(
            "Measured {} of the time on the node that was measured least",
            numbers::percent(u64::from(totals.coverage))
        ),
    );
}

/// Used of what was given, where it was tightest.
fn of_memory(totals: &JobTotals) -> String {
    let Some(peak) = totals.used.memory_peak.map(numbers::bytes) else {
        return format!("Memory  {UNTOLD}");
    };
    match &totals.tightest {
        None => format!("Memory  {peak} at most of all of the nodes' memory"),
        Some(on) => format!(
            "Memory  {} at most of {} on {}: {}",
            numbers::bytes(on.peak),
            numbers::bytes(on.given),
            on.node,
            or_untold(on.permille().map(numbers::percent))
        ),
    }
}

fn of_node(text: &mut String, node: &JobUsage) {
    line(
        text,
        format_args!(
            "\n{}: {} CPUs, {}, measured {} of the time",
            node.node,
            node.cpus,
            match node.memory_mib {
                0 => "all memory".to_owned(),
                mib => numbers::bytes(mib << 20),
            },
            numbers::percent(u64::from(node.coverage))
        ),
    );
    processes(text, &node.used);
    if node.gpus.is_empty() {
        return;
    }
    line(
        text,
        format_args!(
            "  {:>3} {:<10} {:>8} {:>6} {:>6} {:>10} {:>11} {:>10} {:>11} SOURCE",
            "GPU", "MODEL", "BUSY", "P50", "P95", "MEMORY", "ENERGY", "IDLE MAX", "THROTTLED"
        ),
    );
    for gpu in &node.gpus {
        of_gpu(text, gpu);
    }
}

fn processes(text: &mut String, used: &Processes) {
    let time = |us: Option<u64>| or_untold(us.map(numbers::cpu_time));
    line(
        text,
        format_args!(
            "  cpu {} (user {}, system {}), waited for a CPU {}",
            numbers::cpu_time(used.cpu_us),
            time(used.user_us),
            time(used.system_us),
            time(used.runqueue_us)
        ),
    );
    let count = |value: Option<u64>| or_untold(value.map(|value| value.to_string()));
    let size = |value: Option<u64>| or_untold(value.map(numbers::bytes));
    line(
        text,
        format_args!(
            "  disk read {}, written {}; major faults {}; processes {}; out-of-memory kills {}",
            size(used.read_bytes),
            size(used.write_bytes),
            count(used.major_faults),
            count(used.processes),
            count(used.oom_kills)
        ),
    );
    line(
        text,
        format_args!(
            "  memory {} at most, {} on average",
            size(used.memory_peak),
            size(used.memory_mean)
        ),
    );
}

fn of_gpu(text: &mut String, gpu: &GpuUsage) {
    let dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let share = |permille: Option<u64>| dash(permille.map(numbers::percent));
    let source = gpu
        .busy
        .map(|busy| format!("{}, {}", busy.source.word(), busy.quality.word()));
    let throttled = match (gpu.throttle_thermal_us, gpu.throttle_power_us) {
        (None, None) => None,
        (heat, power) => Some(secs(heat.unwrap_or(0).saturating_add(power.unwrap_or(0)))),
    };
    let mut more = String::new();
    if gpu.opened == Some(false) {
        more.push_str("; never opened");
    }
    for errors in &gpu.errors {
        more.push_str(&format!("; error {} {} times", errors.code, errors.count));
    }
    if let Some(count) = gpu.ecc_uncorrected.filter(|count| *count > 0) {
        more.push_str(&format!("; {count} memory errors not corrected"));
    }
    line(
        text,
        format_args!(
            "  {:>3} {:<10} {:>8} {:>6} {:>6} {:>10} {:>11} {:>10} {:>11} {}{more}",
            gpu.index,
            gpu.model,
            share(gpu.busy_permille()),
            share(gpu.utilization.quantile(50)),
            share(gpu.utilization.quantile(95)),
            dash(gpu.memory_peak.map(numbers::bytes)),
            dash(gpu.energy_mj.map(|mj| format!("{} J", mj / 1000))),
            dash(gpu.longest_idle_us.map(secs)),
            dash(throttled),
            or_untold(source)
        ),
    );
}

fn now(text: &mut String, report: &UsageReport) {
    for now in &report.now {
        let busy = now.busy.map(|busy| numbers::percent(u64::from(busy)));
        let power = now.power.map(|mw| format!("{} W", mw / 1000));
        line(
            text,
            format_args!(
                "Now: GPU {} of {}: {} busy, memory {}, power {} ({} ms ago)",
                now.gpu,
                now.node,
                or_untold(busy),
                or_untold(now.memory.map(numbers::bytes)),
                or_untold(power),
                now.age
            ),
        );
    }
}

fn events(text: &mut String, view: &View, report: &UsageReport) {
    let all = &report.events;
    if all.is_empty() {
        return;
    }
    text.push_str("\nEvents\n");
    let hidden = all.len().saturating_sub(EVENTS_SHOWN);
    if hidden > 0 {
        line(text, format_args!("  ({hidden} earlier ones: see --json)"));
    }
    for event in &all[hidden..] {
        let (kind, code, words) = event_words(&event.event.what);
        let gpu = event
            .event
            .gpu
            .map(|gpu| format!(" GPU {gpu}"))
            .unwrap_or_default();
        let code = code.map(|code| format!(" {code}")).unwrap_or_default();
        line(
            text,
            format_args!(
                "  {} {}{gpu}: {kind}{code} {words}",
                view.clock.stamp(event.event.at),
                event.node
            ),
        );
    }
}
