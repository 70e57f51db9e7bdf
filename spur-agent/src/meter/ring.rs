//! The last ten minutes in memory, at the rate at which they were read: for "what just happened".

use super::outlet::{Moment, encode};
use spur_core::usage::codec::Encoder;
use spur_core::usage::metric::{SeriesKey, Value};
use spur_core::usage::words::Batch;
use std::collections::VecDeque;

/// How long a reading is kept, ms.
pub const KEPT: u64 = 600_000;

/// Most bytes of all readings.
pub const BYTES_MAX: usize = 24 << 20;

/// All names and absolute values are in one of so many readings.
const KEYFRAME_EVERY: u64 = 300;

/// What a batch and a name cost beside the body.
const BATCH_BYTES: usize = 128;
const NAME_BYTES: usize = 32;

/// The ring.
#[derive(Debug)]
pub struct Ring {
    room: usize,
    encoder: Encoder,
    batches: VecDeque<Batch>,
    bytes: usize,
    sequence: u64,
    /// Readings that were encoded here since the last keyframe of ours.
    own: u64,
    /// The number of the live batch that was kept last; 0 if that was none.
    live: u64,
}

fn cost(batch: &Batch) -> usize {
    BATCH_BYTES + batch.names.len() * NAME_BYTES + batch.ended.len() * 4 + batch.body.capacity()
}

impl Default for Ring {
    fn default() -> Self {
        Self::new(BYTES_MAX)
    }
}

impl Ring {
    /// A ring of at most so many bytes.
    pub fn new(room: usize) -> Self {
        Self {
            room,
            encoder: Encoder::default(),
            batches: VecDeque::new(),
            bytes: 0,
            sequence: 0,
            own: 0,
            live: 0,
        }
    }

    /// Whether a live batch of this number can be kept as it is, if it is no keyframe: the one before it was the last.
    pub fn follows(&self, sequence: u64) -> bool {
        self.live > 0 && self.live + 1 == sequence
    }

    /// Keeps a live batch as it is, if it can be read after the last one that is kept.
    pub fn push_live(&mut self, batch: &Batch) -> bool {
        let fits = batch.keyframe || self.follows(batch.sequence);
        if fits {
            self.live = batch.sequence;
            self.keep(batch.clone());
        }
        fits
    }

    /// Notes the reading of the last `millis` milliseconds.
    pub fn push(&mut self, values: &[(SeriesKey, Value)], millis: u64, now: Moment) {
        let keyframe = self.live > 0 || self.own.is_multiple_of(KEYFRAME_EVERY);
        self.own = if keyframe { 1 } else { self.own + 1 };
        self.live = 0;
        let (batch, _) = encode(&mut self.encoder, values, (now, millis), keyframe);
        self.keep(batch);
    }

    fn keep(&mut self, mut batch: Batch) {
        self.sequence += 1;
        batch.sequence = self.sequence;
        batch.body.shrink_to_fit();
        let from = batch.uptime.saturating_sub(KEPT);
        self.bytes += cost(&batch);
        self.batches.push_back(batch);
        while self
            .batches
            .front()
            .is_some_and(|first| first.uptime < from)
            || self.bytes > self.room
        {
            let Some(first) = self.batches.pop_front() else {
                break;
            };
            self.bytes -= cost(&first);
        }
    }

    /// Bytes in all.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The readings since a moment (milliseconds since boot), and those before it that a decoder needs first.
    pub fn since(&self, uptime: u64) -> Vec<Batch> {
        let wanted = self.batches.partition_point(|batch| batch.uptime < uptime);
        let mut before = (0..self.batches.len().min(wanted.saturating_add(1))).rev();
        let from = before.find(|at| self.batches[*at].keyframe);
        // What is older than the first keyframe that is kept cannot be read any more.
        let first = || self.batches.iter().position(|batch| batch.keyframe);
        let from = from.or_else(first).unwrap_or(self.batches.len());
        self.batches.iter().skip(from).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::testing::{count, level};
    use spur_core::time::Millis;
    use spur_core::usage::codec::Decoder;
    use spur_core::usage::metric::Value;

    fn fill(ring: &mut Ring, seconds: std::ops::Range<u64>, series: u32) {
        for second in seconds {
            let now = Moment {
                at: Millis(0),
                uptime: second * 1000,
            };
            let wide = i64::try_from(second * 7919 % 104_729 * 1_000_003).unwrap();
            let values = (0..series).flat_map(|gpu| [count(gpu, second), level(gpu, wide)]);
            let values = crate::meter::window::sorted(values.collect());
            ring.push(&values, 1000, now);
        }
    }

    #[test]
    fn ten_minutes_are_kept_and_can_be_read_from_any_moment() {
        let mut ring = Ring::default();
        fill(&mut ring, 1..2000, 2);
        let mut decoder = Decoder::default();
        let recent = ring.since(1_990_000);
        assert!(recent.len() < 310 && recent.last().unwrap().uptime == 1_999_000);
        for batch in &recent {
            decoder.decode(batch).unwrap();
        }
        assert!(
            decoder
                .current()
                .any(|(_, value)| value == Value::Count(1999))
        );
        assert!(ring.since(0).len() <= 601);
        assert!(ring.since(u64::MAX).len() <= 300);
    }

    #[test]
    fn live_batches_and_readings_of_our_own_can_be_read_in_a_row() {
        use crate::meter::outlet::{Emit, LinkView, Outlet};
        let (mut ring, mut outlet) = (Ring::default(), Outlet::default());
        for second in 1..=200u64 {
            let now = Moment {
                at: Millis(0),
                uptime: second * 1000,
            };
            let values = vec![count(0, second)];
            let away = (50..=60).contains(&second);
            let link = LinkView {
                connection: u64::from(!away) * (1 + second / 100),
                limit: u64::MAX,
                room: second % 7 != 0,
            };
            let emit = outlet.take(values.clone(), 1000, now, link);
            match emit {
                Some(Emit::Live(batch)) if ring.push_live(&batch) => {}
                Some(Emit::Live(_) | Emit::Spool(_)) | None => ring.push(&values, 1000, now),
            }
        }
        let mut decoder = Decoder::default();
        let mut seen = Vec::new();
        for batch in ring.since(0) {
            decoder.decode(&batch).unwrap();
            seen.extend(decoder.current().map(|(_, value)| value));
        }
        assert_eq!(seen, (1..=200).map(Value::Count).collect::<Vec<_>>());
    }

    #[test]
    fn bytes_are_bounded() {
        let room = 1 << 18;
        let mut ring = Ring::new(room);
        fill(&mut ring, 1..500, 100);
        assert!(
            ring.bytes() <= room && ring.bytes() > room / 2,
            "{}",
            ring.bytes()
        );
    }
}
