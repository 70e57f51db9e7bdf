//! When to plan. On an idle cluster a pass comes in the turn that wants it; when passes take long, planning gets at most a fifth
//! of the writer's time, and a pass of its own turn, so that submissions do not wait for it.

use super::Writer;
use super::turn::Turn;
use spur_core::event::Event;
use spur_core::plan::{self, Budget};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A pass that took longer gets a turn of its own next time.
const SLOW_PASS: Duration = Duration::from_millis(2);

/// Rest after a pass, in multiples of what it took.
const REST: u32 = 4;

/// Reasons that may be logged at once, and again in each second: explanations must not dominate the log.
const REASONS_PER_SEC: u32 = 2000;

/// How long reasons wait that were too many.
const REASONS_LATER: Duration = Duration::from_millis(500);

/// When the next pass may be.
pub(super) struct Pace {
    wanted: bool,
    not_before: Instant,
    last_pass: Duration,
    /// Reasons that may still be logged, and since when.
    reasons: (u32, Instant),
    /// When to pass again for reasons that were left out.
    reasons_due: Option<Instant>,
}

impl Pace {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            wanted: true,
            not_before: now,
            last_pass: Duration::ZERO,
            reasons: (REASONS_PER_SEC, now),
            reasons_due: None,
        }
    }

    /// Something changed that a pass may act on.
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    /// Whether a pass is due.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        (self.wanted && now >= self.not_before) || self.reasons_due.is_some_and(|due| now >= due)
    }

    /// When a pass that is wanted may be.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.wanted
            .then_some(self.not_before)
            .into_iter()
            .chain(self.reasons_due)
            .min()
    }

    fn ran(&mut self, begun: Instant, wanted_again: bool) -> Duration {
        let now = Instant::now();
        self.last_pass = now.duration_since(begun);
        self.not_before = now + self.last_pass * REST;
        self.wanted = wanted_again;
        self.last_pass
    }

    /// How many of `count` reasons may be logged now.
    fn grant_reasons(&mut self, count: usize, now: Instant) -> usize {
        let (left, since) = &mut self.reasons;
        let refill = now.duration_since(*since).as_millis() * u128::from(REASONS_PER_SEC) / 1000;
        if refill > 0 {
            let refilled = u128::from(*left)
                .saturating_add(refill)
                .min(u128::from(REASONS_PER_SEC));
            (*left, *since) = (u32::try_from(refilled).unwrap_or(REASONS_PER_SEC), now);
        }
        let granted = (*left).min(u32::try_from(count).unwrap_or(u32::MAX));
        *left -= granted;
        granted as usize
    }
}

impl Writer {
    /// Plans, if it is time. A turn with inputs is spared a slow pass.
    pub(super) fn plan_if_due(&mut self, turn: &mut Turn, busy: bool) {
        let begun = Instant::now();
        if !self.pace.is_due(begun) || (busy && self.pace.last_pass > SLOW_PASS) {
            return;
        }
        let mut plan = plan::plan(&self.cluster, turn.at, Budget::default());
        let granted = self.pace.grant_reasons(plan.reasons.len(), begun);
        let again = plan.cut_short && !plan.placements.is_empty();
        let more = plan.more_reasons || granted < plan.reasons.len();
        self.pace.reasons_due = more.then(|| begun + REASONS_LATER);
        self.publisher.draft.outlook = Arc::clone(&plan.outlook);
        plan.reasons.truncate(granted);
        let events = self.cluster.plan_events(plan);
        let took = self.pace.ran(begun, again);
        self.counters.passes += 1;
        self.counters.last_pass = took;
        self.counters.all_passes += took;
        self.counters.last_pass_at = turn.at;
        self.counters.last_queue = self.cluster.counts().0 as u64;
        self.counters.passes_queue += self.counters.last_queue;
        self.counters.max_pass = self.counters.max_pass.max(took);
        let wanted = self.pace.wanted;
        for event in events {
            let placed = matches!(event, Event::Placed { .. });
            if self.propose(turn, event).is_err() && placed {
                tracing::error!("the planner proposed what the core refuses");
            }
        }
        // The pass knows of its own placements; what they changed is no reason for another.
        self.pace.wanted = wanted;
    }
}
