//! A thousand nodes and ten thousand pending jobs.

use super::Report;
use super::sample::time;
use crate::dev::DevCluster;
use crate::sh;
use anyhow::{Context, Result, ensure};
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Nodes, GPUs on each, minutes: what the pending jobs ask for, in turn. The same mix is put to Slurm.
const MIX: [(u32, u32, u32); 8] = [
    (1, 1, 60),
    (1, 2, 120),
    (1, 4, 30),
    (1, 8, 600),
    (2, 8, 240),
    (4, 8, 480),
    (8, 8, 60),
    (16, 8, 1440),
];

/// Commands that submit at once.
const CLIENTS: u32 = 8;

/// How long the nodes may take to fill.
const LIMIT: Duration = Duration::from_secs(120);

pub(super) fn measure(bins: &Path, nodes: u32, jobs: u32, report: &mut Report) -> Result<()> {
    report.line(&format!("scale: {nodes} hollow nodes, {jobs} pending jobs"));
    let count = nodes.to_string();
    let args = [
        "--hollow", "--nodes", &count, "--gpus", "8", "--cpus", "64", "--memory", "1T",
    ];
    let started = Instant::now();
    let cluster = DevCluster::up(bins, &args)?;
    report.line(&format!(
        "  all idle after {:.1} s",
        started.elapsed().as_secs_f64()
    ));
    let controller = controller(&cluster)?;
    fill(&cluster, nodes)?;
    let before = resident_kib(controller)?;
    let seconds = submit(&cluster, jobs)?;
    let pending = pending(&cluster)?;
    ensure!(pending >= jobs, "{pending} jobs are pending, not {jobs}");
    report.line(&format!(
        "  submitted by {CLIENTS} clients: {:.0} jobs/s",
        f64::from(jobs) / seconds
    ));
    let after = resident_kib(controller)?;
    #[expect(
        clippy::cast_precision_loss,
        reason = "KiB of memory are far below 2^52"
    )]
    let per_job = after.saturating_sub(before) as f64 / f64::from(jobs);
    report.line(&format!(
        "  controller's memory: {} MiB with nodes full, {} MiB with the queue: {per_job:.2} KiB for a pending job",
        before / 1024,
        after / 1024
    ));
    for (what, args) in [
        ("squeue", &["squeue"][..]),
        (
            "squeue -h -t PD -o %i",
            &["squeue", "-h", "-t", "PD", "-o", "%i"],
        ),
        ("sinfo", &["sinfo"]),
        ("sinfo -N -l", &["sinfo", "-N", "-l"]),
        ("sbatch one job", &["sbatch", "--hold", "--wrap", "true"]),
    ] {
        report.line(&format!(
            "  {what}: {}",
            time(&mut cluster.direct(args)?, 10)?.text()
        ));
    }
    for line in sh::output(&mut cluster.command(&["spur", "stats"]))?.lines() {
        report.line(&format!("  {line}"));
    }
    cluster.down()
}

/// One job on each node, of twenty different lengths, so that their ends are many.
pub(super) fn fill(cluster: &DevCluster, nodes: u32) -> Result<()> {
    let lines: String = (0..nodes).fold(String::new(), |mut text, number| {
        // Writing to a string cannot fail.
        writeln!(
            text,
            "-N 1 --gpus-per-node=8 --exclusive -J block -t {}",
            (number % 20 + 1) * 60
        )
        .ok();
        text
    });
    submit_lines(cluster, &lines)?;
    let end = Instant::now() + LIMIT;
    while running(cluster)? < nodes {
        ensure!(
            Instant::now() < end,
            "only {} of {nodes} nodes are busy",
            running(cluster)?
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

fn submit(cluster: &DevCluster, jobs: u32) -> Result<f64> {
    let mut lines = String::new();
    for (nodes, gpus, minutes) in MIX.iter().cycle().take(usize::try_from(jobs)?) {
        writeln!(
            lines,
            "-N {nodes} --gpus-per-node={gpus} --ntasks-per-node={gpus} --cpus-per-task=4 -t {minutes}"
        )?;
    }
    let started = Instant::now();
    submit_lines(cluster, &lines)?;
    Ok(started.elapsed().as_secs_f64())
}

/// One `sbatch` for each line of options.
fn submit_lines(cluster: &DevCluster, lines: &str) -> Result<()> {
    let file = cluster.home().join("options");
    std::fs::write(&file, lines).context("writing the jobs' options")?;
    std::fs::write(cluster.home().join("job.sh"), "#!/bin/sh\ntrue\n")
        .context("writing a script")?;
    let script = format!("xargs -a options -P{CLIENTS} -L1 sbatch -o /dev/null job.sh > /dev/null");
    // The script comes after the options: xargs appends them, so a shell turns the order round.
    let script = script.replace(
        "sbatch -o /dev/null job.sh",
        r#"sh -c 'exec sbatch -o /dev/null "$@" job.sh' sbatch"#,
    );
    sh::output(&mut cluster.command(&["sh", "-c", &script]))?;
    Ok(())
}

fn running(cluster: &DevCluster) -> Result<u32> {
    count(cluster, "R")
}

fn pending(cluster: &DevCluster) -> Result<u32> {
    count(cluster, "PD")
}

fn count(cluster: &DevCluster, state: &str) -> Result<u32> {
    let text = sh::output(&mut cluster.command(&["squeue", "-h", "-t", state, "-o", "%i"]))?;
    Ok(u32::try_from(text.lines().count())?)
}

pub(super) fn controller(cluster: &DevCluster) -> Result<u32> {
    let found = cluster.processes("spurctld");
    found
        .first()
        .map(|(pid, _)| *pid)
        .context("no spurctld runs for the cluster")
}

pub(super) fn resident_kib(pid: u32) -> Result<u64> {
    let status =
        std::fs::read_to_string(format!("/proc/{pid}/status")).context("the controller is gone")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.context("the kernel does not say how much memory the controller has")
}
