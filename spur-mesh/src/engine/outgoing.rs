//! From the tun interface to the network.

use super::{Shared, count, refused};
use crate::device::{HEADROOM, Packets, Queue};
use crate::path::Via;
use crate::peer::{Peer, Sealed};
use crate::relay;
use crate::socket::{Batch, DATAGRAM_MAX, Sockets};
use crate::table::Table;
use crate::{icmp, packet};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;
use tun_rs::GROTable;

/// Reads of the interface before what was encrypted is sent: the last of a burst must not wait for its end.
const READS_MAX: usize = 16;

pub(super) fn run(shared: &Shared, queue: &Queue, sockets: &Sockets) {
    let mut packets = Packets::new(shared.mtu);
    let mut outgoing = Outgoing {
        shared,
        queue,
        sockets,
        batch: Batch::new(),
        relayed: vec![0; DATAGRAM_MAX],
        to_kernel: GROTable::default(),
    };
    while shared.wait([queue.as_fd()], None).is_some() {
        let (now, table) = (Instant::now(), shared.table());
        for _ in 0..READS_MAX {
            match queue.read(&mut packets) {
                Ok(Some(count)) => {
                    for packet in (0..count).filter_map(|n| packets.get(n)) {
                        outgoing.packet(now, &table, packet);
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, "reading from the mesh interface");
                    break;
                }
            }
        }
        outgoing.batch.flush(sockets);
        shared.unsent(now, outgoing.batch.unsent.take());
    }
}

struct Outgoing<'a> {
    shared: &'a Shared,
    queue: &'a Queue,
    sockets: &'a Sockets,
    batch: Batch,
    relayed: Vec<u8>,
    to_kernel: GROTable,
}

impl Outgoing<'_> {
    fn packet(&mut self, now: Instant, table: &Table<Peer>, packet: &[u8]) {
        let shared = self.shared;
        let Ok(header) = packet::parse(packet) else {
            return;
        };
        let Some(peer) = table.to(header.destination) else {
            return count(&shared.drops.no_member);
        };
        if !shared.is_own(header.source) || relay::is_frame(&header) {
            return count(&shared.drops.wrong_address);
        }
        if let Err(refusal) = shared.filter.check(&header, peer.speaks_control()) {
            return refused(shared, refusal, peer);
        }
        let Some(packet) = packet.get(..header.len) else {
            return;
        };
        let mtu = usize::from(shared.mtu);
        match peer.seal(&shared.indices, now, mtu, packet, self.batch.room()) {
            Sealed::Ready(len, Via::Direct(to)) => self.batch.push(self.sockets, to, len),
            Sealed::Ready(len, via) => self.relay(now, peer, via, len),
            Sealed::Waits(letters) => shared.post(self.sockets, now, peer, &letters),
            Sealed::TooLong(limit) => self.too_long(packet, limit),
            Sealed::Cut => count(&shared.drops.no_member),
        }
    }

    /// What was just encrypted for a member goes through its relay.
    fn relay(&mut self, now: Instant, peer: &Arc<Peer>, via: Via, len: usize) {
        let message = self.batch.written(len);
        let sealed =
            self.shared
                .seal_for_relay(self.sockets, now, peer, (via, message), &mut self.relayed);
        let Some((len, to)) = sealed else { return };
        let (room, sealed) = (self.batch.room(), self.relayed.get(..len));
        if let (Some(room), Some(sealed)) = (room.get_mut(..len), sealed) {
            room.copy_from_slice(sealed);
            self.batch.push(self.sockets, to, len);
        }
    }

    /// Tells the own kernel that its packet was too long.
    fn too_long(&mut self, packet: &[u8], limit: usize) {
        count(&self.shared.drops.too_long);
        let limit = u16::try_from(limit).unwrap_or(u16::MAX);
        let Some(answer) = icmp::too_long(packet, limit) else {
            return;
        };
        let mut buffer = vec![0; HEADROOM];
        buffer.extend(answer);
        if let Err(error) = self.queue.write(&mut self.to_kernel, &mut [buffer]) {
            tracing::debug!(%error, "telling the kernel that a packet is too long");
        }
    }
}
