//! Values that the meter's tests need.

use spur_core::usage::metric::{Metric, Quality, SeriesKey, Source, Subject, Value};

fn key(gpu: u32, metric: Metric) -> SeriesKey {
    SeriesKey {
        subject: Subject::Gpu(gpu),
        metric,
        source: Source::Simulated,
        quality: Quality::Estimated,
    }
}

/// A counter of a GPU.
pub(crate) fn count(gpu: u32, value: u64) -> (SeriesKey, Value) {
    (key(gpu, Metric::HwEnergy), Value::Count(value))
}

/// A level of a GPU.
pub(crate) fn level(gpu: u32, value: i64) -> (SeriesKey, Value) {
    (key(gpu, Metric::HwPower), Value::level(value))
}
