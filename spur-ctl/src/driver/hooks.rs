//! Programs of the operator around allocations, as the writer sees them: which run, which wait for their turn, and what came of them.
//! They are run by [`crate::hooks`].

use super::Writer;
use super::turn::Turn;
use crate::hooks::{AT_ONCE, HookEnd, HookRun};
use spur_core::event::Event;
use spur_core::id::JobId;
use std::collections::{BTreeSet, VecDeque};
use tokio::sync::mpsc;

/// Who runs programs, and for which jobs some run or wait.
#[derive(Debug, Default)]
pub(super) struct Desk {
    /// `None` where nobody runs any.
    pub(super) runner: Option<mpsc::Sender<HookRun>>,
    running: BTreeSet<JobId>,
    /// Bounded by what is due, which the state bounds.
    waiting: VecDeque<JobId>,
}

impl Writer {
    /// What a former controller began or left to do is due again.
    pub(super) fn resume_hooks(&mut self) {
        self.look_for_hooks();
        self.run_hooks(Vec::new());
    }

    /// What the state says is due waits for its turn, unless it runs.
    pub(super) fn look_for_hooks(&mut self) {
        self.hooks.waiting = self.cluster.hooks_due().map(|(job, _)| job).collect();
    }

    /// Hands over what is due for these jobs, as far as there is room.
    pub(super) fn run_hooks(&mut self, jobs: Vec<JobId>) {
        self.hooks.waiting.extend(jobs);
        let Some(runner) = self.hooks.runner.clone() else {
            return;
        };
        while self.hooks.running.len() < AT_ONCE
            && let Some(job) = self.hooks.waiting.pop_front()
        {
            let Some(hook) = self.cluster.hook_of(job) else {
                continue;
            };
            if self.hooks.running.contains(&job) {
                continue;
            }
            let run = HookRun {
                job,
                hook: hook.clone(),
            };
            // As many fit in as may run.
            if runner.try_send(run).is_ok() {
                self.hooks.running.insert(job);
            }
        }
    }

    /// What a program did cannot be kept: it is due as before, once there is room.
    pub(super) fn run_hook_again(&mut self, job: JobId) {
        self.hooks.running.remove(&job);
        self.hooks.waiting.push_back(job);
    }

    /// A program ended: what it means is decided by the core, and the next one may run.
    pub(super) fn hook_ended(&mut self, turn: &mut Turn, ended: HookEnd) {
        self.hooks.running.remove(&ended.job);
        let event = Event::HookEnded {
            job: ended.job,
            generation: ended.generation,
            kind: ended.kind,
            trouble: ended.trouble,
        };
        self.propose_quietly(turn, event);
    }
}
