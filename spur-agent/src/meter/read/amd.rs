//! AMD GPUs: amdgpu's `gpu_metrics` table, its files in sysfs, and KFD's per process.
//!
//! A partition of a GPU has its own memory and its own part of the table; power, clocks and temperatures are the whole GPU's and are
//! told of its first partition only.

pub mod metrics;

use super::kept::{Kept, field};
use crate::discover::amd::kfd_gpus;
use crate::discover::tree::Tree;
use crate::discover::{Identity, pci};
use crate::meter::device::{DeviceBusy, DeviceLook, DeviceProcess, level};
use metrics::{Table, Throttled, Unknown};
use spur_core::usage::metric::{Metric, Quality, Source, Value};
use std::path::{Path, PathBuf};

/// KFD's processes.
const PROCESSES: &str = "sys/class/kfd/kfd/proc";

/// Most processes that are looked at.
const PROCESSES_MAX: usize = 4096;

/// One GPU, or one partition of one, and its open files.
#[derive(Debug)]
pub struct AmdGpu {
    /// Its index in the inventory.
    pub index: u32,
    partition: u32,
    /// KFD's number for it, by which its processes' files are called.
    gpu_id: Option<u32>,
    device: PathBuf,
    table: Kept,
    power_state: Kept,
    busy: Kept,
    used: Kept,
    total: Kept,
    hwmon: Hwmon,
    throttled: Throttled,
    errors: Option<(u64, u64)>,
    refused: Option<Unknown>,
}

#[derive(Debug, Default)]
struct Hwmon {
    power: Kept,
    edge: Kept,
    junction: Kept,
    memory: Kept,
    clock: Kept,
    memory_clock: Kept,
}

impl Hwmon {
    fn open(device: &Path) -> Self {
        let folder = std::fs::read_dir(device.join("hwmon"))
            .into_iter()
            .flatten()
            .flatten()
            .next();
        let Some(folder) = folder.map(|entry| entry.path()) else {
            return Self::default();
        };
        let file = |name: &str| Kept::open(&folder.join(name));
        let average = file("power1_average");
        Self {
            power: if average.is_there() {
                average
            } else {
                file("power1_input")
            },
            edge: file("temp1_input"),
            junction: file("temp2_input"),
            memory: file("temp3_input"),
            clock: file("freq1_input"),
            memory_clock: file("freq2_input"),
        }
    }
}

impl AmdGpu {
    /// Finds the files of the GPUs with these identities; `identities` are in the order of the inventory.
    pub fn find(tree: &Tree, identities: &[Identity]) -> Vec<Self> {
        let nodes = kfd_gpus(tree, &mut Vec::new());
        let all = (0u32..).zip(identities);
        all.filter_map(|(index, identity)| {
            let Identity::Amd {
                unique_id,
                pci,
                partition,
            } = identity
            else {
                return None;
            };
            let node = nodes.iter().find(|node| {
                (node.unique_id, &node.pci, node.partition) == (*unique_id, pci, *partition)
            });
            let gpu_id = node.and_then(|node| {
                tree.number(&format!(
                    "sys/class/kfd/kfd/topology/nodes/{}/gpu_id",
                    node.node
                ))
            });
            let address = pci::Address::parse(pci)?;
            let device = tree.path(&format!("sys/bus/pci/devices/{address}"));
            Some(Self::open(index, *partition, gpu_id, device))
        })
        .collect()
    }

    fn open(index: u32, partition: u32, gpu_id: Option<u32>, device: PathBuf) -> Self {
        let file = |name: &str| Kept::open(&device.join(name));
        Self {
            index,
            partition,
            gpu_id,
            table: file("gpu_metrics"),
            power_state: file("power/runtime_status"),
            busy: file("gpu_busy_percent"),
            used: file("mem_info_vram_used"),
            total: file("mem_info_vram_total"),
            hwmon: Hwmon::open(&device),
            throttled: Throttled::default(),
            errors: None,
            refused: None,
            device,
        }
    }

    /// Looks at it; `None` while it is suspended, since a look would wake it. `span` is the time since the look before, ms; `deep`
    /// is what is read seldom.
    pub fn look(&mut self, span: u64, deep: bool, buffer: &mut Vec<u8>) -> Option<DeviceLook> {
        if self
            .power_state
            .read(buffer)
            .is_some_and(|state| state.trim() == "suspended")
        {
            return None;
        }
        let mut look = DeviceLook::default();
        let table = self.table(buffer);
        if self.partition == 0 {
            self.whole(table.as_ref(), span, &mut look, buffer);
            if deep || self.errors.is_none() {
                self.errors = ras(&self.device).or(self.errors);
            }
            if let Some((corrected, uncorrected)) = self.errors {
                look.tell(
                    Metric::HwEccCorrected,
                    Source::Sysfs,
                    Quality::Exact,
                    Value::Count(corrected),
                );
                look.tell(
                    Metric::HwEccUncorrected,
                    Source::Sysfs,
                    Quality::Exact,
                    Value::Count(uncorrected),
                );
            }
        }
        self.activity(table.as_ref(), &mut look, buffer);
        Some(look)
    }

    fn table(&mut self, buffer: &mut Vec<u8>) -> Option<Table> {
        let bytes = self.table.bytes(buffer)?;
        match metrics::parse(bytes) {
            Ok(table) => Some(table),
            Err(unknown) => {
                if self.refused != Some(unknown) {
                    tracing::warn!(gpu = self.index, "{unknown}");
                    self.refused = Some(unknown);
                }
                None
            }
        }
    }

    /// How busy it is: its own part where the table has parts, else the whole's, which is a partition's own only if it is the only
    /// one.
    fn activity(&self, table: Option<&Table>, look: &mut DeviceLook, buffer: &mut Vec<u8>) {
        let part =
            table.and_then(|table| table.parts.get(self.partition as usize).copied().flatten());
        let parts = table.map_or(0, |table| table.partitions);
        let mut whole = || {
            let told = table
                .and_then(|table| table.activity)
                .map(|share| (share, Source::GpuMetrics));
            told.or_else(|| {
                let percent = self.busy.number(buffer).filter(|percent| *percent <= 100)?;
                Some((u16::try_from(percent * 10).ok()?, Source::Sysfs))
            })
        };
        let told = match part {
            Some(share) if parts > 1 => Some((share, Source::GpuMetrics, Quality::Estimated)),
            Some(_) | None if self.partition == 0 && parts < 2 => {
                whole().map(|(share, source)| (share, source, Quality::Sampled))
            }
            Some(_) | None => None,
        };
        look.busy = told.map(|(permille, source, quality)| DeviceBusy {
            permille,
            source,
            quality,
        });
    }

    /// What is the whole GPU's.
    fn whole(
        &mut self,
        table: Option<&Table>,
        span: u64,
        look: &mut DeviceLook,
        buffer: &mut Vec<u8>,
    ) {
        let hwmon = &self.hwmon;
        let mut tell = |metric, told: Option<u64>, read: Option<u64>| {
            let both = told
                .map(|value| (value, Source::GpuMetrics))
                .or(read.map(|value| (value, Source::Sysfs)));
            if let Some((value, source)) =
                both.and_then(|(value, source)| level(value).map(|value| (value, source)))
            {
                look.tell(metric, source, Quality::Sampled, value);
            }
        };
        tell(Metric::HwMemory, None, self.used.number(buffer));
        tell(Metric::HwMemoryLimit, None, self.total.number(buffer));
        let of = |pick: fn(&Table) -> Option<u64>| table.and_then(pick);
        let microwatts = hwmon.power.number(buffer);
        tell(
            Metric::HwPower,
            of(|t| t.power_mw),
            microwatts.map(|power| power / 1000),
        );
        let chip = hwmon
            .junction
            .number(buffer)
            .or_else(|| hwmon.edge.number(buffer));
        tell(Metric::HwTemperature, of(|t| t.temperature), chip);
        tell(
            Metric::HwMemoryTemperature,
            of(|t| t.memory_temperature),
            hwmon.memory.number(buffer),
        );
        let mhz = |hertz: Option<u64>| hertz.map(|hertz| hertz / 1_000_000);
        tell(
            Metric::HwClock,
            of(|t| t.clock),
            mhz(hwmon.clock.number(buffer)),
        );
        tell(
            Metric::HwMemoryClock,
            of(|t| t.memory_clock),
            mhz(hwmon.memory_clock.number(buffer)),
        );
        tell(
            Metric::HwMemoryUtilization,
            of(|t| t.memory_activity.map(u64::from)),
            None,
        );
        let Some(table) = table else { return };
        let mut count = |metric, quality, value: Option<u64>| {
            if let Some(value) = value {
                look.tell(metric, Source::GpuMetrics, quality, Value::Count(value));
            }
        };
        count(Metric::HwEnergy, Quality::Sampled, table.energy_mj);
        count(Metric::HwLinkReceive, Quality::Exact, table.link_read);
        count(Metric::HwLinkTransmit, Quality::Exact, table.link_written);
        if let Some((power, thermal)) = self.throttled.take(table, span) {
            count(Metric::HwThrottlePower, Quality::Estimated, Some(power));
            count(Metric::HwThrottleThermal, Quality::Estimated, Some(thermal));
        }
    }
}

/// Adds KFD's processes to the looks at these GPUs. A process that only has KFD open has memory on none.
pub fn processes(
    tree: &Tree,
    gpus: &[AmdGpu],
    looks: &mut std::collections::BTreeMap<u32, DeviceLook>,
) {
    if !tree.exists(PROCESSES) {
        return;
    }
    let pids: Vec<u32> = tree
        .names(PROCESSES)
        .iter()
        .filter_map(|name| name.parse().ok())
        .take(PROCESSES_MAX)
        .collect();
    for gpu in gpus {
        let (Some(id), Some(look)) = (gpu.gpu_id, looks.get_mut(&gpu.index)) else {
            continue;
        };
        let held = pids.iter().filter_map(|pid| {
            let bytes: u64 = tree.number(&format!("{PROCESSES}/{pid}/vram_{id}"))?;
            (bytes > 0).then_some(DeviceProcess {
                pid: *pid,
                memory: Some(bytes),
                busy_us: None,
            })
        });
        look.processes = Some(held.collect());
    }
}

/// Corrected and uncorrected errors of all blocks that the driver counts for.
fn ras(device: &Path) -> Option<(u64, u64)> {
    let mut sums = None;
    for entry in std::fs::read_dir(device.join("ras")).ok()?.flatten() {
        if !entry.file_name().to_string_lossy().ends_with("_err_count") {
            continue;
        }
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        if let (Some(corrected), Some(uncorrected)) = (field(&text, "ce:"), field(&text, "ue:")) {
            let (c, u) = sums.unwrap_or((0u64, 0u64));
            sums = Some((c.saturating_add(corrected), u.saturating_add(uncorrected)));
        }
    }
    sums
}

#[cfg(test)]
mod tests;
