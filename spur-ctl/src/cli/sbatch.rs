//! `sbatch`.

use super::failure::Failure;
use super::flags::Command;
use super::flags::getopt::{self, Options};
use super::link::{self, Trouble};
use super::resolve::input::Surroundings;
use super::resolve::script::{Origin, read_options};
use super::resolve::{het, job, notice, submission};
use super::{announce, clusters, output, process, submit};
use spur_core::api::{JobView, Reply, Request};
use spur_core::id::JobId;
use spur_core::job::spec::Payload;
use spur_core::slurm::{directive, raw};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The longest script that is read (4 MiB, Slurm's `max_script_size`).
const SCRIPT_MAX: u64 = 4 << 20;

/// The longest `--export-file` (2 MiB, as long as an environment may be).
const EXPORT_MAX: u64 = 2 << 20;

/// Runs it.
pub fn main(options: Options) -> Result<u8, Failure> {
    let (origin, mut parts) = parts(options)?;
    let (script, path) = load(&origin)?;
    let fresh = || getopt::environment(Command::Sbatch, process::var);
    read_options(origin.file(), &script, &mut parts, fresh)?;
    het::settle(&mut parts);
    for options in &mut parts {
        announce(options)?;
        submit::tell_options(options);
        submit::read_node_files(options)?;
    }
    let options = parts[0].clone();
    let ahead = link::ahead();
    let cluster = clusters::asked(&options)?;
    let here = process::surroundings();
    let command = path
        .as_ref()
        .map(|path| here.absolute(&process::text(path.as_os_str())));
    let mut specs = Vec::new();
    for options in &parts {
        let command = command.as_deref().unwrap_or_default();
        let (spec, warnings) = job::spec(options, &here, origin.name(), command)?;
        output::complain(&warnings);
        specs.push(spec);
    }
    let spec = specs[0].clone();
    let verbose = options.on("verbose");
    if !process::path(&spec.work_dir).is_dir() {
        let notice = format!(
            "the working directory {} is not here: where it is not either, the script runs in /tmp, or the job fails \
             if its output is to be in that folder",
            spec.work_dir
        );
        submit::warn(&options, &[notice]);
    }
    if options.on("test-only") {
        let mut codes = specs
            .iter()
            .map(|spec| submit::test_only(Command::Sbatch, spec, verbose));
        return codes.try_fold(0, |worst: u8, code| Ok::<u8, Failure>(worst.max(code?)));
    }
    let payload = Some(payload(&options, &here, script)?);
    let request = if specs.len() > 1 {
        Request::SubmitHet { specs, payload }
    } else {
        let spec = Box::new(spec.clone());
        Request::Submit { spec, payload }
    };
    let refused = |trouble: &Trouble| submit::refused(Command::Sbatch, &spec, trouble, verbose);
    match link::question_patiently(ahead, &request) {
        Ok(Reply::Submitted { job, notices }) => {
            submit::warn(&options, &notices);
            announce_job(&options, job, cluster.as_deref());
            if options.on("wait") {
                link::run(wait(job))
            } else {
                Ok(0)
            }
        }
        Ok(_) => Err(refused(&link::unexpected())),
        Err(trouble) => Err(refused(&trouble)),
    }
}

/// Where the script comes from, and the components on the command line. What follows the last of them is the script with its
/// arguments, and belongs to the first.
fn parts(options: Options) -> Result<(Origin, Vec<Options>), Failure> {
    let mut parts = het::split(options, process::var)?;
    let last = parts
        .last_mut()
        .map(|last| std::mem::take(&mut last.operands));
    let given = parts.iter().flat_map(|part| part.given());
    let mut wrap = given.filter(|given| given.flag.long == "wrap");
    let wrap = wrap.next_back().cloned();
    let first = &mut parts[0];
    first.operands = last.unwrap_or_default();
    if !first.on("wrap") {
        first.extend(wrap.into_iter());
    }
    Ok((Origin::of(first)?, parts))
}

fn announce_job(options: &Options, job: JobId, cluster: Option<&str>) {
    let line = match (options.on("parsable"), cluster) {
        (true, None) => format!("{job}\n"),
        (true, Some(cluster)) => format!("{job};{cluster}\n"),
        (false, None) => format!("Submitted batch job {job}\n"),
        (false, Some(cluster)) => format!("Submitted batch job {job} on cluster {cluster}\n"),
    };
    if options.on("parsable") || !options.on("quiet") {
        output::print(&line);
    }
}

/// The script, and the path of the file that it came from.
fn load(origin: &Origin) -> Result<(Vec<u8>, Option<PathBuf>), Failure> {
    match origin {
        Origin::Wrap(command) => Ok((directive::wrap(command), None)),
        Origin::Stdin => {
            let broken = |why: std::io::Error| {
                unread("standard input", &why, || {
                    format!("cannot read standard input: {why}")
                })
            };
            let script = bounded(std::io::stdin().lock());
            Ok((script.map_err(broken)?, None))
        }
        Origin::File(name) => {
            let path = find(name);
            let broken =
                |why: std::io::Error| unread(name, &why, || format!("Unable to open file {name}"));
            let file = std::fs::File::open(&path).map_err(broken)?;
            Ok((bounded(file).map_err(broken)?, Some(path)))
        }
    }
}

/// A script that is too long, or cannot be read for what `other` says.
fn unread(name: &str, why: &std::io::Error, other: impl FnOnce() -> String) -> Failure {
    let why = if why.kind() == std::io::ErrorKind::FileTooLarge {
        format!("{name}: a script may have {SCRIPT_MAX} bytes at most")
    } else {
        other()
    };
    Failure::error(Command::Sbatch, why)
}

fn bounded(from: impl std::io::Read) -> std::io::Result<Vec<u8>> {
    process::bounded(from, SCRIPT_MAX)
}

/// A name without a slash that is not here is looked for on `PATH`.
fn find(name: &str) -> PathBuf {
    let here = process::path(name);
    if name.contains('/') || here.is_file() {
        return here;
    }
    let path = process::var("PATH").unwrap_or_default();
    let found = path
        .split(':')
        .map(|dir| Path::new(dir).join(name))
        .find(|file| file.is_file());
    found.unwrap_or(here)
}

fn payload(options: &Options, here: &Surroundings, script: Vec<u8>) -> Result<Payload, Failure> {
    let args = options
        .operands
        .iter()
        .skip(1)
        .map(|arg| process::text(arg));
    let env = match options.value("export-file") {
        Some(file) => submission::of_file(options, here, exported(file)?),
        None => submission::of_batch(options, here),
    };
    Ok(Payload {
        script,
        args: args.collect(),
        env,
        umask: here.umask,
        rlimits: job::limits(options, here)?,
    })
}

/// The entries of `--export-file`, which is a file or the number of an open one.
fn exported(file: &str) -> Result<Vec<String>, Failure> {
    let number = file.bytes().all(|b| b.is_ascii_digit());
    let path = if number {
        PathBuf::from(format!("/proc/self/fd/{file}"))
    } else {
        process::path(file)
    };
    let mut bytes = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|open| open.take(EXPORT_MAX).read_to_end(&mut bytes));
    read.map_err(|_| {
        let why = format!("Could not open user environment file {file}");
        Failure::error(Command::Sbatch, why)
    })?;
    let entries = bytes.split(|byte| *byte == 0);
    let entries = entries.filter(|entry| entry.contains(&b'='));
    Ok(entries.map(raw::text).collect())
}

/// Waits for the end, and until all is written; the code is the script's, or 1 if a signal ended it.
async fn wait(job: JobId) -> Result<u8, Failure> {
    match link::wait_for(&Request::AwaitCleaned { job }).await {
        Ok(Reply::Ended { job }) => Ok(ended_code(&job)),
        Ok(_) => Err(notice::not_submitted(
            Command::Sbatch,
            link::unexpected().text(),
        )),
        Err(trouble) => {
            let why = format!("cannot wait for job {job}: {}", trouble.text());
            Err(Failure::error(Command::Sbatch, why))
        }
    }
}

fn ended_code(job: &JobView) -> u8 {
    use spur_core::job::state::JobState;
    match (job.state, job.exit.signal) {
        (JobState::Completed | JobState::Failed, 0) => job.exit.code,
        (_, _) => job.exit.code.max(1),
    }
}
