//! Programs around jobs that an earlier agent began and did not see end. They are known by their environment: that is there from their
//! first instruction on, whenever the agent died, and what they started has it too.

use super::{DEATH_WITHIN, REAP_PAUSE};
use crate::fence::holders::everybody;
use crate::stuck;
use rustix::process::{Pid, Signal, getpgid, getpgrp, kill_process, kill_process_group};
use spur_core::agent::order::JobOrder;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Instant;

/// The variable by which they are known.
pub const MARK: &str = "SPUR_PROGRAM";

/// Its value for an occasion of a job, on the node with this state folder.
pub fn mark(state_dir: &Path, order: &JobOrder, context: &str) -> String {
    let (job, generation) = (order.job, order.generation);
    format!("{context}:{job}:{generation}:{}", state_dir.display())
}

/// Kills all that have one of these marks, with their groups, and waits until they are gone; for those that hang in the kernel, not
/// for long.
pub fn end(marks: &BTreeSet<String>) {
    if marks.is_empty() {
        return;
    }
    let deadline = Instant::now() + DEATH_WITHIN;
    loop {
        let living: Vec<u32> = everybody().filter(|pid| has_one(*pid, marks)).collect();
        if living.is_empty() {
            return;
        }
        if Instant::now() >= deadline {
            let what = stuck::describe(Path::new("/proc"), living);
            return tracing::error!(
                what,
                "programs that an earlier agent began were killed and do not end"
            );
        }
        for pid in living {
            tracing::info!(
                pid,
                "killed: a program that an earlier agent began, to be run again"
            );
            kill(pid);
        }
        std::thread::sleep(REAP_PAUSE);
    }
}

/// Whether a process of our own user has one of the marks. One that has ended has no environment.
fn has_one(pid: u32, marks: &BTreeSet<String>) -> bool {
    let folder = format!("/proc/{pid}");
    let user = rustix::process::geteuid().as_raw();
    if std::fs::metadata(&folder).map_or(true, |found| found.uid() != user) {
        return false;
    }
    let environ = std::fs::read(format!("{folder}/environ")).unwrap_or_default();
    environ.split(|byte| *byte == 0).any(|entry| {
        let value = std::str::from_utf8(entry)
            .ok()
            .and_then(|entry| entry.strip_prefix(MARK)?.strip_prefix('='));
        value.is_some_and(|value| marks.contains(value))
    })
}

fn kill(pid: u32) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return;
    };
    // Each began in a group of its own. Any of them may have ended just now.
    if let Ok(group) = getpgid(Some(pid))
        && group != getpgrp()
    {
        kill_process_group(group, Signal::KILL).ok();
    }
    kill_process(pid, Signal::KILL).ok();
}
