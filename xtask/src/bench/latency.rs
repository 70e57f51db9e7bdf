//! What a person waits for, on an idle cluster of one node.

use super::Report;
use super::sample::{time, time_in_turns};
use crate::dev::DevCluster;
use anyhow::Result;
use std::path::Path;

/// Timed runs of each.
const ROUNDS: u32 = 100;

/// `srun -n1 true`, from its start to its end.
const SRUN_MS_MAX: f64 = 20.0;

/// `sbatch`, in processes that do nothing.
const SBATCH_PROCESSES_MAX: f64 = 3.0;

pub(super) fn measure(bins: &Path, report: &mut Report) -> Result<()> {
    report.line("latency: one node of 64 CPUs and 8 stand-in GPUs, idle");
    let args = [
        "--nodes", "1", "--gpus", "8", "--cpus", "64", "--memory", "256G",
    ];
    let cluster = DevCluster::up(bins, &args)?;
    let mut timed = |what: &str, args: &[&str]| -> Result<f64> {
        let sample = time(&mut cluster.direct(args)?, ROUNDS)?;
        report.line(&format!("  {what}: {}", sample.text()));
        Ok(sample.median())
    };
    let version = timed(
        "srun --version (starts, reads nothing)",
        &["srun", "--version"],
    )?;
    let ping = timed(
        "scontrol ping (one question to the controller)",
        &["scontrol", "ping"],
    )?;
    let srun = timed("srun -n1 true", &["srun", "-n1", "true"])?;
    timed(
        "srun -n1 --gres=gpu:2 true",
        &["srun", "-n1", "--gres=gpu:2", "true"],
    )?;
    timed("squeue, nothing queued", &["squeue"])?;
    timed("sinfo", &["sinfo"])?;
    let submit = ["sbatch", "--hold", "-o", "/dev/null", "--wrap", "true"];
    // Started like the other: in the user's name, with the same environment.
    let mut nothing = cluster.direct(&["/bin/true"])?;
    let mut sbatch = cluster.direct(&submit)?;
    let (nothing, sbatch) = time_in_turns((&mut nothing, &mut sbatch), ROUNDS)?;
    report.line(&format!(
        "  in turns: a process that does nothing: {}",
        nothing.text()
    ));
    report.line(&format!(
        "  in turns: sbatch, acknowledged and durable: {}",
        sbatch.text()
    ));
    let (start, question) = (version, (ping - version).max(0.0));
    report.line(&format!(
        "  srun splits: {start:.2} ms its process, {question:.2} ms one question, {:.2} ms plan, log, launch and exit",
        (srun - start - question).max(0.0)
    ));
    report.promise("srun -n1 true", srun, SRUN_MS_MAX, "ms");
    report.promise(
        "sbatch",
        sbatch.median() / nothing.median(),
        SBATCH_PROCESSES_MAX,
        "processes",
    );
    cluster.down()
}
