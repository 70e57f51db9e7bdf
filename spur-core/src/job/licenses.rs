//! Licenses: what a cluster has so many of, wherever a job runs.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many of each, none of them 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Licenses(BTreeMap<String, u32>);

impl Licenses {
    /// Reads Slurm's list: `a:2,b`, also `a=2`; without a number one is meant. What is named twice is added up. `None` if it is no such
    /// list, or asks for one of several (`a|b`), which is not done.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut all = Self::default();
        for term in text.split([',', ';']).filter(|term| !term.is_empty()) {
            let (name, count) = match term.split_once([':', '=']) {
                Some((name, count)) => (name, count.parse().ok()?),
                None => (term, 1),
            };
            if !is_name(name) {
                return None;
            }
            all.add_one(name, count);
        }
        Some(all)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Name and number of each, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.0.iter().map(|(name, count)| (name.as_str(), *count))
    }

    /// How many of this name.
    #[must_use]
    pub fn count(&self, name: &str) -> u32 {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// The first of which there are fewer here than there.
    pub fn lacks<'w>(&self, wanted: &'w Self) -> Option<&'w str> {
        let mut each = wanted.iter();
        each.find(|(name, count)| self.count(name) < *count)
            .map(|(name, _)| name)
    }

    /// Adds these.
    pub fn add(&mut self, more: &Self) {
        more.iter()
            .for_each(|(name, count)| self.add_one(name, count));
    }

    /// Takes these away, as far as they are there.
    pub fn subtract(&mut self, less: &Self) {
        for (name, count) in less.iter() {
            if let Some(left) = self.0.get_mut(name) {
                *left = left.saturating_sub(count);
            }
        }
        self.0.retain(|_, count| *count > 0);
    }

    fn add_one(&mut self, name: &str, count: u32) {
        if count > 0 {
            let sum = self.0.entry(name.to_owned()).or_default();
            *sum = sum.saturating_add(count);
        }
    }
}

impl FromIterator<(String, u32)> for Licenses {
    fn from_iter<I: IntoIterator<Item = (String, u32)>>(all: I) -> Self {
        let mut licenses = Self::default();
        for (name, count) in all {
            licenses.add_one(&name, count);
        }
        licenses
    }
}

/// Whether this can be the name of a license: what stands in lists of them, and in one word.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let stands = |c: char| c.is_ascii_graphic() && !",;:=|&*()\"'".contains(c);
    !name.is_empty() && name.chars().all(stands)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, u32)> {
        let read = Licenses::read(text).unwrap();
        read.iter().map(|(name, n)| (name.to_owned(), n)).collect()
    }

    #[test]
    fn lists_are_read_as_slurm_reads_them() {
        let all = |list: &[(&str, u32)]| -> Vec<(String, u32)> {
            list.iter()
                .map(|(name, n)| ((*name).to_owned(), *n))
                .collect()
        };
        assert_eq!(read(""), all(&[]));
        assert_eq!(read("b,a:2"), all(&[("a", 2), ("b", 1)]));
        assert_eq!(read("a=3;a,c:0"), all(&[("a", 4)]));
        assert_eq!(read("matlab@server:12"), all(&[("matlab@server", 12)]));
        for bad in [
            "a:",
            "a:x",
            "a:-1",
            ":2",
            "a b",
            "a|b",
            "a:1:2",
            "a:5000000000",
            "(a)",
        ] {
            assert_eq!(Licenses::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_is_taken_comes_back() {
        let total = Licenses::read("a:3,b").unwrap();
        let mut free = total.clone();
        let wanted = Licenses::read("a:2,b").unwrap();
        assert_eq!(free.lacks(&wanted), None);
        free.subtract(&wanted);
        assert_eq!((free.count("a"), free.count("b")), (1, 0));
        assert_eq!(free.lacks(&wanted), Some("a"));
        assert_eq!(free.lacks(&Licenses::read("a").unwrap()), None);
        assert_eq!(free.lacks(&Licenses::read("c").unwrap()), Some("c"));
        free.add(&wanted);
        assert_eq!(free, total);
    }
}
