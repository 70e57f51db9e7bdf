//! What the BPF programs may cost the kernel's verifier: measured on every kernel, written to a file that a test reads.

use crate::{setup, vm};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

const BUDGET: &str = "spur-ebpf/verifier-budget.toml";
/// Measures, and fails only if it cannot.
const TEST: &str = "the_verifier_has_no_more";
/// Tells the test that the old budget does not matter.
const MEASURE: &str = "SPUR_TEST_BUDGET=measure";
/// Seconds for one machine.
const LIMIT: u64 = 900;
/// Compilers differ a little in what they make of the same source.
const ROOM_PERCENT: u64 = 20;

/// Measures on every kernel and on this machine, and writes the file.
pub(crate) fn run() -> Result<()> {
    setup::for_build()?;
    vm::build()?;
    let programs = [vm::kernel_tests()?];
    let command = ["env", MEASURE, "kernel-tests", "--nocapture", TEST].map(str::to_owned);
    let mut lines = Vec::new();
    for kernel in vm::KERNELS {
        let outcome = vm::boot(kernel, LIMIT, &programs, &command)?;
        ensure!(outcome.ok, "measuring failed on kernel {kernel}");
        lines.extend(outcome.lines);
    }
    lines.extend(here(&programs[0].file)?);
    let text = render(&lines);
    ensure!(text.contains("spur_fence"), "nothing was measured");
    std::fs::write(BUDGET, text).with_context(|| format!("writing {BUDGET}"))
}

fn here(programs: &Path) -> Result<Vec<String>> {
    let mut command = Command::new("env");
    command
        .arg(MEASURE)
        .arg(programs)
        .args(["--nocapture", TEST]);
    let output = command.output().context("starting the kernel tests")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().map(str::to_owned).collect())
}

/// The file's text for lines such as `budget: 6.1 file_open 1234`, which may have other words before them.
fn render(lines: &[String]) -> String {
    let mut kernels: BTreeMap<Vec<u32>, BTreeMap<&str, u64>> = BTreeMap::new();
    for line in lines {
        let Some((_, row)) = line.split_once("budget: ") else {
            continue;
        };
        let words: Vec<&str> = row.split(' ').collect();
        let [kernel, program, count] = words[..] else {
            continue;
        };
        let version: Option<Vec<u32>> = kernel.split('.').map(|part| part.parse().ok()).collect();
        if let (Some(version), Ok(count)) = (version, count.parse::<u64>()) {
            let allowed = count + count * ROOM_PERCENT / 100;
            kernels.entry(version).or_default().insert(program, allowed);
        }
    }
    let mut text = format!(
        "# Instructions that each program may cost the kernel's verifier, by kernel: as measured, and {ROOM_PERCENT} % more for other\n\
         # compilers. `cargo xtask budget` writes this file; the test is spur-ebpf/tests/kernel/budget.rs.\n"
    );
    for (version, programs) in kernels {
        let name: Vec<String> = version.iter().map(u32::to_string).collect();
        // Writing to a string cannot fail.
        let _ = write!(text, "\n[\"{}\"]\n", name.join("."));
        for (program, count) in programs {
            let _ = writeln!(text, "{program} = {count}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn kernels_are_in_order_and_other_lines_are_left_out() {
        let lines = [
            "budget: 6.12 a 100",
            "test x ... budget: 6.1 b 10",
            "budget: no section for 6.8",
            "ok",
        ];
        let text = render(&lines.map(str::to_owned));
        assert!(
            text.ends_with("\n[\"6.1\"]\nb = 12\n\n[\"6.12\"]\na = 120\n"),
            "{text}"
        );
    }
}
