//! What one look at a GPU tells, in the same words for every vendor.

use serde::{Deserialize, Serialize};
use spur_core::usage::metric::{Metric, Quality, Source, Value};
use std::collections::BTreeMap;

/// A value of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// What.
    pub metric: Metric,
    /// From where.
    pub source: Source,
    /// How well.
    pub quality: Quality,
    /// The value.
    pub value: Value,
}

/// A process that uses a device, as the vendor's source tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceProcess {
    /// Process.
    pub pid: u32,
    /// Device memory, bytes.
    pub memory: Option<u64>,
    /// Busy time since the last look, µs.
    pub busy_us: Option<u64>,
}

/// Busy time of a device since the last look, whoever used it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceBusy {
    /// Busy share of the time since the last look, in thousandths.
    pub permille: u16,
    /// From where.
    pub source: Source,
    /// How well.
    pub quality: Quality,
}

/// One look at one GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceLook {
    /// Values of the device.
    pub told: Vec<Told>,
    /// How busy it was.
    pub busy: Option<DeviceBusy>,
    /// Its processes; absent if nothing tells.
    pub processes: Option<Vec<DeviceProcess>>,
    /// Whether `busy_us` of processes means anything: the source tells busy time by process, and none listed is none.
    pub by_process: bool,
    /// Whether the source tells errors.
    #[serde(default)]
    pub tells_errors: bool,
    /// Errors that the driver reported since the last look: code and text.
    pub errors: Vec<(u32, String)>,
}

impl DeviceLook {
    /// Notes a value of this source, sampled.
    pub fn tell(&mut self, metric: Metric, source: Source, quality: Quality, value: Value) {
        self.told.push(Told {
            metric,
            source,
            quality,
            value,
        });
    }

    /// The reading of a counter.
    pub fn count(&self, metric: Metric) -> Option<u64> {
        self.told
            .iter()
            .find(|told| told.metric == metric)
            .and_then(|told| match told.value {
                Value::Count(count) => Some(count),
                Value::Level { .. } => None,
            })
    }

    /// The mean of a level, if it is not below 0.
    pub fn level(&self, metric: Metric) -> Option<u64> {
        self.told
            .iter()
            .find(|told| told.metric == metric)
            .and_then(|told| match told.value {
                Value::Level { mean, .. } => u64::try_from(mean).ok(),
                Value::Count(_) => None,
            })
    }
}

/// The looks of one source at all of its GPUs, taken together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looks {
    /// Rises with every look; 0 before the first.
    pub serial: u64,
    /// When, in milliseconds since boot.
    pub uptime: u64,
    /// By the GPU's index in the inventory. One that did not answer is not here.
    pub gpus: BTreeMap<u32, DeviceLook>,
}

/// A level of this mean, if it fits.
pub fn level(value: u64) -> Option<Value> {
    i64::try_from(value).ok().map(Value::level)
}
