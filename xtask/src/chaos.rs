//! `cargo xtask chaos`: daemons killed at random under a mixed workload, longer and with other seeds than the gate has time for.

use crate::{setup, sh};
use anyhow::{Result, bail};

/// The test that does it, which the gate runs too.
const TEST: &str = "chaos::every_job_ends_once_and_as_it_must_whatever_is_killed";

/// How much of it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What the workload and the victims are drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many times daemons are killed.
    #[arg(long, default_value_t = 200)]
    kills: u32,
}

/// Builds, runs, and ends in the test's verdict.
pub(crate) fn run(args: &Args) -> Result<()> {
    if !sh::is_root() {
        bail!("jobs are fenced while daemons die, which takes root");
    }
    setup::for_build()?;
    let packages = ["-p", "spur-ctl", "-p", "spur-agent", "-p", "vm-tests"];
    sh::run(sh::cargo(&["build", "--locked", "--bins"]).args(packages))?;
    let words = [
        "test",
        "--locked",
        "-p",
        "vm-tests",
        "--test",
        "cluster",
        "--",
        "--exact",
        TEST,
        "--nocapture",
    ];
    let mut command = sh::cargo(&words);
    command
        .env("SPUR_BINS", sh::bin_dir()?)
        .env("SPUR_CHAOS_SEED", args.seed.to_string())
        .env("SPUR_CHAOS_KILLS", args.kills.to_string());
    sh::run(&mut command)
}
