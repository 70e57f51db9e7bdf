//! Which GPUs of those that are free: close to one another, and so that those that are left are worth most.

use super::{Layout, Mask};
use crate::plan::shape::indices;
use std::cmp::Reverse;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// How near to one another chosen GPUs are; lower is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Closeness {
    /// Pairs without a fast link, on a node where some have one.
    pub(crate) unlinked: u32,
    /// NUMA nodes beyond the first.
    pub(crate) spans: u32,
    /// Pairs that neither PCI Express nor a common GPU joins.
    pub(crate) far: u32,
}

/// How good a choice is; lower is better. First what the job feels, then what others lose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quality {
    pub(crate) closeness: Closeness,
    /// How much less the free GPUs are worth afterwards.
    pub(crate) loss: u64,
}

/// Up to so many GPUs the best choice is found by looking at all, and kept.
const TABLE_GPUS: usize = 16;

/// Best choices by free GPUs and count, filled in as they are asked for. An entry is a function of the layout alone, so it
/// does not matter who fills it in when. 0: not known yet.
pub(super) struct Table {
    gpus: usize,
    entries: OnceLock<Vec<AtomicU16>>,
}

impl Table {
    pub(super) fn new(gpus: usize) -> Self {
        Self {
            gpus,
            entries: OnceLock::new(),
        }
    }

    fn entry(&self, free: Mask, count: u32) -> Option<&AtomicU16> {
        if self.gpus > TABLE_GPUS {
            return None;
        }
        let counts = self.gpus + 1;
        let entries = self.entries.get_or_init(|| {
            let none = std::iter::repeat_with(AtomicU16::default);
            none.take(counts << self.gpus).collect()
        });
        let free = usize::try_from(free).ok()?;
        entries.get(free.checked_mul(counts)? + count as usize)
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({})", self.gpus)
    }
}

impl Layout {
    /// The best `count` of these free GPUs; `None` if there are too few.
    pub(crate) fn best(&self, free: Mask, count: u32) -> Option<Mask> {
        let free = self.apart(free & self.all);
        match free.count_ones() {
            have if have < count => return None,
            have if have == count => return Some(free),
            _ if count == 0 => return Some(0),
            _ => {}
        }
        let Some(entry) = self.table.entry(free, count) else {
            return Some(self.grown(free, count));
        };
        // Relaxed: the value is all there is, and whoever computes it gets the same.
        let known = entry.load(Ordering::Relaxed);
        if known != 0 {
            return Some(Mask::from(known));
        }
        let best = self.searched(free, count);
        entry.store(u16::try_from(best).unwrap_or(0), Ordering::Relaxed);
        Some(best)
    }

    /// How good it is to take these GPUs out of those that are free.
    pub(crate) fn quality(&self, chosen: Mask, free: Mask) -> Quality {
        Quality {
            closeness: self.closeness(chosen),
            loss: self.worth(free).saturating_sub(self.worth(free & !chosen)),
        }
    }

    /// How near to one another these are.
    pub(crate) fn closeness(&self, chosen: Mask) -> Closeness {
        let count = chosen.count_ones();
        if count < 2 {
            return Closeness::default();
        }
        let pairs = count * (count - 1) / 2;
        let joined = |links: &[Mask]| {
            let ends = indices(chosen).filter_map(|at| links.get(at as usize));
            ends.map(|set| (set & chosen).count_ones()).sum::<u32>() / 2
        };
        let touched = self.islands.iter();
        let touched = touched.filter(|island| island.gpus & chosen != 0).count();
        Closeness {
            unlinked: if self.linked {
                pairs - joined(&self.fast)
            } else {
                0
            },
            spans: u32::try_from(touched).unwrap_or(u32::MAX).saturating_sub(1),
            far: pairs.saturating_sub(joined(&self.close)),
        }
    }

    /// What free GPUs are worth: room for groups of 16, 8, 4 and 2 in sets that belong together, the larger the group the
    /// more, then pairs that belong together. Jobs ask for powers of two, and a set in pieces serves only small ones. Of parts,
    /// those of GPUs that are not broken into are worth most.
    pub(crate) fn worth(&self, free: Mask) -> u64 {
        let mut worth: u64 = 0;
        let count = |set: &Mask| u64::from((free & set).count_ones());
        for parts in self.siblings.iter().map(count) {
            worth += (parts * parts.saturating_sub(1) / 2) << 16;
        }
        for count in self.wholes.iter().map(count) {
            worth += ((count / 16) << 43) + ((count / 8) << 34) + ((count / 4) << 25);
            worth += ((count / 2) << 16) + count * count.saturating_sub(1) / 2;
        }
        if !self.linked {
            return worth;
        }
        let linked = indices(free).filter_map(|at| self.fast.get(at as usize));
        let ends: u32 = linked.map(|set| (set & free).count_ones()).sum();
        worth + u64::from(ends / 2)
    }

    /// Looks at every choice.
    fn searched(&self, free: Mask, count: u32) -> Mask {
        let mut bits = [0; TABLE_GPUS];
        for (bit, at) in bits.iter_mut().zip(indices(free)) {
            *bit = 1 << at;
        }
        let spread = |dense: u32| {
            let picked = indices(Mask::from(dense)).filter_map(|at| bits.get(at as usize));
            picked.fold(0, |set: Mask, bit| set | bit)
        };
        let key = |chosen: Mask| {
            let rest = Reverse(self.worth(free & !chosen));
            (self.closeness(chosen), rest, chosen)
        };
        let mut dense = (1u32 << count) - 1;
        let mut best = key(spread(dense));
        while dense < 1 << free.count_ones() {
            best = best.min(key(spread(dense)));
            dense = next_of_same_size(dense);
        }
        best.2
    }

    /// For nodes with many devices (parts of GPUs): grows a choice by the device that is best next, within each set that
    /// belongs together and holds enough, and within all.
    fn grown(&self, free: Mask, count: u32) -> Mask {
        let islands = self.islands.iter().map(|island| &island.gpus);
        let sets = self.wholes.iter().chain(&self.siblings).chain(islands);
        let sets = sets.map(|set| set & free);
        let sets = sets.filter(|set| set.count_ones() >= count);
        let grown = sets.chain([free]).map(|set| {
            let mut chosen = 0;
            for _ in 0..count {
                let next = indices(set & !chosen).map(|at| chosen | 1 << at);
                let next = next.min_by_key(|next| (self.quality(*next, free), *next));
                chosen = next.unwrap_or(chosen);
            }
            chosen
        });
        grown
            .min_by_key(|chosen| (self.quality(*chosen, free), *chosen))
            .unwrap_or(0)
    }
}

/// The next larger number with as many bits.
fn next_of_same_size(bits: u32) -> u32 {
    let lowest = bits & bits.wrapping_neg();
    let ripple = bits.saturating_add(lowest);
    ripple | ((bits ^ ripple) >> 2).checked_div(lowest).unwrap_or(0)
}
