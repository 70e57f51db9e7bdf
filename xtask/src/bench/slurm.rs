//! A real Slurm in the same run, by scripts that set one up in a folder of its own.

use super::Report;
use crate::sh;
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;

/// The release whose Slurm the scripts install.
const SUITE: &str = "trixie";

pub(super) fn measure(folder: &Path, report: &mut Report) -> Result<()> {
    let script = folder.join("chroot.sh");
    if !script.is_file() {
        bail!(
            "{} is not there: --slurm wants the folder that holds it",
            script.display()
        );
    }
    report.line("Slurm, in this run:");
    run(&script, &["up"], report)?;
    let mut result = Ok(());
    for part in ["real", "cloud"] {
        result = result.and(run(
            &script,
            &["run", "/opt/bench/measure.sh", part],
            report,
        ));
    }
    // Down also when a part failed: mounts must not stay.
    run(&script, &["down"], report).and(result)
}

fn run(script: &Path, args: &[&str], report: &mut Report) -> Result<()> {
    let mut command = Command::new(script);
    command.arg(SUITE).args(args);
    let mut lines = Vec::new();
    let ok = sh::listen(&mut command, |line| {
        lines.push(line.to_owned());
        true
    })?;
    // Figures are tab-separated lines; the rest is how they came about.
    for line in lines.iter().filter(|line| line.contains('\t')) {
        report.text += &format!("  {line}\n");
    }
    if !ok {
        bail!("{} {} failed", script.display(), args.join(" "));
    }
    Ok(())
}
