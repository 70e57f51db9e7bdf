//! `spur sim queue`: a recorded trace on the real state machine and the real planner, and how long its jobs would have waited.

use super::{failed, print_json, read, write};
use crate::cli::failure::Failure;
use crate::cli::output;
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use spur_core::slurm::size::parse_mib;
use spur_sim::replay::{self, Limits, Report, Setup, Trace, Waits};
use std::path::PathBuf;
use std::time::Instant;

/// A trace has the columns timestamp,duration,num_gpus,gpu_time,cluster, or is what `sacct -P` prints with at least Submit and
/// Elapsed (better with User, JobName, Timelimit, ReqTRES, NNodes as well). Offered load is the GPU-seconds of all jobs, over
/// all GPUs times the time from the first submission to the last; --load stretches or squeezes that time.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The trace.
    #[arg(long, value_name = "JOBS.csv")]
    trace: PathBuf,
    /// Nodes.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    nodes: u32,
    /// GPUs of each node.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    gpus_per_node: u32,
    /// CPUs of each node [default: as many as the jobs can use]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    cpus_per_node: u32,
    /// Memory of each node, such as 512G [default: as much as the jobs can use]
    #[arg(long, value_name = "SIZE", value_parser = mib)]
    mem_per_node: Option<u64>,
    /// Offered load, such as 0.73 [default: as recorded]
    #[arg(long, value_parser = permille)]
    load: Option<u64>,
    /// Time limits of the jobs
    #[arg(long, value_enum, default_value_t = Asked::Recorded)]
    limits: Asked,
    /// Seed of what is drawn (--limits random)
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Faults: a script of lines such as `12:00:00 node n3 lost`
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Writes every decision there
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Writes the table there
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draws allocation, fragmentation, waiting jobs and waits there
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Prints one object for programs instead of the table
    #[arg(long)]
    json: bool,
}

/// See [`Limits`].
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Asked {
    /// As the trace says; where it does not, rounded
    Recorded,
    /// The run time, rounded up to 5m, 15m, 1h, 4h, 12h, 1d, 2d, 7d, 14d, 30d or 100d
    Rounded,
    /// The run time itself
    Exact,
    /// 100 days for everybody
    Longest,
    /// The run time times 1 to 100, drawn, then rounded
    Random,
}

fn mib(text: &str) -> Result<u64, String> {
    parse_mib(text).map_err(|error| error.to_string())
}

/// Thousandths of a number with at most three places.
fn permille(text: &str) -> Result<u64, String> {
    let bad = || "write a number such as 0.73, above 0 and at most 100".to_owned();
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = part.len() <= 3 && !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let whole: u64 = if whole.is_empty() {
        Ok(0)
    } else {
        whole.parse()
    }
    .map_err(|_| bad())?;
    let part: u64 = format!("{part:0<3}").parse().map_err(|_| bad())?;
    let load = whole
        .checked_mul(1000)
        .and_then(|load| load.checked_add(part));
    load.filter(|load| digits && (1..=100_000).contains(load))
        .ok_or_else(bad)
}

/// Runs it.
pub(super) fn main(args: &Args) -> Result<u8, Failure> {
    let clock = Instant::now();
    let report = replayed(args)?;
    if let Some(path) = &args.csv {
        write(path, &report.csv())?;
    }
    if let Some(path) = &args.plot {
        write(path, &report.svg())?;
    }
    let secs = clock.elapsed().as_secs_f64();
    if args.json {
        print_json(&object(&report, secs));
    } else {
        output::print(&format!("{}{secs:.1} s taken\n", report.table()));
    }
    Ok(0)
}

fn replayed(args: &Args) -> Result<Report, Failure> {
    let name = |path: &PathBuf| path.display().to_string();
    let text = read(&args.trace)?;
    let trace = Trace::read(&name(&args.trace), &text).map_err(failed)?;
    drop(text);
    let faults = match &args.faults {
        Some(path) => replay::read_faults(&name(path), &read(path)?).map_err(failed)?,
        None => Vec::new(),
    };
    let setup = Setup {
        cpus_per_node: args.cpus_per_node,
        memory_per_node: args.mem_per_node.unwrap_or(0),
        load_permille: args.load,
        limits: match args.limits {
            Asked::Recorded => Limits::Recorded,
            Asked::Rounded => Limits::Rounded,
            Asked::Exact => Limits::Exact,
            Asked::Longest => Limits::Longest,
            Asked::Random => Limits::Random,
        },
        seed: args.seed,
        ..Setup::new(args.nodes, args.gpus_per_node)
    };
    let mut log = match &args.log {
        Some(path) => {
            let file = std::fs::File::create(path);
            let file =
                file.map_err(|why| failed(format!("cannot write {}: {why}", path.display())))?;
            Some(std::io::BufWriter::new(file))
        }
        None => None,
    };
    let out = log.as_mut().map(|log| log as &mut dyn std::io::Write);
    replay::replay(trace, &setup, faults, out).map_err(failed)
}

/// For programs. Waits are in hours, of jobs that started; a group without jobs has waits of 0.
fn object(report: &Report, secs: f64) -> Value {
    let by = |number: &dyn Fn(&Waits) -> Value| {
        let sizes = report.by_size.iter();
        let sizes: Map<String, Value> = sizes
            .map(|(size, waits)| (size.to_string(), number(waits)))
            .collect();
        json!({
            "all": number(&report.all),
            "gpus_16_up": number(&report.gpus_16_up),
            "by_size": sizes,
        })
    };
    json!({
        "nodes": report.nodes,
        "gpus": report.gpus,
        "offered_load": fraction(report.load_permille, 1000),
        "jobs": by(&|waits| json!(waits.jobs)),
        "mean_wait_hours": by(&|waits| fraction(waits.mean, 3600)),
        "median_wait_hours": by(&|waits| fraction(waits.p50, 3600)),
        "p99_wait_hours": by(&|waits| fraction(waits.p99, 3600)),
        "max_wait_hours": by(&|waits| fraction(waits.max, 3600)),
        "never_started": report.never_started,
        "left_out": report.left_out,
        "allocated_percent": { "mean": fraction(report.allocated, 1000) },
        "fragmented_percent": { "mean": fraction(report.broken, 1000) },
        "makespan_hours": fraction(report.makespan, 3600),
        "starts": report.placed,
        "passes": report.passes,
        "decision_hash": format!("{:016x}", report.hash),
        "seconds": (secs * 1000.0).round() / 1000.0,
    })
}

/// A number with four places.
fn fraction(amount: u64, unit: u64) -> Value {
    let text = replay::decimal(amount, unit, 4);
    text.parse::<f64>().map_or(Value::Null, Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_has_the_names_that_programs_look_for() {
        let text = "timestamp,duration,num_gpus,gpu_time,cluster\n0,3600,16,0,a\n0,7200,16,0,b\n10,60,1,0,a\n\n";
        let trace = Trace::read("t", text).unwrap();
        let report = replay::replay(trace, &Setup::new(2, 8), Vec::new(), None).unwrap();
        let object = object(&report, 1.5);
        let waits = &object["mean_wait_hours"];
        assert_eq!(waits["gpus_16_up"], json!(0.5083));
        assert_eq!(waits["by_size"]["16"], json!(0.5083));
        assert!(waits["all"].is_f64() && waits["by_size"]["1"].is_f64());
        assert_eq!(object["jobs"]["all"], json!(3));
        assert_eq!(object["decision_hash"].as_str().unwrap().len(), 16);
        assert_eq!(object["seconds"], json!(1.5));
    }

    #[test]
    fn loads() {
        for (text, load) in [
            ("0.73", 730),
            (".95", 950),
            ("1", 1000),
            ("2.5", 2500),
            ("0.001", 1),
        ] {
            assert_eq!(permille(text), Ok(load), "{text}");
        }
        for text in [
            "", ".", "0", "0.0", "-1", "x", "0.7345", "1.", "101", "1e3", "0.-1",
        ] {
            assert!(permille(text).is_err(), "{text}");
        }
    }
}
