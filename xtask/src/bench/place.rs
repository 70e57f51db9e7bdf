//! Placement against FGD's published results, on every list that has some: the table of `docs/scheduling.md`.

use super::Report;
use crate::sh;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// A list may miss the published mean by this much, in percent of all GPUs; on average none may be missed.
const SLACK: f64 = 0.1;

pub(super) fn measure(bins: &Path, report: &mut Report) -> Result<()> {
    let traces = sh::root().join("../shared/traces");
    if !traces.is_dir() {
        report.line(&format!("place: not measured: no {}", traces.display()));
        return Ok(());
    }
    report.line("place: GPUs allocated at 130 % of arrivals, percent, mean of seeds 42 to 51");
    report.line("| list | FGD, published | spur | sd | difference | decisions/s | decision hash |");
    report.line("|---|---:|---:|---:|---:|---:|---|");
    let (mut sum, mut worst) = (0.0, f64::MAX);
    let published = published(&traces.join("fgd-published/analysis_allo_discrete.csv"))?;
    for (list, published) in &published {
        let answer = simulate(bins, &traces, list)?;
        let number = |at: &str| {
            answer
                .pointer(at)
                .and_then(serde_json::Value::as_f64)
                .unwrap_or(f64::NAN)
        };
        let mean = number("/allocated_percent/mean");
        let above = mean - published;
        sum += above;
        worst = above.min(worst);
        report.line(&format!(
            "| {} | {published:.2} | {mean:.2} | {:.2} | {above:+.2} | {:.0} | {} |",
            list.trim_start_matches("openb_pod_list_"),
            number("/allocated_percent/sd"),
            number("/decisions_per_second"),
            answer["decision_hash"].as_str().unwrap_or_default()
        ));
    }
    let mean = sum / published.len().max(1) as f64;
    report.line(&format!("  on average {mean:+.2} of the published figures"));
    report.promise(
        "below the published mean, on the worst list",
        -worst,
        SLACK,
        "percent",
    );
    report.promise(
        "below the published mean, on average",
        -mean,
        0.0,
        "percent",
    );
    Ok(())
}

/// Mean allocation at 130 % of arrivals by list.
fn published(file: &Path) -> Result<BTreeMap<String, f64>> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (line, text) in (1..).zip(text.lines()).skip(1) {
        let cells: Vec<&str> = text.split(',').collect();
        let [list, policy, .., last] = cells.as_slice() else {
            bail!("{}:{line}: too short", file.display());
        };
        if *policy == "06-FGD" {
            let last = last.parse();
            let last =
                last.with_context(|| format!("{}:{line}: the last column", file.display()))?;
            values.entry((*list).to_owned()).or_default().push(last);
        }
    }
    let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    Ok(values
        .iter()
        .map(|(list, values)| (list.clone(), mean(values)))
        .collect())
}

fn simulate(bins: &Path, traces: &Path, list: &str) -> Result<serde_json::Value> {
    let openb = traces.join("openb");
    let mut command = Command::new(bins.join("spur"));
    command.args([
        "sim",
        "place",
        "--json",
        "--arrivals",
        "130",
        "--seeds",
        "42-51",
        "--nodes",
    ]);
    command.arg(openb.join("openb_node_list_gpu_node.csv"));
    command
        .arg("--tasks")
        .arg(openb.join(format!("{list}.csv")));
    let output = command
        .output()
        .with_context(|| format!("running {command:?}"))?;
    if !output.status.success() {
        bail!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    serde_json::from_slice(&output.stdout).with_context(|| format!("what {command:?} printed"))
}
