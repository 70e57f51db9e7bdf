//! One GPU, or MIG instance, through NVML. What is not supported is absent: under MIG that is all utilization but GPM's. Of an instance
//! only its memory and its processes are told: all else (power, clocks, errors) is the whole GPU's, and would be counted once for each.

use super::util::{by_process, spread};
use super::words::Which;
use crate::meter::device::{DeviceBusy, DeviceLook, DeviceProcess, level};
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, MemoryError, PerformancePolicy, Sampling, TemperatureSensor,
};
use nvml_wrapper::enums::device::{SampleValue, UsedGpuMemory};
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::event::EventSet;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id;
use nvml_wrapper::{Device, Nvml};
use spur_core::usage::metric::{Metric, Quality, Source, Value};
use std::collections::BTreeMap;
use std::time::Instant;

/// Most errors that are taken at once; what comes later comes with the next look.
const EVENTS_MAX: usize = 32;

/// `nvmlEventData_t` has no number for an error that NVML does not know.
const XID_UNKNOWN: u32 = 999;

/// A GPU, and how far its buffers were read.
pub(super) struct Eye<'nvml> {
    nvml: &'nvml Nvml,
    device: Device<'nvml>,
    /// It is a MIG instance.
    part: bool,
    events: Option<EventSet<'nvml>>,
    gpm: Option<Gpm<'nvml>>,
    seen: u64,
    seen_processes: u64,
    /// What is read seldom.
    deep: Vec<(Metric, Value)>,
}

/// The last sample of GPM, and what its rates add up to.
struct Gpm<'nvml> {
    last: Option<(GpmSample<'nvml>, Instant)>,
    bytes: BTreeMap<Metric, u64>,
}

/// Rates of GPM (MiB/s) and the counters that they are added up to.
const RATES: [(GpmMetricId, Metric); 4] = [
    (GpmMetricId::PcieRxPerSec, Metric::HwPcieReceive),
    (GpmMetricId::PcieTxPerSec, Metric::HwPcieTransmit),
    (GpmMetricId::NvlinkTotalRxPerSec, Metric::HwLinkReceive),
    (GpmMetricId::NvlinkTotalTxPerSec, Metric::HwLinkTransmit),
];

impl<'nvml> Eye<'nvml> {
    /// Finds the GPU by its identity. An error is a sentence.
    pub(super) fn open(nvml: &'nvml Nvml, which: &Which) -> Result<Self, String> {
        let by_uuid = || nvml.device_by_uuid(which.uuid.as_str());
        let by_pci = || nvml.device_by_pci_bus_id(which.pci.as_str());
        let device = if which.uuid.is_empty() {
            by_pci()
        } else {
            by_uuid().or_else(|error| match which.pci.as_str() {
                "" => Err(error),
                _ => by_pci(),
            })
        };
        let device = device.map_err(|error| format!("NVML does not find it: {error}"))?;
        let events = (!which.part)
            .then(|| nvml.create_event_set().ok())
            .flatten();
        let events = events.and_then(|set| {
            device
                .register_events(EventTypes::CRITICAL_XID_ERROR, set)
                .ok()
        });
        let gpm = !which.part && device.gpm_support().unwrap_or(false);
        Ok(Self {
            nvml,
            events,
            gpm: gpm.then(|| Gpm {
                last: None,
                bytes: BTreeMap::new(),
            }),
            device,
            part: which.part,
            seen: 0,
            seen_processes: 0,
            deep: Vec::new(),
        })
    }

    /// Looks at it. An error says that the GPU is lost.
    pub(super) fn look(&mut self, deep: bool, costly: bool) -> Result<DeviceLook, String> {
        let mut look = DeviceLook::default();
        match self.device.memory_info() {
            Ok(memory) => {
                tell(&mut look, Metric::HwMemory, level(memory.used));
                tell(&mut look, Metric::HwMemoryLimit, level(memory.total));
            }
            Err(
                error @ (NvmlError::GpuLost | NvmlError::Uninitialized | NvmlError::InvalidArg),
            ) => {
                return Err(error.to_string());
            }
            Err(_) => {}
        }
        if self.part {
            self.processes(&mut look);
            return Ok(look);
        }
        self.levels(&mut look);
        self.utilization(&mut look);
        self.processes(&mut look);
        if deep || self.deep.is_empty() {
            self.deep = self.seldom();
        }
        for (metric, value) in &self.deep {
            tell(&mut look, *metric, Some(*value));
        }
        if costly {
            self.performance(&mut look);
        }
        self.errors(&mut look);
        Ok(look)
    }

    fn levels(&self, look: &mut DeviceLook) {
        let device = &self.device;
        let of = |value: Result<u32, NvmlError>, factor: u64| {
            let value = value.ok().filter(|value| *value != u32::MAX)?;
            level(u64::from(value) * factor)
        };
        tell(look, Metric::HwPower, of(device.power_usage(), 1));
        tell(
            look,
            Metric::HwTemperature,
            of(device.temperature(TemperatureSensor::Gpu), 1000),
        );
        tell(look, Metric::HwClock, of(device.clock_info(Clock::SM), 1));
        tell(
            look,
            Metric::HwMemoryClock,
            of(device.clock_info(Clock::Memory), 1),
        );
        let count = |value: Result<u64, NvmlError>| {
            value
                .ok()
                .filter(|value| *value != u64::MAX)
                .map(Value::Count)
        };
        tell(
            look,
            Metric::HwEnergy,
            count(device.total_energy_consumption()),
        );
        let violation = |policy| {
            device
                .violation_status(policy)
                .map(|time| time.violation_time / 1000)
        };
        tell(
            look,
            Metric::HwThrottlePower,
            count(violation(PerformancePolicy::Power)),
        );
        tell(
            look,
            Metric::HwThrottleThermal,
            count(violation(PerformancePolicy::Thermal)),
        );
    }

    /// From the driver's buffer, which has the samples between two looks; where there is none, the last one.
    fn utilization(&mut self, look: &mut DeviceLook) {
        let buffered = self.device.samples(Sampling::GpuUtilization, self.seen);
        let samples: Option<Vec<(u64, u32)>> = buffered.ok().map(|samples| {
            let percent = |value: &SampleValue| match value {
                SampleValue::U32(value) => Some(*value),
                SampleValue::U64(value) => u32::try_from(*value).ok(),
                SampleValue::F64(_) | SampleValue::I64(_) => None,
            };
            samples
                .iter()
                .filter_map(|sample| Some((sample.timestamp, percent(&sample.value)?)))
                .collect()
        });
        let now = self.device.utilization_rates().ok();
        if let Some(rates) = &now
            && rates.memory <= 100
        {
            tell(
                look,
                Metric::HwMemoryUtilization,
                level(u64::from(rates.memory) * 10),
            );
        }
        let told = samples.and_then(|samples| spread(&samples, &mut self.seen));
        let last = || {
            now.and_then(|rates| u16::try_from(rates.gpu).ok())
                .filter(|percent| *percent <= 100)
                .map(|percent| percent * 10)
        };
        let mean = match told {
            Some(told) => {
                let [mean, min, max] = [told.mean, told.min, told.max].map(i64::from);
                tell(
                    look,
                    Metric::HwUtilization,
                    Some(Value::Level { mean, min, max }),
                );
                Some(told.mean)
            }
            None => last(),
        };
        look.busy = mean.map(|permille| DeviceBusy {
            permille,
            source: Source::Nvml,
            quality: Quality::Sampled,
        });
    }

    fn processes(&mut self, look: &mut DeviceLook) {
        let mut all: BTreeMap<u32, DeviceProcess> = BTreeMap::new();
        let lists = [
            self.device.running_compute_processes(),
            self.device.running_graphics_processes(),
        ];
        let known = lists.iter().any(Result::is_ok);
        for process in lists.into_iter().flatten().flatten() {
            let entry = all.entry(process.pid).or_default();
            entry.pid = process.pid;
            entry.memory = match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) if bytes != u64::MAX => {
                    Some(entry.memory.unwrap_or(0).max(bytes))
                }
                UsedGpuMemory::Used(_) | UsedGpuMemory::Unavailable => entry.memory,
            };
        }
        look.processes = known.then(|| all.values().copied().collect());
        if self.part {
            return;
        }
        match self.device.process_utilization_stats(self.seen_processes) {
            Ok(samples) => {
                let samples: Vec<_> = samples
                    .iter()
                    .map(|one| (one.pid, (one.timestamp, one.sm_util)))
                    .collect();
                let begun = self.seen_processes > 0;
                for (pid, us) in by_process(&samples, &mut self.seen_processes) {
                    let entry = all.entry(pid).or_default();
                    (entry.pid, entry.busy_us) = (pid, Some(us));
                }
                look.by_process = begun;
            }
            // Nobody was busy since.
            Err(NvmlError::NotFound) => look.by_process = self.seen_processes > 0,
            Err(_) => {}
        }
        look.processes = known.then(|| all.into_values().collect());
    }

    fn seldom(&self) -> Vec<(Metric, Value)> {
        let mut told = Vec::new();
        let errors = |kind| {
            self.device
                .total_ecc_errors(kind, EccCounter::Volatile)
                .ok()
        };
        told.extend(
            errors(MemoryError::Corrected)
                .map(|count| (Metric::HwEccCorrected, Value::Count(count))),
        );
        told.extend(
            errors(MemoryError::Uncorrected)
                .map(|count| (Metric::HwEccUncorrected, Value::Count(count))),
        );
        let fields = self
            .device
            .field_values_for(&[FieldId(field_id::NVML_FI_DEV_MEMORY_TEMP)]);
        let value = fields
            .ok()
            .and_then(|fields| fields.into_iter().next()?.ok()?.value.ok());
        let degrees = match value {
            Some(SampleValue::U32(degrees)) => Some(u64::from(degrees)),
            Some(SampleValue::U64(degrees)) => Some(degrees),
            Some(SampleValue::I64(_) | SampleValue::F64(_)) | None => None,
        };
        // 0 where there is no sensor.
        let degrees = degrees.filter(|degrees| (1..=250).contains(degrees));
        told.extend(
            degrees.and_then(|degrees| Some((Metric::HwMemoryTemperature, level(degrees * 1000)?))),
        );
        told
    }

    /// GPM (Hopper and later): the difference of two samples.
    fn performance(&mut self, look: &mut DeviceLook) {
        let Some(gpm) = &mut self.gpm else { return };
        let Ok(sample) = self.device.gpm_sample() else {
            return;
        };
        let now = Instant::now();
        if let Some((before, at)) = &gpm.last {
            let shares = [
                (GpmMetricId::SmUtil, Metric::HwSmActive),
                (GpmMetricId::AnyTensorUtil, Metric::HwTensorActive),
            ];
            let ids: Vec<GpmMetricId> = shares.iter().chain(&RATES).map(|(id, _)| *id).collect();
            let results = gpm_metrics_get(self.nvml, before, &sample, &ids).unwrap_or_default();
            let values: Vec<Option<f64>> = results
                .into_iter()
                .map(|result| result.ok().map(|result| result.value))
                .collect();
            for ((_, metric), value) in shares.iter().zip(&values) {
                let permille = value
                    .and_then(|percent| whole(percent * 10.0))
                    .filter(|permille| *permille <= 1000);
                if let Some(value) = permille.and_then(level) {
                    look.tell(*metric, Source::Gpm, Quality::Sampled, value);
                }
            }
            let span = now.duration_since(*at).as_secs_f64();
            for ((_, metric), value) in RATES.iter().zip(values.iter().skip(shares.len())) {
                if let Some(more) = value.and_then(|rate| whole(rate * span * f64::from(1 << 20))) {
                    let sum = gpm.bytes.entry(*metric).or_default();
                    *sum = sum.saturating_add(more);
                    look.tell(*metric, Source::Gpm, Quality::Estimated, Value::Count(*sum));
                }
            }
        }
        gpm.last = Some((sample, now));
    }

    fn errors(&self, look: &mut DeviceLook) {
        let Some(events) = &self.events else { return };
        look.tells_errors = true;
        while look.errors.len() < EVENTS_MAX {
            let Ok(event) = events.wait(0) else { return };
            let code = match event.event_data {
                Some(XidError::Value(code)) => u32::try_from(code).unwrap_or(XID_UNKNOWN),
                Some(XidError::Unknown) => XID_UNKNOWN,
                None => continue,
            };
            look.errors.push((code, format!("XID {code}")));
        }
    }
}

fn tell(look: &mut DeviceLook, metric: Metric, value: Option<Value>) {
    if let Some(value) = value {
        look.tell(metric, Source::Nvml, Quality::Sampled, value);
    }
}

/// A number that is not below 0 and not absurd, rounded.
fn whole(value: f64) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    let rounded = (0.0..1e18).contains(&value).then(|| value.round() as u64);
    rounded
}
