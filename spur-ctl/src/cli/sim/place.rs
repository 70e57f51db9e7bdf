//! `spur sim place`.

#[cfg(test)]
mod tests;

use super::{failed, print_json, read, write};
use crate::cli::failure::Failure;
use crate::cli::output;
use serde::Serialize;
use spur_sim::place::{ARRIVALS_MAX, Lists, Report, SEEDS_MAX, Setup, Spread, place};
use std::path::PathBuf;
use std::time::Instant;

/// What to place where.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Nodes: CSV with the columns sn, cpu_milli, memory_mib, gpu, model. Nodes without GPUs are left out.
    #[arg(long, value_name = "NODES.csv")]
    nodes: PathBuf,
    /// Tasks: CSV with the columns name, cpu_milli, memory_mib, num_gpu, and if there are any gpu_milli (thousandths of each
    /// GPU; else whole ones) and gpu_spec (models that will do, joined by bars; else any).
    #[arg(long, value_name = "TASKS.csv")]
    tasks: PathBuf,
    /// GPUs asked for in all, in percent of all GPUs: tasks are repeated or left out at random to get there.
    #[arg(long, value_name = "PERCENT", default_value_t = 130, value_parser = clap::value_parser!(u32).range(1..=i64::from(ARRIVALS_MAX)))]
    arrivals: u32,
    /// Orders of arrival: numbers and ranges, one run each.
    #[arg(long, value_name = "LIST", default_value = "42-51", value_parser = seeds)]
    seeds: Seeds,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    /// Also write what was allocated and fragmented at each percent of arrivals.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Also draw it.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// Seeds in the order in which they were given.
#[derive(Clone, Debug)]
struct Seeds(Vec<u64>);

fn seeds(text: &str) -> Result<Seeds, String> {
    let number = |word: &str| {
        let number = word.trim().parse::<u64>();
        number.map_err(|_| format!("{word:?} is no number"))
    };
    let mut seeds = Vec::new();
    for word in text.split(',') {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let (first, last) = (number(first)?, number(last)?);
        if last < first {
            return Err(format!("{word:?} ends before it begins"));
        }
        if last - first >= (SEEDS_MAX - seeds.len()) as u64 {
            return Err(format!("more than {SEEDS_MAX} seeds"));
        }
        seeds.extend(first..=last);
    }
    Ok(Seeds(seeds))
}

pub(super) fn main(args: &Args) -> Result<u8, Failure> {
    let (nodes, tasks) = (read(&args.nodes)?, read(&args.tasks)?);
    let name = |path: &PathBuf| path.display().to_string();
    let lists = Lists::read((&name(&args.nodes), &nodes), (&name(&args.tasks), &tasks));
    let lists = lists.map_err(failed)?;
    let setup = Setup {
        arrivals_percent: args.arrivals,
        seeds: args.seeds.0.clone(),
        fragmentation: args.csv.is_some() || args.plot.is_some(),
    };
    let started = Instant::now();
    let report = place(&lists, &setup).map_err(failed)?;
    let seconds = started.elapsed().as_secs_f64();
    if let Some(path) = &args.csv {
        write(path, &report.csv())?;
    }
    if let Some(path) = &args.plot {
        write(path, &report.svg())?;
    }
    if args.json {
        print_json(&Answer::of(&report, &setup, seconds));
        return Ok(0);
    }
    output::print(&report.table());
    let rate = report.decisions() as f64 / seconds.max(1e-6);
    output::print(&format!("{seconds:.2} s, {rate:.0} decisions a second\n"));
    Ok(0)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Answer {
    allocated_percent: Percent,
    #[serde(skip_serializing_if = "Option::is_none")]
    fragmented_percent: Option<Percent>,
    by_seed: Vec<Seed>,
    decision_hash: String,
    seconds: f64,
    decisions: u64,
    decisions_per_second: f64,
    arrivals_percent: u32,
    nodes: u64,
    nodes_without_gpus: u64,
    gpus: u64,
    tasks: u64,
}

#[derive(Serialize)]
struct Percent {
    mean: f64,
    sd: f64,
}

#[derive(Serialize)]
struct Seed {
    seed: u64,
    arrived: usize,
    placed: usize,
    allocated_percent: f64,
    decision_hash: String,
}

impl Answer {
    fn of(report: &Report, setup: &Setup, seconds: f64) -> Self {
        let by_seed = report.runs.iter().map(|run| Seed {
            seed: run.seed,
            arrived: run.arrived,
            placed: run.placed,
            allocated_percent: round(report.percent(run.allocated())),
            decision_hash: format!("{:016x}", run.hash),
        });
        Self {
            allocated_percent: Percent::of(report.allocated()),
            fragmented_percent: setup
                .fragmentation
                .then(|| Percent::of(report.fragmented())),
            by_seed: by_seed.collect(),
            decision_hash: format!("{:016x}", report.hash()),
            seconds: round(seconds),
            decisions: report.decisions(),
            decisions_per_second: (report.decisions() as f64 / seconds.max(1e-6)).round(),
            arrivals_percent: report.arrivals_percent,
            nodes: report.nodes,
            nodes_without_gpus: report.bare_nodes,
            gpus: report.gpus,
            tasks: report.tasks,
        }
    }
}

impl Percent {
    fn of(spread: Spread) -> Self {
        Self {
            mean: round(spread.mean),
            sd: round(spread.sd),
        }
    }
}

/// Four digits say more than the seeds agree on.
fn round(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}
