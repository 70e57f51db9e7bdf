//! `cargo xtask test`: every test that this machine can run, then what it could not and why, then one line of numbers.

mod listen;
mod tally;

use crate::{setup, sh, tidy, vm};
use anyhow::{Result, bail};
use listen::Listener;
use std::process::Command;
pub(crate) use tally::Tally;

/// The kernel that every change is tested on.
const KERNEL: &str = "6.1";

/// Seconds for one boot with all guest tests, on slow machines too.
const VM_LIMIT: u64 = 1000;

/// Runs everything; an error if anything failed.
pub(crate) fn run(no_vm: bool) -> Result<()> {
    setup::for_build()?;
    let mut tally = Tally::default();

    // Checked first and for itself: it needs no other build, and a breach should be the first thing seen.
    tally.step("tidy", tidy::run());
    let plain = ["--workspace", "--exclude", "vm-tests"];
    cargo_tests(&plain, &[], &mut tally)?;
    cargo_tests(&["-p", "vm-tests", "--lib", "--bins"], &[], &mut tally)?;
    cluster(&mut tally)?;
    machine(no_vm, &mut tally)?;

    println!("\n{tally}");
    if tally.failed > 0 {
        bail!("{} failed", tally.failed);
    }
    Ok(())
}

/// Tests of crates: with nextest where it is installed, as cargo does it otherwise.
pub(crate) fn cargo_tests(what: &[&str], tail: &[&str], tally: &mut Tally) -> Result<()> {
    let nextest = sh::has("cargo-nextest");
    let tail = if nextest {
        tail.to_vec()
    } else {
        libtest(tail)
    };
    let mut command = if nextest {
        sh::cargo(&[
            "nextest",
            "run",
            "--locked",
            "--no-fail-fast",
            "--no-tests",
            "pass",
        ])
    } else {
        sh::cargo(&["test", "--locked", "--no-fail-fast"])
    };
    command.args(what).args(tail);
    // Everything is read, for what went well may have been skipped; what is shown is what went wrong.
    command
        .env("NEXTEST_STATUS_LEVEL", "pass")
        .env("NEXTEST_FINAL_STATUS_LEVEL", "fail");
    command
        .env("NEXTEST_SUCCESS_OUTPUT", "immediate")
        .env("NEXTEST_HIDE_PROGRESS_BAR", "1");
    let mut listener = Listener::default();
    let before = tally.failed;
    let ok = sh::listen(&mut command, |line| listener.read(line, tally))?;
    tally.settle(&what.join(" "), ok, before);
    Ok(())
}

/// Arguments for cargo's own test programs: they tell what passing tests wrote.
fn libtest<'a>(tail: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["--", "--show-output"];
    args.extend(tail.iter().filter(|arg| **arg != "--"));
    args
}

/// Tests that run a whole cluster on this machine: as root, one at a time, for they share the kernel.
fn cluster(tally: &mut Tally) -> Result<()> {
    if !sh::is_root() {
        tally.skip("cluster tests: they fence and limit processes, which takes root");
        return Ok(());
    }
    if let Err(error) = vm::build() {
        tally.step("building the binaries", Err(error));
        return Ok(());
    }
    let one = if sh::has("cargo-nextest") {
        ["-j", "1"]
    } else {
        ["--", "--test-threads=1"]
    };
    cargo_tests(&["-p", "vm-tests", "--test", "cluster"], &one, tally)
}

/// Tests on a real kernel with a real render node.
fn machine(no_vm: bool, tally: &mut Tally) -> Result<()> {
    let reason = if no_vm {
        Some("--no-vm".to_owned())
    } else {
        setup::no_machine()
    };
    if let Some(reason) = reason {
        tally.skip(&format!("guest tests on kernel {KERNEL}: {reason}"));
        return Ok(());
    }
    if let Err(error) = vm::build() {
        tally.step("building the binaries", Err(error));
        return Ok(());
    }
    // A kernel that cannot be fetched is no defect of ours; one that does not boot is.
    let bins = sh::bin_dir()?;
    let mut fetch = Command::new(bins.join("spur-vm"));
    fetch.args(["--kernel", KERNEL, "--fetch-only"]);
    if let Err(error) = sh::run(&mut fetch) {
        tally.skip(&format!(
            "guest tests on kernel {KERNEL}: its package cannot be fetched: {error:#}"
        ));
        return Ok(());
    }
    let before = tally.failed;
    let extras = [vm::meter_print()?];
    let boot = || vm::boot(KERNEL, VM_LIMIT, &extras, &vm::tests(&["--own".to_owned()]));
    let mut outcome = boot()?;
    if outcome.stood_still() {
        println!("the machine stood still without a word; once more");
        tally.name_second(&format!(
            "guest tests on kernel {KERNEL}: the machine stood still"
        ));
        outcome = boot()?;
    }
    for line in &outcome.lines {
        tally.read_guest(line);
    }
    tally.settle(
        &format!("guest tests on kernel {KERNEL}"),
        outcome.ok,
        before,
    );
    Ok(())
}
