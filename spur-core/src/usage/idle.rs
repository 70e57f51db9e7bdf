//! When a GPU that a job holds counts as idle, and the evidence for it.
//!
//! What counts is the time since the last work, not the mean of a lifetime: a job that worked for an hour and hangs for two is
//! idle. A GPU of which nothing tells how busy it is counts as idle only while no process has it open.

use crate::time::Millis;
use serde::{Deserialize, Serialize};

/// The cluster's rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdlePolicy {
    /// A GPU is idle after so long without work, ms.
    pub after: u64,
    /// The first part of a job in which nothing is idle yet, ms: data is loaded, code compiled.
    pub grace: u64,
    /// A share of busy time up to this is no work, thousandths.
    pub threshold: u16,
}

impl Default for IdlePolicy {
    fn default() -> Self {
        Self {
            after: 15 * 60_000,
            grace: 5 * 60_000,
            threshold: 10,
        }
    }
}

/// Why a GPU counts as idle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idle {
    /// Since when, by the node's clock.
    pub since: Millis,
    /// How long that was when it was said, ms.
    pub millis: u64,
    /// How long the job had held the GPU then, ms.
    pub held: u64,
    /// Whether a process of the job ever had it open; absent if nothing tells.
    pub opened: Option<bool>,
    /// Whether one has it open now.
    pub open_now: Option<bool>,
    /// Busy share over the whole time held, in thousandths; absent if nothing tells.
    pub busy: Option<u16>,
    /// Device memory that the job keeps meanwhile, bytes; absent if nothing tells.
    pub memory: Option<u64>,
}

/// One look at a GPU that a job holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Time since the look before, ms.
    pub millis: u64,
    /// Busy share of that time, in thousandths; absent if nothing tells.
    pub busy: Option<u64>,
    /// Whether a process of the job has it open; absent if nothing tells.
    pub open: Option<bool>,
    /// Device memory in the job's use, bytes.
    pub memory: Option<u64>,
}

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It counts as idle from now on.
    Idle(Idle),
    /// It works again.
    Busy,
}

/// What is remembered of one GPU of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tracker {
    held: u64,
    told: u64,
    worked: u64,
    trailing: u64,
    longest: u64,
    first: Option<u64>,
    opened: Option<bool>,
    idle: bool,
}

impl Tracker {
    /// Takes a look in; `now` is the node's clock.
    pub fn look(&mut self, policy: &IdlePolicy, now: Millis, look: &Look) -> Option<Change> {
        self.held = self.held.saturating_add(look.millis);
        if let Some(open) = look.open {
            self.opened = Some(self.opened.unwrap_or(false) || open);
        }
        if let Some(busy) = look.busy {
            self.told = self.told.saturating_add(look.millis);
            let share = busy.min(1000).saturating_mul(look.millis);
            self.worked = self.worked.saturating_add(share);
        }
        match (look.busy, look.open) {
            (Some(busy), _) if busy > u64::from(policy.threshold) => self.work(),
            (Some(_), _) | (None, Some(false)) => self.rest(look.millis),
            // Open, and nothing tells whether it works: no verdict.
            (None, Some(true)) => self.work(),
            (None, None) => None,
        }
        .or_else(|| self.verdict(policy, now, look))
    }

    /// It worked in the time of this look.
    fn work(&mut self) -> Option<Change> {
        self.trailing = 0;
        self.first.get_or_insert(self.held);
        std::mem::take(&mut self.idle).then_some(Change::Busy)
    }

    fn rest(&mut self, millis: u64) -> Option<Change> {
        self.trailing = self.trailing.saturating_add(millis);
        self.longest = self.longest.max(self.trailing);
        None
    }

    fn verdict(&mut self, policy: &IdlePolicy, now: Millis, look: &Look) -> Option<Change> {
        let due = self.trailing >= policy.after.max(1) && self.held >= policy.grace;
        if self.idle || !due {
            return None;
        }
        self.idle = true;
        Some(Change::Idle(self.evidence(now, look)))
    }

    /// The evidence as of now.
    pub fn evidence(&self, now: Millis, look: &Look) -> Idle {
        Idle {
            since: Millis(now.0.saturating_sub(self.trailing)),
            millis: self.trailing,
            held: self.held,
            opened: self.opened,
            open_now: look.open,
            busy: self.busy_permille(),
            memory: look.memory,
        }
    }

    /// Whether it counts as idle.
    pub fn is_idle(&self) -> bool {
        self.idle
    }

    /// Busy share of the time in which something told, in thousandths.
    pub fn busy_permille(&self) -> Option<u16> {
        let share = self.worked.checked_div(self.told)?;
        u16::try_from(share).ok()
    }

    /// Time without work until now, ms; absent if nothing ever told.
    pub fn trailing(&self) -> Option<u64> {
        self.knows().then_some(self.trailing)
    }

    /// The longest stretch without work, ms; absent if nothing ever told.
    pub fn longest(&self) -> Option<u64> {
        self.knows().then_some(self.longest)
    }

    /// Time from the grant to the end of the first look that saw work, ms.
    pub fn first_work(&self) -> Option<u64> {
        self.first
    }

    /// Whether a process of the job ever had it open; absent if nothing tells.
    pub fn opened(&self) -> Option<bool> {
        self.opened
    }

    /// Time held, ms.
    pub fn held(&self) -> u64 {
        self.held
    }

    fn knows(&self) -> bool {
        self.told > 0 || self.opened.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: IdlePolicy = IdlePolicy {
        after: 5_000,
        grace: 3_000,
        threshold: 10,
    };

    fn run(looks: &[(Option<u64>, Option<bool>)]) -> (Tracker, Vec<(usize, Change)>) {
        let mut tracker = Tracker::default();
        let mut changes = Vec::new();
        for (second, (busy, open)) in looks.iter().enumerate() {
            let look = Look {
                millis: 1000,
                busy: *busy,
                open: *open,
                memory: None,
            };
            let now = Millis((second as u64 + 1) * 1000);
            changes.extend(
                tracker
                    .look(&POLICY, now, &look)
                    .map(|change| (second, change)),
            );
        }
        (tracker, changes)
    }

    #[test]
    fn idle_after_some_work_is_idle() {
        let mut looks = vec![(Some(900), Some(true)); 10];
        looks.extend(vec![(Some(10), Some(true)); 5]);
        looks.push((Some(500), Some(true)));
        let (tracker, changes) = run(&looks);
        let [(14, Change::Idle(idle)), (15, Change::Busy)] = changes.as_slice() else {
            panic!("{changes:?}")
        };
        assert_eq!((idle.since, idle.millis), (Millis(10_000), 5_000));
        assert_eq!((idle.opened, idle.busy), (Some(true), Some(603)));
        assert_eq!(tracker.longest(), Some(5_000));
        assert_eq!(tracker.first_work(), Some(1_000));
    }

    #[test]
    fn a_gpu_that_nobody_opens_is_idle_without_any_meter() {
        let (tracker, changes) = run(&[(None, Some(false)); 7]);
        let [(4, Change::Idle(idle))] = changes.as_slice() else {
            panic!("{changes:?}")
        };
        assert_eq!((idle.opened, idle.busy), (Some(false), None));
        assert_eq!(tracker.first_work(), None);
    }

    #[test]
    fn nothing_is_said_of_what_nothing_tells() {
        assert_eq!(run(&[(None, Some(true)); 20]).1, []);
        let (tracker, changes) = run(&[(None, None); 20]);
        assert_eq!(changes, []);
        assert_eq!((tracker.longest(), tracker.opened()), (None, None));
    }

    #[test]
    fn the_start_is_spared() {
        let policy = IdlePolicy {
            after: 2_000,
            grace: 10_000,
            threshold: 0,
        };
        let mut tracker = Tracker::default();
        let look = Look {
            millis: 1000,
            busy: Some(0),
            ..Look::default()
        };
        let changes = (1..=12).filter_map(|second| {
            tracker
                .look(&policy, Millis(second * 1000), &look)
                .map(|_| second)
        });
        assert_eq!(changes.collect::<Vec<_>>(), [10]);
    }
}
