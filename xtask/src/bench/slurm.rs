//! A real Slurm in the same run, by scripts that set one up in a folder of its own.

use super::Report;
use crate::sh;
use anyhow::{Context, Result, bail};
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
    up(&script, report)?;
    let mut result = Ok(());
    for part in ["real", "cloud"] {
        result = result.and(run(
            &script,
            &["run", "/opt/bench/measure.sh", part],
            report,
        ));
    }
    // Down also when a part failed: mounts must not stay.
    down(&script, report).and(result)
}

/// Makes a chroot with a Slurm in it, and mounts what it needs.
pub(super) fn up(script: &Path, report: &mut Report) -> Result<()> {
    let base = std::env::var_os("SLURM_CHROOTS").unwrap_or_else(|| "/var/tmp/slurm-chroots".into());
    let daemon = Path::new(&base).join(SUITE).join("usr/sbin/slurmctld");
    // The script looks whether it is there from outside, where Debian's link to an absolute path leads nowhere.
    let behind = daemon.with_file_name("slurmctld-wlm");
    if daemon.is_symlink() && !daemon.exists() && behind.exists() {
        std::fs::remove_file(&daemon)
            .and_then(|()| std::os::unix::fs::symlink("slurmctld-wlm", &daemon))
            .with_context(|| {
                format!(
                    "making {} a link that can be followed from outside",
                    daemon.display()
                )
            })?;
    }
    run(script, &["up"], report)
}

/// Unmounts what [`up`] mounted.
pub(super) fn down(script: &Path, report: &mut Report) -> Result<()> {
    run(script, &["down"], report)
}

/// Runs a verb of the script and keeps its figures.
fn run(script: &Path, args: &[&str], report: &mut Report) -> Result<()> {
    for line in figures(script, args)? {
        report.text += &format!("  {line}\n");
    }
    Ok(())
}

/// Runs a verb of the script. Its figures are lines with a tab; the rest is how they came about.
pub(super) fn figures(script: &Path, args: &[&str]) -> Result<Vec<String>> {
    let mut command = Command::new(script);
    command.arg(SUITE).args(args);
    let mut lines = Vec::new();
    let ok = sh::listen(&mut command, |line| {
        lines.push(line.to_owned());
        true
    })?;
    if !ok {
        bail!("{} {} failed", script.display(), args.join(" "));
    }
    lines.retain(|line| line.contains('\t'));
    Ok(lines)
}
