//! The newest value of each metric of one subject, by its best source.

use spur_core::usage::metric::{Metric, Quality, SeriesKey, Source, Value};
use std::collections::BTreeMap;

/// How good a series is as a source of its metric; the least is the best.
pub(super) fn rank(key: &SeriesKey) -> (Quality, Source) {
    (key.quality, key.source)
}

/// A value and how it is known.
#[derive(Clone, Copy, Debug)]
pub(in crate::usage) struct Reading {
    /// Newest value.
    pub(in crate::usage) value: Value,
    /// From where.
    pub(in crate::usage) source: Source,
    /// How well.
    pub(in crate::usage) quality: Quality,
}

/// Values by metric.
#[derive(Clone, Debug, Default)]
pub(in crate::usage) struct Readings(BTreeMap<Metric, Reading>);

impl Readings {
    /// Notes the newest value of the series that is the best for its metric.
    pub(super) fn put(&mut self, key: SeriesKey, value: Value) {
        let reading = Reading {
            value,
            source: key.source,
            quality: key.quality,
        };
        self.0.insert(key.metric, reading);
    }

    /// The newest value.
    pub(in crate::usage) fn value(&self, metric: Metric) -> Option<Value> {
        self.0.get(&metric).map(|reading| reading.value)
    }

    /// The newest value and how it is known.
    pub(in crate::usage) fn get(&self, metric: Metric) -> Option<Reading> {
        self.0.get(&metric).copied()
    }

    /// A counter's newest reading.
    pub(in crate::usage) fn count(&self, metric: Metric) -> Option<u64> {
        match self.value(metric)? {
            Value::Count(count) => Some(count),
            Value::Level { .. } => None,
        }
    }
}
