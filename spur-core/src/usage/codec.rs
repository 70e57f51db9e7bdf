//! Values of many series in few bytes: what did not change is left out, what grows steadily costs two bytes.
//!
//! A body is a list of entries in rising order of series numbers. Each is the distance from the number before (less one) as a
//! varint (LEB128), then for a counter the zigzag varint of how its increase differs from the increase before, and for a gauge the
//! zigzag varint of the difference of its mean, shifted left by one; the low bit says that two varints follow, how far the least
//! is below the mean and how far the greatest is above it.

use super::metric::{SeriesKey, Shape, Value};
use super::words::{Batch, SeriesName};
use std::collections::{BTreeMap, BTreeSet};

/// Most series of a node.
pub const SERIES_MAX: usize = 65_536;

/// A batch that makes no sense to its decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadBatch {
    /// The decoder has not seen what it builds on.
    #[error("batch {found} does not follow batch {last}, and is no keyframe")]
    Missing {
        /// The last that was taken; 0 for none.
        last: u64,
        /// This one.
        found: u64,
    },
    /// The body ends in the middle of a value.
    #[error("the body ends within a value")]
    Short,
    /// A number without a name.
    #[error("series number {0} has no name")]
    Unnamed(u32),
    /// A number out of range, or given twice.
    #[error("series number {0} cannot be given")]
    BadName(u32),
    /// A value out of range.
    #[error("the value of series {0} is out of range")]
    Range(u32),
}

#[derive(Clone, Copy, Debug)]
struct Last {
    value: Value,
    /// A counter's last increase.
    step: i128,
}

impl Last {
    fn new(shape: Shape) -> Self {
        let value = match shape {
            Shape::Counter => Value::Count(0),
            Shape::Gauge => Value::level(0),
        };
        Self { value, step: 0 }
    }
}

/// What an encoder gives for a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// Numbers given from here on.
    pub names: Vec<SeriesName>,
    /// Numbers whose series ended.
    pub ended: Vec<u32>,
    /// Values.
    pub body: Vec<u8>,
}

/// The sending end of a lane.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    /// In the order of keys.
    known: Vec<(SeriesKey, Known)>,
    free: BTreeSet<u32>,
    next: u32,
}

/// A series that has a number.
#[derive(Clone, Copy, Debug)]
struct Known {
    number: u32,
    last: Last,
    /// Nothing was sent of it yet.
    fresh: bool,
}

impl Encoder {
    /// Encodes all series that there are now; one that was there before and is not any more has ended. A `keyframe` forgets what
    /// was sent. A value of another shape than its metric's, and what is above [`SERIES_MAX`], is left out and counted.
    pub fn encode(
        &mut self,
        values: &BTreeMap<SeriesKey, Value>,
        keyframe: bool,
    ) -> (Encoded, usize) {
        let values: Vec<_> = values.iter().map(|(key, value)| (*key, *value)).collect();
        self.encode_sorted(&values, keyframe)
    }

    /// The same for values in the rising order of their keys, each key once.
    pub fn encode_sorted(
        &mut self,
        values: &[(SeriesKey, Value)],
        keyframe: bool,
    ) -> (Encoded, usize) {
        debug_assert!(values.is_sorted_by(|one, next| one.0 < next.0));
        let mut encoded = Encoded::default();
        if keyframe {
            *self = Self::default();
        }
        let same = self.known.len() == values.len()
            && self
                .known
                .iter()
                .zip(values)
                .all(|(known, value)| known.0 == value.0);
        if !same {
            self.rename(values, &mut encoded);
        }
        let mut changed = Vec::new();
        let mut known = self.known.iter_mut().peekable();
        for (key, value) in values.iter().filter(|(key, value)| fits(*key, *value)) {
            let Some((_, known)) = known.next_if(|(other, _)| other == key) else {
                continue;
            };
            // Of a value that rests its receiver hears nothing, and keeps what it grew by before.
            if known.fresh || known.last.value != *value {
                known.fresh = false;
                changed.push((known.number, &mut known.last, *value));
            }
        }
        changed.sort_unstable_by_key(|(number, _, _)| *number);
        let mut before = 0;
        for (number, last, value) in changed {
            write(&mut encoded.body, u128::from(number - before));
            before = number + 1;
            put(&mut encoded.body, last, value);
        }
        // A number that ended in this batch is given again in a later one only: its end stands for both.
        self.free.extend(&encoded.ended);
        (encoded, values.len() - self.known.len())
    }

    /// Gives numbers to new series and takes them from those that are gone.
    fn rename(&mut self, values: &[(SeriesKey, Value)], encoded: &mut Encoded) {
        let mut before = std::mem::take(&mut self.known).into_iter().peekable();
        let mut known = Vec::with_capacity(values.len());
        for (key, _) in values.iter().filter(|(key, value)| fits(*key, *value)) {
            while let Some((_, gone)) = before.next_if(|(other, _)| other < key) {
                encoded.ended.push(gone.number);
            }
            match before.next_if(|(other, _)| other == key) {
                Some(stays) => known.push(stays),
                None => {
                    if let Some(new) = self.give(*key) {
                        encoded.names.push(SeriesName {
                            number: new.number,
                            key: *key,
                        });
                        known.push((*key, new));
                    }
                }
            }
        }
        encoded.ended.extend(before.map(|(_, gone)| gone.number));
        self.known = known;
    }

    fn give(&mut self, key: SeriesKey) -> Option<Known> {
        let number = match self.free.pop_first() {
            Some(number) => number,
            None if (self.next as usize) < SERIES_MAX => {
                self.next += 1;
                self.next - 1
            }
            None => return None,
        };
        Some(Known {
            number,
            last: Last::new(key.metric.shape()),
            fresh: true,
        })
    }
}

/// Writes how a value differs from the last, which it replaces. Both have the metric's shape.
fn put(body: &mut Vec<u8>, last: &mut Last, value: Value) {
    match (last.value, value) {
        (Value::Count(old), Value::Count(new)) => {
            let step = i128::from(new) - i128::from(old);
            write(body, zigzag(step - last.step));
            last.step = step;
        }
        (Value::Level { mean: old, .. }, Value::Level { mean, min, max }) => {
            let spread = min != mean || max != mean;
            let moved = zigzag(i128::from(mean) - i128::from(old));
            write(body, moved << 1 | u128::from(spread));
            if spread {
                write(body, zigzag(i128::from(mean) - i128::from(min)));
                write(body, zigzag(i128::from(max) - i128::from(mean)));
            }
        }
        (Value::Count(_), Value::Level { .. }) | (Value::Level { .. }, Value::Count(_)) => {}
    }
    last.value = value;
}

/// Whether the value has its metric's shape.
fn fits(key: SeriesKey, value: Value) -> bool {
    matches!(
        (key.metric.shape(), value),
        (Shape::Counter, Value::Count(_)) | (Shape::Gauge, Value::Level { .. })
    )
}

/// What a batch said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Series that changed, with their values.
    pub changed: Vec<(SeriesKey, Value)>,
    /// Series that ended.
    pub ended: Vec<SeriesKey>,
}

/// The receiving end of a lane.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    series: BTreeMap<u32, (SeriesKey, Last)>,
    last: u64,
}

impl Decoder {
    /// Takes a batch in. After an error the lane needs a keyframe.
    pub fn decode(&mut self, batch: &Batch) -> Result<Decoded, BadBatch> {
        let decoded = self.take(batch);
        if decoded.is_err() {
            *self = Self::default();
        }
        decoded
    }

    /// The sequence of the last batch that was taken, 0 for none.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// All series that there are now.
    pub fn current(&self) -> impl Iterator<Item = (SeriesKey, Value)> + '_ {
        self.series.values().map(|(key, last)| (*key, last.value))
    }

    fn take(&mut self, batch: &Batch) -> Result<Decoded, BadBatch> {
        let mut decoded = Decoded::default();
        if batch.keyframe {
            let named: BTreeSet<SeriesKey> = batch.names.iter().map(|name| name.key).collect();
            let before = std::mem::take(&mut self.series).into_values();
            let gone = before
                .map(|(key, _)| key)
                .filter(|key| !named.contains(key));
            decoded.ended.extend(gone);
        } else if self.last == 0 || batch.sequence != self.last + 1 {
            return Err(BadBatch::Missing {
                last: self.last,
                found: batch.sequence,
            });
        }
        for number in &batch.ended {
            let ended = self.series.remove(number);
            decoded
                .ended
                .push(ended.ok_or(BadBatch::Unnamed(*number))?.0);
        }
        for SeriesName { number, key } in &batch.names {
            let new = (*key, Last::new(key.metric.shape()));
            let fits = (*number as usize) < SERIES_MAX;
            if !fits || self.series.insert(*number, new).is_some() {
                return Err(BadBatch::BadName(*number));
            }
        }
        self.values(&batch.body, &mut decoded)?;
        self.last = batch.sequence;
        Ok(decoded)
    }

    fn values(&mut self, mut body: &[u8], decoded: &mut Decoded) -> Result<(), BadBatch> {
        let mut next = 0u32;
        while !body.is_empty() {
            let gap = u32::try_from(read(&mut body)?).map_err(|_| BadBatch::Unnamed(next))?;
            let number = next.checked_add(gap).ok_or(BadBatch::Unnamed(gap))?;
            let (key, last) = self
                .series
                .get_mut(&number)
                .ok_or(BadBatch::Unnamed(number))?;
            let value = value(last, &mut body, number)?;
            decoded.changed.push((*key, value));
            next = number.saturating_add(1);
        }
        Ok(())
    }
}

/// The next value of a series.
fn value(last: &mut Last, body: &mut &[u8], number: u32) -> Result<Value, BadBatch> {
    let out = |_| BadBatch::Range(number);
    let value = match last.value {
        Value::Count(old) => {
            let step = unzigzag(read(body)?)
                .checked_add(last.step)
                .ok_or(BadBatch::Range(number))?;
            let new = i128::from(old).checked_add(step);
            last.step = step;
            Value::Count(u64::try_from(new.ok_or(BadBatch::Range(number))?).map_err(out)?)
        }
        Value::Level { mean: old, .. } => {
            let word = read(body)?;
            let add = |base: i64, by: i128| {
                let sum = i128::from(base).checked_add(by);
                i64::try_from(sum.ok_or(BadBatch::Range(number))?).map_err(out)
            };
            let mean = add(old, unzigzag(word >> 1))?;
            let (min, max) = match word & 1 {
                0 => (mean, mean),
                _ => (
                    add(
                        mean,
                        unzigzag(read(body)?).checked_neg().unwrap_or(i128::MAX),
                    )?,
                    add(mean, unzigzag(read(body)?))?,
                ),
            };
            Value::Level { mean, min, max }
        }
    };
    last.value = value;
    Ok(value)
}

const fn zigzag(value: i128) -> u128 {
    ((value << 1) ^ (value >> 127)).cast_unsigned()
}

const fn unzigzag(value: u128) -> i128 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

fn write(into: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        into.push(low_seven(value) | 0x80);
        value >>= 7;
    }
    into.push(low_seven(value));
}

const fn low_seven(value: u128) -> u8 {
    (value & 0x7f) as u8
}

fn read(from: &mut &[u8]) -> Result<u128, BadBatch> {
    let mut value = 0u128;
    let mut shift = 0;
    loop {
        let (byte, rest) = from.split_first().ok_or(BadBatch::Short)?;
        *from = rest;
        if shift > 119 {
            return Err(BadBatch::Short);
        }
        value |= u128::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests;
