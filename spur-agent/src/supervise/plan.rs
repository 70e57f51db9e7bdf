//! From the spec to what each task's child does: names expanded, files shared, pipes made.

use super::terminal;
use crate::launch::{Input, Output, StdinTo, StepLaunch, TaskLaunch};
use rustix::pipe::PipeFlags;
use spur_core::slurm::filename::{self, Names};
use spur_core::slurm::raw;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// What a child connects a standard stream to.
#[derive(Debug)]
pub(crate) enum End {
    /// `/dev/null`.
    Null,
    /// This end of a pipe.
    Pipe(OwnedFd),
    /// The task's side of its terminal.
    Terminal(OwnedFd),
    /// A file to open, as the user.
    File { path: PathBuf, truncate: bool },
    /// For standard error: whatever standard output is.
    AsStdout,
}

/// A child's side of the standard streams.
#[derive(Debug)]
pub(crate) struct ChildEnds {
    pub(crate) stdin: End,
    pub(crate) stdout: End,
    pub(crate) stderr: End,
}

/// The supervisor's ends of a task's pipes.
#[derive(Debug, Default)]
pub(crate) struct OurEnds {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
}

/// Plans tasks one after the other; remembers which files an earlier task truncates already.
#[derive(Debug)]
pub(crate) struct Planner<'a> {
    spec: &'a StepLaunch,
    truncated: BTreeSet<PathBuf>,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(spec: &'a StepLaunch) -> Self {
        Self {
            spec,
            truncated: BTreeSet::new(),
        }
    }

    /// Makes both sides of one task's streams.
    pub(crate) fn task(&mut self, task: &TaskLaunch) -> io::Result<(ChildEnds, OurEnds)> {
        if self.spec.terminal.is_some() {
            return self.on_terminal(task);
        }
        let mut ours = OurEnds::default();
        let stdin = match &self.spec.stdio.stdin {
            Input::Null => End::Null,
            Input::Stream(StdinTo::Task(id)) if *id != task.id => End::Null,
            Input::Stream(StdinTo::All | StdinTo::Task(_)) => {
                let (read, write) = pipe()?;
                rustix::io::ioctl_fionbio(&write, true)?;
                ours.stdin = Some(write);
                End::Pipe(read)
            }
            Input::File(name) => End::File {
                path: self.path(name, task),
                truncate: false,
            },
        };
        let stdout = self.output(&self.spec.stdio.stdout, task, &mut ours.stdout)?;
        let stderr = self.output(&self.spec.stdio.stderr, task, &mut ours.stderr)?;
        let shared = matches!((&stdout, &stderr), (End::File { path: a, .. }, End::File { path: b, .. }) if a == b);
        let stderr = if shared { End::AsStdout } else { stderr };
        Ok((
            ChildEnds {
                stdin,
                stdout,
                stderr,
            },
            ours,
        ))
    }

    /// A terminal on all streams for the task that gets one, nothing for the others.
    fn on_terminal(&self, task: &TaskLaunch) -> io::Result<(ChildEnds, OurEnds)> {
        let Some(window) = self.spec.terminal_of(task) else {
            let nothing = ChildEnds {
                stdin: End::Null,
                stdout: End::Null,
                stderr: End::Null,
            };
            return Ok((nothing, OurEnds::default()));
        };
        let (ours, theirs) = terminal::open(&self.spec.owner, window)?;
        let theirs = ChildEnds {
            stdin: End::Terminal(theirs.try_clone()?),
            stdout: End::Terminal(theirs.try_clone()?),
            stderr: End::Terminal(theirs),
        };
        let ours = OurEnds {
            stdin: Some(ours.try_clone()?),
            stdout: Some(ours),
            stderr: None,
        };
        Ok((theirs, ours))
    }

    fn output(
        &mut self,
        to: &Output,
        task: &TaskLaunch,
        ours: &mut Option<OwnedFd>,
    ) -> io::Result<End> {
        Ok(match to {
            Output::Null => End::Null,
            Output::Stream => {
                let (read, write) = pipe()?;
                rustix::io::ioctl_fionbio(&read, true)?;
                *ours = Some(read);
                End::Pipe(write)
            }
            Output::File { path, append } => {
                let path = self.path(path, task);
                let truncate = !append && self.truncated.insert(path.clone());
                End::File { path, truncate }
            }
        })
    }

    fn path(&self, name: &[u8], task: &TaskLaunch) -> PathBuf {
        let spec = self.spec;
        let names = Names {
            job: spec.step.job.0,
            array: spec.array,
            step: spec.step.step,
            task: task.id,
            node: spec.node_index,
            host: &spec.node,
            name: &spec.job_name,
            user: &spec.owner.user,
        };
        if spec.script.is_some() {
            return spec.work_dir.join(OsStr::from_bytes(name));
        }
        let file = filename::expand(&raw::text(name), &names);
        spec.work_dir.join(OsStr::from_bytes(&raw::bytes(&file)))
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?)
}
