//! The tunnels of one member and the route to it, under one lock.

use super::{
    HANDSHAKE_MAX, Indices, KEYS_MAX, Letters, Opened, Peer, RENEW_AGAIN, State, Tunnel, Which,
    kind,
};
use crate::key::PublicKey;
use crate::path::{Received, Via};
use crate::peer::Identity;
use crate::relay;
use boringtun::noise::errors::WireGuardError;
use boringtun::noise::{Tunn, TunnResult};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

impl State {
    /// How long packets may be on the way in use, in bytes.
    pub(super) fn limit(&self, now: Instant) -> usize {
        let believed = self.limited.filter(|(_, until)| now < *until);
        believed.map_or(usize::MAX, |(limit, _)| limit)
    }

    /// Encrypts with the tunnel in use. Nothing if its session ended this instant.
    pub(super) fn encrypt(&mut self, now: Instant, packet: &[u8], to: &mut [u8]) -> Option<usize> {
        let tunnel = self.tunnels.get_mut(self.active?)?;
        match tunnel.tunn.encapsulate(packet, to) {
            TunnResult::WriteToNetwork(sealed) if sealed.first() == Some(&kind::DATA) => {
                let len = sealed.len();
                self.path.sent(now, !packet.is_empty());
                Some(len)
            }
            TunnResult::Done
            | TunnResult::Err(_)
            | TunnResult::WriteToNetwork(_)
            | TunnResult::WriteToTunnelV4(..)
            | TunnResult::WriteToTunnelV6(..) => {
                tunnel.up = false;
                self.choose();
                None
            }
        }
    }

    /// The tunnel in use is the first that is up: the newest of our keys first, then the newest of the member's.
    pub(super) fn choose(&mut self) {
        self.active = self.tunnels.iter().position(|tunnel| tunnel.up);
    }

    /// Makes the tunnels that are missing, in the order of preference.
    pub(super) fn make_tunnels(&mut self, peer: &Arc<Peer>, indices: &Indices) {
        let mut old = std::mem::take(&mut self.tunnels);
        for identity in self.identities.iter() {
            for remote in self.keys.iter().take(KEYS_MAX) {
                let same = |tunnel: &Tunnel| {
                    tunnel.identity.public == identity.public && tunnel.remote == *remote
                };
                let tunnel = match old.iter().position(same) {
                    Some(at) => old.swap_remove(at),
                    None => Tunnel::new(identity, *remote, indices.take(peer)),
                };
                self.tunnels.push(tunnel);
            }
        }
        for tunnel in old {
            indices.give_back(tunnel.index);
        }
        self.choose();
    }

    /// Ends tunnels of keys that are accepted no more.
    pub(super) fn forget_old_pairs(&mut self, indices: &Indices) {
        let (keys, identities) = (&self.keys, &self.identities);
        self.tunnels.retain(|tunnel| {
            let ours = identities
                .iter()
                .any(|i| i.public == tunnel.identity.public);
            let stays = ours && keys.iter().take(KEYS_MAX).any(|key| *key == tunnel.remote);
            if !stays {
                indices.give_back(tunnel.index);
            }
            stays
        });
        self.choose();
    }

    pub(super) fn forget_tunnels(&mut self, indices: &Indices) {
        for tunnel in self.tunnels.drain(..) {
            indices.give_back(tunnel.index);
        }
        self.active = None;
        self.waiting.clear();
    }

    pub(super) fn find(
        &mut self,
        peer: &Arc<Peer>,
        indices: &Indices,
        which: &Which<'_>,
    ) -> Result<usize, WireGuardError> {
        let found = match which {
            Which::Receiver(receiver) => {
                let index = receiver >> 8;
                self.tunnels.iter().position(|tunnel| tunnel.index == index)
            }
            Which::Pair(identity, remote) => {
                let pair = |tunnel: &Tunnel| {
                    tunnel.identity.public == identity.public && tunnel.remote == *remote
                };
                if !self.tunnels.iter().any(pair) {
                    self.make_tunnels(peer, indices);
                }
                self.tunnels.iter().position(pair)
            }
        };
        found.ok_or(WireGuardError::WrongIndex)
    }

    pub(super) fn decrypt(
        &mut self,
        now: Instant,
        (from, source): (Via, IpAddr),
        at: usize,
        message: &[u8],
        to: &mut [u8],
    ) -> Result<Opened, WireGuardError> {
        let tunnel = self.tunnels.get_mut(at).ok_or(WireGuardError::WrongIndex)?;
        let mut opened = Opened::default();
        let what = match tunnel.tunn.decapsulate(Some(source), message, to) {
            TunnResult::Err(error) => return Err(error),
            TunnResult::WriteToTunnelV4(packet, _) | TunnResult::WriteToTunnelV6(packet, _) => {
                opened.packet = Some(packet.len());
                Received::Packet { data: true }
            }
            TunnResult::WriteToNetwork(answer) => {
                let answers = answer.first().copied();
                opened.letters.push((from, answer.to_vec()));
                match (message.first().copied(), answers) {
                    (Some(kind::INITIATION), Some(kind::RESPONSE)) => Received::Initiation,
                    (Some(kind::RESPONSE), Some(kind::DATA)) => Received::Response,
                    _ => return Ok(opened),
                }
            }
            TunnResult::Done if message.first() == Some(&kind::DATA) => {
                Received::Packet { data: false }
            }
            TunnResult::Done => return Ok(opened),
        };
        self.path.received(now, from, what);
        let came_up = what != Received::Initiation && !std::mem::replace(&mut tunnel.up, true);
        if came_up {
            self.choose();
        }
        if what == Received::Response {
            self.path.sent(now, false);
        }
        if came_up || what == Received::Response {
            self.send_waiting(now, &mut opened.letters);
        }
        Ok(opened)
    }

    pub(super) fn send_waiting(&mut self, now: Instant, letters: &mut Letters) {
        let Some(via) = self.path.route() else { return };
        while let Some(packet) = self.waiting.pop_front() {
            let mut sealed = vec![0; (packet.len() + relay::TUNNEL_OVERHEAD).max(HANDSHAKE_MAX)];
            let Some(len) = self.encrypt(now, &packet, &mut sealed) else {
                return;
            };
            sealed.truncate(len);
            letters.push((via, sealed));
        }
    }

    /// Sends the first message of a handshake, of every pair of keys, to everywhere that the path says.
    pub(super) fn knock(&mut self, peer: &Arc<Peer>, indices: &Indices, now: Instant) -> Letters {
        self.make_tunnels(peer, indices);
        let to = self.path.knock(now);
        let mut letters = Letters::new();
        for tunnel in &mut self.tunnels {
            let Some(initiation) = tunnel.initiation(now) else {
                continue;
            };
            letters.extend(to.iter().map(|via| (*via, initiation.clone())));
        }
        letters
    }

    /// Brings up tunnels of newer keys than those of the one in use.
    pub(super) fn renew(&mut self, peer: &Arc<Peer>, indices: &Indices, now: Instant) -> Letters {
        let (Some(active), Some(via)) = (self.active, self.path.route()) else {
            return Letters::new();
        };
        let newest = self.tunnels.get(active).is_some_and(|tunnel| {
            let ours = self.identities.first();
            ours.is_some_and(|identity| identity.public == tunnel.identity.public)
                && self.keys.first() == Some(&tunnel.remote)
        });
        if newest {
            return Letters::new();
        }
        self.make_tunnels(peer, indices);
        let better = self.active.unwrap_or(0);
        let due = |tunnel: &&mut Tunnel| {
            let waited = |at: Instant| now.saturating_duration_since(at) >= RENEW_AGAIN;
            tunnel.tried_at.is_none_or(waited)
        };
        let tunnels = self.tunnels.iter_mut().take(better).filter(due);
        let letters = tunnels.filter_map(|tunnel| Some((via, tunnel.initiation(now)?)));
        letters.collect()
    }

    pub(super) fn keepalive(&mut self, now: Instant) -> Letters {
        let mut sealed = vec![0; HANDSHAKE_MAX];
        let Some(via) = self.path.route() else {
            return Letters::new();
        };
        let Some(len) = self.encrypt(now, &[], &mut sealed) else {
            return Letters::new();
        };
        sealed.truncate(len);
        vec![(via, sealed)]
    }

    /// The protocol's own timers: handshakes again, keepalives in answer, sessions that end.
    pub(super) fn run_timers(&mut self, now: Instant) -> Letters {
        let mut letters = Letters::new();
        let mut buffer = [0; HANDSHAKE_MAX];
        let (active, mut expired) = (self.active, false);
        for at in 0..self.tunnels.len() {
            let Some(tunnel) = self.tunnels.get_mut(at) else {
                continue;
            };
            match tunnel.tunn.update_timers(&mut buffer) {
                TunnResult::WriteToNetwork(message) => {
                    let message = message.to_vec();
                    let data = message.first() == Some(&kind::DATA);
                    let carries = active.is_none() || active == Some(at);
                    let to = match self.path.route() {
                        Some(via) if data || !carries => vec![via],
                        _ => self.path.knock(now),
                    };
                    letters.extend(to.into_iter().map(|via| (via, message.clone())));
                }
                TunnResult::Err(WireGuardError::ConnectionExpired) => {
                    expired |= active.is_none() || active == Some(at);
                }
                TunnResult::Done
                | TunnResult::Err(_)
                | TunnResult::WriteToTunnelV4(..)
                | TunnResult::WriteToTunnelV6(..) => {}
            }
            tunnel.up = tunnel.tunn.time_since_last_handshake().is_some();
        }
        self.choose();
        if expired && self.active.is_none() {
            self.path.give_up();
            self.waiting.clear();
        }
        letters
    }
}

impl Tunnel {
    pub(super) fn new(identity: &Arc<Identity>, remote: PublicKey, index: u32) -> Self {
        let tunn = Tunn::new(
            identity.private.x25519().clone(),
            remote.x25519(),
            None,
            None,
            index,
            Some(Arc::clone(&identity.limiter)),
        );
        Self {
            identity: Arc::clone(identity),
            remote,
            index,
            tunn: Box::new(tunn),
            up: false,
            tried_at: None,
        }
    }

    pub(super) fn initiation(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.tried_at = Some(now);
        let mut buffer = [0; HANDSHAKE_MAX];
        match self.tunn.format_handshake_initiation(&mut buffer, true) {
            TunnResult::WriteToNetwork(message) => Some(message.to_vec()),
            TunnResult::Done
            | TunnResult::Err(_)
            | TunnResult::WriteToTunnelV4(..)
            | TunnResult::WriteToTunnelV6(..) => None,
        }
    }
}
