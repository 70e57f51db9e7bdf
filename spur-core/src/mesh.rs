//! Who is a member of the mesh, by which key, at which addresses: decided and followed without I/O. No tunnel is made by it yet.
//!
//! Every wish is answered with a [`MeshEvent`] or with why it is [`Refused`]; [`Roster::apply`] follows an event, and leaves alone
//! what makes no sense. Keys are public ones throughout: no private key is ever part of this.
//!
//! ```text
//!            make_token          join                 rotate (the old key is accepted for a while)
//! operator ------------> token --------> member <----------------+
//!                          |               |  |__________________|
//!             withdraw, time, use          |  remove
//!                          v               v
//!                       useless        its keys are remembered, and never taken again
//! ```

mod ask;
mod decide;
mod follow;
mod peers;
mod refused;
mod roster;
mod sound;

#[cfg(test)]
mod tests;

pub use ask::{MeshAsk, MeshBook};
pub use decide::{NewToken, Newcomer};
pub use peers::MeshPeer;
pub use refused::Refused;
pub use roster::Roster;

use crate::id::{MemberId, NodeName, TokenId};
use crate::time::Millis;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

// Logs are replayed by these limits: they may be raised, and never fall.

/// Members have numbers below this: one address of 100.64.0.0/10 each, without its last, the broadcast address. A number is never
/// given twice, so this is also how many hosts can join in all.
const NUMBERS_END: u32 = (1 << 22) - 1;
/// Most members at once.
const MEMBERS_MAX: usize = 1 << 16;
/// Most tokens that are open at once.
const TOKENS_MAX: usize = 4096;
/// Keys of a member that are remembered beside those that it may use; the oldest are forgotten for newer ones.
const PAST_MAX: usize = 6;
/// Most keys of one member: its own, the one before, and those before that.
const MEMBER_KEYS_MAX: usize = PAST_MAX + 2;
/// Most keys of removed members. None is forgotten: hosts no longer join when the keys of all who are there might not fit.
const GONE_MAX: usize = 1 << 22;
/// Most places where one member may be, as many as the data plane tries.
const ENDPOINTS_MAX: usize = 8;
/// Longest life of a token in seconds: 30 days.
const TOKEN_SECS_MAX: u64 = 30 * 24 * 3600;
/// Longest time in seconds that an old key is accepted beside the new one: 7 days.
const OVERLAP_SECS_MAX: u64 = 7 * 24 * 3600;

/// A WireGuard public key, as X25519 has it: 32 bytes, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MeshKey(pub [u8; 32]);

impl MeshKey {
    /// Whether it can name one host. X25519 does not look at the last bit and counts modulo 2^255 - 19, so one private key has
    /// several forms of its public one, and a removed key might come back in another: only the least form counts. With a point of
    /// low order everybody shares the same secret.
    pub fn is_sound(&self) -> bool {
        const LOW_ORDER: [[u8; 32]; 2] = [
            [
                0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f,
                0xc4, 0x6a, 0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16,
                0x5f, 0x49, 0xb8, 0x00,
            ],
            [
                0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83,
                0xef, 0x5b, 0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd,
                0xd0, 0x9f, 0x11, 0x57,
            ],
        ];
        let [low, middle @ .., high] = &self.0;
        let tiny = *low < 2 && *high == 0 && middle.iter().all(|byte| *byte == 0);
        // From 2^255 - 20 on: the point of order 2, and what is not the least form.
        let last = *low >= 0xec && *high == 0x7f && middle.iter().all(|byte| *byte == 0xff);
        *high < 0x80 && !tiny && !last && !LOW_ORDER.contains(&self.0)
    }
}

impl Serialize for MeshKey {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for MeshKey {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl serde::de::Visitor<'_> for Bytes {
            type Value = MeshKey;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a public key of 32 bytes")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<MeshKey, E> {
                let key = bytes.try_into().map(MeshKey);
                key.map_err(|_| E::invalid_length(bytes.len(), &self))
            }
        }
        from.deserialize_bytes(Bytes)
    }
}

/// The network of a mesh: the upper half of its IPv6 addresses. A ULA prefix, drawn by lot when the mesh is founded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MeshPrefix(pub u64);

impl MeshPrefix {
    /// Whether it is one that everybody may draw: in `fd00::/8`.
    pub fn is_local(self) -> bool {
        self.0 >> 56 == 0xfd
    }

    /// An address in it.
    pub fn host(self, host: u64) -> Ipv6Addr {
        Ipv6Addr::from_bits((u128::from(self.0) << 64) | u128::from(host))
    }

    /// Whether an address is one of the mesh: in this network, or in 100.64.0.0/10.
    pub fn contains(self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(four) => four.to_bits() >> 22 == MESH_V4.to_bits() >> 22,
            IpAddr::V6(six) => (six.to_bits() >> 64) == u128::from(self.0),
        }
    }
}

/// The IPv4 network of every mesh, a /10: addresses that no host has on the open net.
const MESH_V4: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 0);

/// What a member is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Role {
    /// Runs a controller.
    Controller,
    /// Runs jobs.
    Node,
    /// Users work there.
    Login,
}

/// What the cluster remembers of a token: not the private key that whoever joins brings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Its number, by which people name it.
    pub id: TokenId,
    /// The public half of the key that it carries.
    pub key: MeshKey,
    /// Role of whoever joins with it.
    pub role: Role,
    /// The only name with which it can be used; `None`: any.
    pub name: Option<NodeName>,
    /// From then on it is useless.
    pub expires: Millis,
}

impl Token {
    /// The address of whoever comes with it, until it has one of its own. No member has such an address.
    pub fn v6(&self, prefix: MeshPrefix) -> Ipv6Addr {
        prefix.host((1 << 32) | u64::from(self.id.0))
    }
}

/// The key that a member had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OldKey {
    /// The key.
    pub key: MeshKey,
    /// Until when it is accepted.
    pub until: Millis,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its number.
    pub id: MemberId,
    /// Its name.
    pub name: NodeName,
    /// What it is for.
    pub role: Role,
    /// Its key.
    pub key: MeshKey,
    /// The key before that.
    pub previous: Option<OldKey>,
    /// Its keys before that, the last ones, the oldest first: they are accepted no more, and taken by nobody else.
    pub past: Vec<MeshKey>,
    /// Where it may be in the network below, the likeliest first.
    pub endpoints: Vec<SocketAddr>,
    /// When it joined.
    pub since: Millis,
}

impl Member {
    /// Its IPv4 address.
    pub fn v4(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(MESH_V4.to_bits().saturating_add(self.id.0))
    }

    /// Its IPv6 address.
    pub fn v6(&self, prefix: MeshPrefix) -> Ipv6Addr {
        prefix.host(u64::from(self.id.0))
    }

    /// The key before the present one, if it is accepted at that time.
    pub fn previous_key(&self, now: Millis) -> Option<MeshKey> {
        let accepted = self.previous.filter(|old| now < old.until);
        accepted.map(|old| old.key)
    }

    /// All its keys that are known, present and past.
    fn keys(&self) -> impl Iterator<Item = MeshKey> {
        let past = self.past.iter().copied();
        let previous = self.previous.map(|old| old.key);
        past.chain(previous).chain([self.key])
    }
}

/// What happened to the mesh. Persisted: variants and fields are only ever added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MeshEvent {
    /// The mesh begins, with its first controller.
    Founded {
        /// Its network.
        prefix: MeshPrefix,
        /// The controller.
        first: Member,
    },
    /// An operator made a token.
    TokenMade(Token),
    /// An operator took a token back.
    TokenWithdrawn {
        /// Which one.
        token: TokenId,
    },
    /// A host joined; its token is used up.
    Joined {
        /// The token.
        token: TokenId,
        /// The new member.
        member: Member,
    },
    /// A member is elsewhere.
    Moved {
        /// Which member.
        member: MemberId,
        /// Where it may be, the likeliest first.
        endpoints: Vec<SocketAddr>,
    },
    /// A member has a new key.
    Rotated {
        /// Which member.
        member: MemberId,
        /// Its new key.
        key: MeshKey,
        /// Until when the old one is accepted.
        keep_until: Millis,
    },
    /// A member was removed.
    Removed {
        /// Which member.
        member: MemberId,
    },
}
