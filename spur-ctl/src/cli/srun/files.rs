//! Where the streams of a step go: to srun, to a file that srun opens, or to files that the tasks' nodes open.

use super::super::failure::Failure;
use super::super::flags::Command;
use super::super::flags::getopt::Options;
use super::super::process;
use super::super::resolve::input::Surroundings;
use super::super::resolve::job::append;
use spur_core::api::Grant;
use spur_core::slurm::filename::{self, Target};
use std::fs::File;

/// Where one output stream goes.
#[derive(Debug)]
pub enum Sink {
    /// srun's own.
    Own,
    /// srun's own, of this task only.
    OwnOf(u32),
    /// A file that srun writes.
    File(File),
    /// The same file as standard output.
    WithStdout,
    /// A file that each node opens: absolute, symbols not yet replaced.
    Remote(String),
}

/// Who gets standard input, and from where.
#[derive(Debug)]
pub enum Feed {
    /// All tasks, from srun's own.
    All,
    /// This task only.
    Task(u32),
    /// Nobody.
    None,
    /// All tasks, from a file that srun reads.
    File(File),
    /// A file that each node opens.
    Remote(String),
}

/// The three streams.
#[derive(Debug)]
pub struct Streams {
    /// Standard input.
    pub stdin: Feed,
    /// Standard output.
    pub stdout: Sink,
    /// Standard error.
    pub stderr: Sink,
    /// Files are appended to.
    pub append: bool,
}

/// Decides by the options and opens what srun itself opens.
pub fn open(options: &Options, here: &Surroundings, grant: &Grant) -> Result<Streams, Failure> {
    let work_dir = &grant.job.spec.work_dir;
    let tasks: usize = grant.nodes.iter().map(|node| node.task_ids.len()).sum();
    let target = |long: &str| {
        let text = options.value(long).unwrap_or_default();
        Target::parse(text, u32::try_from(tasks).unwrap_or(u32::MAX))
    };
    let path = |pattern: &str, base: &str| {
        if pattern.starts_with('/') {
            pattern.to_owned()
        } else {
            format!("{base}/{pattern}")
        }
    };
    let local = |pattern: &str| here.absolute(&expanded(pattern, grant));
    let append = append(options)?;
    let sink = |long: &str| match target(long) {
        Target::All => Ok(Sink::Own),
        Target::None => Ok(Sink::Remote("/dev/null".to_owned())),
        Target::Task(task) => Ok(Sink::OwnOf(task)),
        Target::File(pattern) if filename::per_task(&pattern) => {
            Ok(Sink::Remote(path(&pattern, work_dir)))
        }
        Target::File(pattern) => create(&local(&pattern), append).map(Sink::File),
    };
    let same =
        options.value("error").is_none() || options.value("error") == options.value("output");
    let stdout = sink("output")?;
    let stderr = match &stdout {
        Sink::File(_) if same => Sink::WithStdout,
        Sink::Remote(remote) if same => Sink::Remote(remote.clone()),
        Sink::OwnOf(task) if same => Sink::OwnOf(*task),
        Sink::Own | Sink::OwnOf(_) | Sink::File(_) | Sink::WithStdout | Sink::Remote(_) => {
            sink("error")?
        }
    };
    let stdin = match target("input") {
        Target::All => Feed::All,
        Target::None => Feed::None,
        Target::Task(task) => Feed::Task(task),
        Target::File(pattern) if filename::per_task(&pattern) => {
            Feed::Remote(path(&pattern, work_dir))
        }
        Target::File(pattern) => {
            let name = local(&pattern);
            Feed::File(File::open(process::path(&name)).map_err(|why| unopened(&name, &why))?)
        }
    };
    Ok(Streams {
        stdin,
        stdout,
        stderr,
        append,
    })
}

fn create(name: &str, append: bool) -> Result<File, Failure> {
    let mut how = File::options();
    how.create(true)
        .write(true)
        .append(append)
        .truncate(!append);
    how.open(process::path(name))
        .map_err(|why| unopened(name, &why))
}

fn unopened(name: &str, why: &std::io::Error) -> Failure {
    let text = why.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    Failure::error(Command::Srun, format!("Could not open file {name}: {text}"))
}

fn expanded(pattern: &str, grant: &Grant) -> String {
    let array = grant.job.array.as_ref();
    let array = array.and_then(|view| Some((view.job.0, view.task?)));
    let names = filename::Names {
        job: grant.job.id.0,
        array,
        step: grant.step.step,
        task: 0,
        node: 0,
        host: grant.nodes.first().map_or("", |node| node.name.as_str()),
        name: &grant.job.spec.name,
        user: &grant.job.spec.owner.user,
    };
    filename::expand(pattern, &names)
}
