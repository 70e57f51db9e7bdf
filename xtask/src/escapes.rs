//! `cargo xtask escapes`: every escape test that this machine can run, here and on every kernel, then the table of the known
//! escapes. Which test closes which is said in `vm-tests` (`src/escapes`); it also judges.

use crate::suite::{self, Tally};
use crate::{setup, sh, vm};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

/// Where the document with the table is, from the workspace's root.
const DOCUMENT: &str = "docs/security.md";

/// The crate whose tests run in the guest too.
const PROGRAMS: &str = "spur-ebpf";

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// One kernel only (5.10, 6.1, 6.12 or 7); rows whose tests need another are shown as not run.
    #[arg(long, default_value = "all")]
    kernel: String,
    /// Only renew the table in the documentation.
    #[arg(long)]
    write: bool,
    /// Seconds after which a machine is stopped.
    #[arg(long, default_value_t = 1800)]
    limit: u64,
}

/// Runs and judges.
pub(crate) fn run(args: &Args) -> Result<()> {
    let kernels = vm::kernels(&args.kernel)?;
    setup::for_build()?;
    if args.write {
        sh::run(&mut sh::cargo(&[
            "build",
            "--locked",
            "-p",
            "vm-tests",
            "--bin",
            "escape-table",
        ]))?;
        return sh::run(table()?.arg("write").arg(sh::root().join(DOCUMENT)));
    }
    vm::build()?;
    let plan = plan()?;
    let mut results = String::new();
    for (package, names) in plan.iter().filter(|(package, _)| *package != "guest") {
        results += &on_host(package, names)?;
    }
    // The tests of the BPF programs run in both places: this machine's kernel may have no guard.
    let guest: Vec<String> = ["guest", PROGRAMS]
        .iter()
        .filter_map(|of| plan.get(*of))
        .flatten()
        .cloned()
        .collect();
    match setup::no_machine() {
        Some(why) => println!("escapes: no virtual machines here: {why}"),
        None => {
            let programs = [vm::kernel_tests()?];
            for kernel in &kernels {
                results += &in_guest(kernel, &guest, &programs, args.limit)?;
            }
        }
    }
    println!();
    judge(&results, args.kernel == "all")
}

/// `escape-table`, which knows the rows.
fn table() -> Result<Command> {
    Ok(Command::new(sh::bin_dir()?.join("escape-table")))
}

/// Crate (or `guest`) to the tests that rows name.
fn plan() -> Result<BTreeMap<String, Vec<String>>> {
    let mut plan: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in sh::output(table()?.arg("plan"))?.lines() {
        let (package, name) = line
            .split_once(' ')
            .context("a plan has two words a line")?;
        plan.entry(package.to_owned())
            .or_default()
            .push(name.to_owned());
    }
    Ok(plan)
}

/// The tests of one crate on this machine, as lines for the judge.
fn on_host(package: &str, names: &[String]) -> Result<String> {
    let mut tally = Tally::default();
    let words: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut tail = words;
    if !sh::has("cargo-nextest") {
        tail.insert(0, "--");
    }
    suite::cargo_tests(&["-p", package, "-j", "1"], &tail, &mut tally)?;
    let mut lines = String::new();
    for name in names {
        let ended = |all: &[String]| {
            all.iter()
                .any(|known| known.split([' ', ':']).any(|part| part == name))
        };
        if ended(tally.failures()) {
            lines += &format!("host {package}::{name} FAILED\n");
        } else if ended(tally.skips()) {
            lines += &format!("host {package}::{name} skipped\n");
        } else if ended(tally.passes()) {
            lines += &format!("host {package}::{name} ok\n");
        }
    }
    Ok(lines)
}

/// The guest's tests on one kernel, as lines for the judge.
fn in_guest(kernel: &str, names: &[String], programs: &[vm::Extra], limit: u64) -> Result<String> {
    let outcome = vm::boot(kernel, limit, programs, &vm::tests(names))?;
    let said = outcome
        .lines
        .iter()
        .filter_map(|line| line.strip_prefix("guest: "));
    Ok(said.fold(String::new(), |text, line| {
        text + kernel + " " + line + "\n"
    }))
}

fn judge(results: &str, whole: bool) -> Result<()> {
    let mut command = table()?;
    command.arg("judge").stdin(Stdio::piped());
    if !whole {
        command.arg("--part");
    }
    let mut child = command.spawn().context("starting escape-table")?;
    let mut input = child
        .stdin
        .take()
        .context("a child with a standard input")?;
    input
        .write_all(results.as_bytes())
        .context("telling what ran")?;
    drop(input);
    if child.wait().context("waiting for escape-table")?.success() {
        println!("escapes: every row is as it says");
        return Ok(());
    }
    bail!("a row of the table is not as it says")
}
