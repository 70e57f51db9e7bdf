//! The child's way from its birth inside the fence to the job's program. Its first act is the open that must be refused.
//!
//! Runs in a copy of the single-threaded supervisor, so ordinary code is fine; it ends in exec or in an exit code.

use super::creds;
use super::plan::{ChildEnds, End};
use super::program;
use super::status::{self, Stage, Status};
use super::terminal;
use crate::launch::{PMI_FD, StepLaunch, TaskLaunch};
use crate::{pmix, sys};
use rustix::fs::{FileType, Mode, OFlags};
use spur_core::resources::IdSet;
use spur_core::slurm::bind;
use std::convert::Infallible;
use std::ffi::CString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Exit code of a child that could not prepare. Nobody sees it: the step's failure is what counts.
const NOT_PREPARED: i32 = 1;

/// Where the status socket and the pipe that lets the child go are kept until exec closes them.
const STATUS_FD: i32 = 3;
const GO_FD: i32 = 4;

/// Lowest number at which descriptors are out of the way of those to be placed.
const ABOVE: i32 = PMI_FD + 1;

/// How long an output file's folder may be missing, and how often it is looked for. Programs that submit make folders by the job's
/// number once they have it, and a shared file system shows one late: a job that starts at once waits for its folder.
const FOLDER_LATE: Duration = Duration::from_secs(3);
const FOLDER_LOOK: Duration = Duration::from_millis(20);

/// The lowest number that is closed: without and with MPI's.
const CLOSE_FROM: [u32; 2] = [PMI_FD.unsigned_abs(), ABOVE.unsigned_abs()];

/// One child's orders.
#[derive(Debug)]
pub(crate) struct Child<'a> {
    pub(crate) spec: &'a StepLaunch,
    pub(crate) task: &'a TaskLaunch,
    /// What runs before its program, in its process; empty: nothing.
    pub(crate) prolog: &'a [u8],
    /// Path of the batch script, if the step has one.
    pub(crate) script: Option<&'a Path>,
    pub(crate) ends: ChildEnds,
    pub(crate) status: OwnedFd,
    pub(crate) go: BorrowedFd<'a>,
    /// Its end of the socket of MPI's process management interface.
    pub(crate) mpi: Option<OwnedFd>,
    /// Entries of its environment that the step's PMIx server wants there.
    pub(crate) pmix: &'a [Vec<u8>],
    /// Process group to join; its own if none. One with a terminal has a session of its own.
    pub(crate) group: Option<i32>,
    /// The `oom_score_adj` to take on, if the supervisor has another.
    pub(crate) oom_score: Option<&'a str>,
}

/// A failure to prepare.
pub(super) struct Failure(pub(super) Stage, pub(super) String);

/// Says what failed, as Slurm words it: `could not do it: reason`.
fn because(stage: Stage, what: impl std::fmt::Display) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure(stage, format!("{what}: {}", reason(&error)))
}

/// An error as `strerror` words it, without Rust's number after it.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Makes this child of the supervisor the step's PMIx server, which is this program once more. It becomes the job's user by itself,
/// since that user may not be allowed to execute this file.
pub(super) fn become_server(
    canary: Option<&Path>,
    oom_score: Option<&str>,
    (socket, dir): (&OwnedFd, &Path),
) -> Result<Infallible, Failure> {
    canary.map_or(Ok(()), prove_fence)?;
    let failed = |what: &'static str| because(Stage::Node, what);
    rustix::process::setsid().map_err(|e| failed("could not begin a session")(e.into()))?;
    if let Some(score) = oom_score {
        fs::write("/proc/self/oom_score_adj", score)
            .map_err(failed("could not reset oom_score_adj"))?;
    }
    let null = open_above("/dev/null".as_ref(), OFlags::RDWR | OFlags::CLOEXEC)
        .map_err(failed("could not open /dev/null"))?;
    let socket = above(socket)?;
    for (fd, number) in [
        (&null, 0),
        (&null, 1),
        (&null, 2),
        (&socket, pmix::SOCKET_FD),
    ] {
        // Owned by nobody here: the number stays open for the program.
        let _: RawFd = sys::fd::place(fd, number, false)
            .map_err(lost())?
            .into_raw_fd();
    }
    sys::process::close_from(pmix::SOCKET_FD.unsigned_abs() + 1).map_err(lost())?;
    sys::signal::reset_all();
    let dir = CString::new(dir.as_os_str().as_bytes()).unwrap_or_default();
    let argv = [c"spurd".into(), pmix::COMMAND_ARG.into(), dir];
    let env = [c"PATH=/usr/bin:/bin".into()];
    let error = sys::exec::execve(c"/proc/self/exe", &argv, &env);
    Err(failed("could not execute the PMIx server")(error))
}

/// What the kernel must say to the first open.
fn prove_fence(canary: &Path) -> Result<(), Failure> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let answer = match rustix::fs::open(canary, flags, Mode::empty()) {
        Err(rustix::io::Errno::PERM) => return Ok(()),
        Err(error) => format!("gave {} ({})", error.raw_os_error(), reason(&error.into())),
        Ok(_) => "succeeded".into(),
    };
    let text = format!(
        "the fence is not proven: opening {} {answer} where EPERM was due",
        canary.display()
    );
    Err(Failure(Stage::Fence, text))
}

/// A child that is ready for exec.
struct Prepared {
    warnings: Vec<String>,
    status: OwnedFd,
    go: OwnedFd,
}

impl Child<'_> {
    /// Runs in the child. Returns an exit code if the job's program was not executed.
    pub(crate) fn run(&self) -> i32 {
        let fenced = self.spec.canary.as_deref().map_or(Ok(()), prove_fence);
        match fenced.and_then(|()| self.prepare()) {
            Ok(prepared) => self.finish(prepared),
            Err(Failure(stage, text)) => {
                // If nobody listens any more, nobody needs to know.
                drop(status::send(
                    &self.status,
                    &Status::Failed(stage, text),
                    None,
                ));
                NOT_PREPARED
            }
        }
    }

    /// Everything up to exec.
    fn prepare(&self) -> Result<Prepared, Failure> {
        let mut warnings = self.privileged()?;
        creds::become_user(&self.spec.owner)
            .map_err(because(Stage::Node, "could not become the job's user"))?;
        rustix::process::umask(Mode::from_raw_mode(self.spec.umask & 0o777));
        warnings.extend(self.enter_work_dir()?);
        let (status, go) = self.connect()?;
        sys::signal::reset_all();
        Ok(Prepared {
            warnings,
            status,
            go,
        })
    }

    /// What needs root: process group, protection from the out-of-memory killer off, CPUs.
    fn privileged(&self) -> Result<Vec<String>, Failure> {
        self.enter_group()?;
        if let Some(score) = self.oom_score {
            fs::write("/proc/self/oom_score_adj", score)
                .map_err(because(Stage::Node, "could not reset oom_score_adj"))?;
        }
        let mut warnings = Vec::new();
        if !self.task.cpus.is_empty() {
            let mut set = rustix::thread::CpuSet::new();
            let fits = |cpu: &usize| *cpu < rustix::thread::CpuSet::MAX_CPU;
            self.task
                .cpus
                .iter()
                .filter_map(|cpu| usize::try_from(*cpu).ok())
                .filter(fits)
                .for_each(|cpu| set.set(cpu));
            if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
                warnings.push(format!(
                    "could not bind task {} to its CPUs: {}",
                    self.task.id,
                    reason(&error.into())
                ));
            }
        }
        Ok(warnings)
    }

    /// Joins the step's process group, or begins a session with the task's own terminal.
    fn enter_group(&self) -> Result<(), Failure> {
        if let End::Terminal(terminal) = &self.ends.stdin {
            return terminal::take(terminal)
                .map_err(because(Stage::Node, "could not take the task's terminal"));
        }
        let pid = rustix::process::getpid();
        let group = self
            .group
            .and_then(rustix::process::Pid::from_raw)
            .unwrap_or(pid);
        rustix::process::setpgid(Some(pid), Some(group))
            .map_err(|e| because(Stage::Node, "could not enter the step's process group")(e.into()))
    }

    /// Enters the working directory as the user, or `/tmp` instead.
    fn enter_work_dir(&self) -> Result<Option<String>, Failure> {
        let dir = &self.spec.work_dir;
        let Err(error) = rustix::process::chdir(dir) else {
            return Ok(None);
        };
        rustix::process::chdir("/tmp")
            .map_err(|e| because(Stage::Job, "could not chdir to /tmp")(e.into()))?;
        let why = reason(&error.into());
        Ok(Some(format!(
            "couldn't chdir to `{}': {why}: going to /tmp instead",
            dir.display()
        )))
    }

    /// Opens files as the user, puts descriptors 0 to 5 in place and closes all others. Gives 3 and 4.
    fn connect(&self) -> Result<(OwnedFd, OwnedFd), Failure> {
        let stdin = open_end(&self.ends.stdin, "stdin", OFlags::RDONLY)?;
        let stdout = open_end(&self.ends.stdout, "stdout", OFlags::WRONLY)?;
        let stderr = match &self.ends.stderr {
            End::AsStdout => above(&stdout)?,
            end @ (End::Null | End::Pipe(_) | End::Terminal(_) | End::File { .. }) => {
                open_end(end, "stderr", OFlags::WRONLY)?
            }
        };
        let (status, go) = (above(&self.status)?, above(self.go)?);
        let mpi = self.mpi.as_ref().map(above).transpose()?;
        for (number, (end, fd, name)) in (0..).zip([
            (&self.ends.stdin, stdin, "stdin"),
            (&self.ends.stdout, stdout, "stdout"),
            (&self.ends.stderr, stderr, "stderr"),
        ]) {
            self.harmless(end, &fd, name)?;
            // Owned by nobody here: the number stays open for the program.
            let _: RawFd = sys::fd::place(fd, number, false)
                .map_err(lost())?
                .into_raw_fd();
        }
        let status = sys::fd::place(status, STATUS_FD, true).map_err(lost())?;
        let go = sys::fd::place(go, GO_FD, true).map_err(lost())?;
        if let Some(mpi) = mpi {
            let mpi = sys::fd::place(mpi, PMI_FD, false).map_err(lost())?;
            let _: RawFd = mpi.into_raw_fd();
        }
        // All that the supervisor's copied state still owns goes; none of it is used or dropped in this process.
        sys::process::close_from(CLOSE_FROM[usize::from(self.mpi.is_some())]).map_err(lost())?;
        Ok((status, go))
    }

    /// Refuses a stream that is handed in and is no pipe, and one that is a fenced device: also a device that the job was given is
    /// to be opened by the job itself, so that no descriptor of it is older than the program.
    fn harmless(&self, end: &End, fd: &OwnedFd, name: &str) -> Result<(), Failure> {
        let stat = rustix::fs::fstat(fd).map_err(|e| lost()(e.into()))?;
        let kind = file_type(&stat);
        match end {
            End::Pipe(_) if kind == FileType::Fifo => Ok(()),
            End::Pipe(_) => Err(Failure(Stage::Node, "a stream is not a pipe".into())),
            End::Terminal(_)
                if kind == FileType::CharacterDevice
                    && terminal::is_one(rustix::fs::major(stat.st_rdev)) =>
            {
                Ok(())
            }
            End::Terminal(_) => Err(Failure(Stage::Node, "a stream is not a terminal".into())),
            End::File { path, .. } if kind == FileType::CharacterDevice => {
                let (major, minor) = (
                    rustix::fs::major(stat.st_rdev),
                    rustix::fs::minor(stat.st_rdev),
                );
                let mut fenced = self.spec.fenced.iter();
                if fenced.any(|(of, only)| *of == major && only.is_none_or(|only| only == minor)) {
                    let text = format!(
                        "Could not open {name} file {}: it is a fenced device ({major}:{minor}), which no stream may be",
                        path.display()
                    );
                    return Err(Failure(Stage::Job, text));
                }
                Ok(())
            }
            End::File { .. } | End::Null | End::AsStdout => Ok(()),
        }
    }

    /// Reports, waits to be let go, and executes.
    fn finish(&self, prepared: Prepared) -> i32 {
        let Prepared {
            warnings,
            status,
            go,
        } = prepared;
        let stderr = rustix::stdio::stderr();
        let regular =
            rustix::fs::fstat(stderr).is_ok_and(|s| file_type(&s) == FileType::RegularFile);
        let copy = regular.then_some(stderr);
        if status::send(&status, &Status::Ready(None), copy).is_err() || !let_go(&go) {
            return NOT_PREPARED;
        }
        let node = &self.spec.node;
        for warning in warnings {
            complain(node, &warning);
        }
        self.tell_binding();
        let warn = |warning: String| complain(node, &warning);
        let (error, text) = program::execute(
            (self.spec, self.task, self.pmix),
            (self.prolog, self.script),
            warn,
        );
        complain(node, &text);
        // The supervisor only logs it.
        drop(status::send(&status, &Status::NoExec(text), None));
        error
    }
}

impl Child<'_> {
    /// Says how the task is bound, where that was asked for, as Slurm's task plugin does.
    fn tell_binding(&self) {
        let told = &self.task.told;
        let mut text = String::new();
        if !told.gpus.is_empty() {
            text = format!("{}\n", told.gpus);
        }
        if !told.cpus.is_empty() {
            let set = rustix::thread::sched_getaffinity(None).unwrap_or_default();
            let cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu));
            let mask: IdSet = cpus.filter_map(|cpu| u32::try_from(cpu).ok()).collect();
            let done = if self.task.cpus.is_empty() {
                ""
            } else {
                " set"
            };
            let local = self
                .spec
                .tasks
                .iter()
                .position(|task| task.id == self.task.id);
            let line = format!(
                "{} - {}, task {:2} {:2} [{}]: mask {}{done}\n",
                told.cpus,
                self.spec.node,
                self.task.id,
                local.unwrap_or_default(),
                std::process::id(),
                bind::in_hex(&mask),
            );
            text.push_str(&line);
        }
        // There is nowhere to report that standard error cannot be written.
        drop(io::stderr().write_all(text.as_bytes()));
    }
}

/// Writes a message to standard error as Slurm's step daemon does.
fn complain(node: &str, text: &str) {
    // There is nowhere to report that standard error cannot be written.
    drop(io::stderr().write_all(super::message(node, text).as_bytes()));
}

/// Waits for the supervisor's word; `false` if it died instead.
fn let_go(go: &OwnedFd) -> bool {
    let mut byte = [0];
    loop {
        match rustix::io::read(go, &mut byte) {
            Ok(count) => return count == 1,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

fn file_type(stat: &rustix::fs::Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn lost() -> impl FnOnce(io::Error) -> Failure {
    because(Stage::Node, "could not place a descriptor")
}

/// Opens what a stream is to be connected to: inside the fence and as the user.
fn open_end(end: &End, name: &str, access: OFlags) -> Result<OwnedFd, Failure> {
    let flags = access | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = match end {
        End::Pipe(fd) | End::Terminal(fd) => return above(fd),
        End::Null | End::AsStdout => open_above("/dev/null".as_ref(), flags),
        End::File { path, .. } if access == OFlags::RDONLY => open_above(path, flags),
        End::File { path, truncate } => {
            let truncate = if *truncate {
                OFlags::TRUNC
            } else {
                OFlags::empty()
            };
            open_late(path, flags | OFlags::CREATE | OFlags::APPEND | truncate)
        }
    };
    let path = if let End::File { path, .. } = end {
        path
    } else {
        Path::new("/dev/null")
    };
    opened.map_err(because(
        Stage::Job,
        format!("Could not open {name} file {}", path.display()),
    ))
}

/// Opens a file that is made where it is missing, in a folder that may come late.
fn open_late(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let last = Instant::now() + FOLDER_LATE;
    loop {
        match open_above(path, flags) {
            Err(why) if why.kind() == io::ErrorKind::NotFound && Instant::now() < last => {
                thread::sleep(FOLDER_LOOK);
            }
            done => return done,
        }
    }
}

fn open_above(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let low = rustix::fs::open(path, flags, Mode::from_raw_mode(0o666))?;
    Ok(rustix::io::fcntl_dupfd_cloexec(low, ABOVE)?)
}

fn above(fd: impl AsFd) -> Result<OwnedFd, Failure> {
    let copy = rustix::io::fcntl_dupfd_cloexec(fd, ABOVE);
    copy.map_err(|e| because(Stage::Node, "could not copy a descriptor")(e.into()))
}
