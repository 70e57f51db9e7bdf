//! Reads the headers of IP packets: addresses, transport, ports. Any bytes may come; none make it panic.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest chain of IPv6 extension headers that is followed; a longer one hides its ports and is `Transport::Hidden`.
const EXTENSIONS_MAX: usize = 8;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;

/// What a packet says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Where it says that it comes from.
    pub source: IpAddr,
    /// Where it goes.
    pub destination: IpAddr,
    /// What it carries.
    pub transport: Transport,
    /// Length of the packet by its header, in bytes. At most the length of what was read.
    pub len: usize,
    /// Where its transport header starts, in bytes.
    pub payload_at: usize,
}

/// What a packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP, with its ports.
    Tcp(Ports),
    /// UDP, with its ports.
    Udp(Ports),
    /// ICMP of either version.
    Icmp,
    /// A fragment that is not the first of its packet. Alone it means nothing: the first one has the ports.
    LaterFragment,
    /// TCP or UDP whose header is not whole, or a chain of headers too long to follow.
    Hidden,
    /// Any other protocol, by its number.
    Other(u8),
}

/// Source and destination port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// Of the sender.
    pub source: u16,
    /// Of the receiver.
    pub destination: u16,
}

/// Bytes that are no IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no IP packet")]
pub struct Malformed;

/// Reads the headers of a packet.
///
/// # Errors
/// If the bytes are no IPv4 or IPv6 packet, or are fewer than its header says.
pub fn parse(packet: &[u8]) -> Result<Header, Malformed> {
    match packet.first().map(|first| first >> 4) {
        Some(4) => parse_v4(packet),
        Some(6) => parse_v6(packet),
        _ => Err(Malformed),
    }
}

fn parse_v4(packet: &[u8]) -> Result<Header, Malformed> {
    let fixed: &[u8; 20] = packet.first_chunk().ok_or(Malformed)?;
    let header_len = usize::from(fixed[0] & 0xf) * 4;
    let len = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    if header_len < fixed.len() || len < header_len || len > packet.len() {
        return Err(Malformed);
    }
    let fragment_at = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1fff;
    let payload = packet.get(header_len..len).ok_or(Malformed)?;
    let transport = if fragment_at == 0 {
        transport(fixed[9], payload)
    } else {
        Transport::LaterFragment
    };
    let address = |at: usize| Ipv4Addr::new(fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]);
    Ok(Header {
        source: address(12).into(),
        destination: address(16).into(),
        transport,
        len,
        payload_at: header_len,
    })
}

fn parse_v6(packet: &[u8]) -> Result<Header, Malformed> {
    let fixed: &[u8; 40] = packet.first_chunk().ok_or(Malformed)?;
    let len = fixed.len() + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let packet = packet.get(..len).ok_or(Malformed)?;
    let address = |at: usize| {
        let bytes: [u8; 16] = std::array::from_fn(|n| fixed[at + n]);
        Ipv6Addr::from(bytes)
    };
    let (transport, payload_at) = chain_v6(fixed[6], packet);
    Ok(Header {
        source: address(8).into(),
        destination: address(24).into(),
        transport,
        len,
        payload_at,
    })
}

/// Follows the extension headers of an IPv6 packet to its transport.
fn chain_v6(first: u8, packet: &[u8]) -> (Transport, usize) {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const DESTINATION: u8 = 60;
    let (mut protocol, mut at) = (first, 40);
    for _ in 0..EXTENSIONS_MAX {
        let rest = packet.get(at..).unwrap_or_default();
        match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION => {
                let Some([next, units]) = rest.first_chunk() else {
                    return (Transport::Hidden, at);
                };
                (protocol, at) = (*next, at + (usize::from(*units) + 1) * 8);
            }
            FRAGMENT => {
                let Some([next, _, high, low, ..]) = rest.first_chunk::<8>() else {
                    return (Transport::Hidden, at);
                };
                if u16::from_be_bytes([*high, *low]) >> 3 != 0 {
                    return (Transport::LaterFragment, at + 8);
                }
                (protocol, at) = (*next, at + 8);
            }
            _ => return (transport(protocol, rest), at),
        }
    }
    (Transport::Hidden, at)
}

fn transport(protocol: u8, payload: &[u8]) -> Transport {
    const TCP_HEADER: usize = 20;
    const UDP_HEADER: usize = 8;
    let needs = match protocol {
        TCP => TCP_HEADER,
        UDP => UDP_HEADER,
        ICMP | ICMP_V6 => return Transport::Icmp,
        other => return Transport::Other(other),
    };
    let Some([s0, s1, d0, d1]) = payload.first_chunk().filter(|_| payload.len() >= needs) else {
        return Transport::Hidden;
    };
    let ports = Ports {
        source: u16::from_be_bytes([*s0, *s1]),
        destination: u16::from_be_bytes([*d0, *d1]),
    };
    if protocol == TCP {
        Transport::Tcp(ports)
    } else {
        Transport::Udp(ports)
    }
}

/// The internet checksum of these bytes: what a header with a zero in its place has to hold there.
pub(crate) fn checksum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u16 {
    let mut sum = 0_u64;
    for part in parts {
        for pair in part.chunks(2) {
            let high = pair.first().copied().unwrap_or(0);
            let low = pair.get(1).copied().unwrap_or(0);
            sum += u64::from(u16::from_be_bytes([high, low]));
        }
    }
    while sum > u64::from(u16::MAX) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
pub(crate) mod tests;
