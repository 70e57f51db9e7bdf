//! Sending what was spooled, behind what is live: file after file, each until it is acknowledged.

use crate::meter::spool::segments::Segments;
use spur_core::usage::words::Batch;

/// Late batches without an acknowledgement.
pub const IN_FLIGHT: u64 = 4;

#[derive(Debug)]
struct Current {
    number: u64,
    /// Sequence of its first batch.
    first: u64,
    batches: Vec<Batch>,
    /// How many of them went out over this connection.
    sent: usize,
}

/// The sending end of the late lane.
#[derive(Debug, Default)]
pub struct Late {
    /// Of the last batch that got a number.
    sequence: u64,
    acked: u64,
    current: Option<Current>,
}

impl Late {
    /// The next batch to send, if one may be sent.
    pub fn next(&mut self, segments: &mut Segments) -> Option<Batch> {
        if self.current.is_none() {
            let (number, batches) = segments.oldest()?;
            let first = self.sequence + 1;
            self.sequence += batches.len() as u64;
            self.current = Some(Current {
                number,
                first,
                batches,
                sent: 0,
            });
        }
        let current = self.current.as_mut()?;
        let sequence = current.first + current.sent as u64;
        if sequence.saturating_sub(self.acked.max(current.first - 1)) > IN_FLIGHT {
            return None;
        }
        let batch = current.batches.get(current.sent)?.clone();
        current.sent += 1;
        Some(Batch { sequence, ..batch })
    }

    /// The controller took the late batches up to this one.
    pub fn acked(&mut self, sequence: u64, segments: &mut Segments) {
        self.acked = self.acked.max(sequence.min(self.sequence));
        let done = self.current.take_if(|current| {
            let last = current.first + current.batches.len() as u64 - 1;
            self.acked >= last
        });
        if let Some(current) = done {
            segments.remove(current.number);
        }
    }

    /// A new connection: a controller that was started anew needs the file's first keyframe.
    pub fn begin_again(&mut self) {
        if let Some(current) = &mut self.current {
            current.sent = 0;
        }
        self.acked = self
            .current
            .as_ref()
            .map_or(self.sequence, |current| current.first - 1);
    }

    /// Whether all that was begun is acknowledged.
    pub fn is_idle(&self) -> bool {
        self.current.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::outlet::{Moment, Reading};
    use crate::meter::testing::count;
    use spur_core::time::Millis;

    fn filled(readings: u64) -> (tempfile::TempDir, Segments) {
        let dir = tempfile::tempdir().unwrap();
        let mut segments = Segments::open(dir.path(), 1 << 20).unwrap();
        for second in 1..=readings {
            segments.add(Reading {
                moment: Moment {
                    at: Millis(0),
                    uptime: second,
                },
                span: 10_000,
                values: [count(0, second)].into(),
            });
        }
        (dir, segments)
    }

    fn sent(late: &mut Late, segments: &mut Segments) -> Vec<u64> {
        std::iter::from_fn(|| late.next(segments).map(|batch| batch.sequence)).collect()
    }

    #[test]
    fn few_are_in_flight_and_the_file_goes_when_all_are_taken() {
        let (_dir, mut segments) = filled(6);
        let mut late = Late::default();
        assert_eq!(sent(&mut late, &mut segments), [1, 2, 3, 4]);
        late.acked(2, &mut segments);
        assert_eq!(sent(&mut late, &mut segments), [5, 6]);
        late.acked(99, &mut segments);
        assert!(segments.is_empty() && late.is_idle());
        assert!(sent(&mut late, &mut segments).is_empty());
    }

    #[test]
    fn after_a_reconnection_the_file_is_sent_from_its_start_with_the_same_numbers() {
        let (_dir, mut segments) = filled(3);
        let mut late = Late::default();
        assert_eq!(sent(&mut late, &mut segments), [1, 2, 3]);
        late.acked(2, &mut segments);
        late.begin_again();
        assert_eq!(sent(&mut late, &mut segments), [1, 2, 3]);
        late.acked(3, &mut segments);
        assert!(segments.is_empty());
        let (_dir, mut more) = filled(2);
        late.begin_again();
        assert_eq!(sent(&mut late, &mut more), [4, 5]);
    }
}
