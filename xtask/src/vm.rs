//! Builds what the virtual machine runs, then hands over to `vm-tests`.

use crate::{setup, sh};
use anyhow::{Result, bail};

/// Kernels that the fence claims to work on, oldest first.
const KERNELS: [&str; 4] = ["5.10", "6.1", "6.12", "7"];

/// Which kernel, and what to run on it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Version as Debian's releases have it: 5.10, 6.1, 6.12 or 7.
    #[arg(long, default_value = "6.1")]
    kernel: String,
    /// Seconds after which the machine is stopped.
    #[arg(long, default_value_t = 900)]
    limit: u64,
    /// Run this as root in the machine, instead of the tests.
    #[arg(last = true)]
    command: Vec<String>,
}

/// Boots one kernel.
pub(crate) fn run(args: &Args) -> Result<()> {
    setup::for_build()?;
    build()?;
    let lines = boot(&args.kernel, args.limit, &args.command)?;
    if lines.ok {
        return Ok(());
    }
    bail!("the machine with kernel {} did not end well", args.kernel)
}

/// The guest tests on every kernel; goes on after a failure and names the failed ones.
pub(crate) fn all() -> Result<()> {
    setup::for_build()?;
    build()?;
    let mut bad = Vec::new();
    for kernel in KERNELS {
        if !boot(kernel, 900, &[]).is_ok_and(|outcome| outcome.ok) {
            bad.push(kernel);
        }
    }
    if bad.is_empty() {
        return Ok(());
    }
    bail!("failed on kernel {}", bad.join(", "))
}

/// What a boot came to.
pub(crate) struct Outcome {
    /// The verdict was good.
    pub(crate) ok: bool,
    /// What the machine said, line by line.
    pub(crate) lines: Vec<String>,
}

/// Builds the binaries that go into the guest.
pub(crate) fn build() -> Result<()> {
    let packages = ["-p", "spur-ctl", "-p", "spur-agent", "-p", "vm-tests"];
    sh::run(sh::cargo(&["build", "--locked", "--bins"]).args(packages))
}

/// Boots a kernel with the binaries as they are built.
pub(crate) fn boot(kernel: &str, limit: u64, command: &[String]) -> Result<Outcome> {
    let bins = sh::bin_dir()?;
    let mut vm = std::process::Command::new(bins.join("spur-vm"));
    vm.arg("--kernel")
        .arg(kernel)
        .arg("--limit")
        .arg(limit.to_string())
        .arg("--bins")
        .arg(&bins);
    if !command.is_empty() {
        vm.arg("--").args(command);
    }
    let mut lines = Vec::new();
    let ok = sh::listen(&mut vm, |line| {
        lines.push(line.to_owned());
        true
    })?;
    Ok(Outcome { ok, lines })
}
