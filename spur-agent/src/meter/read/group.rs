//! Files of a control group. Hybrid hosts have few of them: only `cpu.stat` is there without controllers.

use super::kept::{Kept, field};
use crate::meter::kernel::Counts;
use std::path::Path;

/// What the files say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// `cpu.stat`, `io.stat`, `memory.events`, `memory.stat`: what the kernel's events tell better where they are seen.
    pub counts: Counts,
    /// `memory.current` less inactive file cache, bytes.
    pub memory: Option<u64>,
    /// `memory.peak`, bytes, file cache included.
    pub peak: Option<u64>,
    /// `memory.max`, bytes; absent for no limit.
    pub limit: Option<u64>,
    /// `pids.current`.
    pub pids: Option<u64>,
    /// `some` of `cpu.pressure`, µs.
    pub pressure_cpu: Option<u64>,
    /// `some` and `full` of `memory.pressure`, µs.
    pub pressure_memory: Option<(u64, u64)>,
    /// `some` and `full` of `io.pressure`, µs.
    pub pressure_io: Option<(u64, u64)>,
}

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// CPU time, which the kernel's own counts make superfluous.
    pub cpu: bool,
    /// Block I/O, likewise.
    pub io: bool,
    /// Kills for want of memory, likewise.
    pub kills: bool,
    /// Pressure.
    pub pressure: bool,
    /// What changes seldom, and `memory.stat`, which makes the kernel add up its counters of all CPUs.
    pub stat: bool,
}

/// The files of one group, kept open.
#[derive(Debug)]
pub struct Files {
    cpu: Kept,
    io: Kept,
    current: Kept,
    peak: Kept,
    limit: Kept,
    stat: Kept,
    events: Kept,
    pids: Kept,
    pressures: [Kept; 3],
    dmem: Kept,
    /// Of the last `memory.stat`.
    inactive: u64,
    faults: Option<(u64, u64)>,
}

impl Files {
    /// Opens what is there.
    pub fn open(group: &Path) -> Self {
        let file = |name: &str| Kept::open(&group.join(name));
        let current = file("memory.current");
        // All files of a controller are there, or none.
        let memory = |name: &str| match current.is_there() {
            true => file(name),
            false => Kept::default(),
        };
        Self {
            cpu: file("cpu.stat"),
            io: file("io.stat"),
            peak: memory("memory.peak"),
            limit: memory("memory.max"),
            stat: memory("memory.stat"),
            events: memory("memory.events"),
            current,
            pids: file("pids.current"),
            pressures: ["cpu.pressure", "memory.pressure", "io.pressure"].map(file),
            dmem: file("dmem.current"),
            inactive: 0,
            faults: None,
        }
    }

    /// Device memory in the group's use by region, such as `drm/0000:03:00.0/vram0`, bytes (since Linux 6.14, for drivers that take
    /// part).
    pub fn device_memory(&self, buffer: &mut Vec<u8>) -> Vec<(String, u64)> {
        let text = self.dmem.read(buffer).unwrap_or_default();
        let regions = text.lines().filter_map(|line| {
            let (region, bytes) = line.split_once(' ')?;
            Some((region.to_owned(), bytes.trim().parse().ok()?))
        });
        regions.collect()
    }

    /// Whether the kernel counts memory here.
    pub fn has_memory(&self) -> bool {
        self.current.is_there()
    }

    /// Reads them. A group that was removed meanwhile has nothing.
    pub fn read(&mut self, depth: Depth, buffer: &mut Vec<u8>) -> Group {
        let mut group = Group::default();
        self.counts(depth, &mut group.counts, buffer);
        if depth.stat
            && let Some(text) = self.stat.read(buffer)
        {
            self.inactive = field(text, "inactive_file").unwrap_or(0);
            self.faults = field(text, "pgfault").zip(field(text, "pgmajfault"));
        }
        if let Some((all, major)) = self.faults {
            group.counts.major_faults = Some(major);
            group.counts.minor_faults = Some(all.saturating_sub(major));
        }
        let current = self.current.number(buffer);
        group.memory = current.map(|bytes| bytes.saturating_sub(self.inactive));
        if depth.stat {
            group.peak = self.peak.number(buffer);
            group.limit = self.limit.number(buffer);
        }
        group.pids = self.pids.number(buffer);
        if (depth.kills || depth.stat)
            && let Some(text) = self.events.read(buffer)
        {
            group.counts.oom_kills = field(text, "oom_kill");
        }
        if depth.pressure {
            let [cpu, memory, io] = &self.pressures;
            group.pressure_cpu = cpu.read(buffer).and_then(|text| total(text, "some"));
            let both = |text: &str| total(text, "some").zip(total(text, "full"));
            group.pressure_memory = memory.read(buffer).and_then(both);
            group.pressure_io = io.read(buffer).and_then(both);
        }
        group
    }

    fn counts(&self, depth: Depth, counts: &mut Counts, buffer: &mut Vec<u8>) {
        // Only this file tells how long a CPU limit held it back.
        if (depth.cpu || depth.stat)
            && let Some(text) = self.cpu.read(buffer)
        {
            counts.throttled = field(text, "throttled_usec");
            if depth.cpu {
                counts.cpu = field(text, "usage_usec");
                counts.user = field(text, "user_usec");
                counts.system = field(text, "system_usec");
            }
        }
        if depth.io
            && let Some(text) = self.io.read(buffer)
        {
            counts.read_bytes = io_sum(text, "rbytes");
            counts.write_bytes = io_sum(text, "wbytes");
            counts.reads = io_sum(text, "rios");
            counts.writes = io_sum(text, "wios");
        }
    }
}

/// `total=` of the line of a PSI file that begins with `kind`.
fn total(text: &str, kind: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(kind))?;
    let word = line
        .split_whitespace()
        .find_map(|word| word.strip_prefix("total="))?;
    word.parse().ok()
}

/// The sum of a key over the devices of `io.stat`; a group without I/O has an empty file, which is 0.
fn io_sum(text: &str, key: &str) -> Option<u64> {
    let mut sum = 0u64;
    for line in text.lines() {
        let word = line
            .split_whitespace()
            .find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        if let Some(word) = word {
            sum = sum.checked_add(word.parse().ok()?)?;
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests;
