//! `sacct -B` and `--env-vars`: what a batch job was submitted with.

use super::super::failure::Failure;
use super::super::flags::getopt::Options;
use super::super::{link, output};
use super::{Query, failed};
use spur_core::api::{Reply, Request};
use std::collections::BTreeSet;

/// Width of the line below a title.
const RULE: usize = 80;

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The script.
    Script,
    /// The environment.
    Environment,
}

/// What is asked for, if it is one of these.
pub(super) fn wanted(options: &Options) -> Option<Wanted> {
    let on = |long: &str| options.given().iter().any(|given| given.flag.named(long));
    match (on("batch-script"), on("env-vars")) {
        (true, _) => Some(Wanted::Script),
        (false, true) => Some(Wanted::Environment),
        (false, false) => None,
    }
}

/// Prints it for every job that is named. The controller keeps a script as long as its job; the environment is not given out.
pub(super) fn print(wanted: Wanted, query: &Query) -> Result<u8, Failure> {
    let jobs: BTreeSet<_> = query.named.iter().map(|meant| meant.job).collect();
    if jobs.is_empty() {
        return Err(failed("This option requires you to select jobs with -j"));
    }
    for job in jobs {
        let title = match wanted {
            Wanted::Script => format!("Batch Script for {job}"),
            Wanted::Environment => {
                format!("Environment used for {job} (must be batch to display)")
            }
        };
        output::print(&format!("{title}\n{}\n", "-".repeat(RULE)));
        let script = match wanted {
            Wanted::Script => link::question(&Request::Script { job }).ok(),
            Wanted::Environment => None,
        };
        match script {
            Some(Reply::Script(bytes)) => {
                output::write(&bytes);
                output::print("\n");
            }
            _ => output::print("NONE\n"),
        }
    }
    Ok(0)
}
