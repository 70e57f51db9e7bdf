//! The meter's own cost, kept within its budget: what costs most for what it tells is given up first, in a fixed order, and taken
//! up again when there is room for it. Pure.

/// What the meter may cost, µs of CPU time a second: half a percent of one core.
pub const BUDGET: u64 = 5_000;

/// Seconds above the budget after which something is given up.
const OVER: u32 = 3;

/// Seconds with room after which something is taken up again, at first; doubled each time that it was too early.
const UNDER: u32 = 60;
const UNDER_MAX: u32 = 1_920;

/// Weight of the past in the running mean, of 4.
const PAST: u64 = 3;

/// What is given up at the levels above, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Files of DRM clients.
    Fdinfo = 1,
    /// Pressure of control groups.
    Pressure = 2,
    /// Occupancy and other costly looks at devices.
    Occupancy = 3,
    /// Ten readings a second: five then.
    Ten = 4,
    /// Five readings a second: one then.
    Five = 5,
}

/// The highest level.
pub const LEVEL_MAX: u8 = Part::Five as u8;

/// The governor.
#[derive(Clone, Debug)]
pub struct Governor {
    level: u8,
    mean: u64,
    over: u32,
    under: u32,
    patience: u32,
    /// Seconds since something was taken up again.
    since_up: u32,
}

impl Default for Governor {
    fn default() -> Self {
        Self {
            level: 0,
            mean: 0,
            over: 0,
            under: 0,
            patience: UNDER,
            since_up: u32::MAX,
        }
    }
}

impl Governor {
    /// A second of the meter took so many µs of CPU time. Gives the level from here on.
    pub fn second(&mut self, cost: u64) -> u8 {
        let mean = (self.mean * PAST + cost) / (PAST + 1);
        self.mean = mean;
        self.since_up = self.since_up.saturating_add(1);
        self.over = if mean > BUDGET { self.over + 1 } else { 0 };
        self.under = if mean * 2 <= BUDGET {
            self.under + 1
        } else {
            0
        };
        if self.over >= OVER && self.level < LEVEL_MAX {
            self.level += 1;
            // What is done less is measured anew.
            (self.over, self.under, self.mean) = (0, 0, 0);
            if self.since_up < self.patience {
                self.patience = (self.patience * 2).min(UNDER_MAX);
            }
        } else if self.under >= self.patience && self.level > 0 {
            self.level -= 1;
            (self.under, self.since_up) = (0, 0);
        }
        self.level
    }

    /// How far it has gone: 0 is everything.
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Whether this is still done.
    pub fn does(&self, part: Part) -> bool {
        self.level < part as u8
    }

    /// The least milliseconds between readings.
    pub fn interval_min(&self) -> u64 {
        match (self.does(Part::Ten), self.does(Part::Five)) {
            (true, _) => 100,
            (false, true) => 200,
            (false, false) => 1_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(governor: &mut Governor, count: u32, cost: u64) -> Vec<u8> {
        let mut levels = Vec::new();
        for _ in 0..count {
            let level = governor.second(cost);
            if levels.last() != Some(&level) {
                levels.push(level);
            }
        }
        levels
    }

    #[test]
    fn parts_are_given_up_in_order_and_taken_up_again() {
        let mut governor = Governor::default();
        assert_eq!(seconds(&mut governor, 100, BUDGET), [0]);
        assert_eq!(seconds(&mut governor, 30, BUDGET * 4), [0, 1, 2, 3, 4, 5]);
        assert_eq!(governor.interval_min(), 1_000);
        assert_eq!(seconds(&mut governor, 1_000, 100), [5, 4, 3, 2, 1, 0]);
        assert_eq!(governor.interval_min(), 100);
    }

    #[test]
    fn the_order_is_fixed() {
        let mut governor = Governor::default();
        let parts = [
            Part::Fdinfo,
            Part::Pressure,
            Part::Occupancy,
            Part::Ten,
            Part::Five,
        ];
        for (level, given_up) in parts.iter().enumerate() {
            assert!(
                parts
                    .iter()
                    .all(|part| governor.does(*part) == (part >= given_up)),
                "{level}"
            );
            governor.level += 1;
        }
        assert!(!governor.does(Part::Five));
    }

    #[test]
    fn one_dear_second_changes_nothing() {
        let mut governor = Governor::default();
        for _ in 0..50 {
            governor.second(BUDGET * 2);
            assert_eq!(seconds(&mut governor, 9, 500), [0]);
        }
    }

    #[test]
    fn what_was_taken_up_too_early_waits_longer_the_next_time() {
        let mut governor = Governor::default();
        let cost = |level: u8| if level == 0 { BUDGET * 3 } else { BUDGET / 4 };
        let mut ups = Vec::new();
        let mut level = 0;
        for second in 0..4_000u32 {
            let before = level;
            level = governor.second(cost(level));
            if level < before {
                ups.push(second);
            }
        }
        let waits: Vec<u32> = ups.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(waits.is_sorted() && waits.last() > Some(&500), "{waits:?}");
        assert!(waits.len() < 8, "{waits:?}");
    }
}
