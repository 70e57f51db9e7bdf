//! `spur usage`: everything that is known of what a job used and how well that is known, and GPUs that are held and not used.

mod idle;
mod json;
mod plot;
mod report;

#[cfg(test)]
mod tests;

use super::failure::Failure;
use super::flags::getopt::Options;
use super::flags::{Command, help};
use super::link::{self, Trouble};
use super::render::View;
use super::{named, output, process};
use serde::Serialize;
use spur_core::api::{Reply, Request, UsageReport};
use spur_core::id::JobId;

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    let words: Vec<String> = options
        .operands
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let json = options.on("json");
    match (options.on("idle"), words.as_slice()) {
        (true, []) => {
            if options.on("plot") || options.on("watch") {
                return Err(failed("--idle goes with --json only"));
            }
            idle(json)
        }
        (false, [word]) if word == "help" => {
            output::print(&help::help(Command::Usage));
            Ok(0)
        }
        (false, [job]) => of_job(options, job_id(job)?),
        (false, []) => match process::var("SLURM_JOB_ID") {
            Some(job) => of_job(options, job_id(&job)?),
            None => Err(failed("name a job, or run this within one")),
        },
        (_, _) => Err(Failure {
            text: help::usage(Command::Usage),
            code: 1,
        }),
    }
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::error(Command::Usage, why)
}

fn troubled(trouble: &Trouble) -> Failure {
    failed(trouble.text())
}

fn job_id(text: &str) -> Result<JobId, Failure> {
    let named = named::read(text).ok_or_else(|| failed(format!("Invalid job id: {text}")))?;
    named.job_of().map_err(|trouble| troubled(&trouble))
}

fn view() -> View {
    View {
        clock: process::clock(),
        users: Default::default(),
        raw_sizes: false,
        cluster: String::new(),
        expand_patterns: false,
    }
}

/// An object, for people and programs.
fn print(object: &impl Serialize) {
    let text = serde_json::to_string_pretty(object)
        .expect("these types have names for keys and no failing parts");
    output::print(&(text + "\n"));
}

fn of_job(options: &Options, job: JobId) -> Result<u8, Failure> {
    let report = ask(job, options.on("watch"))?;
    let view = view();
    if let Some(path) = options.value("plot") {
        let picture = plot::svg(&view, &report);
        let picture = picture
            .ok_or_else(|| failed(format!("nothing was measured of job {job} over time")))?;
        let why = |why| failed(format!("cannot write {path}: {why}"));
        std::fs::write(path, picture).map_err(why)?;
        if !options.on("json") {
            output::print(&format!(
                "the use of job {job} over time is written to {path}\n"
            ));
            return Ok(0);
        }
    }
    if options.on("json") {
        print(&json::report(&report, view.clock.now));
    } else {
        output::print(&report::text(&view, &report));
    }
    Ok(0)
}

fn ask(job: JobId, watch: bool) -> Result<UsageReport, Failure> {
    let request = Request::Usage {
        job,
        watch,
        details: true,
    };
    match link::question(&request) {
        Ok(Reply::Usage(report)) => Ok(*report),
        Ok(_) => Err(troubled(&link::unexpected())),
        Err(trouble) => Err(troubled(&trouble)),
    }
}

fn idle(json: bool) -> Result<u8, Failure> {
    let reply = link::question(&Request::IdleGpus).map_err(|trouble| troubled(&trouble))?;
    let Reply::Jobs(jobs) = reply else {
        return Err(troubled(&link::unexpected()));
    };
    if json {
        print(&idle::report(&jobs, view().clock.now));
    } else {
        output::print(&idle::text(&view(), &jobs, process::uid() == 0));
    }
    Ok(0)
}
