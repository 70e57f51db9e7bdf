//! Shared rows by number, in chunks: a copy of the whole costs a pointer for each chunk, a change costs one chunk. With a chunk may
//! be kept what was made of its rows, until one of them changes.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Rows in one chunk.
const CHUNK: u32 = 128;

/// Rows that lie together.
#[derive(Debug)]
pub struct Chunk<V, K> {
    rows: BTreeMap<u32, Arc<V>>,
    kept: OnceLock<K>,
}

impl<V, K> Chunk<V, K> {
    /// In rising order of number.
    pub fn rows(&self) -> impl Iterator<Item = &Arc<V>> {
        self.rows.values()
    }

    /// What is kept with the rows; made by the first who asks.
    pub fn kept(&self, make: impl FnOnce(&Self) -> K) -> &K {
        self.kept.get_or_init(|| make(self))
    }

    /// The rows, to be changed.
    fn changing(&mut self) -> &mut BTreeMap<u32, Arc<V>> {
        self.kept.take();
        &mut self.rows
    }
}

impl<V, K> Default for Chunk<V, K> {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            kept: OnceLock::new(),
        }
    }
}

impl<V, K> Clone for Chunk<V, K> {
    /// The same rows: chunks are copied to be changed.
    fn clone(&self) -> Self {
        Self {
            rows: self.rows.clone(),
            kept: OnceLock::new(),
        }
    }
}

/// Rows by number, and what is kept with each chunk of them.
#[derive(Debug)]
pub struct Rows<V, K = ()> {
    chunks: Arc<BTreeMap<u32, Arc<Chunk<V, K>>>>,
}

impl<V, K> Default for Rows<V, K> {
    fn default() -> Self {
        Self {
            chunks: Arc::default(),
        }
    }
}

impl<V, K> Clone for Rows<V, K> {
    fn clone(&self) -> Self {
        Self {
            chunks: Arc::clone(&self.chunks),
        }
    }
}

impl<V, K> Rows<V, K> {
    /// A row.
    pub fn get(&self, number: u32) -> Option<&Arc<V>> {
        self.chunks.get(&(number / CHUNK))?.rows.get(&number)
    }

    /// All rows in rising order of number.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<V>> {
        self.chunks().flat_map(Chunk::rows)
    }

    /// All chunks in rising order of number.
    pub fn chunks(&self) -> impl Iterator<Item = &Chunk<V, K>> {
        self.chunks.values().map(|chunk| &**chunk)
    }

    /// Puts a row in the place of another, or where none was.
    pub fn insert(&mut self, number: u32, row: Arc<V>) {
        let chunk = Arc::make_mut(&mut self.chunks)
            .entry(number / CHUNK)
            .or_default();
        Arc::make_mut(chunk).changing().insert(number, row);
    }

    /// Takes a row away.
    pub fn remove(&mut self, number: u32) {
        let chunks = Arc::make_mut(&mut self.chunks);
        let Some(chunk) = chunks.get_mut(&(number / CHUNK)) else {
            return;
        };
        Arc::make_mut(chunk).changing().remove(&number);
        if chunk.rows.is_empty() {
            chunks.remove(&(number / CHUNK));
        }
    }

    /// No rows left.
    pub fn clear(&mut self) {
        self.chunks = Arc::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_what_it_had_and_shares_what_did_not_change() {
        let mut rows = Rows::<u32>::default();
        for n in 0..1000 {
            rows.insert(n, Arc::new(n * 10));
        }
        let before = rows.clone();
        rows.insert(500, Arc::new(1));
        rows.remove(3);
        assert_eq!(before.get(500).map(|row| **row), Some(5000));
        assert_eq!(before.iter().count(), 1000);
        assert_eq!(
            (rows.get(500).map(|row| **row), rows.get(3)),
            (Some(1), None)
        );
        assert_eq!(rows.iter().count(), 999);
        let far = |rows: &Rows<u32>| Arc::as_ptr(rows.chunks.get(&7).unwrap());
        assert_eq!(far(&rows), far(&before), "an untouched chunk is shared");
        assert!(
            rows.iter()
                .map(|row| **row)
                .filter(|row| row % 10 == 0)
                .is_sorted()
        );
    }

    #[test]
    fn what_is_kept_stays_until_a_row_of_the_chunk_changes() {
        let mut rows = Rows::<u32, u32>::default();
        let sums = |rows: &Rows<u32, u32>| -> Vec<u32> {
            let sum = |chunk: &Chunk<u32, u32>| chunk.rows().map(|row| **row).sum();
            rows.chunks().map(|chunk| *chunk.kept(sum)).collect()
        };
        let stale = |rows: &Rows<u32, u32>| {
            let chunks = rows.chunks();
            chunks.filter(|chunk| chunk.kept.get().is_none()).count()
        };
        rows.insert(1, Arc::new(10));
        rows.insert(200, Arc::new(5));
        assert_eq!(sums(&rows), [10, 5]);
        let before = rows.clone();
        rows.insert(2, Arc::new(1));
        assert_eq!((stale(&rows), stale(&before)), (1, 0));
        assert_eq!((sums(&rows), sums(&before)), (vec![11, 5], vec![10, 5]));
        // Nobody else has these rows any more: they are changed where they are.
        drop(before);
        rows.insert(2, Arc::new(2));
        assert_eq!(sums(&rows), [12, 5]);
        rows.remove(1);
        assert_eq!(sums(&rows), [2, 5]);
    }

    #[test]
    fn empty_chunks_go() {
        let mut rows = Rows::<()>::default();
        rows.insert(700, Arc::new(()));
        rows.remove(700);
        rows.remove(700);
        assert!(rows.chunks.is_empty());
    }
}
