//! `sattach`: joins a step that runs, hears what its tasks said last and say from then on, and leaves it as it is.

mod session;

use super::failure::Failure;
use super::flags::getopt::Options;
use super::flags::{Command, help};
use super::named;
use super::resolve::numbers;
use super::{link, output, process, submit};
use spur_core::api::{Grant, Reply, Request};
use spur_core::id::{JobId, StepKind};
use spur_core::slurm::hostlist;

/// Which tasks are heard, and which hears.
#[derive(Clone, Copy, Debug, Default)]
struct Filters {
    /// Gets standard input alone.
    input: Option<u32>,
    /// Of standard output and error: only this task's.
    output: [Option<u32>; 2],
}

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    submit::tell_options(options);
    let (job, step) = asked(options)?;
    let filters = filters(options)?;
    let unknown = |why: &str| {
        let why = format!("Could not get job step info: {why}");
        Failure::error(Command::Sattach, why)
    };
    let answer = link::question(&Request::Attach { job, step });
    let Reply::Granted(grant) = answer.map_err(|trouble| unknown(&trouble.text()))? else {
        return Err(unknown(&link::unexpected().text()));
    };
    if options.on("layout") {
        output::print(&layout(&grant));
        return Ok(0);
    }
    link::run(session::run(options, &grant, filters))
}

/// The step that is named.
fn asked(options: &Options) -> Result<(JobId, StepKind), Failure> {
    let usage = |why: &str| {
        let mut failure = Failure::error(Command::Sattach, why);
        failure.text.push_str(&help::usage(Command::Sattach));
        failure
    };
    let [step] = options.operands.as_slice() else {
        return Err(usage("too many parameters"));
    };
    let text = process::text(step);
    if !text.contains('.') || !text.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(usage("Failed to parse stepid from command line options"));
    }
    if text.ends_with(".batch") || text.ends_with(".extern") {
        let why = "Cannot be used with extern or batch steps";
        return Err(Failure::error(Command::Sattach, why));
    }
    let bad = || {
        let job = text.split('.').next().unwrap_or_default();
        Failure::fatal(Command::Sattach, format!("Bad step specified: {job}"))
    };
    let named = named::read(&text).ok_or_else(bad)?;
    let step = named.step.ok_or_else(bad)?;
    let job = named.job_of().map_err(|trouble| {
        let why = format!("Could not get job step info: {}", trouble.text());
        Failure::error(Command::Sattach, why)
    })?;
    Ok((job, step))
}

fn filters(options: &Options) -> Result<Filters, Failure> {
    let task = |long| numbers::number(options, long, 0);
    let (input, output, error) = (
        task("input-filter")?,
        task("output-filter")?,
        task("error-filter")?,
    );
    let any = input.or(output).or(error);
    if any.is_some() && options.on("pty") {
        let why = "don't specify both --pty and I/O filtering";
        return Err(Failure::error(Command::Sattach, why));
    }
    Ok(Filters {
        input,
        output: [output, error.or(output)],
    })
}

/// What `--layout` prints.
fn layout(grant: &Grant) -> String {
    let names: Vec<&str> = grant.nodes.iter().map(|node| node.name.as_str()).collect();
    let tasks: usize = grant.nodes.iter().map(|node| node.task_ids.len()).sum();
    let head = format!(
        "Job step layout:\n\t{tasks} tasks, {} nodes ({})\n\n",
        names.len(),
        hostlist::compress(&names)
    );
    let line = |(at, node): (usize, &spur_core::api::GrantNode)| {
        let ids: Vec<String> = node.task_ids.iter().map(|id| format!("{id} ")).collect();
        let count = ids.len();
        format!(
            "\tNode {at} ({}), {count} task(s): {}\n",
            node.name,
            ids.concat()
        )
    };
    let lines = grant.nodes.iter().enumerate().map(line);
    head + &lines.collect::<String>()
}
