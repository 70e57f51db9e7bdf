//! How a share was spread over time: a fixed number of buckets, merged by adding, from which quantiles are read.

use serde::{Deserialize, Serialize};

/// Buckets: 0, then one for each 1/50 of the range, so that a quantile is off by at most 2 %.
pub const BUCKETS: usize = 51;

/// Time, in milliseconds, spent in each fiftieth of the range from 0 to 1000 thousandths; the first bucket is "nothing at all".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<u64>", into = "Vec<u64>")]
pub struct Histogram {
    /// Trailing empty buckets are left out, so that equal spreads are equal values and idle jobs cost nothing.
    millis: Vec<u64>,
}

impl Histogram {
    /// From what [`Self::buckets`] gave. More than [`BUCKETS`] are cut off.
    pub fn from_buckets(mut millis: Vec<u64>) -> Self {
        millis.truncate(BUCKETS);
        let mut made = Self { millis };
        made.trim();
        made
    }

    /// Time per bucket, without empty ones at the end.
    pub fn buckets(&self) -> &[u64] {
        &self.millis
    }

    /// Notes that the share was so many thousandths (above 1000 counts as 1000) for so long.
    pub fn add(&mut self, permille: u64, millis: u64) {
        if millis == 0 {
            return;
        }
        let at = bucket(permille);
        if at >= self.millis.len() {
            self.millis.resize(at + 1, 0);
        }
        self.millis[at] = self.millis[at].saturating_add(millis);
    }

    /// Adds another's time.
    pub fn merge(&mut self, other: &Self) {
        if other.millis.len() > self.millis.len() {
            self.millis.resize(other.millis.len(), 0);
        }
        for (mine, theirs) in self.millis.iter_mut().zip(&other.millis) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// Time in all, ms.
    pub fn total(&self) -> u64 {
        self.millis
            .iter()
            .fold(0, |sum, millis| sum.saturating_add(*millis))
    }

    /// The share in thousandths that was not exceeded for `percent` of the time; absent if there was no time.
    pub fn quantile(&self, percent: u64) -> Option<u64> {
        let total = u128::from(self.total());
        if total == 0 {
            return None;
        }
        let mut below = 0u128;
        for (at, millis) in (0u64..).zip(&self.millis) {
            below += u128::from(*millis);
            if below * 100 >= total * u128::from(percent.min(100)) && below > 0 {
                return Some(at * 20);
            }
        }
        Some(1000)
    }

    fn trim(&mut self) {
        while self.millis.last() == Some(&0) {
            self.millis.pop();
        }
    }
}

/// 0 for nothing, else the fiftieth that the share is in, rounded up.
fn bucket(permille: u64) -> usize {
    usize::try_from(permille.min(1000).div_ceil(20)).unwrap_or(BUCKETS - 1)
}

impl From<Vec<u64>> for Histogram {
    fn from(millis: Vec<u64>) -> Self {
        Self::from_buckets(millis)
    }
}

impl From<Histogram> for Vec<u64> {
    fn from(spread: Histogram) -> Self {
        spread.millis
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_of_a_job_that_was_idle_half_of_the_time() {
        let mut spread = Histogram::default();
        assert_eq!(spread.quantile(50), None);
        spread.add(0, 500);
        spread.add(900, 450);
        spread.add(1000, 50);
        assert_eq!(spread.quantile(50), Some(0));
        assert_eq!(spread.quantile(51), Some(900));
        assert_eq!(spread.quantile(95), Some(900));
        assert_eq!(spread.quantile(100), Some(1000));
    }

    proptest! {
        #[test]
        fn quantiles_are_off_by_a_bucket_at_most(mut shares in prop::collection::vec(0u64..=1000, 1..200), percent in 1usize..=100) {
            let mut spread = Histogram::default();
            for share in &shares {
                spread.add(*share, 10);
            }
            shares.sort_unstable();
            let rank = (shares.len() * percent).div_ceil(100).max(1);
            let true_one = shares[rank - 1];
            let told = spread.quantile(percent as u64).unwrap();
            prop_assert!(told >= true_one && told - true_one < 20, "{told} for {true_one}");
        }

        #[test]
        fn merging_is_adding(a in prop::collection::vec((0u64..=1100, 0u64..100), 0..50), b in prop::collection::vec((0u64..=1100, 0u64..100), 0..50)) {
            let of = |parts: &[(u64, u64)]| {
                let mut spread = Histogram::default();
                for (share, millis) in parts {
                    spread.add(*share, *millis);
                }
                spread
            };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let both: Vec<_> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(merged, of(&both));
        }
    }
}
