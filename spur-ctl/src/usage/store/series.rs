//! A job's series on one node as bytes: for each series its kind, its GPU, its resolution and its points, all as varints (LEB128,
//! zigzag where a sign is possible). A point is its milliseconds, and unless those are 0 the difference of its mean to the mean
//! before, how far the least is below it and the greatest above it. About five bytes a point.

use crate::usage::board::Entry;
use spur_core::api::SeriesKind;
use spur_core::usage::series::{POINTS_MAX, Series};
use std::collections::BTreeMap;

/// Series of a job on one node.
pub(super) type All = BTreeMap<(SeriesKind, Option<u32>), Series>;

const KINDS: [SeriesKind; 4] = [
    SeriesKind::Cpu,
    SeriesKind::Memory,
    SeriesKind::GpuBusy,
    SeriesKind::GpuMemory,
];

/// Writes them.
pub(super) fn encode(all: &All) -> Vec<u8> {
    let mut bytes = Vec::new();
    for ((kind, gpu), series) in all {
        let number = KINDS.iter().position(|known| known == kind).unwrap_or(0);
        put(&mut bytes, number as u64);
        put(&mut bytes, gpu.map_or(0, |gpu| u64::from(gpu) + 1));
        put(&mut bytes, series.step());
        put(&mut bytes, series.points().len() as u64);
        let mut before = 0i64;
        for point in series.points() {
            put(&mut bytes, point.millis);
            if let Some(mean) = point.mean() {
                put_signed(&mut bytes, mean.wrapping_sub(before));
                put_signed(&mut bytes, mean.wrapping_sub(point.min));
                put_signed(&mut bytes, point.max.wrapping_sub(mean));
                before = mean;
            }
        }
    }
    bytes
}

/// Reads them; `None` for bytes that say something else.
pub(super) fn decode(mut bytes: &[u8]) -> Option<All> {
    let mut all = All::new();
    while !bytes.is_empty() {
        let kind = *KINDS.get(usize::try_from(take(&mut bytes)?).ok()?)?;
        let gpu = take(&mut bytes)?
            .checked_sub(1)
            .map(u32::try_from)
            .transpose()
            .ok()?;
        let step = take(&mut bytes)?.max(1);
        let count = take(&mut bytes)?;
        if count > POINTS_MAX as u64 {
            return None;
        }
        let mut series = Series::new(step);
        let mut mean = 0i64;
        for at in 1..=count {
            let millis = take(&mut bytes)?;
            if millis == 0 {
                continue;
            }
            mean = mean.wrapping_add(take_signed(&mut bytes)?);
            let min = mean.wrapping_sub(take_signed(&mut bytes)?);
            let max = mean.wrapping_add(take_signed(&mut bytes)?);
            series.add(at.saturating_mul(step), millis, (mean, min, max));
        }
        all.insert((kind, gpu), series);
    }
    Some(all)
}

/// Adds entries.
pub(super) fn add(all: &mut All, entries: &BTreeMap<(SeriesKind, Option<u32>), Vec<Entry>>) {
    crate::usage::board::merge(all, entries);
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(low(value) | 0x80);
        value >>= 7;
    }
    bytes.push(low(value));
}

const fn low(value: u64) -> u8 {
    (value & 0x7f) as u8
}

fn put_signed(bytes: &mut Vec<u8>, value: i64) {
    put(bytes, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let (mut value, mut shift) = (0u64, 0);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if shift > 63 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        shift += 7;
    }
}

fn take_signed(bytes: &mut &[u8]) -> Option<i64> {
    let value = take(bytes)?;
    Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            points in prop::collection::vec((0u64..5000, any::<i32>(), 0i64..100), 0..700),
            gpu: Option<u32>,
            rest: Vec<u8>,
        ) {
            let mut series = Series::new(1000);
            let mut now = 0;
            for (millis, mean, spread) in points {
                now += 1 + millis;
                let mean = i64::from(mean);
                series.add(now, millis, (mean, mean - spread, mean + spread));
            }
            let gpu = gpu.filter(|gpu| *gpu < u32::MAX);
            let all: All = [((SeriesKind::GpuBusy, gpu), series.clone()), ((SeriesKind::Cpu, None), series)].into();
            let read = decode(&encode(&all)).unwrap();
            prop_assert_eq!(read.len(), all.len());
            for (which, series) in &all {
                let told = |series: &Series| series.points().iter().map(|p| (p.millis, p.mean(), p.min, p.max)).filter(|p| p.0 > 0).collect::<Vec<_>>();
                prop_assert_eq!(told(&read[which]), told(series));
                prop_assert_eq!(read[which].step(), series.step());
            }
            let _any = decode(&rest);
        }
    }
}
