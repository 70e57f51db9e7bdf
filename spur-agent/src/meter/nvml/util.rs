//! What the driver's buffers of samples say of the time since the look before. Pure.

use std::collections::BTreeMap;

/// Samples further apart than this say nothing of the time between them, µs: the driver's own period is up to a second.
const APART_MAX: u64 = 2_000_000;

/// A sample of utilization: when (µs, by the driver's clock), and percent of the time before it.
pub(super) type Sample = (u64, u32);

/// Utilization since the look before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    /// Mean, in thousandths.
    pub(super) mean: u16,
    /// Least and greatest of a sample.
    pub(super) min: u16,
    /// See `min`.
    pub(super) max: u16,
}

/// Takes the samples after `last`, which is moved on. Samples without a time, or above 100 %, are none.
pub(super) fn spread(samples: &[Sample], last: &mut u64) -> Option<Spread> {
    let mut new: Vec<Sample> = samples
        .iter()
        .copied()
        .filter(|(at, percent)| *at > *last && *percent <= 100)
        .collect();
    new.sort_unstable();
    let (mut busy, mut time) = (0u64, 0u64);
    let (mut min, mut max) = (u32::MAX, 0);
    for (at, percent) in new {
        // The first of all has no beginning: it counts like any other.
        let apart = if *last == 0 {
            1
        } else {
            (at - *last).min(APART_MAX)
        };
        busy += u64::from(percent) * apart;
        time += apart;
        (min, max) = (min.min(percent), max.max(percent));
        *last = at;
    }
    let permille = |value: u64| u16::try_from(value).unwrap_or(1000);
    Some(Spread {
        mean: permille((busy * 10).checked_div(time)?),
        min: permille(u64::from(min) * 10),
        max: permille(u64::from(max) * 10),
    })
}

/// Busy time of each process, µs, from its samples after `last`, which is moved on to the newest. What was before the first look is not
/// counted.
pub(super) fn by_process(samples: &[(u32, Sample)], last: &mut u64) -> BTreeMap<u32, u64> {
    let begun = *last > 0;
    let mut new: Vec<(u32, Sample)> = samples
        .iter()
        .copied()
        .filter(|(_, (at, percent))| *at > *last && *percent <= 100)
        .collect();
    new.sort_unstable();
    let mut busy = BTreeMap::new();
    let mut before: Option<(u32, u64)> = None;
    for (pid, (at, percent)) in &new {
        let from = before
            .filter(|(of, _)| of == pid)
            .map_or(*last, |(_, at)| at);
        before = Some((*pid, *at));
        if begun {
            let apart = at.saturating_sub(from).min(APART_MAX);
            *busy.entry(*pid).or_insert(0u64) += u64::from(*percent) * apart / 100;
        }
    }
    let newest = new.iter().map(|(_, (at, _))| *at).max();
    *last = newest.unwrap_or(*last);
    busy
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn samples_weigh_what_they_cover() {
        let mut last = 0;
        assert_eq!(spread(&[], &mut last), None);
        assert_eq!(spread(&[(1_000_000, 50)], &mut last).unwrap().mean, 500);
        let told = spread(
            &[
                (500_000, 99),
                (1_100_000, 100),
                (1_200_000, 0),
                (2_000_000, 25),
                (2_000_001, 101),
                (0, 7),
            ],
            &mut last,
        )
        .unwrap();
        assert_eq!(
            told,
            Spread {
                mean: 300,
                min: 0,
                max: 1000
            }
        );
        assert_eq!(last, 2_000_000);
        assert_eq!(spread(&[(2_000_000, 25)], &mut last), None);
    }

    #[test]
    fn processes_are_added_up_from_all_of_their_samples() {
        let mut last = 0;
        assert!(
            by_process(&[(1, (900_000, 80))], &mut last).is_empty(),
            "of unknown length"
        );
        let busy = by_process(
            &[
                (1, (1_400_000, 100)),
                (2, (1_900_000, 50)),
                (1, (1_900_000, 20)),
                (3, (0, 90)),
            ],
            &mut last,
        );
        assert_eq!(busy, BTreeMap::from([(1, 600_000), (2, 500_000)]));
        assert_eq!(last, 1_900_000);
    }

    proptest! {
        #[test]
        fn nothing_is_busier_than_always(samples in prop::collection::vec((0u32..4, (any::<u64>(), 0u32..200)), 0..30), begun in 1u64..1000) {
            let plain: Vec<Sample> = samples.iter().map(|(_, sample)| *sample).collect();
            let mut last = begun;
            if let Some(told) = spread(&plain, &mut last) {
                prop_assert!(told.min <= told.mean && told.mean <= told.max && told.max <= 1000);
            }
            let mut last = begun;
            by_process(&samples, &mut last);
        }
    }
}
