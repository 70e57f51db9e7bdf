use super::*;
use proptest::prelude::*;

/// An IPv4 packet with this protocol and payload.
pub(crate) fn v4(source: [u8; 4], destination: [u8; 4], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(20 + payload.len()).expect("a small packet");
    let mut packet = vec![0; 20];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet[8] = 64;
    packet[9] = protocol;
    packet[12..16].copy_from_slice(&source);
    packet[16..20].copy_from_slice(&destination);
    packet.extend(payload);
    packet
}

/// An IPv6 packet with this next header and payload.
pub(crate) fn v6(source: u8, destination: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).expect("a small packet");
    let mut packet = vec![0; 40];
    packet[0] = 0x60;
    packet[4..6].copy_from_slice(&len.to_be_bytes());
    packet[6] = protocol;
    (packet[8], packet[23]) = (0xfd, source);
    (packet[24], packet[39]) = (0xfd, destination);
    packet.extend(payload);
    packet
}

/// A transport header of 20 bytes with these ports: whole for TCP and for UDP.
pub(crate) fn ports(source: u16, destination: u16) -> Vec<u8> {
    let mut header = vec![0; 20];
    header[..2].copy_from_slice(&source.to_be_bytes());
    header[2..4].copy_from_slice(&destination.to_be_bytes());
    header
}

fn read(packet: &[u8]) -> Transport {
    parse(packet).expect("a packet").transport
}

const PORTS: Ports = Ports {
    source: 1000,
    destination: 6817,
};

#[test]
fn addresses_ports_and_length_are_read() {
    let mut packet = v4([10, 0, 0, 1], [10, 0, 0, 2], 6, &ports(1000, 6817));
    packet.extend([0; 7]);
    let header = parse(&packet).expect("a packet");
    assert_eq!(header.source, IpAddr::from([10, 0, 0, 1]));
    assert_eq!(header.destination, IpAddr::from([10, 0, 0, 2]));
    assert_eq!((header.len, header.payload_at), (40, 20));
    assert_eq!(header.transport, Transport::Tcp(PORTS));
    let header = parse(&v6(1, 2, 17, &ports(1000, 6817))).expect("a packet");
    assert_eq!(header.source, IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1]));
    assert_eq!(header.transport, Transport::Udp(PORTS));
    assert_eq!((header.len, header.payload_at), (60, 40));
}

#[test]
fn ports_behind_options_and_extension_headers_are_found() {
    let mut packet = v4([10, 0, 0, 1], [10, 0, 0, 2], 6, &[0; 4]);
    packet.extend(ports(1000, 6817));
    packet[0] = 0x46;
    packet[3] = 44;
    assert_eq!(read(&packet), Transport::Tcp(PORTS));
    for extension in [0, 43, 60] {
        let mut payload = vec![6, 1];
        payload.extend([0; 14]);
        payload.extend(ports(1000, 6817));
        assert_eq!(read(&v6(1, 2, extension, &payload)), Transport::Tcp(PORTS));
    }
    let mut atomic = vec![6, 0, 0, 0, 0, 0, 0, 7];
    atomic.extend(ports(1000, 6817));
    assert_eq!(read(&v6(1, 2, 44, &atomic)), Transport::Tcp(PORTS));
}

#[test]
fn what_hides_its_ports_is_said_to() {
    let short = ports(1000, 6817);
    assert_eq!(
        read(&v4([1; 4], [2; 4], 6, &short[..19])),
        Transport::Hidden
    );
    assert_eq!(
        read(&v4([1; 4], [2; 4], 17, &short[..7])),
        Transport::Hidden
    );
    let endless = [60, 0, 0, 0, 0, 0, 0, 0].repeat(EXTENSIONS_MAX + 1);
    assert_eq!(read(&v6(1, 2, 60, &endless)), Transport::Hidden);
    assert_eq!(read(&v6(1, 2, 43, &[6, 200, 0, 0])), Transport::Hidden);
}

#[test]
fn only_the_first_fragment_has_ports() {
    let mut packet = v4([1; 4], [2; 4], 6, &ports(1000, 6817));
    packet[6] = 0x20;
    assert_eq!(read(&packet), Transport::Tcp(PORTS));
    packet[7] = 1;
    assert_eq!(read(&packet), Transport::LaterFragment);
    let mut later = vec![6, 0, 0, 8, 0, 0, 0, 7];
    later.extend(ports(1000, 6817));
    assert_eq!(read(&v6(1, 2, 44, &later)), Transport::LaterFragment);
}

#[test]
fn lengths_that_lie_are_refused() {
    let mut packet = v4([1; 4], [2; 4], 6, &ports(1, 2));
    packet[3] = 41;
    assert_eq!(parse(&packet), Err(Malformed));
    packet[3] = 19;
    assert_eq!(parse(&packet), Err(Malformed));
    packet[3] = 40;
    packet[0] = 0x44;
    assert_eq!(parse(&packet), Err(Malformed));
    let mut packet = v6(1, 2, 6, &ports(1, 2));
    packet[5] = 21;
    assert_eq!(parse(&packet), Err(Malformed));
}

#[test]
fn the_checksum_is_the_one_of_the_standard() {
    // The example header of RFC 1071 §3, and a known IPv4 header.
    assert_eq!(
        checksum([&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7][..]]),
        !0xddf2
    );
    let header = [
        0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7,
    ];
    assert_eq!(checksum([&header[..]]), 0xb861);
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(header) = parse(&bytes) {
            prop_assert!(header.len <= bytes.len());
        }
    }

    /// Nearly right packets: one byte changed, cut anywhere.
    #[test]
    fn no_damage_makes_it_panic(
        six in any::<bool>(),
        protocol in any::<u8>(),
        payload in proptest::collection::vec(any::<u8>(), 0..80),
        at in any::<prop::sample::Index>(),
        value in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut packet = if six { v6(1, 2, protocol, &payload) } else { v4([1; 4], [2; 4], protocol, &payload) };
        prop_assert!(parse(&packet).is_ok());
        let whole = packet.len();
        let cut = cut.index(whole);
        prop_assert_eq!(parse(&packet[..cut]), Err(Malformed));
        let at = at.index(whole);
        packet[at] = value;
        if let Ok(header) = parse(&packet) {
            prop_assert!(header.len <= whole);
            if let Transport::Tcp(_) | Transport::Udp(_) = header.transport {
                prop_assert!(header.payload_at + 8 <= header.len);
            }
        }
    }
}
