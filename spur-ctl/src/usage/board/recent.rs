//! How busy a node's devices were lately, in the few words that the planner gets: one number for each, at most once a minute, and
//! only when something moved.

use spur_core::id::JobId;
use std::collections::BTreeMap;

/// Shortest time between two tellings, ms.
const EVERY: u64 = 60_000;
/// Time until the first, ms.
const FIRST: u64 = 10_000;
/// Moves below this, in thousandths, are not told.
const MOVED: u16 = 50;

/// What was seen since the last telling.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// Share times milliseconds, and milliseconds, by GPU.
    seen: BTreeMap<u32, (u64, u64)>,
    millis: u64,
    told: BTreeMap<u32, u16>,
    ever: bool,
    holders: Vec<JobId>,
}

impl Recent {
    /// Takes a batch's shares in; what is to be told, if it is time.
    pub(super) fn take(
        &mut self,
        span: u32,
        busy: &BTreeMap<u32, u64>,
        holders: &[JobId],
    ) -> Option<Vec<(u32, u16)>> {
        let span = u64::from(span);
        if self.holders != holders {
            // The cluster forgets how busy a GPU was when it changes hands.
            self.holders = holders.to_vec();
            self.told.clear();
        }
        for (gpu, share) in busy {
            let (sum, millis) = self.seen.entry(*gpu).or_default();
            *sum = sum.saturating_add(share.saturating_mul(span));
            *millis = millis.saturating_add(span);
        }
        self.millis = self.millis.saturating_add(span);
        let due = if self.ever { EVERY } else { FIRST };
        if self.millis < due {
            return None;
        }
        self.millis = 0;
        let shares = std::mem::take(&mut self.seen).into_iter();
        let shares = shares.filter_map(|(gpu, (sum, millis))| {
            let share = sum.checked_div(millis)?.min(1000);
            Some((gpu, u16::try_from(share).ok()?))
        });
        let shares: Vec<(u32, u16)> = shares.collect();
        let moved = |(gpu, share): &(u32, u16)| {
            let told = self.told.get(gpu);
            told.is_none_or(|told| told.abs_diff(*share) >= MOVED)
        };
        if !shares.iter().any(moved) {
            return None;
        }
        self.ever = true;
        self.told = shares.iter().copied().collect();
        Some(shares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_moved_is_told_and_at_most_once_a_minute() {
        let mut recent = Recent::default();
        let mut told = Vec::new();
        let mut run = |seconds: u64, share: u64, told: &mut Vec<(u64, u16)>| {
            for second in 0..seconds {
                let busy = [(3, share)].into();
                if let Some(shares) = recent.take(1000, &busy, &[]) {
                    told.push((second + 1, shares[0].1));
                }
            }
        };
        run(10, 500, &mut told);
        assert_eq!(told, [(10, 500)]);
        run(600, 540, &mut told);
        assert_eq!(told.len(), 1, "40 thousandths are no news");
        run(120, 700, &mut told);
        assert_eq!(told[1..], [(60, 700)]);
    }
}
