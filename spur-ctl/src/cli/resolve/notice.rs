//! Nothing is ignored in silence: what an option does not do here is said, or is an error.

use super::super::failure::Failure;
use super::super::flags::getopt::{Options, Source};
use super::super::flags::{Command, Flag, Status};

/// Looks through what was given: the notices to print, or the error that ends the command. Options from the environment
/// that have no effect are mentioned only when the user wants to hear more.
pub fn review(options: &Options) -> Result<Vec<String>, Failure> {
    let mut notices = Vec::new();
    for given in options.given() {
        match given.flag.status {
            Status::Supported | Status::Implied(_) => {}
            Status::Ineffective { why, quiet } => {
                let spoken = given.source == Source::CommandLine || given.source == Source::Script;
                let asks = given
                    .value
                    .as_deref()
                    .is_none_or(|value| !quiet.contains(&value));
                if asks && (spoken || options.on("verbose")) {
                    let (command, long) = (options.command, given.flag.long);
                    notices.push(format!("{command}: warning: --{long} has no effect: {why}"));
                }
            }
            Status::Refused(why) => return Err(refused(options.command, given.flag, why)),
        }
    }
    notices.dedup();
    Ok(notices)
}

fn refused(command: Command, flag: &Flag, why: &'static str) -> Failure {
    Failure::error(command, format!("--{}: {why}", flag.long))
}

/// A refusal of the whole job, as each command words it.
pub fn not_submitted(command: Command, why: impl std::fmt::Display) -> Failure {
    let what = if command == Command::Sbatch {
        "Batch job submission failed"
    } else if command == Command::Salloc {
        "Job submit/allocate failed"
    } else {
        "Unable to allocate resources"
    };
    Failure::error(command, format!("{what}: {why}"))
}
