//! Which member owns which address: WireGuard's cryptokey routing, with one address per entry.
//!
//! Every member has addresses of its own and no network behind it, so a lookup is one step and nothing overlaps.

use crate::key::PublicKey;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Two members were given the same thing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Clash {
    /// One address, two owners.
    #[error("two members have the mesh address {0}: give each its own")]
    Address(IpAddr),
    /// One key, two owners.
    #[error("two members have the key {0}: each makes its own")]
    Key(PublicKey),
}

/// What a member is found by.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// Keys that it may show: the present one and those that it may still use.
    pub keys: Vec<PublicKey>,
    /// Addresses that packets to it are sent to, and those from it must come from.
    pub addresses: Vec<IpAddr>,
}

/// Members by address and by key. Built whole, then only read.
#[derive(Debug)]
pub struct Table<T> {
    by_address: HashMap<IpAddr, Arc<T>>,
    by_key: HashMap<PublicKey, Arc<T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            by_address: HashMap::new(),
            by_key: HashMap::new(),
        }
    }
}

impl<T> Table<T> {
    /// The table of these members.
    ///
    /// # Errors
    /// If two of them have the same address or key.
    pub fn build(members: impl IntoIterator<Item = (Names, Arc<T>)>) -> Result<Self, Clash> {
        let mut table = Self::default();
        for (names, member) in members {
            for key in names.keys {
                let before = table.by_key.insert(key, Arc::clone(&member));
                if before.is_some_and(|before| !Arc::ptr_eq(&before, &member)) {
                    return Err(Clash::Key(key));
                }
            }
            for address in names.addresses {
                let before = table.by_address.insert(address, Arc::clone(&member));
                if before.is_some_and(|before| !Arc::ptr_eq(&before, &member)) {
                    return Err(Clash::Address(address));
                }
            }
        }
        Ok(table)
    }

    /// Who gets packets to this address.
    #[must_use]
    pub fn to(&self, destination: IpAddr) -> Option<&Arc<T>> {
        self.by_address.get(&destination)
    }

    /// Whether this member may send packets from this address.
    #[must_use]
    pub fn may_send(&self, member: &Arc<T>, source: IpAddr) -> bool {
        self.to(source)
            .is_some_and(|owner| Arc::ptr_eq(owner, member))
    }

    /// Who has this key.
    #[must_use]
    pub fn by_key(&self, key: &PublicKey) -> Option<&Arc<T>> {
        self.by_key.get(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(n: u8) -> PublicKey {
        PublicKey::from_bytes([n; 32])
    }

    fn address(n: u8) -> IpAddr {
        if n.is_multiple_of(2) {
            IpAddr::from([10, 0, 0, n])
        } else {
            IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(n)])
        }
    }

    proptest! {
        /// The table against looking through the list: same owner, same permission, and a clash is found exactly when there is one.
        #[test]
        fn it_says_what_the_list_says(
            members in proptest::collection::vec((proptest::collection::btree_set(0..40_u8, 0..4), 0..40_u8), 0..8),
            asked in 0..40_u8,
        ) {
            let list: Vec<(Vec<u8>, u8, Arc<usize>)> = members.iter().enumerate()
                .map(|(n, (addresses, key))| (addresses.iter().copied().collect(), *key, Arc::new(n)))
                .collect();
            let owners: Vec<_> = list.iter().filter(|(addresses, ..)| addresses.contains(&asked)).collect();
            let clash = (0..40).any(|n| list.iter().filter(|(addresses, ..)| addresses.contains(&n)).count() > 1
                || list.iter().filter(|(_, key, _)| *key == n).count() > 1);
            let table = Table::build(list.iter().map(|(addresses, k, member)| {
                let names = Names { keys: vec![key(*k)], addresses: addresses.iter().map(|n| address(*n)).collect() };
                (names, Arc::clone(member))
            }));
            prop_assert_eq!(table.is_err(), clash);
            let Ok(table) = table else { return Ok(()) };
            prop_assert_eq!(table.to(address(asked)), owners.first().map(|(.., member)| member));
            for (addresses, k, member) in &list {
                prop_assert_eq!(table.may_send(member, address(asked)), addresses.contains(&asked));
                prop_assert!(table.by_key(&key(*k)).is_some_and(|found| Arc::ptr_eq(found, member)));
            }
        }
    }

    #[test]
    fn a_clash_names_what_clashes() {
        let member = |keys: &[u8], addresses: &[u8]| {
            let names = Names {
                keys: keys.iter().map(|n| key(*n)).collect(),
                addresses: addresses.iter().map(|n| address(*n)).collect(),
            };
            (names, Arc::new(()))
        };
        let clash = Table::build([member(&[1], &[1, 2]), member(&[2], &[2])]).err();
        assert_eq!(clash, Some(Clash::Address(address(2))));
        let clash = Table::build([member(&[1, 3], &[1]), member(&[3], &[2])]).err();
        assert_eq!(clash, Some(Clash::Key(key(3))));
        assert!(Table::build([member(&[1, 1], &[2, 2])]).is_ok());
    }
}
