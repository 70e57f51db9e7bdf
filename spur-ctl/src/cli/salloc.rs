//! `salloc`: an allocation for as long as a command runs.

use super::failure::Failure;
use super::flags::Command;
use super::flags::getopt::Options;
use super::link::{self, Trouble};
use super::resolve::input::Surroundings;
use super::resolve::{het, job, numbers, submission};
use super::srun::signals::{HUP, INT, KILL, QUIT};
use super::{output, process, submit};
use crate::config::DEFAULT_PATH;
use spur_core::api::{JobFilter, JobView, RefusalKind, Reply, Request};
use spur_core::id::JobId;
use spur_core::job::spec::JobSpec;
use spur_core::job::state::ExitStatus;
use spur_core::slurm::{codes, environ, hostlist};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;
use tokio::process::{Child, Command as Program};
use tokio::signal::unix::{SignalKind, signal};

/// After this time the user is told that the job waits.
const NOTICE_AFTER: Duration = Duration::from_millis(400);
/// What `--immediate` means without a number, in seconds.
const IMMEDIATE: u64 = 1;

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    let mut parts = het::split(options.clone(), process::var)?;
    het::settle(&mut parts);
    let here = process::surroundings();
    let mut specs = Vec::new();
    for (at, options) in parts.iter_mut().enumerate() {
        if at > 0 {
            super::announce(options)?;
        }
        submit::tell_options(options);
        submit::read_node_files(options)?;
        let first = options.operands.first().map(|word| process::text(word));
        let first = first.unwrap_or_default();
        let (spec, warnings) = job::spec(options, &here, "interactive", &first)?;
        output::complain(&warnings);
        specs.push(spec);
    }
    let options = &parts[0];
    let patience = patience(options)?;
    link::run(async {
        let (job, cluster) = allocate(options, &specs, patience).await?;
        let all = components(options, &job).await?;
        granted(options, &job, &all);
        let mut revoked = false;
        let held = Held {
            job: &job,
            all: &all,
            cluster: &cluster,
        };
        let code = hold(options, &here, held, &mut revoked).await;
        say(
            options,
            format_args!("Relinquishing job allocation {}", job.id),
        );
        if !revoked {
            say(
                options,
                format_args!("Job allocation {} has been revoked.", job.id),
            );
        }
        code
    })
}

fn say(options: &Options, text: impl std::fmt::Display) {
    if !options.on("quiet") {
        output::complain(&[format!("salloc: {text}")]);
    }
}

/// What was allocated.
#[derive(Clone, Copy)]
struct Held<'a> {
    job: &'a JobView,
    /// The components of a heterogeneous job; none for another.
    all: &'a [JobView],
    cluster: &'a str,
}

fn granted(options: &Options, job: &JobView, all: &[JobView]) {
    say(options, format_args!("Granted job allocation {}", job.id));
    let alone = if all.is_empty() { Some(job) } else { None };
    for job in all.iter().chain(alone) {
        let names: Vec<&str> = job.nodes.iter().map(|node| node.name.as_str()).collect();
        say(
            options,
            format_args!("Nodes {} are ready for job", hostlist::compress(&names)),
        );
    }
    if options.on("bell") && !options.on("no-bell") {
        output::print("\x07");
    }
}

fn patience(options: &Options) -> Result<Option<Duration>, Failure> {
    let secs = numbers::immediate(options, IMMEDIATE)?;
    Ok(secs.map(Duration::from_secs))
}

/// Submits and waits for the allocation. The answer is the job and the cluster's name.
async fn allocate(
    options: &Options,
    specs: &[JobSpec],
    patience: Option<Duration>,
) -> Result<(JobView, String), Failure> {
    let spec = &specs[0];
    let refused =
        |trouble: Trouble| submit::refused(Command::Salloc, spec, &trouble, options.on("verbose"));
    let pong = link::question_patiently(None, &Request::Ping).map_err(refused)?;
    let Reply::Pong { cluster, .. } = pong else {
        return Err(refused(link::unexpected()));
    };
    let payload = None;
    let request = if specs.len() > 1 {
        let specs = specs.to_vec();
        Request::SubmitHet { specs, payload }
    } else {
        let spec = Box::new(spec.clone());
        Request::Submit { spec, payload }
    };
    let answer = link::question_patiently(None, &request).map_err(refused)?;
    let Reply::Submitted { job: id, notices } = answer else {
        return Err(refused(link::unexpected()));
    };
    submit::warn(options, &notices);
    let wait = tokio::time::timeout(
        patience.unwrap_or(Duration::MAX),
        await_allocation(options, id),
    );
    let answer = tokio::select! {
        answer = wait => answer,
        () = interrupted() => {
            cancel(id).await;
            say(options, format_args!("Job allocation {id} has been revoked."));
            return Err(Failure::silent(1));
        }
    };
    match answer {
        Ok(Ok(Reply::Allocated { job })) => Ok((*job, cluster)),
        Ok(Ok(Reply::Ended { .. })) => {
            say(
                options,
                format_args!("Job allocation {id} has been revoked."),
            );
            Err(Failure::silent(1))
        }
        Ok(Ok(_)) => Err(refused(link::unexpected())),
        Ok(Err(trouble)) => Err(refused(trouble)),
        Err(_) => {
            cancel(id).await;
            let why = codes::message(RefusalKind::CannotStartImmediately);
            let why = format!("Unable to allocate resources: {why}");
            Err(Failure::error(Command::Salloc, why))
        }
    }
}

/// The components of a heterogeneous job, in order; none for another.
async fn components(options: &Options, job: &JobView) -> Result<Vec<JobView>, Failure> {
    if job.het.is_none() {
        return Ok(Vec::new());
    }
    let filter = JobFilter {
        ids: vec![job.id],
        ..JobFilter::default()
    };
    let refused = |trouble: Trouble| {
        submit::refused(Command::Salloc, &job.spec, &trouble, options.on("verbose"))
    };
    let found = link::ask(&Request::Jobs { filter }).await;
    let Reply::Jobs(jobs) = found.map_err(refused)? else {
        return Err(refused(link::unexpected()));
    };
    Ok(jobs.iter().map(|job| JobView::clone(job)).collect())
}

/// Waits; tells the user if that takes its time.
async fn await_allocation(options: &Options, job: JobId) -> Result<Reply, Trouble> {
    let request = Request::AwaitAllocation { job };
    let mut wait = std::pin::pin!(link::wait_for(&request));
    if let Ok(answer) = tokio::time::timeout(NOTICE_AFTER, &mut wait).await {
        return answer;
    }
    say(options, format_args!("Pending job allocation {job}"));
    say(
        options,
        format_args!("job {job} queued and waiting for resources"),
    );
    let answer = wait.await;
    if let Ok(Reply::Allocated { .. }) = &answer {
        say(
            options,
            format_args!("job {job} has been allocated resources"),
        );
    }
    answer
}

/// Returns when the user or the system wants salloc to end.
async fn interrupted() {
    let listen = |kind| signal(kind).ok();
    let (int, term, hup) = (
        listen(SignalKind::interrupt()),
        listen(SignalKind::terminate()),
        listen(SignalKind::hangup()),
    );
    let one = |signal: Option<tokio::signal::unix::Signal>| async move {
        match signal {
            Some(mut signal) => {
                signal.recv().await;
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = one(int) => {}
        () = one(term) => {}
        () = one(hup) => {}
    }
}

async fn cancel(job: JobId) {
    let request = Request::Cancel {
        filter: JobFilter {
            ids: vec![job],
            ..JobFilter::default()
        },
        signal: None,
        batch_only: false,
        step: None,
        children: false,
    };
    // The controller ends abandoned allocations by itself if this does not reach it.
    link::ask(&request).await.ok();
}

/// Runs the command and gives the allocation back at its end. Says in `revoked` whether the user was told of an earlier end.
async fn hold(
    options: &Options,
    here: &Surroundings,
    held: Held<'_>,
    revoked: &mut bool,
) -> Result<u8, Failure> {
    let job = held.job;
    let mut child = match start(options, here, held) {
        Ok(child) => child,
        Err(failure) => {
            finish(job.id, ExitStatus { code: 1, signal: 0 }).await;
            return Err(failure);
        }
    };
    // Ctrl-C is for the command, which shares the terminal; salloc itself waits on.
    let mut ignored = signal(SignalKind::interrupt()).ok();
    let mut watch = std::pin::pin!(watch(job.id));
    let mut watching = true;
    let status = loop {
        tokio::select! {
            ended = child.wait() => break ended,
            () = &mut watch, if watching => {
                watching = false;
                *revoked = true;
                say(options, format_args!("Job allocation {} has been revoked.", job.id));
            }
            Some(()) = next(&mut ignored) => {}
            () = hung_up() => terminate(&child),
        }
    };
    let status = status.map_err(|why| Failure::error(Command::Salloc, why))?;
    let number = |n: i32| u8::try_from(n).unwrap_or(u8::MAX);
    let exit = match (status.code(), status.signal()) {
        (Some(code), _) => ExitStatus {
            code: number(code),
            signal: 0,
        },
        (None, signal) => ExitStatus {
            code: 0,
            signal: number(signal.unwrap_or(0)),
        },
    };
    finish(job.id, exit).await;
    Ok(code(exit))
}

/// The command's code. Of the signals, those that a user gives count as a good end, as in Slurm, and all others as a bad one.
fn code(exit: ExitStatus) -> u8 {
    match exit.signal {
        0 => exit.code,
        HUP | INT | QUIT | KILL => 0,
        _ => 1,
    }
}

async fn next(signal: &mut Option<tokio::signal::unix::Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}

async fn hung_up() {
    match (
        signal(SignalKind::terminate()),
        signal(SignalKind::hangup()),
    ) {
        (Ok(mut term), Ok(mut hup)) => tokio::select! {
            _ = term.recv() => {}
            _ = hup.recv() => {}
        },
        (_, _) => std::future::pending().await,
    }
}

/// Passes the wish to end on to the command.
fn terminate(child: &Child) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
    }
}

/// Keeps an eye on the job, as its owner must. Returns when it has ended.
async fn watch(job: JobId) {
    match link::wait_for(&Request::AwaitEnd { job }).await {
        Ok(Reply::Ended { .. }) => {}
        Ok(_) | Err(_) => std::future::pending().await,
    }
}

async fn finish(job: JobId, exit: ExitStatus) {
    // A job that ended already, or a controller that stays away and will notice: nothing more to do here.
    link::settle(&Request::Finish { job, exit }).await.ok();
}

fn start(
    options: &Options,
    here: &Surroundings,
    Held { job, all, cluster }: Held<'_>,
) -> Result<Child, Failure> {
    let shell = || here.var("SHELL").unwrap_or("/bin/sh").to_owned();
    let words: Vec<OsString> = match options.operands.as_slice() {
        [] => vec![OsString::from(shell())],
        words => words.to_vec(),
    };
    let base = submission::of_allocation(options, here);
    let there = std::path::Path::new(DEFAULT_PATH).exists();
    let conf = if there { DEFAULT_PATH } else { "" };
    let env = environ::allocation(job, all, (cluster, conf), &base);
    let mut program = Program::new(&words[0]);
    program.args(&words[1..]).env_clear();
    for entry in &env {
        if let Some(at) = entry.iter().position(|byte| *byte == b'=') {
            program.env(
                OsStr::from_bytes(&entry[..at]),
                OsStr::from_bytes(&entry[at + 1..]),
            );
        }
    }
    if options.on("chdir") {
        program.current_dir(process::path(&job.spec.work_dir));
    }
    program.spawn().map_err(|why| {
        let text = why.to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        let name = words[0].to_string_lossy();
        Failure::error(
            Command::Salloc,
            format!("Unable to exec command \"{name}\": {text}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_the_commands_and_users_may_end_it() {
        let of = |code, signal| super::code(ExitStatus { code, signal });
        assert_eq!([of(0, 0), of(7, 0), of(255, 0)], [0, 7, 255]);
        assert_eq!([1, 2, 3, 9].map(|signal| of(0, signal)), [0; 4]);
        assert_eq!([6, 11, 15].map(|signal| of(0, signal)), [1; 3]);
    }
}
