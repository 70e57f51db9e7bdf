//! Runs the guest's tests (those whose names contain an argument), one line each, and exits with 1 if one failed.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if vm_tests::guest::run(&words) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
