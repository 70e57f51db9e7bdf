//! Shared rows by number, in chunks: a copy of the whole costs a pointer for each chunk, a change costs one chunk.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows in one chunk.
const CHUNK: u32 = 128;

type Chunk<V> = BTreeMap<u32, Arc<V>>;

/// Rows by number.
#[derive(Debug)]
pub struct Rows<V> {
    chunks: Arc<BTreeMap<u32, Arc<Chunk<V>>>>,
}

impl<V> Default for Rows<V> {
    fn default() -> Self {
        Self {
            chunks: Arc::default(),
        }
    }
}

impl<V> Clone for Rows<V> {
    fn clone(&self) -> Self {
        Self {
            chunks: Arc::clone(&self.chunks),
        }
    }
}

impl<V> Rows<V> {
    /// A row.
    pub fn get(&self, number: u32) -> Option<&Arc<V>> {
        self.chunks.get(&(number / CHUNK))?.get(&number)
    }

    /// All rows in rising order of number.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<V>> {
        self.chunks.values().flat_map(|chunk| chunk.values())
    }

    /// Puts a row in the place of another, or where none was.
    pub fn insert(&mut self, number: u32, row: Arc<V>) {
        let chunk = Arc::make_mut(&mut self.chunks)
            .entry(number / CHUNK)
            .or_default();
        Arc::make_mut(chunk).insert(number, row);
    }

    /// Takes a row away.
    pub fn remove(&mut self, number: u32) {
        let chunks = Arc::make_mut(&mut self.chunks);
        let Some(chunk) = chunks.get_mut(&(number / CHUNK)) else {
            return;
        };
        Arc::make_mut(chunk).remove(&number);
        if chunk.is_empty() {
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
        let mut rows = Rows::default();
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
    fn empty_chunks_go() {
        let mut rows = Rows::default();
        rows.insert(700, Arc::new(()));
        rows.remove(700);
        rows.remove(700);
        assert!(rows.chunks.is_empty());
    }
}
