//! Ending a step before its time: a request, a last grace, a kill.

use super::step::{Phase, Step};
use super::task::Task;
use super::{message, note};
use crate::launch::EndReason;
use crate::sys;
use spur_core::id::StepKind;
use spur_proto::wire::{Output, from_step};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long processes may survive `SIGKILL` (in an uninterruptible wait) before the supervisor stops waiting for them and
/// leaves them to the agent; Slurm's `UnkillableStepTimeout`.
const UNKILLABLE: Duration = Duration::from_secs(60);

/// How long the end of a step waits for those who only attached to it.
const VIEWERS_LAST: Duration = Duration::from_secs(1);

/// Longest grace that is honoured: a year, so that deadlines can be computed.
const MAX_GRACE: Duration = Duration::from_secs(365 * 24 * 3600);

/// How far the end of a step has been forced.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// When all that is left is killed.
    kill_at: Option<Instant>,
    /// When the supervisor gives up waiting.
    give_up_at: Option<Instant>,
    /// When the step's own limit ends it, if its job is not stopped till then.
    limit_at: Option<Instant>,
    /// Since when the job is stopped.
    paused: Option<Instant>,
    /// When those who attached are left with what they have.
    leave_viewers_at: Option<Instant>,
}

impl Ending {
    /// The next moment at which something is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.kill_at.or(self.give_up_at)
    }

    /// The next moment at which the loop must look.
    fn wake(&self) -> Option<Instant> {
        let leave = self.leave_viewers_at.filter(|_| !self.viewers_left());
        let limit = self.limit_at.filter(|_| self.paused.is_none());
        let all = [self.deadline(), leave, limit];
        all.into_iter().flatten().min()
    }

    /// The job is stopped, or goes on: the time between does not count.
    pub(crate) fn pause(&mut self, paused: bool, now: Instant) {
        match (paused, self.paused) {
            (true, None) => self.paused = Some(now),
            (false, Some(since)) => {
                self.paused = None;
                let late = now.saturating_duration_since(since);
                self.limit_at = self.limit_at.map(|at| at + late);
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    /// The tasks run from now on, for so long at most.
    fn limit(&mut self, limit: Option<Duration>, now: Instant) {
        self.limit_at = limit.map(|limit| now + limit);
        self.paused = self.paused.map(|_| now);
    }

    /// Whether the limit is reached, which is said once.
    fn over(&mut self, now: Instant) -> bool {
        let over = self.paused.is_none() && self.limit_at.is_some_and(|at| at <= now);
        if over {
            self.limit_at = None;
        }
        over
    }

    /// The last message is queued: who attached has a little time to take it.
    pub(crate) fn leave_viewers(&mut self, now: Instant) {
        self.leave_viewers_at = Some(now + VIEWERS_LAST);
    }

    /// Whether those who attached have had that time.
    pub(crate) fn viewers_left(&self) -> bool {
        self.leave_viewers_at.is_some_and(|at| at <= Instant::now())
    }
}

impl Step<'_> {
    /// The next moment at which something is due.
    pub(crate) fn wake(&self) -> Option<Instant> {
        let pmix = self.pmix.as_ref().and_then(super::pmix::Pmix::due);
        let own = [self.ending.wake(), self.epilogs_due()];
        let all = own.into_iter().chain([self.orphan.wake(), pmix]);
        all.flatten().min()
    }

    /// The tasks run from now on.
    pub(crate) fn limit(&mut self) {
        let secs = Some(self.spec.time_limit).filter(|secs| *secs > 0);
        let limit = secs.map(|secs| Duration::from_secs(secs).min(MAX_GRACE));
        self.ending.limit(limit, Instant::now());
    }

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
        if self.audience.drop_client() && !matches!(self.phase, Phase::Draining | Phase::Closing) {
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

    /// Whether others of the tasks' groups, which were asked to end with them, still have time for it: what a shell waited for
    /// when the signal took it.
    pub(crate) fn has_grace(&self) -> bool {
        let lives = |group: &i32| sys::process::kill_group(*group, 0).is_ok();
        self.phase == Phase::Running
            && self.ending.kill_at.is_some()
            && self.groups().iter().any(lives)
    }

    /// The process groups that the tasks were started in.
    fn groups(&self) -> BTreeSet<i32> {
        self.tasks.iter().map(|task| task.group).collect()
    }

    /// A signal for the tasks and their children. Before there are any it is one for the tasks.
    pub(crate) fn signal_tasks_groups(&mut self, signal: u8) {
        if self.phase == Phase::Running && i32::from(signal) != libc::SIGKILL {
            self.signal_group(signal.into());
        } else {
            self.signal(signal);
        }
    }

    fn signal_group(&self, signal: i32) {
        for group in self.groups() {
            let started_there = self.tasks.iter().filter(|task| task.group == group);
            if let Err(error) = signal_one(group, started_there, signal) {
                note(&format!(
                    "could not send signal {signal} to the step: {error}"
                ));
            }
        }
    }

    /// Does what is due by now; `false` when it is time to give up.
    pub(crate) fn on_time(&mut self) -> bool {
        let now = Instant::now();
        self.end_epilogs(now);
        self.end_orphan(now);
        self.pmix_on_time(now);
        if self.ending.over(now) {
            let grace = Duration::from_secs(self.spec.kill_wait.into());
            self.end(grace, EndReason::TimeLimit);
        }
        if self.ending.kill_at.is_some_and(|at| at <= now) {
            self.ending.kill_at = None;
            self.ending.give_up_at = Some(now + UNKILLABLE);
            self.kill();
            if matches!(self.phase, Phase::Draining | Phase::Closing) {
                // Only a client that does not take its output keeps us.
                self.audience.drop_client();
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
        let text = format!("*** {what} ON {node} CANCELLED AT {at}{why} ***");
        if let Some(first) = self.tasks.first() {
            self.say(first.id, &text);
        }
    }

    /// A line of Slurm's step daemon on the job's standard error.
    pub(super) fn say(&mut self, task: u32, text: &str) {
        let text = message(&self.spec.node, text);
        if let Some(file) = &self.stderr {
            if let Err(error) = rustix::io::write(file, text.as_bytes()) {
                note(&format!(
                    "could not write to the job's standard error: {error}"
                ));
            }
            return;
        }
        let output = Output {
            task,
            stderr: true,
            data: text.into_bytes(),
        };
        if self.spec.stdio.stderr == crate::launch::Output::Stream || self.spec.terminal.is_some() {
            self.tell(from_step::Kind::Output(output));
        }
    }
}

/// Sends a signal to a group, and to those of its tasks that left it.
fn signal_one<'t>(
    group: i32,
    tasks: impl Iterator<Item = &'t Task>,
    signal: i32,
) -> std::io::Result<()> {
    let group_of = |pid| {
        let pid = rustix::process::Pid::from_raw(pid);
        rustix::process::getpgid(pid).is_ok_and(|group_of| group_of.as_raw_pid() == group)
    };
    // A task that was not reaped keeps the group's number from passing to somebody else.
    let (members, others): (Vec<_>, Vec<_>) = tasks
        .filter(|task| task.end.is_none())
        .partition(|task| group_of(task.pid));
    let sent = if members.is_empty() {
        Ok(())
    } else {
        sys::process::kill_group(group, signal)
    };
    // A task that left the group, for a session of its own say, is still a task.
    others.iter().fold(sent, |sent, task| {
        sent.and(sys::process::kill(task.pid, signal))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_a_step_waits_while_its_job_is_stopped() {
        let begun = Instant::now();
        let at = |secs| begun + Duration::from_secs(secs);
        let mut ending = Ending::default();
        ending.limit(Some(Duration::from_secs(10)), at(0));
        ending.pause(true, at(4));
        ending.pause(true, at(6));
        assert!(!ending.over(at(30)));
        assert_eq!(ending.wake(), None, "nothing is due till it goes on");
        ending.pause(false, at(24));
        ending.pause(false, at(26));
        assert_eq!(ending.wake(), Some(at(30)));
        assert!(!ending.over(at(29)));
        assert!(ending.over(at(30)) && !ending.over(at(31)));
        // One that begins while its job is stopped has its whole time from then on.
        let mut ending = Ending::default();
        ending.pause(true, at(0));
        ending.limit(Some(Duration::from_secs(10)), at(5));
        ending.pause(false, at(8));
        assert_eq!(ending.wake(), Some(at(18)));
    }
}
