//! What jobs, steps and their GPUs used, kept up from look to look until it is a record.

pub mod gpu;
pub mod job;
pub mod step;

/// A level over time: its greatest, and its mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Level {
    sum: u128,
    millis: u64,
    peak: u64,
}

impl Level {
    /// It was so much for so long.
    pub fn add(&mut self, value: u64, millis: u64) {
        self.sum = self
            .sum
            .saturating_add(u128::from(value) * u128::from(millis));
        self.millis = self.millis.saturating_add(millis);
        self.peak = self.peak.max(value);
    }

    /// Its mean; absent if it was never looked at.
    pub fn mean(&self) -> Option<u64> {
        let mean = self.sum.checked_div(u128::from(self.millis))?;
        u64::try_from(mean).ok()
    }

    /// Its greatest; absent if it was never looked at.
    pub fn peak(&self) -> Option<u64> {
        (self.millis > 0).then_some(self.peak)
    }

    /// For how long it was looked at, ms.
    pub fn millis(&self) -> u64 {
        self.millis
    }
}
