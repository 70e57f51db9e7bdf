//! How one member's tunnel passes through another's.
//!
//! A WireGuard packet for a member is put as it is into a UDP packet from the sender's mesh address to the receiver's, with a port
//! of its own, and that goes through the tunnel to the relay. The relay sees whom it is for and nothing of what it says, and sends
//! the same packet on through its tunnel to the receiver, who takes out the WireGuard packet and opens it like any other.
//! Kernels never see these packets: what comes from the own kernel to this port is dropped.

use crate::packet::{self, Header, Transport};
use std::net::IpAddr;

/// The port in the mesh that carries others' tunnels.
pub const RELAY_PORT: u16 = 51_819;

/// What the frame adds at most to a packet in bytes, IPv6 and UDP header, besides the relay's own tunnel.
const FRAME_V6: usize = 48;
const FRAME_V4: usize = 28;

/// What WireGuard adds to a packet, in bytes.
pub(crate) const TUNNEL_OVERHEAD: usize = 32;

/// Whether a packet carries another member's tunnel.
#[must_use]
pub fn is_frame(header: &Header) -> bool {
    matches!(header.transport, Transport::Udp(ports) if ports.destination == RELAY_PORT)
}

/// The longest packet that still passes through a relay when `mtu` passes directly, in bytes.
#[must_use]
pub const fn mtu_relayed(mtu: usize, four: bool) -> usize {
    let frame = if four { FRAME_V4 } else { FRAME_V6 };
    mtu.saturating_sub(TUNNEL_OVERHEAD + frame)
}

/// The WireGuard packet in a frame.
#[must_use]
pub fn unwrap<'a>(header: &Header, packet: &'a [u8]) -> Option<&'a [u8]> {
    const UDP: usize = 8;
    let datagram = packet.get(header.payload_at..header.len)?;
    let len = usize::from(u16::from_be_bytes([*datagram.get(4)?, *datagram.get(5)?]));
    datagram.get(UDP..len).filter(|inner| !inner.is_empty())
}

/// A WireGuard packet, framed for the member at `destination`. Nothing if the addresses are of different families or it is too long.
#[must_use]
pub fn wrap(source: IpAddr, destination: IpAddr, inner: &[u8]) -> Option<Vec<u8>> {
    let udp_len = u16::try_from(inner.len() + 8).ok()?;
    let mut frame = Vec::with_capacity(FRAME_V6 + inner.len());
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let len = udp_len.checked_add(20)?.to_be_bytes();
            frame.extend([0x45, 0, len[0], len[1], 0, 0, 0x40, 0, 64, 17, 0, 0]);
            frame.extend(source.octets());
            frame.extend(destination.octets());
            let sum = packet::checksum([&frame[..]]).to_be_bytes();
            frame[10..12].copy_from_slice(&sum);
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let len = udp_len.to_be_bytes();
            frame.extend([0x60, 0, 0, 0, len[0], len[1], 17, 64]);
            frame.extend(source.octets());
            frame.extend(destination.octets());
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return None,
    }
    let port = RELAY_PORT.to_be_bytes();
    let len = udp_len.to_be_bytes();
    // No checksum: what is inside proves itself.
    frame.extend([port[0], port[1], port[0], port[1], len[0], len[1], 0, 0]);
    frame.extend(inner);
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FOUR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 9, 0, 1));
    const SIX: IpAddr = IpAddr::V6(std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));

    proptest! {
        #[test]
        fn what_is_wrapped_comes_out(inner in proptest::collection::vec(any::<u8>(), 1..1600), six in any::<bool>()) {
            let address = if six { SIX } else { FOUR };
            let frame = wrap(address, address, &inner).expect("one family");
            prop_assert_eq!(frame.len(), inner.len() + if six { FRAME_V6 } else { FRAME_V4 });
            let header = packet::parse(&frame).expect("a packet");
            prop_assert!(is_frame(&header));
            prop_assert_eq!((header.source, header.destination, header.len), (address, address, frame.len()));
            prop_assert_eq!(unwrap(&header, &frame), Some(&inner[..]));
        }

        #[test]
        fn a_frame_with_a_wrong_length_does_no_harm(mut frame in proptest::collection::vec(any::<u8>(), 0..80), len in any::<u16>()) {
            frame.splice(0..0, wrap(FOUR, FOUR, &[1, 2, 3]).expect("a frame"));
            frame[24..26].copy_from_slice(&len.to_be_bytes());
            let header = packet::parse(&frame).expect("a packet");
            let inner = unwrap(&header, &frame);
            prop_assert!(inner.is_none_or(|inner| (1..=3).contains(&inner.len())));
        }
    }

    #[test]
    fn families_are_not_mixed_and_the_length_has_a_limit() {
        assert_eq!(wrap(FOUR, SIX, &[1]), None);
        assert_eq!(wrap(FOUR, FOUR, &[0; 65_510]), None);
        assert_eq!(mtu_relayed(1420, true), 1360);
        assert_eq!(mtu_relayed(1420, false), 1340);
    }

    #[test]
    fn the_header_has_its_checksum() {
        let frame = wrap(FOUR, FOUR, &[7; 9]).expect("a frame");
        assert_eq!(packet::checksum([&frame[..20]]), 0);
    }
}
