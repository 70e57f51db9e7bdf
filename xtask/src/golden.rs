//! `cargo xtask golden`: recorded commands of the real Slurm, played on a cluster here and compared. `vm-tests` plays and judges.

use crate::{setup, sh};
use anyhow::{Result, bail};
use std::process::Command;

/// What to play.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the verdict of each recording, not how it differs.
    #[arg(long)]
    list: bool,
    /// Every line that differs.
    #[arg(long)]
    full: bool,
    /// Keep what our commands printed in this folder.
    #[arg(long, value_name = "DIR")]
    save: Option<String>,
    /// Names of recordings; all without.
    files: Vec<String>,
}

/// Builds, plays, and ends in the line `N of M match`; an error if they do not all.
pub(crate) fn run(args: &Args) -> Result<()> {
    if !sh::is_root() {
        bail!("the recordings are played on a cluster that fences its jobs, which takes root");
    }
    setup::for_build()?;
    let packages = ["-p", "spur-ctl", "-p", "spur-agent", "-p", "vm-tests"];
    sh::run(sh::cargo(&["build", "--locked", "--bins"]).args(packages))?;
    let mut command = Command::new(sh::bin_dir()?.join("golden"));
    for (given, word) in [(args.list, "--list"), (args.full, "--full")] {
        if given {
            command.arg(word);
        }
    }
    if let Some(folder) = &args.save {
        command.arg("--save").arg(std::path::absolute(folder)?);
    }
    command.args(&args.files);
    let status = command.status()?;
    if !status.success() {
        // The last line has said how many.
        std::process::exit(1);
    }
    Ok(())
}
