//! Entry point.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args_os().collect();
    // First, and without any set-up: a supervisor's start is on the path of every launch, and it must stay single-threaded.
    match args.as_slice() {
        [_, verb, dir] if verb == "supervise" => spur_agent::supervise::main(Path::new(dir)),
        _ => ExitCode::from(2),
    }
}
