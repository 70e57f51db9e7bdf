//! `spurd supervise DIR`: the parent of a step's tasks on this node.

use std::path::Path;
use std::process::ExitCode;

/// Runs the supervisor of the step in `dir` until the step has ended.
pub fn main(dir: &Path) -> ExitCode {
    let _ = dir;
    ExitCode::FAILURE
}
