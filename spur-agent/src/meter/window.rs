//! Readings that wait to be sent, joined into one: counters lose nothing, levels keep their extremes and their mean.

use spur_core::usage::metric::{SeriesKey, Value};
use std::collections::BTreeMap;

/// All values at one time, in the rising order of their keys, each key once.
pub type Values = Vec<(SeriesKey, Value)>;

/// Brings values into their order; of a key that is there twice the first counts.
pub fn sorted(mut values: Values) -> Values {
    values.sort_by_key(|(key, _)| *key);
    values.dedup_by_key(|(key, _)| *key);
    values
}

/// Joined readings.
#[derive(Debug, Default)]
pub struct Window {
    values: Values,
    /// For levels that were joined: sum of mean times milliseconds.
    sums: BTreeMap<SeriesKey, (i128, u64)>,
    span: u64,
}

impl Window {
    /// Adds the reading of the last `millis` milliseconds. Series that it does not have any more are left out.
    pub fn add(&mut self, mut reading: Values, millis: u64) {
        if !self.values.is_empty() {
            let span = self.span;
            let mut before = self.values.iter().peekable();
            for (key, value) in &mut reading {
                while before.next_if(|(other, _)| other < key).is_some() {}
                if let Some((_, old)) = before.next_if(|(other, _)| other == key) {
                    *value = join(*key, *old, *value, (span, millis), &mut self.sums);
                }
            }
        }
        self.values = reading;
        self.span = self.span.saturating_add(millis);
    }

    /// The newest reading, joined with those before it.
    pub fn values(&self) -> &[(SeriesKey, Value)] {
        &self.values
    }

    /// How many milliseconds are in it.
    pub fn span(&self) -> u64 {
        self.span
    }

    /// Takes what is in it, with its milliseconds.
    pub fn take(&mut self) -> (Values, u64) {
        self.sums.clear();
        (
            std::mem::take(&mut self.values),
            std::mem::take(&mut self.span),
        )
    }
}

fn join(
    key: SeriesKey,
    before: Value,
    now: Value,
    (span, millis): (u64, u64),
    sums: &mut BTreeMap<SeriesKey, (i128, u64)>,
) -> Value {
    match (before, now) {
        (
            Value::Level {
                mean: first,
                min,
                max,
            },
            Value::Level {
                mean,
                min: low,
                max: high,
            },
        ) => {
            let begun = (i128::from(first) * i128::from(span), span);
            let (sum, time) = sums.entry(key).or_insert(begun);
            *sum = sum.saturating_add(i128::from(mean) * i128::from(millis));
            *time = time.saturating_add(millis);
            let joined = sum
                .checked_div(i128::from(*time))
                .and_then(|mean| i64::try_from(mean).ok());
            Value::Level {
                mean: joined.unwrap_or(mean),
                min: min.min(low),
                max: max.max(high),
            }
        }
        (Value::Count(_) | Value::Level { .. }, now) => now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::testing::{count, level};
    use proptest::prelude::*;

    #[test]
    fn a_single_reading_stays_as_it_is() {
        let mut window = Window::default();
        let reading = sorted(vec![count(1, 7), level(2, 3)]);
        window.add(reading.clone(), 1000);
        assert_eq!(window.take(), (reading, 1000));
        assert_eq!(window.take(), (Values::new(), 0));
    }

    proptest! {
        #[test]
        fn joining_keeps_counts_and_extremes(readings in prop::collection::vec((0u64..1000, -1000i64..1000, 1u64..5000), 1..40)) {
            let mut window = Window::default();
            for (seen, mean, millis) in &readings {
                window.add(vec![count(1, *seen), level(2, *mean)], *millis);
            }
            let (values, span) = window.take();
            prop_assert_eq!(span, readings.iter().map(|reading| reading.2).sum::<u64>());
            prop_assert_eq!(values[0].1, Value::Count(readings.last().unwrap().0));
            let Value::Level { mean, min, max } = values[1].1 else { panic!() };
            prop_assert_eq!(min, readings.iter().map(|reading| reading.1).min().unwrap());
            prop_assert_eq!(max, readings.iter().map(|reading| reading.1).max().unwrap());
            let sum: i128 = readings.iter().map(|reading| i128::from(reading.1) * i128::from(reading.2)).sum();
            prop_assert!((i128::from(mean) - sum / i128::from(span)).abs() <= 1);
        }
    }
}
