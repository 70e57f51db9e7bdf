//! Runs the guest's tests and those of the BPF programs (those whose names contain an argument), one line each, and exits with 1 if
//! one failed. `--own` leaves the BPF programs' out; `--bench` measures what the fence costs instead, `--meter-check` holds the meter
//! against the truth (in the guest, or here).

use std::process::ExitCode;
use vm_tests::meter::cpu::LOADS;
use vm_tests::{guest, host};

/// The oldest kernel on which the guard must be had.
const GUARDED: (u32, u32) = (6, 1);

fn main() -> ExitCode {
    let (flags, words): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|word| word.starts_with("--"));
    let flag = |name: &str| flags.iter().any(|flag| flag == name);
    if flag("--bench") {
        guest::bench::run();
        return ExitCode::SUCCESS;
    }
    if flag("--meter-check") {
        return if guest::meter::check(&LOADS) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    // First, for the last of the guest's own tests cannot be undone.
    let programs = flag("--own") || guest::kernel::run(&words, host::kernel() >= GUARDED);
    if guest::run(&words) && programs {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
