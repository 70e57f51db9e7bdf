//! `spur sim`: what the planner would do, without a cluster.

mod place;
mod queue;
mod whatif;

use super::failure::Failure;
use super::output;
use clap::Parser;
use std::ffi::OsString;
use std::path::Path;

/// What the planner would do: replays and questions, on this machine alone.
#[derive(Debug, Parser)]
#[command(name = "spur sim", version)]
enum Args {
    /// Fill a cluster with tasks that never leave (the protocol of FGD), and see how much of its GPUs can be given away.
    Place(place::Args),
    /// Replay recorded jobs on a cluster of equal nodes, and see how long they wait.
    Queue(queue::Args),
    /// Ask the cluster as it stands when a job would start, and when with more nodes.
    Whatif(whatif::Words),
}

/// Runs `spur sim` with the arguments that follow.
pub fn main(args: &[OsString]) -> Result<u8, Failure> {
    let words = std::iter::once(OsString::from("spur sim")).chain(args.iter().cloned());
    let args = match Args::try_parse_from(words) {
        Ok(args) => args,
        Err(why) => return wrong(&why),
    };
    match args {
        Args::Place(args) => place::main(&args),
        Args::Queue(args) => queue::main(&args),
        Args::Whatif(words) => whatif::main(&words),
    }
}

/// What the parser says: help is no failure and goes to standard output.
fn wrong(why: &clap::Error) -> Result<u8, Failure> {
    let code = u8::try_from(why.exit_code()).unwrap_or(2);
    if code == 0 {
        output::print(&why.to_string());
        return Ok(0);
    }
    Err(Failure::plain(why.to_string().trim_end(), code))
}

/// `spur sim: error: WHY`.
fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::error("spur sim", why)
}

/// A file that was named on the command line, as text.
fn read(path: &Path) -> Result<String, Failure> {
    let unread =
        |why: &dyn std::fmt::Display| failed(format_args!("cannot read {}: {why}", path.display()));
    let bytes = std::fs::read(path).map_err(|why| unread(&why))?;
    String::from_utf8(bytes).map_err(|why| {
        let line = 1 + why.as_bytes()[..why.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        unread(&format_args!("line {line} is no UTF-8 text"))
    })
}

/// Writes a file that was named on the command line.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let unwritten = |why| failed(format_args!("cannot write {}: {why}", path.display()));
    std::fs::write(path, text).map_err(unwritten)
}

/// An object, for programs.
fn print_json(object: &impl serde::Serialize) {
    let text = serde_json::to_string_pretty(object)
        .expect("these types have names for keys and no failing parts");
    output::print(&(text + "\n"));
}
