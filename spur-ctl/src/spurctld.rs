//! The controller. A program of its own, since every command is a process that ends after one question: what it does not carry, it
//! need not load (`docs/decisions/programs.md`).

use std::process::ExitCode;

fn main() -> ExitCode {
    spur_ctl::daemon::main(std::env::args_os().skip(1))
}
