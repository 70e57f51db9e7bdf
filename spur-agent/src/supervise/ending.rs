//! Ending a step before its time: a request, a last grace, a kill.

use super::step::{Phase, Step};
use super::{message, note};
use crate::launch::EndReason;
use crate::sys;
use spur_core::id::StepKind;
use spur_proto::wire::{Output, from_step};
use std::time::{Duration, Instant};

/// How long processes may survive `SIGKILL` (in an uninterruptible wait) before the supervisor stops waiting for them and
/// leaves them to the agent; Slurm's `UnkillableStepTimeout`.
const UNKILLABLE: Duration = Duration::from_secs(60);

/// Longest grace that is honoured: a year, so that deadlines can be computed.
const MAX_GRACE: Duration = Duration::from_secs(365 * 24 * 3600);

/// How far the end of a step has been forced.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// When all that is left is killed.
    kill_at: Option<Instant>,
    /// When the supervisor gives up waiting.
    give_up_at: Option<Instant>,
}

impl Ending {
    /// The next moment at which something is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.kill_at.or(self.give_up_at)
    }
}

impl Step<'_> {
    /// Ends the step: `SIGCONT` and `SIGTERM` now, `SIGKILL` after the grace. Repeated calls can only bring the end nearer.
    pub(crate) fn end(&mut self, grace: Duration, reason: EndReason) {
        let first = self.ending.deadline().is_none();
        let kill_at = Instant::now() + grace.min(MAX_GRACE);
        if self.ending.give_up_at.is_none() {
            self.ending.kill_at = Some(self.ending.kill_at.map_or(kill_at, |at| at.min(kill_at)));
        }
        if !self.record.cancelled && !self.record.timed_out {
            self.record.timed_out = reason == EndReason::TimeLimit;
            self.record.cancelled = reason != EndReason::TimeLimit;
        }
        if !first {
            return;
        }
        if self.phase == Phase::Starting {
            return self.fail("cancelled before it started", false);
        }
        if self.phase == Phase::Running {
            self.ask_to_end(reason);
        }
    }

    /// The client went away: what it started ends.
    pub(crate) fn client_gone(&mut self) {
        if self.client.take().is_some() && !matches!(self.phase, Phase::Draining | Phase::Closing) {
            note("the client is gone");
            self.end(
                Duration::from_secs(self.spec.kill_wait.into()),
                EndReason::Cancelled,
            );
        }
    }

    /// A task ended badly and the client wants the others to end then.
    pub(crate) fn end_for_bad_exit(&mut self) {
        if self.ending.deadline().is_none() && self.tasks.iter().any(|task| task.end.is_none()) {
            let grace = Duration::from_secs(self.spec.kill_wait.into());
            self.ending.kill_at = Some(Instant::now() + grace.min(MAX_GRACE));
            self.ask_to_end(EndReason::Cancelled);
        }
    }

    /// `SIGCONT`, Slurm's line, `SIGTERM`: to the tasks' process group, so that what a shell waits for ends with it.
    fn ask_to_end(&mut self, reason: EndReason) {
        self.signal_group(libc::SIGCONT);
        self.say_cancelled(reason);
        self.signal_group(libc::SIGTERM);
    }

    /// Whether others of the tasks' group, which were asked to end with them, still have time for it: what a shell waited for when
    /// the signal took it.
    pub(crate) fn has_grace(&self) -> bool {
        let group = self.tasks.first().map_or(0, |task| task.pid);
        self.phase == Phase::Running
            && self.ending.kill_at.is_some()
            && sys::process::kill_group(group, 0).is_ok()
    }

    fn signal_group(&self, signal: i32) {
        let Some(group) = self.tasks.first().map(|task| task.pid) else {
            return;
        };
        let group_of = |pid| {
            let pid = rustix::process::Pid::from_raw(pid);
            rustix::process::getpgid(pid).is_ok_and(|group_of| group_of.as_raw_pid() == group)
        };
        // A task that was not reaped keeps the group's number from passing to somebody else.
        let (members, others): (Vec<_>, Vec<_>) = self
            .tasks
            .iter()
            .filter(|task| task.end.is_none())
            .partition(|task| group_of(task.pid));
        let sent = if members.is_empty() {
            Ok(())
        } else {
            sys::process::kill_group(group, signal)
        };
        // A task that left the group, for a session of its own say, is still a task.
        let sent = others.iter().fold(sent, |sent, task| {
            sent.and(sys::process::kill(task.pid, signal))
        });
        if let Err(error) = sent {
            note(&format!(
                "could not send signal {signal} to the step: {error}"
            ));
        }
    }

    /// Does what is due by now; `false` when it is time to give up.
    pub(crate) fn on_time(&mut self) -> bool {
        let now = Instant::now();
        if self.ending.kill_at.is_some_and(|at| at <= now) {
            self.ending.kill_at = None;
            self.ending.give_up_at = Some(now + UNKILLABLE);
            self.kill();
            if matches!(self.phase, Phase::Draining | Phase::Closing) {
                // Only a client that does not take its output keeps us.
                self.client = None;
            }
        }
        self.ending.give_up_at.is_none_or(|at| now < at)
    }

    /// Slurm's line on the job's standard error.
    fn say_cancelled(&mut self, reason: EndReason) {
        let step = self.spec.step;
        let what = match step.step {
            StepKind::Batch => format!("JOB {}", step.job),
            StepKind::Numbered(_) => format!("STEP {step}"),
        };
        let why = match reason {
            EndReason::Cancelled => "",
            EndReason::TimeLimit => " DUE TO TIME LIMIT",
            EndReason::NodeFailure => " DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS",
        };
        let (node, at) = (&self.spec.node, sys::clock::local_now());
        let text = message(
            node,
            &format!("*** {what} ON {node} CANCELLED AT {at}{why} ***"),
        );
        if let Some(file) = &self.stderr {
            if let Err(error) = rustix::io::write(file, text.as_bytes()) {
                note(&format!(
                    "could not write to the job's standard error: {error}"
                ));
            }
            return;
        }
        let Some(first) = self.tasks.first() else {
            return;
        };
        let output = Output {
            task: first.id,
            stderr: true,
            data: text.into_bytes(),
        };
        if self.spec.stdio.stderr == crate::launch::Output::Stream {
            self.tell(from_step::Kind::Output(output));
        }
    }
}
