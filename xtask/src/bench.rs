//! `cargo xtask bench`: the speed promises, measured in one run, as ratios where a machine's own speed would decide.

mod jobs;
mod latency;
mod place;
mod plan;
mod sample;
mod scale;
mod slurm;
mod starts;
mod surface;
mod usage;

use crate::{setup, sh, vm};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// What to measure, and what to keep.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// One part only: plan, fence, meter, place, latency, jobs, scale, starts, surface, usage, guard (this one in virtual machines).
    #[arg(long)]
    only: Option<String>,
    /// Hollow nodes of the parts scale, starts and usage.
    #[arg(long, default_value_t = 1000)]
    nodes: u32,
    /// Pending jobs of the parts scale, starts and surface.
    #[arg(long, default_value_t = 10_000)]
    jobs: u32,
    /// Measure a real Slurm in the same run, by the scripts in this folder (chroot.sh and what it needs).
    #[arg(long, value_name = "FOLDER")]
    slurm: Option<PathBuf>,
    /// Write the curves of the planner's cost to this folder, as plan.csv and plan.svg.
    #[arg(long, value_name = "FOLDER")]
    curves: Option<PathBuf>,
    /// Write the figures to this file as well.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

/// The figures so far, printed as they come.
#[derive(Default)]
struct Report {
    text: String,
}

impl Report {
    fn line(&mut self, line: &str) {
        println!("{line}");
        self.text += line;
        self.text.push('\n');
    }

    /// A promise with what was measured. A broken one is said, and does not fail the run: the machine may be busy.
    fn promise(&mut self, what: &str, value: f64, limit: f64, unit: &str) {
        let word = if value <= limit { "holds" } else { "BROKEN" };
        self.line(&format!(
            "  {what}: {value:.2} {unit}, promised at most {limit} {unit}: {word}"
        ));
    }
}

/// Measures.
pub(crate) fn run(args: &Args) -> Result<()> {
    if !sh::is_root() {
        bail!("the benchmarks fence processes, which takes root");
    }
    setup::for_build()?;
    if !matches!(args.only.as_deref(), Some("guard" | "plan")) {
        build_release()?;
    }
    let bins = sh::bin_dir()?.with_file_name("release");
    let mut report = Report::default();
    report.line(&machine());
    let wanted = |part: &str| args.only.as_deref().is_none_or(|only| only == part);
    if wanted("plan") {
        plan::measure(args.curves.as_deref(), &mut report)?;
    }
    if wanted("fence") {
        example(&mut report, "fence: added cost of an open", "fence_bench")?;
    }
    if wanted("meter") {
        let title = "meter: added cost of a switch between tasks";
        example(&mut report, title, "meter_bench")?;
    }
    if wanted("place") {
        place::measure(&bins, &mut report)?;
    }
    if wanted("latency") {
        latency::measure(&bins, &mut report)?;
    }
    if wanted("jobs") {
        jobs::measure(&bins, args.slurm.as_deref(), &mut report)?;
    }
    if wanted("scale") {
        scale::measure(&bins, args.nodes, args.jobs, &mut report)?;
    }
    if wanted("starts") {
        let size = (args.nodes, args.jobs);
        starts::measure(&bins, size, args.slurm.as_deref(), &mut report)?;
    }
    if wanted("surface") {
        surface::measure(&bins, args.jobs, args.slurm.as_deref(), &mut report)?;
    }
    if wanted("usage") {
        usage::measure(&bins, args.nodes, &mut report)?;
    }
    if wanted("guard") {
        guard(&mut report)?;
    }
    if let Some(folder) = args.slurm.as_ref().filter(|_| args.only.is_none()) {
        slurm::measure(folder, &mut report)?;
    }
    if let Some(path) = &args.save {
        std::fs::write(path, &report.text)
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

pub(crate) fn build_release() -> Result<()> {
    let packages = ["-p", "spur-ctl", "-p", "spur-agent", "--bins"];
    sh::run(sh::cargo(&["build", "--locked", "--release"]).args(packages))
}

/// What the figures depend on.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    format!(
        "machine: {cpus} CPUs, kernel {}, load {}",
        kernel.trim(),
        load.trim()
    )
}

/// A benchmark that `spur-ebpf` has as an example, which says its figures line by line.
fn example(report: &mut Report, title: &str, name: &str) -> Result<()> {
    report.line(title);
    let mut command = sh::cargo(&[
        "run",
        "--locked",
        "--release",
        "--quiet",
        "-p",
        "spur-ebpf",
        "--example",
        name,
    ]);
    let mut lines = Vec::new();
    if !sh::listen(&mut command, |line| {
        lines.push(format!("  {line}"));
        true
    })? {
        bail!("the benchmark {name} failed");
    }
    report.text += &lines.join("\n");
    report.text.push('\n');
    Ok(())
}

/// Kernels on which the guard is measured.
const GUARDED: [&str; 2] = ["6.1", "6.12"];

/// Seconds for one boot with the measurement.
const GUARD_LIMIT: u64 = 900;

/// What the guard costs, on real kernels under emulation: ratios hold, nanoseconds do not.
fn guard(report: &mut Report) -> Result<()> {
    if let Some(why) = setup::no_machine() {
        report.line(&format!("guard: not measured: {why}"));
        return Ok(());
    }
    vm::build()?;
    for kernel in GUARDED {
        report.line(&format!("guard: on kernel {kernel}, emulated"));
        let outcome = vm::boot(
            kernel,
            GUARD_LIMIT,
            &[],
            &vm::tests(&["--bench".to_owned()]),
        )?;
        for line in outcome
            .lines
            .iter()
            .filter_map(|line| line.strip_prefix("bench: "))
        {
            report.line(&format!("  {line}"));
        }
        if !outcome.ok {
            bail!("the measurement on kernel {kernel} failed");
        }
    }
    Ok(())
}
