//! Runs the guest's tests (those whose names contain an argument), one line each, and exits with 1 if one failed; with `--bench`
//! it measures instead.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == "--bench") {
        vm_tests::guest::bench::run();
        return ExitCode::SUCCESS;
    }
    if vm_tests::guest::run(&words) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
