//! Counters of hardware, which wrap and begin anew, made into counters that only grow.

/// How wide a counter is at its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// It wraps at 2^32.
    Bits32,
    /// It does not wrap in our lifetime; when it falls, the device was reset.
    Bits64,
}

/// One counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Growing {
    last: Option<u64>,
    total: u64,
}

impl Growing {
    /// Takes a reading and gives the grown count, which begins at the first reading's value. A fall of a narrow counter from its upper half to its
    /// lower is a wrap; any other fall is a reset, after which it counts on from 0.
    pub fn take(&mut self, reading: u64, width: Width) -> u64 {
        let grown = match self.last {
            None => reading,
            Some(last) if reading >= last => reading - last,
            Some(last) if width == Width::Bits32 && last >> 31 == 1 && reading >> 31 == 0 => {
                (1u64 << 32).saturating_sub(last).saturating_add(reading)
            }
            Some(_) => reading,
        };
        self.last = Some(reading);
        self.total = self.total.saturating_add(grown);
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_and_resets_lose_nothing_that_was_seen() {
        let mut count = Growing::default();
        let near = u64::from(u32::MAX) - 9;
        assert_eq!(count.take(near, Width::Bits32), near);
        assert_eq!(count.take(10, Width::Bits32), near + 20);
        assert_eq!(count.take(5, Width::Bits32), near + 25, "a reset");
        let mut wide = Growing::default();
        wide.take(near, Width::Bits64);
        assert_eq!(wide.take(10, Width::Bits64), near + 10);
    }
}
