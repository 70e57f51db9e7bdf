//! The guard of this node: what came of each of its programs, found out by loading and attaching them.

use super::node::{FenceError, NodeFence, chain};
use spur_ebpf::{Guard, GuardOptions, HookState};
use std::sync::PoisonError;

/// What is known of the guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardReport {
    /// Everything runs that a guarded node needs.
    pub complete: bool,
    /// One line for people: what is missing and why, or that nothing is.
    pub summary: String,
    /// Each program: its hook and what came of it.
    pub programs: Vec<(&'static str, String)>,
}

impl GuardReport {
    fn of(guard: &Guard) -> Self {
        let programs = guard.hooks().map(|(hook, state)| {
            let text = match state {
                HookState::Attached { program_id, .. } => format!("program {program_id} runs"),
                HookState::Absent => "this kernel has no such hook".to_owned(),
                HookState::Refused(why) => format!("refused: {why}"),
            };
            (hook.name(), text)
        });
        Self {
            complete: guard.is_complete(),
            summary: guard.summary(),
            programs: programs.collect(),
        }
    }

    fn failed(error: &FenceError) -> Self {
        Self {
            complete: false,
            summary: format!("it cannot be loaded: {}", chain(error)),
            programs: Vec::new(),
        }
    }
}

impl NodeFence {
    /// Puts the guard in force as far as this kernel takes it, or says what an earlier call found.
    pub fn raise_guard(&self) -> GuardReport {
        let inner = self.inner();
        let mut guard = inner.guard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(up) = &*guard {
            return GuardReport::of(up);
        }
        let loaded = crate::cgroup::Root::mount()
            .map_err(FenceError::from)
            .and_then(|mount| {
                let options = GuardOptions {
                    cgroup: mount.join(&inner.config.cgroup),
                    deny_signals: inner.config.deny_signals,
                };
                Ok(inner.fence.guard(&options)?)
            });
        match loaded {
            Ok(up) => GuardReport::of(guard.insert(up)),
            Err(error) => GuardReport::failed(&error),
        }
    }

    /// Whether the guard is up and complete, so that what is open already can be refused its use.
    pub fn is_guarded(&self) -> bool {
        let guard = self.inner().guard.lock();
        let guard = guard.unwrap_or_else(PoisonError::into_inner);
        guard.as_ref().is_some_and(Guard::is_complete)
    }
}
