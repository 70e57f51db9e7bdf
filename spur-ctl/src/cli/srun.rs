//! `srun`: asks for a job or a step, connects to its nodes, and is its terminal until it ends.

pub mod bcast;
pub mod files;
pub mod grant;
pub mod hooks;
pub mod interrupt;
pub mod label;
pub mod mpi;
pub mod printer;
pub mod programs;
pub mod session;
pub mod signals;
pub mod stdin;
pub mod tasks;
pub mod terminal;
pub mod wire;
pub mod words;

use super::failure::Failure;
use super::flags::Command;
use super::flags::getopt::Options;
use super::resolve::het;
use super::{link, output, process, submit};
use spur_core::api::{Reply, Request};
use std::time::Duration;

/// How long a question on the side may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    if options.value("mpi") == Some("list") {
        output::print(&mpi::list());
        return Ok(0);
    }
    let mut parts = het::split(options.clone(), process::var)?;
    het::settle(&mut parts);
    let programs = parts.iter_mut().map(programs::read);
    let programs = programs.collect::<Result<Vec<_>, _>>()?;
    if parts.iter().any(|part| part.operands.is_empty()) {
        return Err(Failure::fatal(
            Command::Srun,
            "No command given to execute.",
        ));
    }
    for (at, part) in parts.iter_mut().enumerate() {
        if at > 0 {
            super::announce(part)?;
        }
        submit::tell_options(part);
        submit::read_node_files(part)?;
        if part.value("jobid").is_none() && !part.on("quiet") {
            submit::tell_unknown(Command::Srun, part.value("account"), part.value("qos"));
        }
    }
    let here = process::surroundings();
    session::check(&parts, &here)?;
    let bcast = bcast::find(&parts, &here)?;
    link::run(async {
        let granted = grant::obtain(&parts, &here).await?;
        if let Some(program) = &bcast {
            let copying = bcast::copy(&mut parts, program, &here, &granted);
            let copied = signals::unless_stopped(copying).await;
            if let Err(failure) = copied.unwrap_or_else(|| Err(Failure::silent(1))) {
                session::abandon(&granted).await;
                return Err(failure);
            }
        }
        session::run((&parts, programs), &here, granted).await
    })
}

/// The program of a part of the command line.
fn program(part: &Options) -> String {
    let first = part.operands.first();
    first.map(|word| process::text(word)).unwrap_or_default()
}

/// A line on stderr, as srun words it.
fn say(options: &Options, text: impl std::fmt::Display) {
    if !options.on("quiet") {
        words::say(format!("srun: {text}"));
    }
}

/// An error line on stderr.
fn err(text: impl std::fmt::Display) {
    words::say(format!("srun: error: {text}"));
}

/// A line for `-v`.
fn verbose(options: &Options, text: impl std::fmt::Display) {
    if options.on("verbose") {
        words::say(format!("srun: {text}"));
    }
}

/// What `-v` says of how the network is described. A controller that is away is not waited for.
async fn tell_topology(options: &Options) {
    if !options.on("verbose") {
        return;
    }
    let asked = tokio::time::timeout(ANSWER_WITHIN, link::ask(&Request::Topology)).await;
    if let Ok(Ok(Reply::Topology(topology))) = asked {
        let (plugin, name) = topology.plugin.names();
        verbose(options, format_args!("{plugin}: init: {name} loaded"));
    }
}
