//! Sets of positions.

/// A set of positions below a bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    /// Room for so many, none of them in it.
    pub(crate) fn none(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    pub(crate) fn set(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }

    pub(crate) fn clear(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word &= !(1 << (at % 64));
        }
    }

    pub(crate) fn contains(&self, at: usize) -> bool {
        self.0
            .get(at / 64)
            .is_some_and(|word| word & (1 << (at % 64)) != 0)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Adds those of another set of the same bound.
    pub(crate) fn unite(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine |= theirs;
        }
    }

    /// Keeps only those of another set of the same bound.
    pub(crate) fn intersect(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine &= theirs;
        }
    }

    /// Takes away those of another set of the same bound.
    pub(crate) fn subtract(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine &= !theirs;
        }
    }

    /// Room for as many as this set, none of them in it.
    pub(crate) fn emptied(&self) -> Self {
        Self(vec![0; self.0.len()])
    }

    /// The first one at a position or after it.
    pub(crate) fn first_from(&self, at: usize) -> Option<usize> {
        let first = self.0.get(at / 64)? & (u64::MAX << (at % 64));
        let rest = self.0.iter().copied().zip(0..).skip(at / 64 + 1);
        let mut words = std::iter::once((first, at / 64)).chain(rest);
        let (word, at) = words.find(|(word, _)| *word != 0)?;
        Some(at * 64 + word.trailing_zeros() as usize)
    }

    /// The first one that another set has too.
    pub(crate) fn first_of_both(&self, other: &Self) -> Option<usize> {
        let mut words = self.0.iter().zip(&other.0).zip(0..);
        words.find_map(|((mine, theirs), at)| {
            let both = mine & theirs;
            (both != 0).then(|| at * 64 + both.trailing_zeros() as usize)
        })
    }

    /// Those in the set, rising.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().zip(0..).flat_map(|(word, at)| {
            let mut word = *word;
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
                word &= word - 1;
                Some(at * 64 + bit)
            })
        })
    }
}
