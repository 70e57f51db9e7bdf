//! amdgpu's `gpu_metrics`: a table whose layout is told by its first four bytes (drivers/gpu/drm/amd/include/kgd_pp_interface.h).
//! What a field's unit is on all chips is used; what differs by chip is left to other files. A version that is not known is refused by its
//! name. All bits set is "not supported".

/// Partitions of a GPU that a table has room for (`NUM_XCP`).
pub const PARTS_MAX: usize = 8;

/// XGMI links (`NUM_XGMI_LINKS`), compute dies of a partition (`MAX_XCC`), instances of memory (`NUM_HBM_INSTANCES`).
const LINKS: usize = 8;
const DIES: usize = 8;
const STACKS: usize = 4;

/// A table that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// Not even a head.
    #[error("gpu_metrics has {0} bytes: no table")]
    Short(usize),
    /// A version that this build does not know.
    #[error("gpu_metrics version {format}.{content} is not known: what it tells is missing")]
    Version {
        /// Format.
        format: u8,
        /// Content.
        content: u8,
    },
    /// Fewer bytes than its version has.
    #[error("gpu_metrics {format}.{content} has {size} bytes: it is not read")]
    Size {
        /// Format.
        format: u8,
        /// Content.
        content: u8,
        /// Bytes.
        size: usize,
    },
}

/// What a table tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Share of time that the shader engines were busy, in thousandths.
    pub activity: Option<u16>,
    /// The same of the memory controller.
    pub memory_activity: Option<u16>,
    /// Socket power, mW.
    pub power_mw: Option<u64>,
    /// Energy, mJ.
    pub energy_mj: Option<u64>,
    /// Hottest spot, thousandths of a degree.
    pub temperature: Option<u64>,
    /// Memory, thousandths of a degree.
    pub memory_temperature: Option<u64>,
    /// Clock of the shader engines, MHz.
    pub clock: Option<u64>,
    /// Clock of the memory, MHz.
    pub memory_clock: Option<u64>,
    /// Read over XGMI, bytes.
    pub link_read: Option<u64>,
    /// Written over XGMI, bytes.
    pub link_written: Option<u64>,
    /// Cycles of the firmware, and those in which it throttled for power, and for heat.
    pub residencies: Option<(u32, u32, u32)>,
    /// Partitions that there are now; 0 if the table does not tell.
    pub partitions: u16,
    /// Share of time busy of each partition, in thousandths.
    pub parts: [Option<u16>; PARTS_MAX],
}

/// Reads a table.
pub fn parse(bytes: &[u8]) -> Result<Table, Unknown> {
    let [size_low, size_high, format, content] =
        *bytes.first_chunk().ok_or(Unknown::Short(bytes.len()))?;
    let size = usize::from(u16::from_le_bytes([size_low, size_high])).min(bytes.len());
    let need = match (format, content) {
        (1, 0) => 76,
        (1, 1) => 96,
        (1, 2) => 104,
        (1, 3) => 120,
        (1, 4) => 288,
        (1, 5) => 360,
        (1, 6) => LAYOUT_6.parts + PARTS_MAX * 168,
        (1, 7 | 8) => LAYOUT_7.parts + PARTS_MAX * 168,
        (2, 0 | 1) => 120,
        (2, 2..=4) => 128,
        (3, 0) => 264,
        _ => return Err(Unknown::Version { format, content }),
    };
    if size < need {
        return Err(Unknown::Size {
            format,
            content,
            size,
        });
    }
    let fields = Fields(&bytes[..size]);
    Ok(match (format, content) {
        (1, 0..=3) => discrete(fields, content),
        (1, 4) => instinct(fields, &LAYOUT_4),
        (1, 5) => instinct(fields, &LAYOUT_5),
        (1, 6) => instinct(fields, &LAYOUT_6),
        (1, _) => instinct(fields, &LAYOUT_7),
        (2, _) => mobile(fields, content),
        _ => strix(fields),
    })
}

#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    /// `None` if it is not there, or not supported.
    fn u16(self, at: usize) -> Option<u16> {
        let bytes = self.0.get(at..)?.first_chunk()?;
        Some(u16::from_le_bytes(*bytes)).filter(|value| *value != u16::MAX)
    }

    fn u32(self, at: usize) -> Option<u32> {
        let bytes = self.0.get(at..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes)).filter(|value| *value != u32::MAX)
    }

    fn u64(self, at: usize) -> Option<u64> {
        let bytes = self.0.get(at..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes)).filter(|value| *value != u64::MAX)
    }

    /// A percentage as thousandths; more than all is nonsense.
    fn percent(self, at: usize) -> Option<u16> {
        self.u16(at)
            .filter(|percent| *percent <= 100)
            .map(|percent| percent * 10)
    }

    /// Degrees as thousandths; a sensor that is not there reads as 0.
    fn celsius(self, at: usize) -> Option<u64> {
        self.u16(at)
            .filter(|degrees| (1..=250).contains(degrees))
            .map(|degrees| u64::from(degrees) * 1000)
    }

    fn watts(self, at: usize) -> Option<u64> {
        self.u16(at).map(|watts| u64::from(watts) * 1000)
    }

    /// A clock; 0 is a chip that does not tell it.
    fn mhz(self, at: usize) -> Option<u64> {
        self.u16(at).filter(|clock| *clock > 0).map(u64::from)
    }

    /// The sum of those of `count` numbers that are supported; kilobytes as bytes.
    fn kilobytes(self, at: usize, count: usize) -> Option<u64> {
        let known = (0..count).filter_map(|number| self.u64(at + number * 8));
        known
            .reduce(u64::saturating_add)
            .map(|sum| sum.saturating_mul(1024))
    }
}

/// Units of 2^-16 J as mJ.
fn millijoules(units: u64) -> Option<u64> {
    u64::try_from((u128::from(units) * 1000) >> 16).ok()
}

/// Versions 1.0 to 1.3: cards, and MI100 and MI200. Those two tell the temperature of each stack of memory and count energy in units of
/// 2^-16 J; what other chips count in is not written down anywhere.
fn discrete(fields: Fields<'_>, content: u8) -> Table {
    let temperatures = if content == 0 { 16 } else { 4 };
    let activity = temperatures + 12;
    let stacks = (0..STACKS)
        .filter_map(|stack| fields.celsius(88 + stack * 2))
        .max();
    let stacks = stacks.filter(|_| content > 0);
    let energy = stacks.and_then(|_| millijoules(fields.u64(24)?));
    Table {
        activity: fields.percent(activity),
        memory_activity: fields.percent(activity + 2),
        power_mw: fields.watts(activity + 6),
        energy_mj: energy.filter(|energy| *energy > 0),
        temperature: fields.celsius(temperatures + 2),
        memory_temperature: stacks.or_else(|| fields.celsius(temperatures + 4)),
        clock: fields.mhz(54),
        memory_clock: fields.mhz(58),
        ..Table::default()
    }
}

/// Where versions 1.4 to 1.8 (MI300 and later) have what is not at the same place in all.
struct Layout {
    energy: usize,
    /// `accumulation_counter` and the five residencies after it; 0: none.
    residencies: usize,
    links: usize,
    clocks: usize,
    memory_clock: usize,
    partitions: usize,
    parts: usize,
}

const LAYOUT_4: Layout = Layout {
    energy: 24,
    residencies: 0,
    links: 104,
    clocks: 240,
    memory_clock: 280,
    partitions: 0,
    parts: 0,
};
const LAYOUT_5: Layout = Layout {
    energy: 88,
    residencies: 0,
    links: 176,
    clocks: 312,
    memory_clock: 352,
    partitions: 0,
    parts: 0,
};
const LAYOUT_6: Layout = Layout {
    energy: 16,
    residencies: 32,
    links: 128,
    clocks: 264,
    memory_clock: 304,
    partitions: 306,
    parts: 312,
};
const LAYOUT_7: Layout = Layout {
    energy: 24,
    residencies: 40,
    links: 136,
    clocks: 296,
    memory_clock: 336,
    partitions: 338,
    parts: 344,
};

fn instinct(fields: Fields<'_>, layout: &Layout) -> Table {
    let mut table = Table {
        activity: fields.percent(12),
        memory_activity: fields.percent(14),
        power_mw: fields.watts(10),
        energy_mj: fields.u64(layout.energy).and_then(millijoules),
        temperature: fields.celsius(4),
        memory_temperature: fields.celsius(6),
        // Of several dies the fastest: an idle one is switched off.
        clock: (0..DIES)
            .filter_map(|die| fields.mhz(layout.clocks + die * 2))
            .max(),
        memory_clock: fields.mhz(layout.memory_clock),
        link_read: fields.kilobytes(layout.links, LINKS),
        link_written: fields.kilobytes(layout.links + LINKS * 8, LINKS),
        ..Table::default()
    };
    if layout.residencies > 0 {
        let [cycles, processor, power, socket, regulator, memory] =
            [0, 4, 8, 12, 16, 20].map(|offset| fields.u32(layout.residencies + offset));
        let thermal = [processor, socket, regulator, memory]
            .into_iter()
            .flatten()
            .reduce(u32::saturating_add);
        table.residencies = cycles
            .zip(power)
            .zip(thermal)
            .map(|((cycles, power), thermal)| (cycles, power, thermal));
    }
    if layout.parts > 0 {
        table.partitions = fields
            .u16(layout.partitions)
            .filter(|count| usize::from(*count) <= PARTS_MAX)
            .unwrap_or(0);
        // The entries grew from version to version; a counter of 4 bytes, padded to 8, follows the last.
        let entry = (fields.0.len() - layout.parts - 8) / PARTS_MAX / 8 * 8;
        for (number, part) in table
            .parts
            .iter_mut()
            .enumerate()
            .take(usize::from(table.partitions))
        {
            let dies =
                (0..DIES).filter_map(|die| fields.u32(layout.parts + number * entry + die * 4));
            let busy: Vec<u32> = dies.filter(|percent| *percent <= 100).collect();
            let sum: u32 = busy.iter().sum();
            *part = u32::try_from(busy.len())
                .ok()
                .and_then(|dies| (sum * 10).checked_div(dies))
                .and_then(|share| u16::try_from(share).ok());
        }
    }
    table
}

/// Versions 2.x: chips with a CPU. Their units differ by chip but for clocks, and, in 2.4, activity in hundredths of a percent.
fn mobile(fields: Fields<'_>, content: u8) -> Table {
    let clocks = if content == 0 { 80 } else { 76 };
    let hundredths = fields
        .u16(28)
        .filter(|share| content == 4 && *share <= 10_000);
    Table {
        activity: hundredths.map(|share| share / 10),
        clock: fields.mhz(clocks),
        memory_clock: fields.mhz(clocks + 4),
        ..Table::default()
    }
}

/// Version 3.0.
fn strix(fields: Fields<'_>) -> Table {
    Table {
        activity: fields.percent(42),
        ..Table::default()
    }
}

/// Time in which the firmware throttled, from its cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    last: Option<(u32, u32, u32)>,
    power: u64,
    thermal: u64,
}

impl Throttled {
    /// Takes a table that was read `span` milliseconds after the one before. Gives the time throttled for power and for heat since the
    /// first, µs.
    pub fn take(&mut self, table: &Table, span: u64) -> Option<(u64, u64)> {
        let now = table.residencies?;
        if let Some(last) = self.last.replace(now) {
            let cycles = u64::from(now.0.wrapping_sub(last.0));
            let time = |now: u32, last: u32| {
                let share = u64::from(now.wrapping_sub(last)).min(cycles);
                (share * span)
                    .saturating_mul(1000)
                    .checked_div(cycles)
                    .unwrap_or(0)
            };
            self.power += time(now.1, last.1);
            self.thermal += time(now.2, last.2);
        }
        Some((self.power, self.thermal))
    }
}

#[cfg(test)]
mod tests;
