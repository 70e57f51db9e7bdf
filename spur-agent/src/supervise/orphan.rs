//! A step whose agent is away for so long that the controller gives the node up: it ends before the job may run elsewhere. An agent
//! that is only started again is back long before.

use super::note;
use super::step::{Phase, Step};
use crate::launch::{AgentWatch, EndReason};
use crate::sys;
use std::fs::File;
use std::io;
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
    /// Its process at the last look.
    seen: Option<i32>,
}

impl Orphan {
    pub(crate) fn new(watch: Option<&AgentWatch>) -> Self {
        Self {
            look_at: watch.map(|_| Instant::now()),
            away_since: None,
            seen: None,
        }
    }

    /// Notes which process is the agent now; gives for how long none has been. One that is there at two looks in a row has come back;
    /// agents that end as soon as they begin have not, however many they are.
    fn looked(&mut self, agent: Option<i32>, now: Instant) -> Duration {
        let stays = agent.is_some() && self.seen == agent;
        self.seen = agent;
        if stays {
            self.away_since = None;
        }
        match agent {
            None => now.saturating_duration_since(*self.away_since.get_or_insert(now)),
            Some(_) => Duration::ZERO,
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
        let Ok(agent) = agent(watch) else {
            // What cannot be asked counts as an agent that lives.
            self.orphan.away_since = None;
            return;
        };
        let away = self.orphan.looked(agent, now);
        let over = matches!(self.phase, Phase::Draining | Phase::Closing);
        if away >= most && !over {
            self.orphan.look_at = None;
            self.record.orphaned = true;
            note(
                "the node's agent does not come back, and the job may run elsewhere: it ends here",
            );
            self.end(grace, EndReason::NodeFailure);
        }
    }
}

/// The agent's process, if there is one.
fn agent(watch: &AgentWatch) -> io::Result<Option<i32>> {
    File::open(&watch.lock).and_then(|file| sys::lock::holder(&file))
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

    #[test]
    fn agents_that_do_not_stay_are_none() {
        let begun = Instant::now();
        let secs = Duration::from_secs;
        let away = |looks: &[Option<i32>]| {
            let mut orphan = Orphan::default();
            let looks = looks.iter().zip(0..);
            looks.fold(Duration::ZERO, |_, (agent, at)| {
                orphan.looked(*agent, begun + secs(at))
            })
        };
        assert_eq!(away(&[Some(1), Some(1), None]), secs(0), "it has just gone");
        assert_eq!(away(&[Some(1), None, None, None]), secs(2));
        assert_eq!(away(&[None, None, Some(2)]), secs(0), "it may stay");
        assert_eq!(
            away(&[None, Some(2), Some(2), None, None]),
            secs(1),
            "it has stayed"
        );
        assert_eq!(
            away(&[None, Some(2), Some(3), None, Some(4), None]),
            secs(5),
            "none has"
        );
    }
}
