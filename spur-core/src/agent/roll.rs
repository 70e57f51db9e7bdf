//! A list that all orders of a job or of a step have: there are as many of them as it has nodes, and each names all of the nodes.
//! So that the work does not grow with the square of the nodes, they share one list, and one encoding of it.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// See the module. Equal to another one if the entries are.
pub struct Roll<T>(Arc<Shared<T>>);

struct Shared<T> {
    entries: Vec<T>,
    written: OnceLock<Vec<u8>>,
}

impl<T> Roll<T> {
    /// The entries as they are sent, written by the first who asks for that.
    pub fn written(&self, write: impl FnOnce(&[T]) -> Vec<u8>) -> &[u8] {
        let shared = &self.0;
        shared.written.get_or_init(|| write(&shared.entries))
    }
}

impl<T> Deref for Roll<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0.entries
    }
}

impl<T> From<Vec<T>> for Roll<T> {
    fn from(entries: Vec<T>) -> Self {
        Self(Arc::new(Shared {
            entries,
            written: OnceLock::new(),
        }))
    }
}

impl<T> FromIterator<T> for Roll<T> {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        Vec::from_iter(entries).into()
    }
}

impl<T> Clone for Roll<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: fmt::Debug> fmt::Debug for Roll<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.entries.fmt(f)
    }
}

impl<T: PartialEq> PartialEq for Roll<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.entries == other.0.entries
    }
}

impl<T: Eq> Eq for Roll<T> {}

impl<T: Serialize> Serialize for Roll<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.entries.serialize(to)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Roll<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Vec::deserialize(from).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_the_list_and_its_encoding() {
        let roll: Roll<u8> = (0..3).collect();
        let copy = roll.clone();
        assert_eq!(roll.written(|entries| entries.to_vec()), [0, 1, 2]);
        assert_eq!(copy.written(|_| unreachable!("written before")), [0, 1, 2]);
        assert!(std::ptr::eq(&*roll, &*copy));
        assert_eq!(roll, Roll::from(vec![0, 1, 2]));
        assert_ne!(roll, Roll::from(vec![0, 1]));
    }
}
