//! `spur usage JOB --json`: the report with names and units in the keys. What was not measured is null, never 0.

use serde::Serialize;
use spur_core::api::{NodeEvent, SeriesKind, UsageReport};
use spur_core::time::Millis;
use spur_core::usage::summary::{GpuUsage, JobTotals, Processes};
use spur_core::usage::words::UsageEventKind;

#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    job: u32,
    name: &'a str,
    user: &'a str,
    state: &'a str,
    started_ms: Option<u64>,
    ended_ms: Option<u64>,
    /// Some of it is not final.
    live: bool,
    nodes_held: usize,
    totals: Totals,
    nodes: Vec<Node<'a>>,
    steps: Vec<Step<'a>>,
    gpus_now: Vec<Now<'a>>,
    idle: Vec<super::idle::Held<'a>>,
    events: Vec<Event<'a>>,
    series: Vec<Series<'a>>,
}

#[derive(Debug, Serialize)]
struct Totals {
    nodes_told: u32,
    coverage_percent: f64,
    processes: Option<Used>,
    cpu_held_us: u64,
    cpu_efficiency_percent: Option<f64>,
    memory_given_mib: Option<u64>,
    memory_efficiency_percent: Option<f64>,
    gpus: u32,
    gpus_used: Option<u32>,
    gpu_held_us: u64,
    gpu_busy_us: Option<u64>,
    gpu_efficiency_percent: Option<f64>,
    gpu_utilization_p50_percent: Option<f64>,
    gpu_utilization_p95_percent: Option<f64>,
    gpu_energy_mj: Option<u64>,
    gpu_longest_idle_us: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Used {
    cpu_us: u64,
    user_us: Option<u64>,
    system_us: Option<u64>,
    runqueue_us: Option<u64>,
    major_faults: Option<u64>,
    read_bytes: Option<u64>,
    write_bytes: Option<u64>,
    processes: Option<u64>,
    oom_kills: Option<u64>,
    memory_peak_bytes: Option<u64>,
    memory_mean_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Node<'a> {
    node: &'a str,
    started_ms: u64,
    ended_ms: u64,
    cpus: u32,
    memory_mib: u64,
    coverage_percent: f64,
    processes: Used,
    gpus: Vec<Gpu<'a>>,
}

#[derive(Debug, Serialize)]
struct Gpu<'a> {
    index: u32,
    uuid: &'a str,
    model: &'a str,
    held_us: u64,
    busy_us: Option<u64>,
    busy_source: Option<&'static str>,
    busy_quality: Option<&'static str>,
    busy_percent: Option<f64>,
    utilization_p50_percent: Option<f64>,
    utilization_p95_percent: Option<f64>,
    opened: Option<bool>,
    first_busy_us: Option<u64>,
    longest_idle_us: Option<u64>,
    trailing_idle_us: Option<u64>,
    memory_peak_bytes: Option<u64>,
    memory_total_bytes: Option<u64>,
    energy_mj: Option<u64>,
    sm_active_percent: Option<f64>,
    throttle_thermal_us: Option<u64>,
    throttle_power_us: Option<u64>,
    errors: Vec<Errors>,
    ecc_corrected: Option<u64>,
    ecc_uncorrected: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Errors {
    code: u32,
    count: u64,
}

#[derive(Debug, Serialize)]
struct Step<'a> {
    step: String,
    node: &'a str,
    started_ms: u64,
    ended_ms: u64,
    coverage_percent: f64,
    processes: Used,
}

#[derive(Debug, Serialize)]
struct Now<'a> {
    node: &'a str,
    gpu: u32,
    age_ms: u64,
    busy_percent: Option<f64>,
    memory_bytes: Option<u64>,
    power_mw: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Event<'a> {
    at_ms: u64,
    node: &'a str,
    gpu: Option<u32>,
    kind: &'static str,
    code: Option<u32>,
    text: String,
}

#[derive(Debug, Serialize)]
struct Series<'a> {
    node: &'a str,
    kind: &'static str,
    unit: &'static str,
    gpu: Option<u32>,
    step_ms: u64,
    /// Mean, least and greatest of each step; null in a gap.
    points: Vec<Option<[u64; 3]>>,
}

#[expect(clippy::cast_precision_loss, reason = "thousandths are small")]
fn percent(permille: u64) -> f64 {
    permille as f64 / 10.0
}

fn used(used: &Processes) -> Used {
    let Processes {
        cpu_us,
        user_us,
        system_us,
        runqueue_us,
        major_faults,
        read_bytes,
        write_bytes,
        processes,
        oom_kills,
        memory_peak,
        memory_mean,
    } = *used;
    Used {
        cpu_us,
        user_us,
        system_us,
        runqueue_us,
        major_faults,
        read_bytes,
        write_bytes,
        processes,
        oom_kills,
        memory_peak_bytes: memory_peak,
        memory_mean_bytes: memory_mean,
    }
}

fn gpu(gpu: &GpuUsage) -> Gpu<'_> {
    let quantile = |of| gpu.utilization.quantile(of).map(percent);
    Gpu {
        index: gpu.index,
        uuid: &gpu.uuid,
        model: &gpu.model,
        held_us: gpu.held_us,
        busy_us: gpu.busy.map(|busy| busy.us),
        busy_source: gpu.busy.map(|busy| busy.source.word()),
        busy_quality: gpu.busy.map(|busy| busy.quality.word()),
        busy_percent: gpu.busy_permille().map(percent),
        utilization_p50_percent: quantile(50),
        utilization_p95_percent: quantile(95),
        opened: gpu.opened,
        first_busy_us: gpu.first_busy_us,
        longest_idle_us: gpu.longest_idle_us,
        trailing_idle_us: gpu.trailing_idle_us,
        memory_peak_bytes: gpu.memory_peak,
        memory_total_bytes: gpu.memory_total,
        energy_mj: gpu.energy_mj,
        sm_active_percent: gpu.sm_active.map(|share| percent(u64::from(share))),
        throttle_thermal_us: gpu.throttle_thermal_us,
        throttle_power_us: gpu.throttle_power_us,
        errors: gpu
            .errors
            .iter()
            .map(|errors| Errors {
                code: errors.code,
                count: errors.count,
            })
            .collect(),
        ecc_corrected: gpu.ecc_corrected,
        ecc_uncorrected: gpu.ecc_uncorrected,
    }
}

fn totals(totals: &JobTotals) -> Totals {
    Totals {
        nodes_told: totals.nodes,
        coverage_percent: percent(u64::from(totals.coverage)),
        processes: (totals.nodes > 0).then(|| used(&totals.used)),
        cpu_held_us: totals.cpu_held_us,
        cpu_efficiency_percent: totals.cpu_permille().map(percent),
        memory_given_mib: Some(totals.memory_mib).filter(|mib| *mib > 0),
        memory_efficiency_percent: totals.memory_permille().map(percent),
        gpus: totals.gpus,
        gpus_used: totals.gpus_used,
        gpu_held_us: totals.gpu_held_us,
        gpu_busy_us: totals.gpu_busy_us,
        gpu_efficiency_percent: totals.gpu_permille().map(percent),
        gpu_utilization_p50_percent: totals.utilization.quantile(50).map(percent),
        gpu_utilization_p95_percent: totals.utilization.quantile(95).map(percent),
        gpu_energy_mj: totals.gpu_energy_mj,
        gpu_longest_idle_us: totals.longest_idle_us,
    }
}

/// The word for a kind of event, its code and the rest in words.
pub(super) fn event_words(kind: &UsageEventKind) -> (&'static str, Option<u32>, String) {
    match kind {
        UsageEventKind::DeviceError { code, text } => ("device-error", Some(*code), text.clone()),
        UsageEventKind::DeviceStale { stale: true, why } => ("device-silent", None, why.clone()),
        UsageEventKind::DeviceStale { stale: false, why } => ("device-answers", None, why.clone()),
        UsageEventKind::Idle(idle) => {
            let text = format!("no work for {} s", idle.millis / 1000);
            ("idle", None, text)
        }
        UsageEventKind::Busy => ("busy", None, String::new()),
        UsageEventKind::Gap { millis, why } => ("gap", None, format!("{} s: {why}", millis / 1000)),
        UsageEventKind::OomKill { pid } => ("oom-kill", None, format!("process {pid}")),
    }
}

fn event(event: &NodeEvent) -> Event<'_> {
    let (kind, code, text) = event_words(&event.event.what);
    Event {
        at_ms: event.event.at.0,
        node: event.node.as_str(),
        gpu: event.event.gpu,
        kind,
        code,
        text,
    }
}

/// Everything as an object; `at` is the present.
pub(super) fn report(report: &UsageReport, at: Millis) -> Report<'_> {
    let run = &report.record;
    let job = &run.job;
    let node = |node: &'_ spur_core::usage::summary::JobUsage| {
        (percent(u64::from(node.coverage)), used(&node.used))
    };
    Report {
        job: job.id.0,
        name: &job.spec.name,
        user: &job.spec.owner.user,
        state: crate::cli::render::job_text::state(job),
        started_ms: job.started.map(|at| at.0),
        ended_ms: job.ended.filter(|_| job.state.is_terminal()).map(|at| at.0),
        live: run.live,
        nodes_held: job.nodes.len(),
        totals: totals(&JobTotals::of_run(run)),
        nodes: run
            .nodes
            .iter()
            .map(|one| {
                let (coverage_percent, processes) = node(one);
                Node {
                    node: one.node.as_str(),
                    started_ms: one.started.0,
                    ended_ms: one.ended.0,
                    cpus: one.cpus,
                    memory_mib: one.memory_mib,
                    coverage_percent,
                    processes,
                    gpus: one.gpus.iter().map(gpu).collect(),
                }
            })
            .collect(),
        steps: run
            .steps
            .iter()
            .map(|step| Step {
                step: step.step.to_string(),
                node: step.node.as_str(),
                started_ms: step.started.0,
                ended_ms: step.ended.0,
                coverage_percent: percent(u64::from(step.coverage)),
                processes: used(&step.used),
            })
            .collect(),
        gpus_now: report
            .now
            .iter()
            .map(|now| Now {
                node: now.node.as_str(),
                gpu: now.gpu,
                age_ms: now.age,
                busy_percent: now.busy.map(|busy| percent(u64::from(busy))),
                memory_bytes: now.memory,
                power_mw: now.power,
            })
            .collect(),
        idle: super::idle::report(std::slice::from_ref(job), at),
        events: report.events.iter().map(event).collect(),
        series: report.series.iter().map(series).collect(),
    }
}

fn series(series: &spur_core::api::SeriesView) -> Series<'_> {
    let (kind, unit) = match series.kind {
        SeriesKind::Cpu => ("cpu", "thousandths of a CPU"),
        SeriesKind::Memory => ("memory", "bytes"),
        SeriesKind::GpuBusy => ("gpu-busy", "thousandths"),
        SeriesKind::GpuMemory => ("gpu-memory", "bytes"),
    };
    let points = series.points.iter();
    Series {
        node: series.node.as_str(),
        kind,
        unit,
        gpu: series.gpu,
        step_ms: series.step,
        points: points
            .map(|point| (point.millis > 0).then_some([point.mean, point.min, point.max]))
            .collect(),
    }
}
