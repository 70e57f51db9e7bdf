//! The fence's self-test: a child of ours goes into a fenced cgroup and opens the canary.
//!
//! It runs once when the agent starts, so that a node without a working fence says so before a job is sent there. Every job
//! proves its own fence again.

use super::node::{NodeFence, PROBE};
use crate::cgroup::{Cgroup, Root};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// The (hidden) command by which the agent calls itself.
pub const COMMAND: &str = "canary-probe";

/// The child's exit codes.
const REFUSED: u8 = 0;
const NOT_REFUSED: u8 = 10;
const NOT_INSIDE: u8 = 11;

/// Why the fence is not proven.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The self-test could not be carried out.
    #[error("the fence is not proven: {0}")]
    Cannot(String),
    /// The canary was not refused.
    #[error(
        "the fence does not refuse: inside it, opening the canary {canary} reached the kernel's device table"
    )]
    NotRefused {
        /// Path of the canary.
        canary: String,
    },
}

/// Makes a fenced cgroup, lets the child try, and removes it again.
pub fn run(root: &Root, fence: &NodeFence, canary: &Path) -> Result<(), ProbeError> {
    let cannot = |what: &dyn std::error::Error| ProbeError::Cannot(super::node::chain(what));
    let cgroup = Cgroup::create(root.path().join(PROBE)).map_err(|e| cannot(&e))?;
    let job = fence
        .attach_empty(cgroup.path(), PROBE)
        .map_err(|e| cannot(&e))?;
    let outcome = try_inside(cgroup.path(), canary);
    job.detach().map_err(|e| cannot(&e))?;
    cgroup.remove().map_err(|e| cannot(&e))?;
    outcome
}

fn try_inside(cgroup: &Path, canary: &Path) -> Result<(), ProbeError> {
    let own = std::env::current_exe().map_err(|e| ProbeError::Cannot(e.to_string()))?;
    let mut command = Command::new(own);
    command
        .arg(COMMAND)
        .arg(cgroup)
        .arg(canary)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let status = command
        .status()
        .map_err(|e| ProbeError::Cannot(e.to_string()))?;
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(REFUSED) => Ok(()),
        Some(NOT_REFUSED) => Err(ProbeError::NotRefused {
            canary: canary.display().to_string(),
        }),
        Some(NOT_INSIDE) => Err(ProbeError::Cannot(
            "the child cannot enter the cgroup".into(),
        )),
        Some(_) | None => Err(ProbeError::Cannot(format!("the child ended with {status}"))),
    }
}

/// The child's part: enter the cgroup, open the canary, say what came of it.
pub fn child(cgroup: &Path, canary: &Path) -> ExitCode {
    if std::fs::write(cgroup.join("cgroup.procs"), "0").is_err() {
        return ExitCode::from(NOT_INSIDE);
    }
    match open(
        canary,
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK,
        Mode::empty(),
    ) {
        Err(Errno::PERM) => ExitCode::from(REFUSED),
        Ok(_) | Err(_) => ExitCode::from(NOT_REFUSED),
    }
}
