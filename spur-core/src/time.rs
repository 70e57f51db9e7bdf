//! Time as an input: milliseconds since the Unix epoch, and spans of seconds as Slurm counts them.

use serde::{Deserialize, Serialize};

/// A moment: milliseconds since the Unix epoch, UTC. The core never reads a clock; shells pass this in.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// Whole seconds since the epoch, rounded down.
    pub fn secs(self) -> u64 {
        self.0 / 1000
    }

    /// The moment `secs` seconds later (saturating).
    #[must_use]
    pub fn plus_secs(self, secs: u64) -> Self {
        Self(self.0.saturating_add(secs.saturating_mul(1000)))
    }

    /// Whole seconds from `earlier` to `self`, zero if `earlier` is later.
    pub fn secs_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0) / 1000
    }
}

/// A limit on run time, as Slurm's `TimeLimit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TimeLimit {
    /// At most this many seconds; at least 1.
    Secs(u64),
    /// No limit.
    Unlimited,
}
