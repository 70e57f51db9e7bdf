//! A thousand meters that stream into one controller, once a second each: what that costs it, and how late it is.

use super::Report;
use super::scale::{controller, fill, resident_kib};
use crate::dev::DevCluster;
use crate::sh;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long it is measured.
const SPAN: Duration = Duration::from_secs(60);
/// How long until the first measurement: greetings and keyframes are over.
const SETTLE: Duration = Duration::from_secs(70);

pub(super) fn measure(bins: &Path, nodes: u32, report: &mut Report) -> Result<()> {
    report.line(&format!(
        "usage: {nodes} hollow nodes of 8 GPUs, one job on each, one batch a second"
    ));
    let count = nodes.to_string();
    let args = [
        "--hollow", "--nodes", &count, "--gpus", "8", "--cpus", "64", "--memory", "1T",
    ];
    let cluster = DevCluster::up(bins, &args)?;
    let pid = controller(&cluster)?;
    let bare = resident_kib(pid)?;
    fill(&cluster, nodes)?;
    std::thread::sleep(SETTLE);
    let (before, cpu_before, since) = (stats(&cluster)?, cpu_secs(pid)?, Instant::now());
    std::thread::sleep(SPAN);
    let (after, cpu_after, secs) = (
        stats(&cluster)?,
        cpu_secs(pid)?,
        since.elapsed().as_secs_f64(),
    );
    let grown = |name: &str| -> Result<f64> { Ok(value(&after, name)? - value(&before, name)?) };
    let batches = grown("usage_batches")?;
    ensure!(batches > 0.0, "no batch came: hollow nodes do not stream");
    report.line(&format!(
        "  {} meters, {:.0} batches/s, {:.1} KiB/s, {:.0} bytes for a batch",
        value(&after, "meters")?,
        batches / secs,
        grown("usage_bytes")? / secs / 1024.0,
        grown("usage_bytes")? / batches
    ));
    report.line(&format!(
        "  controller: {:.1} % of a core, {} MiB (before any job {} MiB)",
        (cpu_after - cpu_before) / secs * 100.0,
        resident_kib(pid)? / 1024,
        bare / 1024
    ));
    report.line(&format!(
        "  greatest lag of the last minute: {} ms; refused: {}; waiting for the record: {}",
        value(&after, "usage_lag_ms")?,
        grown("usage_refused")?,
        value(&after, "accounting_backlog")?
    ));
    cluster.down()
}

fn stats(cluster: &DevCluster) -> Result<String> {
    sh::output(&mut cluster.command(&["spur", "stats"]))
}

fn value(stats: &str, name: &str) -> Result<f64> {
    let found = stats
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let text = found.with_context(|| format!("spur stats does not say {name}"))?;
    Ok(text.parse()?)
}

/// CPU time of a process, all of its threads (proc(5): fields 14 and 15, in hundredths of a second).
fn cpu_secs(pid: u32) -> Result<f64> {
    let stat =
        std::fs::read_to_string(format!("/proc/{pid}/stat")).context("the controller is gone")?;
    let (_, rest) = stat.rsplit_once(") ").context("no name in stat")?;
    let ticks = rest.split(' ').skip(11).take(2).map(str::parse::<u32>);
    let ticks: Vec<u32> = ticks.collect::<Result<_, _>>()?;
    Ok(f64::from(ticks.iter().sum::<u32>()) / 100.0)
}
