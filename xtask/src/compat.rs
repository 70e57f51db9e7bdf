//! `cargo xtask compat`: how much of each command of Slurm's is here. The table of options itself counts (`spur compat`).

use crate::sh;
use anyhow::Result;
use std::process::Command;

/// Builds the commands and has them count.
pub(crate) fn run() -> Result<()> {
    sh::run(&mut sh::cargo(&["build", "--locked", "-p", "spur-ctl"]))?;
    sh::run(Command::new(sh::bin_dir()?.join("spur")).arg("compat"))
}
