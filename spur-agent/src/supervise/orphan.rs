//! A step whose agent is away for so long that the controller gives the node up: it ends before the job may run elsewhere. An agent
//! that is only started again is back long before.

use super::note;
use super::step::{Phase, Step};
use crate::launch::{AgentWatch, EndReason};
use crate::sys;
use std::fs::File;
use std::time::{Duration, Instant};

/// The longest pause between two looks.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// What is known of the agent.
#[derive(Debug, Default)]
pub(crate) struct Orphan {
    /// When to look next; `None`: never.
    look_at: Option<Instant>,
    /// Since when it is away.
    away_since: Option<Instant>,
}

impl Orphan {
    pub(crate) fn new(watch: Option<&AgentWatch>) -> Self {
        Self {
            look_at: watch.map(|_| Instant::now()),
            away_since: None,
        }
    }

    /// The next moment at which something is due.
    pub(crate) fn wake(&self) -> Option<Instant> {
        self.look_at
    }
}

/// For how long the agent may be away, and the grace of the step's tasks then: both are over before the node's time is, even though
/// it is seen late.
fn bounds(node_timeout: u64, kill_wait: u32) -> (Duration, Duration) {
    let all = Duration::from_secs(node_timeout);
    let grace = Duration::from_secs(kill_wait.into()).min(all / 10);
    (all * 8 / 10, grace)
}

impl Step<'_> {
    /// Looks whether the agent is there, when that is due.
    pub(super) fn end_orphan(&mut self, now: Instant) {
        let Some(watch) = &self.spec.agent else {
            return;
        };
        if self.orphan.look_at.is_none_or(|at| now < at) {
            return;
        }
        let (most, grace) = bounds(watch.node_timeout, self.spec.kill_wait);
        self.orphan.look_at = Some(now + PAUSE_MAX.min(most / 20));
        if agent_lives(watch) {
            self.orphan.away_since = None;
            return;
        }
        let since = *self.orphan.away_since.get_or_insert(now);
        let over = matches!(self.phase, Phase::Draining | Phase::Closing);
        if now.saturating_duration_since(since) >= most && !over {
            self.orphan.look_at = None;
            self.record.orphaned = true;
            note(
                "the node's agent does not come back, and the job may run elsewhere: it ends here",
            );
            self.end(grace, EndReason::NodeFailure);
        }
    }
}

/// What cannot be asked counts as an agent that lives.
fn agent_lives(watch: &AgentWatch) -> bool {
    let holder = File::open(&watch.lock).and_then(|file| sys::lock::holder(&file));
    !matches!(holder, Ok(None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_over_before_the_node_counts_as_lost() {
        for (timeout, kill_wait) in [
            (1, 30),
            (10, 30),
            (300, 30),
            (300, 0),
            (u64::from(u32::MAX), 30),
        ] {
            let (most, grace) = bounds(timeout, kill_wait);
            let seen_late = PAUSE_MAX.min(most / 20);
            let all = Duration::from_secs(timeout);
            assert!(most + grace + seen_late < all, "{timeout} {kill_wait}");
            assert!(most >= all / 2, "an agent has time to start again");
        }
    }
}
