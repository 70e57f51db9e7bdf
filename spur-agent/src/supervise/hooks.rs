//! Programs around a task (`srun --task-prolog`, `--task-epilog`): as its user, inside the step's fence.

use super::child::{Child, reason};
use super::note;
use super::plan::{ChildEnds, End};
use super::status;
use super::step::Step;
use crate::launch::{TaskLaunch, Told};
use crate::programs::{self, Output};
use crate::sys;
use serde_bytes::ByteBuf;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program after a task may take; Slurm's time for it.
const EPILOG_MAX: Duration = Duration::from_secs(5);

/// How much of what a program before a task prints is looked at.
const PROLOG_MAX: usize = 1 << 20;

/// Which of a task's programs runs, as Slurm tells it.
const CONTEXT: &str = "SLURM_SCRIPT_CONTEXT";

/// An environment by name.
type Env = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a line that a program before a task prints asks for.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Export(&'a [u8], &'a [u8]),
    Unset(&'a [u8]),
    Print(&'a [u8]),
}

/// Runs the program before the task, in the task's process; what it prints changes the task's environment.
///
/// # Errors
/// It failed, or could not be run: the code with which the task ends, and what is said of it.
pub(super) fn prolog(program: &[u8], env: &mut Env) -> Result<(), (i32, String)> {
    env.insert(CONTEXT.into(), b"prolog_task".into());
    let failed = |code: i32| (code, format!("--task-prolog failed status={code}"));
    let variables = env.iter();
    let variables =
        variables.map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value)));
    let not_run = |error: io::Error| {
        let program = String::from_utf8_lossy(program);
        (1, format!("--task-prolog {program}: {}", reason(&error)))
    };
    let (reader, writer) = io::pipe().map_err(not_run)?;
    rustix::io::ioctl_fionbio(&reader, true).map_err(|errno| not_run(errno.into()))?;
    // What it leaves behind may hold the pipe for as long as it likes: only the program is waited for.
    let mut child = Command::new(OsStr::from_bytes(program))
        .env_clear()
        .envs(variables)
        .stdin(Stdio::null())
        .stdout(writer)
        .spawn()
        .map_err(not_run)?;
    let mut output = Output::of(reader, PROLOG_MAX);
    programs::wait(&child, &mut output, None).map_err(not_run)?;
    let status = child.wait().map_err(not_run)?;
    output.read();
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    for line in lines(output.kept()) {
        match line {
            Line::Export(name, value) => drop(env.insert(name.to_vec(), value.to_vec())),
            Line::Unset(name) => drop(env.remove(name)),
            Line::Print(text) => {
                let mut out = io::stdout();
                // A task whose output is closed finds out by itself.
                drop(
                    out.write_all(&[text, b"\n"].concat())
                        .and_then(|()| out.flush()),
                );
            }
        }
    }
    if code == 0 { Ok(()) } else { Err(failed(code)) }
}

/// The lines that mean something.
fn lines(said: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let lines = said.split(|byte| *byte == b'\n');
    lines.filter_map(|line| {
        if let Some(text) = line.strip_prefix(b"print ") {
            return Some(Line::Print(text.trim_ascii_start()));
        }
        if let Some(name) = line.strip_prefix(b"unset ") {
            let name = name.trim_ascii();
            return (!name.is_empty()).then_some(Line::Unset(name));
        }
        let entry = line.strip_prefix(b"export ")?;
        let at = entry.iter().position(|byte| *byte == b'=')?;
        let (name, value) = entry.split_at_checked(at)?;
        let (name, value) = (name.trim_ascii(), value.get(1..)?);
        let plain = !name.is_empty() && !name.contains(&0) && !value.contains(&0);
        plain.then_some(Line::Export(name, value))
    })
}

/// A program that runs after a task.
#[derive(Debug)]
pub(crate) struct Epilog {
    /// The task.
    pub(crate) task: u32,
    pid: i32,
    until: Instant,
    /// Kept open: the program's process ends if nobody listens to it.
    _status: OwnedFd,
}

impl Step<'_> {
    /// A task has ended: runs what is to run after it.
    pub(super) fn run_epilog(&mut self, id: u32) {
        let spec = self.spec;
        let task = spec.tasks.iter().find(|task| task.id == id);
        let Some(task) = task.filter(|_| !spec.hooks.epilog.is_empty()) else {
            return;
        };
        match start(self, task) {
            Ok(epilog) => self.epilogs.push(epilog),
            Err(error) => note(&format!("the program after task {id} cannot run: {error}")),
        }
    }

    /// Notes the end of a process, if it is a program after a task.
    pub(super) fn epilog_ended(&mut self, child: &sys::process::Reaped) {
        let ended = self
            .epilogs
            .iter()
            .position(|epilog| epilog.pid == child.pid);
        let Some(epilog) = ended.map(|at| self.epilogs.swap_remove(at)) else {
            return;
        };
        let status = if child.signal > 0 {
            128 + u16::from(child.signal)
        } else {
            child.code.into()
        };
        if status > 0 {
            self.say(
                epilog.task,
                &format!("--task-epilog failed status={status}"),
            );
        }
    }

    /// When the first of them has had its time.
    pub(super) fn epilogs_due(&self) -> Option<Instant> {
        self.epilogs.iter().map(|epilog| epilog.until).min()
    }

    /// Kills those that have had their time.
    pub(super) fn end_epilogs(&mut self, now: Instant) {
        for epilog in self.epilogs.iter_mut().filter(|epilog| epilog.until <= now) {
            epilog.until = now + EPILOG_MAX;
            if let Err(error) = sys::process::kill_group(epilog.pid, libc::SIGKILL) {
                note(&format!("could not kill what runs after a task: {error}"));
            }
        }
    }
}

fn start(step: &Step<'_>, task: &TaskLaunch) -> io::Result<Epilog> {
    let mut env = task.env.clone();
    env.push(ByteBuf::from(format!("{CONTEXT}=epilog_task").into_bytes()));
    let after = TaskLaunch {
        argv: vec![step.spec.hooks.epilog.clone()],
        env,
        told: Told::default(),
        ..task.clone()
    };
    let (wait, go) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::write(&go, &[0])?;
    let (ours, status) = status::pair()?;
    let child = Child {
        spec: step.spec,
        task: &after,
        prolog: &[],
        script: None,
        ends: ChildEnds {
            stdin: End::Null,
            stdout: End::Null,
            stderr: End::Null,
        },
        status,
        go: wait.as_fd(),
        group: None,
        oom_score: step.oom_score.as_deref(),
        mpi: None,
        pmix: &[],
    };
    let pid = sys::clone::clone_into(step.cgroup.as_fd(), || child.run())?;
    Ok(Epilog {
        task: task.id,
        pid,
        until: Instant::now() + EPILOG_MAX,
        _status: ours,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_mean_something_count() {
        let said = b"export A=1\nexport  B = two words \nexport C\nexport =x\nexport N\0=x\nexport N=\0\nunset  D \nunset \nprint  hello\nprinted\nprint last";
        let found: Vec<Line<'_>> = lines(said).collect();
        assert_eq!(
            found,
            [
                Line::Export(b"A", b"1"),
                Line::Export(b"B", b" two words "),
                Line::Unset(b"D"),
                Line::Print(b"hello"),
                Line::Print(b"last"),
            ]
        );
    }
}
