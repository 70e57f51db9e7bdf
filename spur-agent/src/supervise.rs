//! `spurd supervise DIR`: the parent of a step's tasks on this node.
//!
//! One small, single-threaded process outside the job's cgroup. It owns the tasks' streams and the client's connection, outlives
//! the agent, and writes the step's exit record before it exits.

mod audience;
mod child;
mod client;
pub(crate) mod creds;
mod ending;
mod events;
mod hooks;
mod mpi;
mod orphan;
mod plan;
mod pmix;
mod program;
mod status;
mod step;
mod task;
mod terminal;

use crate::cgroup::Cgroup;
use crate::launch::record::{keep_exit_record, sync_dir};
use crate::launch::supervisor::{CLIENT_FD, CONTROL_FD};
use crate::launch::{ExitRecord, Rlimit, StepLaunch};
use crate::sys;
use audience::Audience;
use client::Client;
use events::Inputs;
use rustix::fs::FileType;
use spur_core::job::state::ExitStatus;
use spur_core::time::Millis;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use step::Step;

/// First descriptor that a supervisor was not started with on purpose.
const UNKNOWN_FDS: u32 = 5;

/// Protects the supervisor from the out-of-memory killer, which should take the job instead.
const OOM_SCORE_ADJ: &str = "-1000";

/// Most lines of a step's log, and characters of a line: a job and its client can bring them about, and the log lies beside the agent's
/// journal.
const NOTES_MAX: usize = 1000;
const NOTE_MAX: usize = 1024;

/// Runs the supervisor of the step in `dir` until the step has ended.
pub fn main(dir: &Path) -> ExitCode {
    match run_in(dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The same in a process that is there already, with the descriptors that a supervisor is started with. What goes wrong is noted.
pub(crate) fn run_in(dir: &Path) -> io::Result<()> {
    supervise(dir).inspect_err(|error| note(&error.to_string()))
}

fn supervise(dir: &Path) -> io::Result<()> {
    sys::process::close_from(UNKNOWN_FDS)?;
    let (control, client) = (sys::fd::take(CONTROL_FD)?, sys::fd::take(CLIENT_FD)?);
    rustix::process::chdir("/")?;
    // The lock says to a restarted agent that we live, and is held until we exit. It is private: with a descriptor of it a user
    // could lock it, and be taken for the supervisor.
    let lock = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(dir.join(crate::launch::record::LOCK))?;
    if !sys::lock::try_lock(&lock)? {
        return Err(io::Error::other("another supervisor runs this step"));
    }
    let mut spec = read_spec(dir)?;
    // Before the user's own, which may set the same.
    spec.rlimits.splice(0..0, raise_file_limit());
    let signals = sys::signal::descriptor(&[libc::SIGCHLD, libc::SIGTERM])?;
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGPIPE] {
        sys::signal::ignore(signal);
    }
    // Orphans of the job come to us rather than to init, and are reaped.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let oom_score = protect();
    let client = connection(client)
        .map(|socket| Client::new(socket, &spec.client_early))
        .transpose()?;
    let ran = run(&spec, dir, client, oom_score, &Inputs { control, signals });
    let kept = sync_dir(dir).map_err(io::Error::other);
    ran.and(kept)
}

/// Allows as many descriptors as the system gives, since each task costs a few. Gives the limit that tasks must have back, if it
/// was changed.
fn raise_file_limit() -> Option<Rlimit> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let before = getrlimit(Resource::Nofile);
    let raised = rustix::process::Rlimit {
        current: before.maximum,
        maximum: before.maximum,
    };
    setrlimit(Resource::Nofile, raised).ok()?;
    Some(Rlimit {
        resource: libc::RLIMIT_NOFILE,
        soft: before.current.unwrap_or(u64::MAX),
    })
}

/// Keeps the out-of-memory killer from this process. Gives the score that tasks must have back, if it was changed.
fn protect() -> Option<String> {
    let file = "/proc/self/oom_score_adj";
    let before = fs::read_to_string(file).ok()?;
    fs::write(file, OOM_SCORE_ADJ).ok().map(|()| before)
}

/// Runs the step; whatever goes wrong, an exit record is there afterwards.
fn run(
    spec: &StepLaunch,
    dir: &Path,
    client: Option<Client>,
    oom_score: Option<String>,
    inputs: &Inputs,
) -> io::Result<()> {
    let cgroup = match Cgroup::open(spec.cgroup.clone()) {
        Ok(Some(cgroup)) => cgroup,
        Ok(None) => return give_up(dir, client, &spec.node, "the step's cgroup is gone"),
        Err(error) => return give_up(dir, client, &spec.node, &error.to_string()),
    };
    let mut step = Step::new(spec, dir, cgroup, Audience::new(client));
    step.oom_score = oom_score;
    let ran = step.run(inputs);
    if let Err(error) = &ran {
        // Not expected: poll or signalfd failed. Nothing of the step may be left running unseen.
        note(&format!("the supervisor's loop failed: {error}"));
        step.kill();
    }
    if !step.recorded {
        if !step.settled {
            step.record
                .failure
                .get_or_insert_with(|| "its processes could not be killed".into());
            step.record.node_fault = true;
            step.record.ended = now();
        }
        keep_exit_record(dir, &step.record, |error| note(&error.to_string()));
    }
    ran
}

/// Records that the step could not be run at all.
fn give_up(dir: &Path, client: Option<Client>, node: &str, why: &str) -> io::Result<()> {
    use spur_proto::wire::{Ended, StepError, from_step};
    let exit = ExitStatus { code: 1, signal: 0 };
    let record = ExitRecord {
        exit,
        failure: Some(why.into()),
        node_fault: true,
        ended: now(),
        ..ExitRecord::default()
    };
    keep_exit_record(dir, &record, |error| note(&error.to_string()));
    if let Some(mut client) = client {
        let text = message(node, why).trim_end().to_owned();
        client.queue(from_step::Kind::Error(StepError {
            text,
            task_known: false,
            task: 0,
            refused: true,
        }));
        client.queue(from_step::Kind::Ended(Ended::default()));
        // Two short messages on a fresh connection; a client that does not take them learns it from the controller.
        drop(client.flush());
    }
    Ok(())
}

fn read_spec(dir: &Path) -> io::Result<StepLaunch> {
    let bytes = fs::read(dir.join("spec"))?;
    rmp_serde::from_slice(&bytes)
        .map_err(|why| io::Error::other(format!("the spec is damaged: {why}")))
}

/// The client's connection, if that is what we were started with.
fn connection(fd: OwnedFd) -> Option<OwnedFd> {
    let stat = rustix::fs::fstat(&fd).ok()?;
    (FileType::from_raw_mode(stat.st_mode) == FileType::Socket).then_some(fd)
}

/// A message as Slurm's step daemon words it, with its newline.
fn message(node: &str, text: &str) -> String {
    format!("slurmstepd-{node}: error: {text}\n")
}

/// A line in the step's log.
fn note(text: &str) {
    static NOTED: AtomicUsize = AtomicUsize::new(0);
    match NOTED.fetch_add(1, Ordering::Relaxed) {
        NOTES_MAX => write_note("there is more to say, which is left out"),
        noted if noted < NOTES_MAX => write_note(brief(text)),
        _ => {}
    }
}

/// Writes a line, if that can be: the disk with the log may be full, which must not end the step.
fn write_note(text: &str) {
    writeln!(io::stderr(), "{text}").ok();
}

/// The beginning of a text that may be long.
fn brief(text: &str) -> &str {
    let end = text.char_indices().nth(NOTE_MAX).map(|(at, _)| at);
    end.and_then(|end| text.get(..end)).unwrap_or(text)
}

fn now() -> Millis {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
