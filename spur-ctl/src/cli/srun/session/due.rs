//! What falls due while a step runs.

use super::super::printer::Printer;
use super::super::{err, say, verbose};
use super::{Node, Session};
use std::time::{Duration, Instant};

/// Tasks that end within this time of each other are reported together.
const GATHER: Duration = Duration::from_millis(100);

/// Deadlines.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Due {
    /// Ended tasks are reported.
    report: Option<Instant>,
    /// `--wait`: the step is ended, since its first task ended so long ago.
    first_exit: Option<Instant>,
    /// Output that nobody reads is waited for no longer.
    pub(super) unread: Option<Instant>,
    /// srun waits no longer.
    pub(super) give_up: Option<Instant>,
}

impl Due {
    /// The first.
    pub(super) fn next(&self) -> Option<Instant> {
        [self.report, self.first_exit, self.unread, self.give_up]
            .into_iter()
            .flatten()
            .min()
    }
}

/// Sleeps until a deadline; for ever without one.
pub(super) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

fn take(slot: &mut Option<Instant>, now: Instant) -> bool {
    let due = slot.is_some_and(|at| at <= now);
    if due {
        *slot = None;
    }
    due
}

impl Session<'_> {
    /// A task ended: it is to be reported, and may start the `--wait`.
    pub(super) fn gather(&mut self) {
        let now = Instant::now();
        self.due.report.get_or_insert(now + GATHER);
        if let Some(wait) = self.wait.take() {
            self.waited = wait;
            verbose(
                self.options,
                format_args!("First task exited. Terminating job in {}s", wait.as_secs()),
            );
            self.due.first_exit = Some(now + wait);
        }
    }

    /// Prints what is known of ended tasks.
    pub(super) fn report(&mut self) {
        self.due.report = None;
        for (failed, line) in self.tasks.report() {
            if failed {
                err(line);
            } else {
                verbose(self.options, line);
            }
        }
    }

    /// Does what is due.
    pub(super) async fn on_time(&mut self) {
        let now = Instant::now();
        if take(&mut self.due.report, now) {
            self.report();
        }
        if take(&mut self.due.first_exit, now) {
            say(
                self.options,
                format_args!("First task exited {}s ago", self.waited.as_secs()),
            );
            for line in self.tasks.states() {
                say(self.options, line);
            }
            self.end().await;
        }
        if take(&mut self.due.unread, now) {
            self.printers.iter_mut().for_each(Printer::hold_no_more);
        }
        if take(&mut self.due.give_up, now) {
            self.given_up = true;
            err("Timed out waiting for job step to complete");
            self.failed = true;
            self.nodes.fill(Node::Done);
        }
    }
}
