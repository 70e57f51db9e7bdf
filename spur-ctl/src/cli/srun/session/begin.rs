//! What is read and opened before a step is started.

use super::super::files::{self, Feed, Sink, Streams};
use super::super::hooks::Hooks;
use super::super::terminal::{self, Terminal};
use super::super::wire;
use super::{kill_on_bad_exit, mpi, wait};
use crate::cli::failure::Failure;
use crate::cli::flags::Command;
use crate::cli::flags::getopt::{Options, Source};
use crate::cli::resolve::input::Surroundings;
use crate::cli::resolve::{job, submission};
use spur_core::api::Grant;
use spur_core::job::spec::JobSpec;
use spur_core::slurm::{export, raw};
use spur_core::time::TimeLimit;
use spur_proto::wire::open::StdinTo;
use spur_proto::wire::{Open, Rlimit};
use tokio::sync::oneshot;

/// Reads what is needed once something runs, before anything is asked for.
pub fn check(parts: &[Options], here: &Surroundings) -> Result<(), Failure> {
    wait(&parts[0])?;
    terminal::check(&parts[0])?;
    parts
        .iter()
        .try_for_each(|part| job::limits(part, here).map(drop))
}

/// The options that say where streams go.
const STREAMS: [&str; 3] = ["output", "error", "input"];

/// Where streams go, and which of these is of which part of the command line.
type Files = (Vec<Streams>, Vec<usize>);

/// What the nodes are told, and where streams go.
pub(super) struct Begun {
    pub(super) streams: Vec<Streams>,
    /// By part of the command line: which of the streams are its.
    pub(super) outlet: Vec<usize>,
    pub(super) opens: Vec<Open>,
    pub(super) terminal: Option<Terminal>,
}

/// Opens files, if any is named in a thread of its own: the other end of a pipe may be long in coming.
pub(super) async fn open_files(
    parts: &[Options],
    here: &Surroundings,
    grant: &Grant,
) -> Result<Files, Failure> {
    let names = |part: &Options| STREAMS.iter().any(|long| part.last(long).is_some());
    if !parts.iter().any(names) {
        return prepare(parts, here, grant);
    }
    let (parts, here, grant) = (parts.to_vec(), here.clone(), grant.clone());
    let (tell, told) = oneshot::channel();
    let thread = std::thread::Builder::new().name("files".to_owned());
    thread
        .spawn(move || drop(tell.send(prepare(&parts, &here, &grant))))
        .map_err(|why| Failure::error(Command::Srun, why))?;
    let broken = |_| {
        Err(Failure::error(
            Command::Srun,
            "cannot open files: the thread that does so broke off",
        ))
    };
    told.await.unwrap_or_else(broken)
}

/// Decides all that is decided before anything is started.
pub(super) fn begin(
    (parts, hooks): (&[Options], &[Hooks]),
    here: &Surroundings,
    (grant, of_node): (&Grant, &[usize]),
    own_job: bool,
    (mut streams, outlet): Files,
) -> Result<Begun, Failure> {
    let terminal = Terminal::of(&parts[0]);
    if let Some(file) = terminal.as_ref().and_then(|own| own.input(&parts[0])) {
        streams[0].stdin = Feed::File(file);
    }
    let opens = parts.iter().zip(hooks).zip(&outlet);
    let opens = opens.map(|((part, hooks), outlet)| {
        open(part, here, grant, own_job, (&streams[*outlet], hooks))
    });
    let mut opens = opens.collect::<Result<Vec<_>, _>>()?;
    for (program, open) in opens.iter_mut().enumerate() {
        open.mpi = mpi::told(&parts[0], (grant, of_node), program)?;
    }
    if let (Some(terminal), Some(first)) = (&terminal, opens.first_mut()) {
        let size = terminal.size();
        for (name, number) in [("COL", size.columns), ("ROW", size.rows)] {
            let entry = format!("SLURM_PTY_WIN_{name}={number}");
            first.env.push(entry.into_bytes());
        }
        first.terminal = Some(size);
    }
    Ok(Begun {
        streams,
        outlet,
        opens,
        terminal,
    })
}

/// A part of the command line that says where its streams go has an outlet of its own; others share that of the part before.
fn prepare(parts: &[Options], here: &Surroundings, grant: &Grant) -> Result<Files, Failure> {
    let (mut streams, mut outlet) = (Vec::new(), Vec::new());
    for part in parts {
        let own = |long: &&str| {
            let given = part.last(long);
            given.is_some_and(|given| given.source != Source::Component)
        };
        if streams.is_empty() || STREAMS.iter().any(own) {
            streams.push(files::open(part, here, grant)?);
        }
        outlet.push(streams.len() - 1);
    }
    Ok((streams, outlet))
}

fn open(
    options: &Options,
    here: &Surroundings,
    grant: &Grant,
    own_job: bool,
    (streams, hooks): (&Streams, &Hooks),
) -> Result<Open, Failure> {
    use std::os::unix::ffi::OsStrExt as _;
    let remote = |sink: &Sink| match sink {
        Sink::Remote(path) => raw::bytes(path).into_owned(),
        Sink::Own | Sink::OwnOf(_) | Sink::File(_) | Sink::WithStdout => Vec::new(),
    };
    let stdin_to = match &streams.stdin {
        Feed::All | Feed::File(_) => Some(StdinTo::StdinAll(true)),
        Feed::Task(task) => Some(StdinTo::StdinTask(*task)),
        Feed::None => Some(StdinTo::StdinNone(true)),
        Feed::Remote(_) => None,
    };
    let work_dir = work_dir(options, here, (&grant.job.spec, own_job));
    let limits = job::limits(options, here)?;
    let [task_prolog, task_epilog] = hooks.of_tasks();
    Ok(Open {
        ticket: Vec::new(),
        argv: options
            .operands
            .iter()
            .map(|arg| arg.as_bytes().to_vec())
            .collect(),
        env: environment(options, here, own_job),
        work_dir: raw::bytes(&work_dir).into_owned(),
        umask: here.umask,
        rlimits: limits
            .into_iter()
            .map(|(resource, soft)| Rlimit { resource, soft })
            .collect(),
        stdout_path: remote(&streams.stdout),
        stderr_path: remote(&streams.stderr),
        stdin_path: match &streams.stdin {
            Feed::Remote(path) => raw::bytes(path).into_owned(),
            Feed::All | Feed::Task(_) | Feed::None | Feed::File(_) => Vec::new(),
        },
        append: streams.append,
        terminal: None,
        programs: Vec::new(),
        task_prolog,
        task_epilog,
        cpu_bind: options.value("cpu-bind").unwrap_or_default().to_owned(),
        preserve_env: options.on("preserve-env"),
        kill_on_bad_exit: kill_on_bad_exit(options),
        time_limit: match job::time_limit(options)? {
            Some(TimeLimit::Secs(secs)) if !own_job => secs,
            Some(_) | None => 0,
        },
        mpi: None,
        stdin_to,
    })
}

/// Where the tasks of a step begin, which is where its job does if it is all of that.
pub fn work_dir(
    options: &Options,
    here: &Surroundings,
    (job, own_job): (&JobSpec, bool),
) -> String {
    match (own_job, options.value("chdir")) {
        (true, _) => job.work_dir.clone(),
        (false, Some(dir)) => here.absolute(dir),
        (false, None) => here.cwd.clone(),
    }
}

/// Everything, byte by byte, unless `--export` cuts it down; then what srun adds.
fn environment(options: &Options, here: &Surroundings, own_job: bool) -> Vec<Vec<u8>> {
    let wanted = options.value("export").unwrap_or_default();
    let mut env = if wanted.is_empty() || wanted.eq_ignore_ascii_case("ALL") {
        wire::whole_environment()
    } else {
        export::apply(wanted, &here.env)
            .env
            .iter()
            .map(|entry| raw::bytes(entry).into_owned())
            .collect()
    };
    // Of entries with one name the last counts.
    env.extend(
        submission::of_step(options, here, own_job)
            .iter()
            .map(|entry| raw::bytes(entry).into_owned()),
    );
    env
}
