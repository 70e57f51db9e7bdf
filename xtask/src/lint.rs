//! Formatting, clippy, dependencies, and the simulator: checks that never write.

use crate::{setup, sh, tidy};
use anyhow::Result;

/// Everything that can be said without running a test.
pub(crate) fn run() -> Result<()> {
    setup::for_build()?;
    sh::run(&mut sh::cargo(&["fmt", "--all", "--", "--check"]))?;
    sh::run(&mut sh::cargo(&[
        "clippy",
        "--locked",
        "--workspace",
        "--all-targets",
        "--quiet",
        "--",
        "-D",
        "warnings",
    ]))?;
    tidy::run()?;
    if sh::has("cargo-deny") {
        return sh::run(&mut sh::cargo(&[
            "deny",
            "--offline",
            "check",
            "bans",
            "licenses",
            "sources",
        ]));
    }
    println!("lint: cargo-deny is not installed; licences and sources are left to CI");
    Ok(())
}

/// Runs the simulator over seeds, in the release profile: it is all computing.
pub(crate) fn sim(seeds: &str) -> Result<()> {
    let args = [
        "run",
        "--release",
        "--quiet",
        "-p",
        "spur-sim",
        "--bin",
        "spur-sim",
        "--",
    ];
    let mut command = sh::cargo(&args);
    command.args(["--seeds", seeds]);
    sh::run(&mut command)
}
