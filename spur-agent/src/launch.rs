//! Starting a step: everything that its supervisor needs goes into a folder, then the supervisor (`spurd supervise`) is
//! started and does the rest alone, so that the step lives through the agent's restart and its exit status is never lost.
//!
//! A step's folder holds: `spec` (what to run; removed once given up), `lock` (held by the live supervisor), `control` (socket
//! for orders), `log`, `slurm_script` (batch only), `pmix` (a user's files, if the step has a PMIx server) and, at the end, `exit`.

mod path;
pub mod record;
pub(crate) mod scratch;
pub mod shelf;
pub mod spec;
pub mod starter;
pub mod supervisor;

pub use record::{ExitRecord, TaskEnd, exit_record, never_began};
pub use spec::{
    AgentWatch, Hooks, Input, Mpi, Output, PMI_FD, Pmix, PmixNode, Rlimit, StdinTo, Stdio,
    StepLaunch, TaskLaunch, Told, Window,
};
pub use supervisor::{EndReason, Launcher, Supervisor, remove_dir};

use spur_core::id::StepId;
use std::io;
use std::path::{Path, PathBuf};

/// What went wrong with starting or reaching a supervisor.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// An operation on a file of the step failed.
    #[error("could not {what} {}: {source}", path.display())]
    Io {
        /// What was attempted.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file of the step does not hold what it should.
    #[error("{} is damaged: {why}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// What is to be launched makes no sense.
    #[error("step {step} cannot be launched: {why}")]
    Invalid {
        /// Which step.
        step: StepId,
        /// What is wrong with it.
        why: &'static str,
    },
}

fn failed(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> LaunchError {
    let path = path.into();
    move |source| LaunchError::Io { what, path, source }
}

/// The folder of a step below the agent's state folder: `steps/<job>.<step>`.
pub fn step_dir(state_dir: &Path, step: StepId) -> PathBuf {
    steps_dir(state_dir).join(step.to_string())
}

/// The folder of all steps' folders.
pub fn steps_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("steps")
}
