//! One other member: its tunnels, and when they are made, used and forgotten.
//!
//! A tunnel belongs to a pair of keys, one of ours and one of the member's. Usually there is one pair; while keys rotate there are
//! up to four, and what we send goes through the first that is up, the newest keys first. Nothing here does I/O: what is to be sent
//! comes back as letters, and only [`boringtun`] looks at the clock.

mod state;

use crate::key::{PrivateKey, PublicKey};
use crate::path::{Endpoint, Path, Places, Task, Times, Via};
use crate::relay;
use boringtun::noise::Tunn;
use boringtun::noise::errors::WireGuardError;
use boringtun::noise::rate_limiter::RateLimiter;
use parking_lot::{Mutex, RwLock};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Packets that wait for a member's first handshake. Further ones are dropped, as a full link drops them.
const WAITING_MAX: usize = 128;

/// Keys of one member that are accepted at the same time.
pub(crate) const KEYS_MAX: usize = 2;

/// Longest message that is no data: a handshake's first.
const HANDSHAKE_MAX: usize = 148;

/// How often a tunnel of newer keys is tried, while an older one carries the data.
const RENEW_AGAIN: Duration = Duration::from_secs(3);

/// Longest packets that are tried on ways that do not take the mesh's longest, in bytes: 1500 over another tunnel or two, PPPoE,
/// and the least that IPv6 and IPv4 promise.
const LIMITS: &[usize] = &[4000, 1420, 1400, 1380, 1340, 1280, 1000, 576];

/// How long a way is taken to be narrow. Kernels forget what they learned of it at the same time.
const LIMIT_FOR: Duration = Duration::from_secs(600);

/// First byte of a WireGuard message.
pub(crate) mod kind {
    pub(crate) const INITIATION: u8 = 1;
    pub(crate) const RESPONSE: u8 = 2;
    pub(crate) const DATA: u8 = 4;
}

/// The receiver field of a message that is no initiation: it names the receiver's tunnel and session.
pub(crate) fn receiver_index(message: &[u8]) -> Option<u32> {
    // A response begins with its sender's.
    let at = if message.first() == Some(&kind::RESPONSE) {
        8
    } else {
        4
    };
    let bytes = message.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// Messages to be sent, and which way.
pub(crate) type Letters = Vec<(Via, Vec<u8>)>;

/// A key pair of ours.
pub(crate) struct Identity {
    pub(crate) private: PrivateKey,
    pub(crate) public: PublicKey,
    /// Cookies for those who knock, once they are too many.
    pub(crate) limiter: Arc<RateLimiter>,
    /// When it is accepted no more. Nothing for the present one.
    pub(crate) until: Option<Instant>,
}

impl Identity {
    pub(crate) fn new(private: PrivateKey, handshakes_per_second: u64) -> Self {
        let public = private.public();
        let limiter = RateLimiter::new(&public.x25519(), handshakes_per_second);
        Self {
            private,
            public,
            limiter: Arc::new(limiter),
            until: None,
        }
    }

    /// The same keys, until then.
    pub(crate) fn ending(&self, until: Instant) -> Self {
        Self {
            private: self.private.clone(),
            public: self.public,
            limiter: Arc::clone(&self.limiter),
            until: Some(until),
        }
    }
}

/// Our key pairs, the newest first.
pub(crate) type Identities = Arc<Vec<Arc<Identity>>>;

/// Who owns which receiver index. An index names one tunnel.
#[derive(Default)]
pub(crate) struct Indices {
    next: AtomicU32,
    owners: RwLock<HashMap<u32, Arc<Peer>>>,
}

impl Indices {
    /// Indices that the protocol's field has room for, beside the eight bits that count sessions.
    const MAX: u32 = 1 << 24;

    fn take(&self, peer: &Arc<Peer>) -> u32 {
        let mut owners = self.owners.write();
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed) % Self::MAX;
            // Fewer tunnels than indices by far: peers are bounded by the mesh's addresses.
            if let std::collections::hash_map::Entry::Vacant(free) = owners.entry(index) {
                free.insert(Arc::clone(peer));
                return index;
            }
        }
    }

    fn give_back(&self, index: u32) {
        self.owners.write().remove(&index);
    }

    /// Whose tunnel a message with this receiver field is for.
    pub(crate) fn owner(&self, receiver: u32) -> Option<Arc<Peer>> {
        self.owners.read().get(&(receiver >> 8)).cloned()
    }
}

/// What was carried for a member.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) sent_bytes: AtomicU64,
    pub(crate) sent_packets: AtomicU64,
    pub(crate) received_bytes: AtomicU64,
    pub(crate) received_packets: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

/// What is known of a member that may change while its tunnels stay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its keys, the newest first.
    pub(crate) keys: Vec<PublicKey>,
    pub(crate) places: Places,
    pub(crate) control: bool,
}

/// A member.
pub(crate) struct Peer {
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) counters: Counters,
    control: AtomicBool,
    state: Mutex<State>,
}

struct State {
    /// Removed: nothing passes any more, whoever still holds it.
    cut: bool,
    keys: Vec<PublicKey>,
    identities: Identities,
    tunnels: Vec<Tunnel>,
    /// Which of them carries what we send.
    active: Option<usize>,
    path: Path,
    waiting: VecDeque<Vec<u8>>,
    /// How long packets may be on the way in use, if it is a narrow one, and until when that is believed.
    limited: Option<(usize, Instant)>,
}

struct Tunnel {
    identity: Arc<Identity>,
    remote: PublicKey,
    index: u32,
    tunn: Box<Tunn>,
    up: bool,
    tried_at: Option<Instant>,
}

/// What came of a packet to be sent.
#[derive(Debug)]
pub(crate) enum Sealed {
    /// So many bytes of the buffer are to be sent this way.
    Ready(usize, Via),
    /// It waits for a handshake, whose messages these are.
    Waits(Letters),
    /// It is longer than the way allows; the limit in bytes.
    TooLong(usize),
    /// The member was removed.
    Cut,
}

/// What came of a message that was received.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    /// Length of the packet that the buffer now holds.
    pub(crate) packet: Option<usize>,
    /// What is to be sent in answer.
    pub(crate) letters: Letters,
}

/// Which tunnel a message is for.
pub(crate) enum Which<'a> {
    /// The one whose index the message has in its receiver field.
    Receiver(u32),
    /// The one of these two keys, to be made if there is none.
    Pair(&'a Arc<Identity>, PublicKey),
}

/// Numbers that a member's tunnel has at one time.
pub(crate) struct Snapshot {
    pub(crate) keys: Vec<PublicKey>,
    pub(crate) via: Option<Via>,
    pub(crate) up: bool,
    pub(crate) own_key: Option<PublicKey>,
    pub(crate) handshake_age: Option<Duration>,
    pub(crate) loss: f32,
    pub(crate) round_trip: Option<Duration>,
    pub(crate) heard: Option<Instant>,
}

impl Peer {
    pub(crate) fn new(
        addresses: Vec<IpAddr>,
        known: Known,
        identities: Identities,
        times: Times,
    ) -> Self {
        Self {
            addresses,
            counters: Counters::default(),
            control: AtomicBool::new(known.control),
            state: Mutex::new(State {
                cut: false,
                keys: known.keys,
                identities,
                tunnels: Vec::new(),
                active: None,
                path: Path::new(times, known.places),
                waiting: VecDeque::new(),
                limited: None,
            }),
        }
    }

    /// Whether it and we may reach each other's control ports.
    pub(crate) fn speaks_control(&self) -> bool {
        self.control.load(Ordering::Relaxed)
    }

    /// Takes what is now known of it.
    pub(crate) fn set_known(&self, indices: &Indices, known: Known) {
        self.control.store(known.control, Ordering::Relaxed);
        let mut state = self.state.lock();
        state.path.set_places(known.places);
        state.keys = known.keys;
        state.forget_old_pairs(indices);
    }

    /// Takes our key pairs, the newest first. Tunnels of one that is gone end.
    pub(crate) fn set_identities(&self, indices: &Indices, identities: Identities) {
        let mut state = self.state.lock();
        state.identities = identities;
        state.forget_old_pairs(indices);
    }

    /// Ends all tunnels, for ever. When this returns, nothing more passes.
    pub(crate) fn cut(&self, indices: &Indices) {
        let mut state = self.state.lock();
        state.cut = true;
        state.forget_tunnels(indices);
    }

    /// The key by which this member has that one as a relay, if it does.
    pub(crate) fn relay_key(&self, relay: &Self) -> Option<PublicKey> {
        let keys = relay.state.lock().keys.clone();
        let state = self.state.lock();
        keys.into_iter().find(|key| state.path.is_relay(key))
    }

    /// Encrypts a packet into `to`, which must have room for 32 bytes more, and 148 at least. `mtu` is that of the direct way.
    pub(crate) fn seal(
        self: &Arc<Self>,
        indices: &Indices,
        now: Instant,
        mtu: usize,
        packet: &[u8],
        to: &mut [u8],
    ) -> Sealed {
        let mut state = self.state.lock();
        if state.cut {
            return Sealed::Cut;
        }
        if let (Some(via), true) = (state.path.route(), state.active.is_some()) {
            let limit = match via {
                Via::Direct(_) => state.limit(now).min(mtu),
                Via::Relay(_) => {
                    relay::mtu_relayed(mtu, self.addresses.iter().any(IpAddr::is_ipv4))
                }
            };
            if packet.len() > limit {
                return Sealed::TooLong(limit);
            }
            if let Some(len) = state.encrypt(now, packet, to) {
                self.count_sent(packet.len());
                return Sealed::Ready(len, via);
            }
        }
        state.path.want(now);
        if state.waiting.len() < WAITING_MAX {
            state.waiting.push_back(packet.to_vec());
        } else {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
        if state.path.is_knocking() {
            return Sealed::Waits(Letters::new());
        }
        Sealed::Waits(state.knock(self, indices, now))
    }

    /// Opens a message into `to`, which must be as long as the message, and 148 bytes at least. `source` is the address that the
    /// sender proves to have by a cookie.
    pub(crate) fn open(
        self: &Arc<Self>,
        indices: &Indices,
        now: Instant,
        from: (Via, IpAddr),
        which: &Which<'_>,
        message: &[u8],
        to: &mut [u8],
    ) -> Result<Opened, WireGuardError> {
        let mut state = self.state.lock();
        if state.cut {
            return Err(WireGuardError::WrongKey);
        }
        let at = state.find(self, indices, which)?;
        let opened = state.decrypt(now, from, at, message, to)?;
        if let Some(len) = opened.packet {
            let bytes = u64::try_from(len).unwrap_or(0);
            self.counters
                .received_bytes
                .fetch_add(bytes, Ordering::Relaxed);
            self.counters
                .received_packets
                .fetch_add(1, Ordering::Relaxed);
        }
        for (_, letter) in &opened.letters {
            if letter.first() == Some(&kind::DATA) && letter.len() > relay::TUNNEL_OVERHEAD {
                self.count_sent(letter.len() - relay::TUNNEL_OVERHEAD);
            }
        }
        Ok(opened)
    }

    /// The way to this place took no datagram of so many bytes: packets to the member there get shorter for a while.
    pub(crate) fn shrink(&self, now: Instant, to: Endpoint, datagram: usize) {
        let mut state = self.state.lock();
        let there = matches!(state.path.route(), Some(Via::Direct(at)) if at.address == to.address);
        let packet = datagram.saturating_sub(relay::TUNNEL_OVERHEAD);
        let shorter = LIMITS.iter().find(|limit| **limit < packet);
        if let (true, Some(limit)) = (there, shorter) {
            let limit = state.limit(now).min(*limit);
            state.limited = Some((limit, now + LIMIT_FOR));
        }
    }

    fn count_sent(&self, len: usize) {
        let bytes = u64::try_from(len).unwrap_or(0);
        self.counters.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.counters.sent_packets.fetch_add(1, Ordering::Relaxed);
    }

    /// Does what is due, several times a second.
    pub(crate) fn tick(self: &Arc<Self>, indices: &Indices, now: Instant) -> Letters {
        let mut state = self.state.lock();
        if state.cut {
            return Letters::new();
        }
        let mut letters = state.run_timers(now);
        letters.extend(state.renew(self, indices, now));
        match state.path.task(now, state.active.is_some()) {
            Some(Task::Knock) => letters.extend(state.knock(self, indices, now)),
            Some(Task::Keepalive) => letters.extend(state.keepalive(now)),
            Some(Task::Rest) => {
                state.forget_tunnels(indices);
                state.path.rested();
            }
            None => {}
        }
        letters
    }

    /// Numbers for people.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.state.lock();
        let active = state.active.and_then(|at| state.tunnels.get(at));
        let stats = active.map(|tunnel| tunnel.tunn.stats());
        let round_trip = stats.and_then(|stats| stats.4);
        Snapshot {
            keys: state.keys.clone(),
            via: state.path.route(),
            up: active.is_some(),
            own_key: active.map(|tunnel| tunnel.identity.public),
            handshake_age: stats.and_then(|stats| stats.0),
            loss: stats.map_or(0.0, |stats| stats.3),
            round_trip: round_trip.map(|ms| Duration::from_millis(ms.into())),
            heard: state.path.received_at(),
        }
    }
}

#[cfg(test)]
mod tests;
