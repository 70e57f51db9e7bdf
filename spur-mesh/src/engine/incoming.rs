//! From the network to the tun interface.

use super::{Shared, count, refused};
use crate::device::{HEADROOM, PACKETS_MAX, Queue};
use crate::key::PublicKey;
use crate::packet::{self, Header};
use crate::path::{Endpoint, Via};
use crate::peer::{Identity, Peer, Which, kind, receiver_index};
use crate::relay;
use crate::socket::{Batch, DATAGRAM_MAX, Socket, Sockets};
use boringtun::noise::errors::WireGuardError;
use boringtun::noise::handshake::parse_handshake_anon;
use boringtun::noise::{Packet, TunnResult};
use quinn_udp::RecvMeta;
use std::io::{self, IoSliceMut};
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tun_rs::GROTable;

/// Buffers that one call fills, each with up to 64 KiB of one sender.
const RECEIVE_BUFFERS: usize = 8;
const RECEIVE_BYTES: usize = 65_536;

/// Room of each packet for the kernel: the packets of one stream that follow it are put together in it.
const COALESCED_BYTES: usize = 2 * HEADROOM + 65_535;

/// Calls before the other socket has its turn.
const CALLS_MAX: usize = 8;

/// Shortest buffer that an answer to a handshake fits in.
const ANSWER_MAX: usize = 148;

/// How long to wait after an error of a socket, so that one that stays does not take a core.
const ERROR_PAUSE: Duration = Duration::from_millis(20);

/// Where a message came from: which way, and from which address.
type From = (Via, IpAddr);

/// A key of ours, and one of the member's.
type Pair = (Arc<Identity>, PublicKey);

pub(super) fn run(shared: &Shared, queue: &Queue, sockets: &Sockets) {
    let mut incoming = Incoming {
        shared,
        queue,
        sockets,
        packets: (0..PACKETS_MAX)
            .map(|_| Vec::with_capacity(COALESCED_BYTES))
            .collect(),
        filled: 0,
        to_kernel: GROTable::default(),
        onward: Batch::new(),
        opened: vec![0; DATAGRAM_MAX + HEADROOM],
    };
    let mut buffers = vec![vec![0; RECEIVE_BYTES]; RECEIVE_BUFFERS];
    let four = &sockets.four;
    let six = sockets.six.as_ref().unwrap_or(four);
    while let Some([ready_four, ready_six]) = shared.wait([four.as_fd(), six.as_fd()], None) {
        if ready_four {
            incoming.drain(four, &mut buffers);
        }
        if ready_six && sockets.six.is_some() {
            incoming.drain(six, &mut buffers);
        }
    }
}

struct Incoming<'a> {
    shared: &'a Shared,
    queue: &'a Queue,
    sockets: &'a Sockets,
    /// Packets for the kernel, each after its headroom. The first `filled` wait to be written.
    packets: Vec<Vec<u8>>,
    filled: usize,
    to_kernel: GROTable,
    /// Frames of others, that we relay.
    onward: Batch,
    opened: Vec<u8>,
}

impl Incoming<'_> {
    fn drain(&mut self, socket: &Socket, buffers: &mut [Vec<u8>]) {
        let mut now = Instant::now();
        for _ in 0..CALLS_MAX {
            let mut metas = [RecvMeta::default(); RECEIVE_BUFFERS];
            let mut slices: Vec<IoSliceMut<'_>> =
                buffers.iter_mut().map(|b| IoSliceMut::new(b)).collect();
            let received = match socket.receive(&mut slices, &mut metas) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    tracing::debug!(%error, "receiving from the network");
                    std::thread::sleep(ERROR_PAUSE);
                    break;
                }
            };
            now = Instant::now();
            for (meta, buffer) in metas.iter().zip(buffers.iter()).take(received) {
                self.datagrams(now, meta, buffer);
            }
        }
        self.write();
        self.onward.flush(self.sockets);
        self.shared.unsent(now, self.onward.unsent.take());
    }

    fn datagrams(&mut self, now: Instant, meta: &RecvMeta, buffer: &[u8]) {
        let endpoint = Endpoint {
            address: meta.addr,
            local: meta.dst_ip,
        };
        let from = (Via::Direct(endpoint), meta.addr.ip());
        let bytes = buffer.get(..meta.len).unwrap_or_default();
        for datagram in bytes.chunks(meta.stride.max(1)) {
            let Some((peer, packet)) = self.open(now, from, datagram) else {
                continue;
            };
            self.accept(now, &peer, &packet, from);
        }
    }

    /// Gives the kernel what waits for it.
    fn write(&mut self) {
        let packets = self.packets.get_mut(..self.filled).unwrap_or_default();
        if !packets.is_empty()
            && let Err(error) = self.queue.write(&mut self.to_kernel, packets)
        {
            tracing::debug!(%error, "writing to the mesh interface");
        }
        self.filled = 0;
    }

    /// Opens a message: who sent it, and the packet in it, which now is in the next free buffer.
    fn open(&mut self, now: Instant, from: From, message: &[u8]) -> Option<(Arc<Peer>, Header)> {
        if message.len() > DATAGRAM_MAX {
            count(&self.shared.drops.not_genuine);
            return None;
        }
        let (peer, pair) = self.receiver(from, message)?;
        let which = match &pair {
            Some((identity, key)) => Which::Pair(identity, *key),
            None => Which::Receiver(receiver_index(message)?),
        };
        let shared = self.shared;
        let buffer = self.packets.get_mut(self.filled)?;
        buffer.resize(HEADROOM + message.len().max(ANSWER_MAX), 0);
        let to = buffer.get_mut(HEADROOM..)?;
        let opened = match peer.open(&shared.indices, now, from, &which, message, to) {
            Ok(opened) => opened,
            Err(error) => {
                count(&shared.drops.not_genuine);
                tracing::trace!(?error, "message not opened");
                return None;
            }
        };
        shared.post(self.sockets, now, &peer, &opened.letters);
        let len = opened.packet?;
        buffer.truncate(HEADROOM + len);
        match packet::parse(buffer.get(HEADROOM..)?) {
            Ok(header) if header.len == len => Some((peer, header)),
            _ => {
                count(&shared.drops.not_genuine);
                None
            }
        }
    }

    /// Whom a message is from, as it says itself, and for a handshake, which keys.
    fn receiver(&self, from: From, message: &[u8]) -> Option<(Arc<Peer>, Option<Pair>)> {
        let shared = self.shared;
        if message.first() == Some(&kind::INITIATION) {
            let (identity, key) = self.handshake(from, message)?;
            let Some(peer) = shared.table.read().by_key(&key).cloned() else {
                count(&shared.drops.not_genuine);
                tracing::debug!(%key, "handshake of one who is no member");
                return None;
            };
            return Some((peer, Some((identity, key))));
        }
        let peer = receiver_index(message).and_then(|index| shared.indices.owner(index));
        if peer.is_none() {
            count(&shared.drops.not_genuine);
        }
        Some((peer?, None))
    }

    /// Reads who begins a handshake. When too many come, only those who showed a cookie are read.
    fn handshake(&self, from: From, message: &[u8]) -> Option<Pair> {
        let shared = self.shared;
        let identities = Arc::clone(&shared.identities.read());
        for identity in identities.iter() {
            let mut cookie = [0; ANSWER_MAX];
            let verified = identity
                .limiter
                .verify_packet(Some(from.1), message, &mut cookie);
            match verified {
                Ok(Packet::HandshakeInit(initiation)) => {
                    let public = identity.public.x25519();
                    let half =
                        parse_handshake_anon(identity.private.x25519(), &public, &initiation);
                    let Ok(half) = half else { break };
                    let key = PublicKey::from_bytes(half.peer_static_public);
                    return Some((Arc::clone(identity), key));
                }
                // Meant for another of our keys, perhaps.
                Err(TunnResult::Err(WireGuardError::InvalidMac)) => {}
                Err(TunnResult::WriteToNetwork(cookie)) => {
                    count(&shared.drops.cookies);
                    if let (Via::Direct(endpoint), _) = from {
                        shared.send(self.sockets, endpoint, cookie);
                    }
                    return None;
                }
                Ok(_) | Err(_) => break,
            }
        }
        count(&shared.drops.not_genuine);
        None
    }

    /// A genuine packet, in the next free buffer: for the kernel, for another member, or one with a message in it.
    fn accept(&mut self, now: Instant, peer: &Arc<Peer>, header: &Header, from: From) {
        if relay::is_frame(header) {
            let relayed = matches!(from.0, Via::Relay(_));
            match (relayed, self.shared.is_own(header.destination)) {
                (false, true) => self.take_out(now, peer, header),
                (false, false) if self.shared.relays => self.pass_on(now, peer, header),
                (false, false) | (true, _) => count(&self.shared.drops.wrong_address),
            }
            return;
        }
        let shared = self.shared;
        let from_there = shared.table.read().may_send(peer, header.source);
        if !from_there || !shared.is_own(header.destination) {
            count(&peer.counters.dropped);
            return count(&shared.drops.wrong_address);
        }
        if let Err(refusal) = shared.filter.check(header, peer.speaks_control()) {
            return refused(shared, refusal, peer);
        }
        self.filled += 1;
        if self.filled == PACKETS_MAX {
            self.write();
        }
    }

    /// The packet holds a message that the member relays to us: it is opened as if it had come by itself.
    fn take_out(&mut self, now: Instant, relay: &Arc<Peer>, header: &Header) {
        let shared = self.shared;
        let sender = shared.table().to(header.source).cloned();
        let Some(key) = sender.and_then(|sender| sender.relay_key(relay)) else {
            return count(&shared.drops.wrong_address);
        };
        let frame = self.packets.get(self.filled);
        let frame = frame.and_then(|frame| frame.get(HEADROOM..));
        let Some(message) = frame.and_then(|frame| relay::unwrap(header, frame)) else {
            return count(&shared.drops.not_genuine);
        };
        let message = message.to_vec();
        let from = (Via::Relay(key), header.source);
        if let Some((peer, packet)) = self.open(now, from, &message) {
            self.accept(now, &peer, &packet, from);
        }
    }

    /// The packet holds a message of one member for another, which we relay. We cannot read it.
    fn pass_on(&mut self, now: Instant, sender: &Arc<Peer>, header: &Header) {
        let (shared, table) = (self.shared, self.shared.table());
        let to = table.to(header.destination);
        let Some(to) = to.filter(|_| table.may_send(sender, header.source)) else {
            return count(&shared.drops.wrong_address);
        };
        let Some(frame) = self
            .packets
            .get(self.filled)
            .and_then(|f| f.get(HEADROOM..))
        else {
            return;
        };
        let sealed = shared.seal_directly(self.sockets, now, to, frame, &mut self.opened);
        let Some((len, endpoint)) = sealed else {
            return;
        };
        let (room, sealed) = (self.onward.room(), self.opened.get(..len));
        if let (Some(room), Some(sealed)) = (room.get_mut(..len), sealed) {
            room.copy_from_slice(sealed);
            self.onward.push(self.sockets, endpoint, len);
        }
    }
}
