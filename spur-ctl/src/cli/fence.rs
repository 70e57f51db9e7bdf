//! `spur fence`: what a job may open, what it was refused, and what that means.

mod advice;
mod explain;
mod facts;
mod log;
mod report;
mod show;

use super::failure::Failure;
use super::flags::getopt::Options;
use super::flags::{Command, help};
use super::link::{self, Trouble};
use super::render::View;
use super::{named, output, process, users};
use facts::Facts;
use serde::Serialize;
use spur_core::api::{JobFilter, Reply, Request};
use spur_core::denial::Denial;
use spur_core::id::JobId;

/// The most lines that are looked at to say what they mean: as many as a job has.
const LINES_LIMIT: u32 = 200;

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    let words: Vec<String> = options
        .operands
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let (verb, rest) = match words.split_first() {
        Some((verb, rest)) => (verb.as_str(), rest),
        None => return Err(usage()),
    };
    if verb != "log" {
        for long in ["follow", "alarms"] {
            if options.on(long) {
                return Err(failed(format!("--{long} goes with log")));
            }
        }
    }
    let json = options.on("json");
    match (verb, rest) {
        ("log", []) => log::log(options, None),
        ("log", [job]) => log::log(options, Some(job_id(job)?)),
        ("show", [_] | []) => {
            let facts = ask(own_or(rest)?)?;
            say(json, &report::report(&facts), || show::text(&facts));
            Ok(0)
        }
        ("explain", [_] | []) => {
            let facts = ask(own_or(rest)?)?;
            let advice = advice::advice(&facts);
            say(json, &explain::report(&facts, &advice), || {
                explain::text(&view(&facts.lines), &facts, &advice)
            });
            Ok(0)
        }
        ("help", []) => {
            output::print(&help::help(Command::Fence));
            Ok(0)
        }
        _ => Err(usage()),
    }
}

fn usage() -> Failure {
    Failure {
        text: help::usage(Command::Fence),
        code: 1,
    }
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::error(Command::Fence, why)
}

fn troubled(trouble: &Trouble) -> Failure {
    failed(trouble.text())
}

fn job_id(text: &str) -> Result<JobId, Failure> {
    let named = named::read(text).ok_or_else(|| failed(format!("Invalid job id: {text}")))?;
    named.job_of().map_err(|trouble| troubled(&trouble))
}

/// The job that is named, or the one that this runs in.
fn own_or(rest: &[String]) -> Result<JobId, Failure> {
    let own = || process::var("SLURM_JOB_ID");
    match rest.first().cloned().or_else(own) {
        Some(job) => job_id(&job),
        None => Err(failed("name a job, or run this within one")),
    }
}

/// Prints one object on one line, or text.
fn say(json: bool, object: &impl Serialize, text: impl FnOnce() -> String) {
    if json {
        output::print(&line(object));
    } else {
        output::print(&text());
    }
}

/// An object on a line of its own.
fn line(object: &impl Serialize) -> String {
    serde_json::to_string(object).expect("these types have names for keys and no failing parts")
        + "\n"
}

/// Everything about a job and the fence, as far as the caller may know it.
fn ask(job: JobId) -> Result<Facts, Failure> {
    let filter = JobFilter {
        ids: vec![job],
        all_states: true,
        ..JobFilter::default()
    };
    let lines = Request::Denials {
        job: Some(job),
        limit: LINES_LIMIT,
        after: 0,
        alarms: false,
        wait: false,
    };
    let answers = || {
        // First what is refused to those who may not know: nothing else is shown to them.
        let rows = link::question(&Request::DenialRows { job })?;
        let lines = link::question(&lines)?;
        let jobs = link::question(&Request::Jobs { filter })?;
        Ok((rows, lines, jobs, link::question(&Request::Nodes)?))
    };
    match answers().map_err(|trouble: Trouble| troubled(&trouble))? {
        (
            Reply::DenialRows(rows),
            Reply::Denials(lines),
            Reply::Jobs(mut jobs),
            Reply::Nodes(nodes),
        ) if !jobs.is_empty() => Ok(Facts::new(jobs.swap_remove(0), &nodes, rows, lines)),
        _ => Err(troubled(&link::unexpected())),
    }
}

fn view(lines: &[Denial]) -> View {
    View {
        clock: process::clock(),
        users: users::names(lines.iter().map(|denial| denial.uid)),
        raw_sizes: false,
        cluster: String::new(),
        expand_patterns: false,
    }
}

#[cfg(test)]
mod tests;
