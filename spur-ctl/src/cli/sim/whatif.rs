//! `spur sim whatif`: when would this start, and when with ten nodes more? Asked of the cluster as it stands.

use super::{failed, print_json, wrong};
use crate::cli::failure::Failure;
use crate::cli::flags::Command;
use crate::cli::flags::getopt::{self, Source};
use crate::cli::render::View;
use crate::cli::resolve::job;
use crate::cli::{link, output, process};
use clap::Parser;
use serde_json::{Value, json};
use spur_core::api::{Reply, Request};
use spur_core::cluster::Cluster;
use spur_core::id::{JobId, Uid};
use spur_core::job::spec::JobSpec;
use spur_core::slurm::timespec::{begin, calendar};
use spur_core::time::Millis;
use spur_sim::replay::{Answer, MOST_ADDED, Question, Start, Wanted, ask};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

/// How far to look unless told.
const FAR: u64 = 400 * 86_400;

/// Everything after `whatif`: options of this command and, for a job that does not exist, options of sbatch.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(super) struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Says when jobs would start: one that waits, one that you may submit, or all that wait.
///
/// The cluster is taken as it stands and played forward on the real planner, without jobs that nobody has submitted yet: once
/// with run times as predicted, once with every job running to its limit. Nothing is changed. For operators; --state asks a
/// saved copy instead. A job that you may submit is described by options of sbatch, such as --gres=gpu:8 -N 4 -t 12:00:00.
#[derive(Debug, Parser)]
#[command(name = "spur sim whatif")]
struct Args {
    /// This job
    #[arg(long)]
    job: Option<u32>,
    /// So many nodes more, each like most of those that are there
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=i64::from(MOST_ADDED)))]
    add_nodes: u32,
    /// How far to look, such as 2026-12-24 or now+7days [default: a year]
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Prints one object for programs
    #[arg(long)]
    json: bool,
    /// Saves the cluster's state there, for --state
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Asks this saved state instead of the controller
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
}

/// The options above; every other word is an option of the request. The second of a pair tells whether a value follows.
const OWN: [(&str, bool); 7] = [
    ("--job", true),
    ("--add-nodes", true),
    ("--until", true),
    ("--json", false),
    ("--save", true),
    ("--state", true),
    ("--help", false),
];

/// Tells own options from those of the request.
fn split(args: &[OsString]) -> (Vec<OsString>, Vec<OsString>) {
    let (mut own, mut request) = (Vec::new(), Vec::new());
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        let name = text.split('=').next().unwrap_or("");
        match OWN.iter().find(|(own, _)| *own == name) {
            Some((_, takes)) => {
                own.push(word.clone());
                if *takes && !text.contains('=') {
                    own.extend(words.next().cloned());
                }
            }
            None => request.push(word.clone()),
        }
    }
    (own, request)
}

/// Runs it.
pub(super) fn main(words: &Words) -> Result<u8, Failure> {
    let (own, request) = split(&words.words);
    let words = std::iter::once(OsString::from("spur sim whatif")).chain(own);
    let args = match Args::try_parse_from(words) {
        Ok(args) => args,
        Err(error) => return wrong(&error),
    };
    let bytes = match &args.state {
        Some(path) => std::fs::read(path)
            .map_err(|why| failed(format!("cannot read {}: {why}", path.display())))?,
        None => fetch()?,
    };
    if let Some(path) = &args.save {
        std::fs::write(path, &bytes)
            .map_err(|why| failed(format!("cannot write {}: {why}", path.display())))?;
    }
    let (stored, cluster): (Millis, Cluster) = rmp_serde::from_slice(&bytes)
        .map_err(|why| failed(format!("the state cannot be read: {why}")))?;
    drop(bytes);
    let now = if args.state.is_some() {
        stored
    } else {
        stored.max(process::now())
    };
    let view = View {
        clock: process::clock(),
        users: Default::default(),
        raw_sizes: false,
        cluster: String::new(),
        expand_patterns: false,
    };
    let until = match &args.until {
        None => now.plus_secs(FAR),
        Some(text) => begin::parse_begin(text, now, view.clock.utc_offset(now)).map_err(failed)?,
    };
    let wanted = match (args.job, request.as_slice()) {
        (Some(job), []) => Wanted::Job(JobId(job)),
        (None, []) => Wanted::All,
        (None, request) => Wanted::Request(Box::new(spec(request)?)),
        (Some(_), _) => return Err(failed("--job goes with no options of a request")),
    };
    let fresh = matches!(wanted, Wanted::Request(_));
    let question = Question {
        wanted,
        add_nodes: args.add_nodes,
        until,
    };
    let answers = ask(&cluster, now, &question).map_err(failed)?;
    let stamp = |at: Millis| calendar::timestamp(at, view.clock.utc_offset(at));
    if args.json {
        print_json(&objects(&answers, now, &stamp));
    } else {
        output::print(&text(&answers, (args.add_nodes, fresh), &stamp, until));
    }
    Ok(0)
}

fn fetch() -> Result<Vec<u8>, Failure> {
    match link::question(&Request::State) {
        Ok(Reply::State(bytes)) => Ok(bytes),
        Ok(_) => Err(failed(link::unexpected().text())),
        Err(trouble) => Err(failed(trouble.text())),
    }
}

/// A request as `sbatch` would make it.
fn spec(request: &[OsString]) -> Result<JobSpec, Failure> {
    let options = getopt::parse(Command::Sbatch, request, Source::CommandLine)?;
    if let Some(operand) = options.operands.first() {
        let operand = operand.to_string_lossy();
        return Err(failed(format!(
            "{operand:?} is no option of sbatch: no script is run here"
        )));
    }
    let (mut spec, warnings) = job::spec(&options, &process::surroundings(), "whatif", "")?;
    output::complain(&warnings);
    spec.owner.uid = Uid(process::uid());
    Ok(spec)
}

fn text(
    answers: &[Answer],
    (added, fresh): (u32, bool),
    stamp: &dyn Fn(Millis) -> String,
    until: Millis,
) -> String {
    let mut text = String::new();
    if added > 0 {
        _ = writeln!(text, "with {added} nodes more:");
    }
    if answers.is_empty() {
        text.push_str("no job waits\n");
        return text;
    }
    let when = |start: &Start| start.at.map_or_else(|| "-".to_owned(), stamp);
    _ = writeln!(
        text,
        "{:>10} {:<19} {:<19} NODES",
        "JOBID", "EXPECTED_START", "AT_WORST"
    );
    for answer in answers {
        let job = if fresh {
            "new".to_owned()
        } else {
            answer.job.to_string()
        };
        let nodes = answer.expected.nodes.join(",");
        _ = writeln!(
            text,
            "{job:>10} {:<19} {:<19} {nodes}",
            when(&answer.expected),
            when(&answer.at_worst)
        );
    }
    if answers.iter().any(|answer| answer.at_worst.at.is_none()) {
        _ = writeln!(text, "- means: not before {}", stamp(until));
    }
    text
}

fn objects(answers: &[Answer], now: Millis, stamp: &dyn Fn(Millis) -> String) -> Value {
    let start = |start: &Start| {
        json!({
            "start": start.at.map(stamp),
            "wait_seconds": start.at.map(|at| at.secs_since(now)),
            "nodes": start.nodes,
        })
    };
    let answer = |answer: &Answer| {
        json!({
            "job": answer.job.0,
            "expected": start(&answer.expected),
            "at_worst": start(&answer.at_worst),
        })
    };
    json!({ "now": stamp(now), "jobs": answers.iter().map(answer).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_options_are_told_from_those_of_the_request() {
        let words =
            |words: &[&str]| -> Vec<OsString> { words.iter().map(OsString::from).collect() };
        let line = [
            "--gres=gpu:8",
            "--add-nodes",
            "10",
            "-N",
            "4",
            "--json",
            "--until=tomorrow",
        ];
        let (own, request) = split(&words(&line));
        assert_eq!(
            own,
            words(&["--add-nodes", "10", "--json", "--until=tomorrow"])
        );
        assert_eq!(request, words(&["--gres=gpu:8", "-N", "4"]));
        assert_eq!(spec(&request).unwrap().nodes_min, 4);
        assert!(
            spec(&words(&["train.sh"]))
                .unwrap_err()
                .text
                .contains("train.sh")
        );
    }
}
