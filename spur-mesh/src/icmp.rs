//! The message that tells a sender how long a packet may be.

use crate::packet;
use std::net::IpAddr;

/// How much of the refused packet is quoted, in bytes: enough for every header that a kernel wants to see.
const QUOTE_MAX: usize = 128;

/// The answer to a packet longer than `mtu`, as if the receiver had sent it: the own kernel then sends shorter ones.
///
/// Nothing for what is no packet.
#[must_use]
pub fn too_long(refused: &[u8], mtu: u16) -> Option<Vec<u8>> {
    let header = packet::parse(refused).ok()?;
    let quote = refused.get(..header.len.min(QUOTE_MAX))?;
    match (header.source, header.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mtu = mtu.to_be_bytes();
            let mut icmp = vec![3, 4, 0, 0, 0, 0, mtu[0], mtu[1]];
            icmp.extend(quote);
            let sum = packet::checksum([&icmp[..]]).to_be_bytes();
            icmp[2..4].copy_from_slice(&sum);
            let len = u16::try_from(20 + icmp.len()).ok()?.to_be_bytes();
            let mut answer = vec![0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, 1, 0, 0];
            answer.extend(destination.octets());
            answer.extend(source.octets());
            let sum = packet::checksum([&answer[..]]).to_be_bytes();
            answer[10..12].copy_from_slice(&sum);
            answer.extend(icmp);
            Some(answer)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let mtu = u32::from(mtu).to_be_bytes();
            let mut icmp = vec![2, 0, 0, 0, mtu[0], mtu[1], mtu[2], mtu[3]];
            icmp.extend(quote);
            let len = u16::try_from(icmp.len()).ok()?;
            let pseudo = [&u32::from(len).to_be_bytes()[..], &[0, 0, 0, 58]].concat();
            let (from, to) = (destination.octets(), source.octets());
            let sum = packet::checksum([&from[..], &to[..], &pseudo[..], &icmp[..]]);
            icmp[2..4].copy_from_slice(&sum.to_be_bytes());
            let len = len.to_be_bytes();
            let mut answer = vec![0x60, 0, 0, 0, len[0], len[1], 58, 64];
            answer.extend(from);
            answer.extend(to);
            answer.extend(icmp);
            Some(answer)
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::tests::{ports, v4, v6};

    #[test]
    fn the_answer_goes_back_with_the_length_and_its_checksums_are_right() {
        let mut payload = ports(40000, 80);
        payload.extend([7; 1300]);
        let four = v4([10, 0, 0, 1], [10, 0, 0, 2], 6, &payload);
        let answer = too_long(&four, 1300).expect("a packet");
        let header = packet::parse(&answer).expect("a packet");
        assert_eq!(header.source, IpAddr::from([10, 0, 0, 2]));
        assert_eq!(header.destination, IpAddr::from([10, 0, 0, 1]));
        assert_eq!(packet::checksum([&answer[..20]]), 0);
        assert_eq!(packet::checksum([&answer[20..]]), 0);
        assert_eq!(answer[20..28][..2], [3, 4]);
        assert_eq!(u16::from_be_bytes([answer[26], answer[27]]), 1300);
        assert_eq!(answer[28..], four[..QUOTE_MAX]);

        let six = v6(1, 2, 6, &payload);
        let answer = too_long(&six, 1300).expect("a packet");
        let header = packet::parse(&answer).expect("a packet");
        assert_eq!(header.transport, packet::Transport::Icmp);
        let len = u32::try_from(answer.len() - 40)
            .expect("small")
            .to_be_bytes();
        let sum = packet::checksum([&answer[8..40], &len[..], &[0, 0, 0, 58], &answer[40..]]);
        assert_eq!(sum, 0);
        assert_eq!(answer[40], 2);
        assert_eq!(answer[44..48], 1300_u32.to_be_bytes());
        assert_eq!(too_long(&[1, 2, 3], 1300), None);
    }
}
