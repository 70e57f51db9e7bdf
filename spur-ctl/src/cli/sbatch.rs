//! `sbatch`.

use super::failure::Failure;
use super::flags::Command;
use super::flags::getopt::Options;
use super::link::{self, Trouble};
use super::resolve::input::Surroundings;
use super::resolve::script::{Origin, read_options};
use super::resolve::{job, notice, submission};
use super::{announce, output, process, submit};
use spur_core::api::{JobView, Reply, Request};
use spur_core::id::JobId;
use spur_core::job::spec::Payload;
use spur_core::slurm::directive;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The longest script that is read (4 MiB, Slurm's `max_script_size`).
const SCRIPT_MAX: u64 = 4 << 20;

/// Runs it.
pub fn main(mut options: Options) -> Result<u8, Failure> {
    let origin = Origin::of(&options)?;
    let (script, path) = load(&origin)?;
    read_options(&script, &mut options)?;
    announce(&options)?;
    let here = process::surroundings();
    let command = path
        .as_ref()
        .map(|path| here.absolute(&path.to_string_lossy()));
    let (spec, warnings) = job::spec(
        &options,
        &here,
        origin.name(),
        command.as_deref().unwrap_or_default(),
    )?;
    output::complain(&warnings);
    let payload = payload(&options, &here, script)?;
    let verbose = options.on("verbose");
    let request = Request::Submit {
        spec: Box::new(spec.clone()),
        payload: Some(payload),
    };
    let refused = |trouble: &Trouble| submit::refused(Command::Sbatch, &spec, trouble, verbose);
    match link::question_patiently(&request) {
        Ok(Reply::Submitted { job }) => {
            announce_job(&options, job);
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

fn announce_job(options: &Options, job: JobId) {
    if options.on("parsable") {
        output::print(&format!("{job}\n"));
    } else if !options.on("quiet") {
        output::print(&format!("Submitted batch job {job}\n"));
    }
}

/// The script, and the path of the file that it came from.
fn load(origin: &Origin) -> Result<(Vec<u8>, Option<PathBuf>), Failure> {
    match origin {
        Origin::Wrap(command) => Ok((directive::wrap(command), None)),
        Origin::Stdin => {
            let broken = |why| {
                Failure::error(
                    Command::Sbatch,
                    format!("cannot read standard input: {why}"),
                )
            };
            Ok((bounded(std::io::stdin().lock()).map_err(broken)?, None))
        }
        Origin::File(name) => {
            let path = find(name);
            let broken = |_| Failure::error(Command::Sbatch, format!("Unable to open file {name}"));
            let file = std::fs::File::open(&path).map_err(broken)?;
            Ok((bounded(file).map_err(broken)?, Some(path)))
        }
    }
}

fn bounded(from: impl std::io::Read) -> std::io::Result<Vec<u8>> {
    let mut script = Vec::new();
    from.take(SCRIPT_MAX + 1).read_to_end(&mut script)?;
    if script.len() as u64 > SCRIPT_MAX {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    }
    Ok(script)
}

/// A name without a slash that is not here is looked for on `PATH`.
fn find(name: &str) -> PathBuf {
    let here = PathBuf::from(name);
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
        .map(|arg| arg.to_string_lossy().into_owned());
    Ok(Payload {
        script,
        args: args.collect(),
        env: submission::of_batch(options, here),
        umask: here.umask,
        rlimits: job::limits(options, here)?,
    })
}

/// Waits for the end; the code is the script's, or 1 if a signal ended it.
async fn wait(job: JobId) -> Result<u8, Failure> {
    match link::wait_for(&Request::AwaitEnd { job }).await {
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
