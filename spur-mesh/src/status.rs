//! What a mesh says of itself.

use crate::key::PublicKey;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A mesh at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Of the interface.
    pub name: String,
    /// UDP port.
    pub port: u16,
    /// Our key.
    pub public_key: Option<PublicKey>,
    /// All other members.
    pub members: Vec<Member>,
    /// What did not pass.
    pub dropped: Dropped,
}

/// How a member is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Nothing was heard of it yet.
    Unknown,
    /// At this place.
    Direct(SocketAddr),
    /// Through the member with this key.
    Relay(PublicKey),
}

/// Another member at one time. What was carried counts from when it was first set, without headers.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Its key.
    pub public_key: Option<PublicKey>,
    /// The key of ours that the tunnel in use has; the old one while keys rotate.
    pub own_key: Option<PublicKey>,
    /// Its addresses in the mesh.
    pub addresses: Vec<IpAddr>,
    /// How it is reached, or was last.
    pub route: Route,
    /// Whether there is a session.
    pub up: bool,
    /// Since the last handshake.
    pub handshake_age: Option<Duration>,
    /// Since anything genuine came from it.
    pub heard_ago: Option<Duration>,
    /// Of its last handshake.
    pub round_trip: Option<Duration>,
    /// Part of its packets that did not arrive, 0 to 1, of the last sessions.
    pub loss: f32,
    /// Sent to it, in bytes.
    pub sent_bytes: u64,
    /// Sent to it.
    pub sent_packets: u64,
    /// Received from it, in bytes.
    pub received_bytes: u64,
    /// Received from it.
    pub received_packets: u64,
    /// To it and from it, that did not pass.
    pub dropped: u64,
}

/// Packets that did not pass, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Dropped {
    /// To an address that no member has.
    pub no_member: u64,
    /// From the network, that no member sent: random, cut, replayed, or with a key that is not accepted.
    pub not_genuine: u64,
    /// From or to an address that its sender or receiver does not have.
    pub wrong_address: u64,
    /// By the filter.
    pub refused: u64,
    /// Longer than its way allows; the sender was told.
    pub too_long: u64,
    /// That the system did not take, or for which no relay was up.
    pub unsent: u64,
    /// Handshakes that were answered by a cookie, because too many came.
    pub cookies: u64,
}
