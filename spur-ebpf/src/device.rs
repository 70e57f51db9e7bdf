//! Which device numbers are fenced on a node, and which grant bit stands for each.

use crate::abi::{DEVICES_MAX, GRANT_BITS, MAJORS};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// A character device number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    /// Major number, below 4096.
    pub major: u32,
    /// Minor number, below 2^20.
    pub minor: u32,
}

/// Stands for one grantable thing (a GPU with all its nodes, a control node, …), 0 to 511.
///
/// A bit names an *identity* for as long as any policy may hold it: the caller never gives a used bit to another device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantBit(u16);

impl GrantBit {
    /// The bit with this number, or `None` above 511.
    #[must_use]
    pub fn new(number: u16) -> Option<GrantBit> {
        (u32::from(number) < GRANT_BITS).then_some(GrantBit(number))
    }

    /// Its number, 0 to 511.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }
}

/// How much of a major number is fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MajorClass {
    /// Every minor, also one that no driver uses yet: an unknown one is refused.
    Whole,
    /// Only the minors that the table lists (the memory devices share their major with `/dev/null`).
    Listed,
}

/// What a policy needs for a device to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// This bit.
    Bit(GrantBit),
    /// No policy can grant it.
    Never,
}

/// The fenced devices of a node: everything that is not here is left to file modes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceTable {
    majors: BTreeMap<u32, MajorClass>,
    devices: BTreeMap<DeviceNumber, Rule>,
}

impl DeviceTable {
    /// A table that fences nothing.
    #[must_use]
    pub fn new() -> DeviceTable {
        DeviceTable::default()
    }

    /// Fences a major number.
    pub fn set_major(&mut self, major: u32, class: MajorClass) -> &mut Self {
        self.majors.insert(major, class);
        self
    }

    /// Gives a device its rule. Its major has to be fenced too, see [`DeviceTable::check`].
    pub fn list(&mut self, device: DeviceNumber, rule: Rule) -> &mut Self {
        self.devices.insert(device, rule);
        self
    }

    /// Lists the raw memory devices (`mem`, `kmem`, `port`), which reach any GPU's memory, as never granted.
    pub fn deny_memory(&mut self) -> &mut Self {
        self.set_major(1, MajorClass::Listed);
        for minor in [1, 2, 4] {
            self.list(DeviceNumber { major: 1, minor }, Rule::Never);
        }
        self
    }

    /// Fenced majors.
    pub fn majors(&self) -> impl Iterator<Item = (u32, MajorClass)> + '_ {
        self.majors.iter().map(|(&major, &class)| (major, class))
    }

    /// Listed devices.
    pub fn devices(&self) -> impl Iterator<Item = (DeviceNumber, Rule)> + '_ {
        self.devices.iter().map(|(&device, &rule)| (device, rule))
    }

    /// The rule of a listed device.
    #[must_use]
    pub fn rule(&self, device: DeviceNumber) -> Option<Rule> {
        self.devices.get(&device).copied()
    }

    /// The class of a fenced major.
    #[must_use]
    pub fn class(&self, major: u32) -> Option<MajorClass> {
        self.majors.get(&major).copied()
    }

    /// Refuses a table that cannot be meant: numbers out of range, a listed device whose major is not fenced, a device that
    /// every program needs, too many entries.
    pub fn check(&self) -> Result<()> {
        if let Some(major) = self.majors.keys().find(|&&major| major >= MAJORS) {
            return Err(Error::BadTable(format!(
                "major {major} is above {}",
                MAJORS - 1
            )));
        }
        if self.devices.len() > DEVICES_MAX {
            return Err(Error::BadTable(format!(
                "{} devices, at most {DEVICES_MAX} fit",
                self.devices.len()
            )));
        }
        for &DeviceNumber { major, minor } in self.devices.keys() {
            if minor >= 1 << 20 {
                return Err(Error::BadTable(format!(
                    "minor of {major}:{minor} is above 1048575"
                )));
            }
            if !self.majors.contains_key(&major) {
                return Err(Error::BadTable(format!(
                    "{major}:{minor} is listed but major {major} is not fenced"
                )));
            }
            if is_base_device(major, minor) {
                return Err(Error::BadTable(format!(
                    "{major}:{minor} is a device that every program needs"
                )));
            }
        }
        Ok(())
    }
}

/// Devices that are never fenced; the same list as `spur_is_base_device` in `bpf/fence_decide.h`.
#[must_use]
pub fn is_base_device(major: u32, minor: u32) -> bool {
    match major {
        1 => matches!(minor, 3 | 5 | 7 | 8 | 9),
        5 => minor <= 2,
        _ => (136..=143).contains(&major),
    }
}

/// The bits that a policy holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(BTreeSet<GrantBit>);

impl Grants {
    /// Nothing.
    #[must_use]
    pub fn none() -> Grants {
        Grants::default()
    }

    /// Adds a bit.
    pub fn insert(&mut self, bit: GrantBit) {
        self.0.insert(bit);
    }

    /// Takes a bit away.
    pub fn remove(&mut self, bit: GrantBit) {
        self.0.remove(&bit);
    }

    /// Whether a bit is held.
    #[must_use]
    pub fn contains(&self, bit: GrantBit) -> bool {
        self.0.contains(&bit)
    }

    /// The bits, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = GrantBit> + '_ {
        self.0.iter().copied()
    }

    pub(crate) fn to_words(&self) -> [u64; crate::abi::GRANT_WORDS] {
        let mut words = [0; crate::abi::GRANT_WORDS];
        for bit in &self.0 {
            words[usize::from(bit.0) / 64] |= 1 << (bit.0 % 64);
        }
        words
    }

    pub(crate) fn from_words(words: &[u64; crate::abi::GRANT_WORDS]) -> Grants {
        // Few bits are held, and this is asked several times a second for every job.
        let mut held = BTreeSet::new();
        for (first, &word) in (0..).step_by(64).zip(words) {
            let mut left = word;
            while left != 0 {
                let bit = first + u16::try_from(left.trailing_zeros()).unwrap_or(0);
                held.extend(GrantBit::new(bit));
                left &= left - 1;
            }
        }
        Grants(held)
    }
}

impl FromIterator<GrantBit> for Grants {
    fn from_iter<I: IntoIterator<Item = GrantBit>>(bits: I) -> Grants {
        Grants(bits.into_iter().collect())
    }
}

#[cfg(test)]
mod tests;
