//! From options to what is asked of the controller: pure, with Slurm's messages for what cannot be.

mod combined;
mod extras;
pub mod filter;
pub mod het;
pub mod input;
pub mod job;
pub mod notice;
pub mod numbers;
mod placement;
pub mod script;
pub mod step;
pub mod submission;
pub mod texts;
pub mod values;

use super::failure::Failure;
use super::flags::getopt::Options;

/// `COMMAND: error: Invalid --OPTION specification`.
pub(crate) fn invalid(options: &Options, long: &str) -> Failure {
    Failure::usage(options.command, format!("Invalid --{long} specification"))
}

/// Host names of a list option; none if it was not given.
pub(crate) fn hosts(options: &Options, long: &str) -> Result<Vec<String>, Failure> {
    let Some(text) = options.value(long) else {
        return Ok(Vec::new());
    };
    let wrong = |_| match long {
        "nodelist" | "nodefile" => Failure::fatal(options.command, "Invalid node list specified"),
        _ if !options.command.submits() => {
            Failure::error(options.command, format!("Invalid node name {text}"))
        }
        _ => notice::not_submitted(options.command, "Invalid node name specified"),
    };
    spur_core::slurm::hostlist::parse(text).map_err(wrong)
}
