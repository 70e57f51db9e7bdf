//! Meshes in network namespaces of this machine: real interfaces, real sockets, real drops. As root; otherwise they say that they
//! were skipped.

#[path = "namespaces/net.rs"]
mod net;

use net::{Net, Node, skip};
use spur_mesh::path::Times;
use spur_mesh::status::Route;
use spur_mesh::{Filter, MeshError, PrivateKey, PublicKey};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;

/// Two members on one wire.
fn two(net: &Net) -> (Node, Node) {
    let (a, b) = (net.node(1), net.node(2));
    a.meets(&[&b]);
    b.meets(&[&a]);
    (a, b)
}

/// Sends `bytes` through TCP from one to the other and back, and compares.
fn echo(from: &Node, to: &Node, address: IpAddr, bytes: usize) {
    let listener = to.within(|| TcpListener::bind(SocketAddr::new(address, 0)).expect("a port"));
    let at = listener.local_addr().expect("an address");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = accept(&listener);
            let mut buffer = vec![0; 65_536];
            loop {
                let len = stream.read(&mut buffer).expect("bytes");
                if len == 0 {
                    break;
                }
                stream.write_all(&buffer[..len]).expect("bytes back");
            }
        });
        let mut stream = from.within(|| connect(at));
        let mut back = stream.try_clone().expect("a second handle");
        let data: Vec<u8> = (0..bytes)
            .map(|n| (n * 7 + n / 251).to_le_bytes()[0])
            .collect();
        let reader = scope.spawn(move || {
            let mut got = vec![0; bytes];
            back.read_exact(&mut got).expect("all of it back");
            got
        });
        stream.write_all(&data).expect("all of it there");
        assert!(
            reader.join().expect("the reader") == data,
            "what came back differs"
        );
        stream.shutdown(std::net::Shutdown::Both).expect("the end");
    });
}

/// The first caller, who must come soon.
fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("a listener");
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).expect("a stream");
                return limited(stream);
            }
            Err(error) => assert!(Instant::now() < end, "nobody calls: {error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn connect(at: SocketAddr) -> TcpStream {
    limited(TcpStream::connect_timeout(&at, Duration::from_secs(20)).expect("a connection"))
}

/// No test waits for ever.
fn limited(stream: TcpStream) -> TcpStream {
    let wait = Some(Duration::from_secs(30));
    stream.set_read_timeout(wait).expect("a timeout");
    stream.set_write_timeout(wait).expect("a timeout");
    stream
}

/// Whether a datagram gets from one to the other, sent again until the deadline.
fn reaches(from: &Node, to: &Node, port: u16, source_port: u16, within: Duration) -> bool {
    let receiver = to.within(|| UdpSocket::bind((to.four, port)).expect("a port"));
    let short = Some(Duration::from_millis(100));
    receiver.set_read_timeout(short).expect("a timeout");
    let sender = from.within(|| UdpSocket::bind((from.four, source_port)).expect("a port"));
    let end = Instant::now() + within;
    let mut buffer = [0; 100];
    while Instant::now() < end {
        // The kernel may say that the network is unreachable; then it is.
        if sender.send_to(b"hello", (to.four, port)).is_err() {
            std::thread::sleep(Duration::from_millis(100));
        }
        if receiver.recv(&mut buffer).is_ok() {
            return true;
        }
    }
    false
}

const SOON: Duration = Duration::from_secs(15);
const NEVER: Duration = Duration::from_secs(2);

#[test]
fn two_members_carry_tcp_both_ways_over_both_families() {
    skip!(["ip"]);
    let net = Net::new();
    let (a, b) = two(&net);
    echo(&a, &b, b.four, 8 * MIB);
    echo(&b, &a, a.four, 8 * MIB);
    echo(&a, &b, b.six, 4 * MIB);
    let status = a.mesh().status();
    let member = &status.members[0];
    assert_eq!(member.route, Route::Direct(b.place()));
    assert!(
        member.up && member.sent_bytes > 16 * MIB as u64,
        "{status:?}"
    );
    assert!(member.received_bytes > 16 * MIB as u64 && member.handshake_age.is_some());
    assert_eq!(status.dropped.refused + status.dropped.wrong_address, 0);
}

#[test]
fn packets_of_one_stream_are_given_to_the_kernel_together() {
    skip!(["ip"]);
    let net = Net::new();
    let (a, b) = two(&net);
    a.streams_to(&b, 32 * MIB);
    let mean = b.interface_mean();
    assert!(
        mean > 1420,
        "one by one they have at most 1420 bytes, these {mean}"
    );
}

#[test]
fn of_several_endpoints_the_one_that_answers_is_used() {
    skip!(["ip"]);
    let net = Net::new();
    let (a, b) = (net.node(1), net.node(2));
    let nowhere = SocketAddr::from(([192, 0, 2, 200], 51820));
    a.meets_at(&b, vec![nowhere, b.place_six()]);
    b.meets_at(&a, Vec::new());
    a.streams_to(&b, MIB);
    assert_eq!(
        a.mesh().status().members[0].route,
        Route::Direct(b.place_six())
    );
    assert_eq!(
        b.mesh().status().members[0].route,
        Route::Direct(a.place_six())
    );
    b.streams_to(&a, MIB);
}

#[test]
fn packets_as_long_as_the_mesh_allows_pass_and_longer_ones_come_in_parts() {
    skip!(["ip"]);
    let net = Net::new();
    let (a, b) = two(&net);
    for (address, header) in [(b.four, 28), (b.six, 48)] {
        let receiver = b.within(|| UdpSocket::bind((address, 0)).expect("a port"));
        receiver.set_read_timeout(Some(SOON)).expect("a timeout");
        let sender = a.within(|| UdpSocket::bind((net::any(address), 0)).expect("a port"));
        for len in [1_usize, 1000, 1420 - header, 4000, 60_000] {
            let data = vec![len.to_le_bytes()[0]; len];
            let at = receiver.local_addr().expect("an address");
            sender.send_to(&data, at).expect("sent");
            let mut buffer = vec![0; 65_536];
            let got = receiver.recv(&mut buffer).expect("received");
            assert!(buffer[..got] == data, "{len} bytes to {address}");
        }
    }
}

#[test]
fn a_way_that_is_narrower_than_the_mesh_is_found_out() {
    skip!(["ip"]);
    let net = Net::new();
    let (a, b) = two(&net);
    a.streams_to(&b, MIB);
    a.narrows(1400);
    a.streams_to(&b, 4 * MIB);
    assert!(
        a.mesh().status().dropped.too_long > 0,
        "{:?}",
        a.mesh().status()
    );
}

#[test]
fn streams_come_whole_through_a_network_that_is_slow_and_loses() {
    skip!(["ip", "tc"]);
    let net = Net::new();
    let (a, b) = two(&net);
    if !a.loses() || !b.loses() {
        eprintln!("skipped: this kernel has no netem");
        return;
    }
    echo(&a, &b, b.four, MIB / 4);
}

#[test]
fn an_interface_that_is_there_is_not_taken_over() {
    skip!(["ip"]);
    let net = Net::new();
    let (a, b) = two(&net);
    let refused = a.starts_again();
    assert!(matches!(refused, Err(MeshError::Interface { .. })));
    a.streams_to(&b, MIB);
}

#[test]
fn nothing_but_wireguard_is_on_the_wire() {
    skip!(["ip", "tcpdump"]);
    let net = Net::new();
    let (a, b) = two(&net);
    let capture = net.capture();
    echo(&a, &b, b.four, MIB);
    let packets = capture.end(2 * MIB);
    for packet in &packets {
        assert!(net::is_wireguard(packet), "{packet:02x?}");
    }
}

#[test]
fn a_member_that_moves_is_followed_in_the_middle_of_a_stream() {
    skip!(["ip"]);
    let net = Net::new();
    let (a, b) = two(&net);
    let listener = b.within(|| TcpListener::bind((b.four, 0)).expect("a port"));
    let at = listener.local_addr().expect("an address");
    let mut stream = a.within(|| connect(at));
    let mut other = accept(&listener);
    let mut exchange = |n: u8| {
        stream.write_all(&[n; 5000]).expect("sent");
        let mut got = [0; 5000];
        other.read_exact(&mut got).expect("received");
        assert_eq!(got, [n; 5000]);
        other.write_all(&[n]).expect("sent back");
        stream.read_exact(&mut got[..1]).expect("received back");
    };
    exchange(1);
    let before = a.place();
    a.moves(77);
    assert_ne!(a.place(), before);
    exchange(2);
    exchange(3);
    let member = b.mesh().status().members.remove(0);
    assert_eq!(member.route, Route::Direct(a.place()));
}

#[test]
fn a_relay_carries_what_cannot_pass_directly_and_cannot_read_it() {
    skip!(["ip", "nft"]);
    let net = Net::new();
    let (a, b) = (net.node(1), net.node(2));
    let relay = net.node_with(3, |config| config.relay = true);
    a.meets_through(&[&b], &[&relay]);
    b.meets_through(&[&a], &[&relay]);
    relay.meets(&[&a, &b]);
    a.drops(&b);
    b.drops(&a);
    echo(&a, &b, b.four, 2 * MIB);
    echo(&b, &a, a.six, MIB);
    let route = |node: &Node| node.mesh().status().members[0].route;
    assert_eq!(route(&a), Route::Relay(relay.key()));
    assert_eq!(route(&b), Route::Relay(relay.key()));
    // The relay's own interface saw none of it: nothing there for its kernel, or a user of it.
    assert_eq!(relay.interface_packets(), 0);
    a.passes();
    b.passes();
    let end = Instant::now() + Duration::from_secs(40);
    while route(&a) != Route::Direct(b.place()) {
        assert!(Instant::now() < end, "still {:?}", route(&a));
        assert!(reaches(&a, &b, 9000, 9001, SOON));
        std::thread::sleep(Duration::from_millis(200));
    }
    echo(&a, &b, b.four, MIB);
}

#[test]
fn a_stream_goes_on_through_the_relay_when_the_direct_way_is_cut() {
    skip!(["ip", "nft"]);
    let net = Net::new();
    let (a, b) = (net.node(1), net.node(2));
    let relay = net.node_with(3, |config| config.relay = true);
    a.meets_through(&[&b], &[&relay]);
    b.meets_through(&[&a], &[&relay]);
    relay.meets(&[&a, &b]);
    let listener = b.within(|| TcpListener::bind((b.four, 0)).expect("a port"));
    let at = listener.local_addr().expect("an address");
    let mut stream = a.within(|| connect(at));
    let mut other = accept(&listener);
    let mut got = [0; 100_000];
    stream.write_all(&[1; 100_000]).expect("sent");
    other.read_exact(&mut got).expect("received");
    a.drops(&b);
    b.drops(&a);
    let cut = Instant::now();
    stream.write_all(&[2; 100_000]).expect("sent");
    other
        .read_exact(&mut got)
        .expect("received through the relay");
    assert_eq!(got, [2; 100_000]);
    let took = cut.elapsed();
    assert!(took < Duration::from_secs(25), "{took:?}");
}

#[test]
fn keys_rotate_under_load_without_a_lost_packet() {
    skip!(["ip"]);
    let net = Net::new();
    let (a, b) = two(&net);
    assert!(reaches(&a, &b, 9000, 9001, SOON));
    let receiver = b.within(|| UdpSocket::bind((b.four, 0)).expect("a port"));
    receiver.set_read_timeout(Some(SOON)).expect("a timeout");
    let at = receiver.local_addr().expect("an address");
    let sender = a.within(|| UdpSocket::bind((a.four, 0)).expect("a port"));
    let new = PrivateKey::generate().expect("a key");
    let mut seen = 0_u32;
    for n in 0..600_u32 {
        match n {
            100 => a
                .mesh()
                .set_private_key(new.clone(), Duration::from_secs(8)),
            300 => b.meets_as(&a, new.public(), Some(a.key())),
            500 => b.meets_as(&a, new.public(), None),
            _ => {}
        }
        sender.send_to(&n.to_be_bytes(), at).expect("sent");
        let mut buffer = [0; 4];
        receiver.recv(&mut buffer).expect("every packet arrives");
        assert_eq!(u32::from_be_bytes(buffer), n);
        seen += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(seen, 600);
    let status = a.mesh().status();
    assert_eq!(status.members[0].own_key, Some(new.public()));
    assert_eq!(status.public_key, Some(new.public()));
}

#[test]
fn a_removed_member_is_cut_off_at_once_and_stays_out() {
    skip!(["ip"]);
    let net = Net::new();
    let (a, b) = two(&net);
    assert!(reaches(&a, &b, 9000, 9001, SOON));
    b.meets(&[]);
    assert!(!reaches(&a, &b, 9000, 9001, NEVER));
    assert!(!reaches(&b, &a, 9000, 9001, NEVER));
    assert!(b.mesh().status().dropped.not_genuine > 0);
    b.meets(&[&a]);
    let back = reaches(&a, &b, 9000, 9001, SOON);
    assert!(back, "{:#?}", (a.mesh().status(), b.mesh().status()));
}

#[test]
fn control_ports_are_reached_by_root_on_members_that_may_and_by_nobody_else() {
    skip!(["ip"]);
    let net = Net::new();
    let filter = |config: &mut spur_mesh::Config| config.filter = Filter::new([6817]);
    let (a, b, c) = (
        net.node_with(1, filter),
        net.node_with(2, filter),
        net.node_with(3, filter),
    );
    a.meets(&[&b, &c]);
    b.meets(&[&a, &c]);
    c.meets(&[&a, &b]);
    a.controls(&b);
    b.controls(&a);
    assert!(reaches(&a, &b, 6817, 700, SOON));
    assert!(!reaches(&a, &b, 6817, 7000, NEVER));
    assert!(reaches(&a, &b, 6818, 7000, SOON));
    assert!(!reaches(&c, &b, 6817, 700, NEVER));
    assert!(reaches(&c, &b, 6818, 7000, SOON));
}

#[test]
fn a_flood_of_handshakes_gets_cookies_and_stops_nobody() {
    skip!(["ip"]);
    let net = Net::new();
    let (a, b) = (net.node(1), net.node(2));
    let stranger = net.node(3);
    b.meets(&[&a]);
    a.meets(&[&b]);
    // Handshakes that are right in form: the stranger knows the public key of b, who does not know the stranger.
    let flood = net::initiations(b.key(), 500);
    let socket = stranger.within(|| UdpSocket::bind((stranger.place().ip(), 0)).expect("a port"));
    let end = Instant::now() + SOON;
    let mut sent = flood.iter().cycle();
    while b.mesh().status().dropped.cookies < 500 {
        assert!(Instant::now() < end, "{:?}", b.mesh().status().dropped);
        for message in sent.by_ref().take(500) {
            socket.send_to(message, b.place()).expect("sent");
        }
    }
    // It goes on while a member begins.
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let message = sent.next().expect("an endless flood");
                socket.send_to(message, b.place()).expect("sent");
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let reached = reaches(&a, &b, 9000, 9001, Duration::from_secs(20));
        over.store(true, Ordering::Relaxed);
        assert!(reached, "{:?}", b.mesh().status());
    });
}

#[test]
fn what_nobody_genuine_sent_is_dropped() {
    skip!(["ip", "tcpdump"]);
    let net = Net::new();
    let (a, b) = two(&net);
    let capture = net.capture();
    assert!(reaches(&a, &b, 9000, 9001, SOON));
    // Two messages of the handshake and two packets at least, with tcpdump's headers.
    let packets = capture.end(600);
    let before = b.mesh().status();
    // All that was on the wire once more, as it was, cut and damaged, from a third place.
    let third = net.node(3);
    let socket = third.within(|| UdpSocket::bind((third.place().ip(), 0)).expect("a port"));
    for packet in &packets {
        let payload = net::payload(packet);
        let mut damaged = payload.to_vec();
        if let Some(last) = damaged.last_mut() {
            *last ^= 1;
        }
        for bytes in [payload, &payload[..payload.len() / 2], &damaged, &[4; 40]] {
            socket.send_to(bytes, b.place()).expect("sent");
        }
    }
    let end = Instant::now() + SOON;
    let wanted = before.dropped.not_genuine + packets.len() as u64;
    while b.mesh().status().dropped.not_genuine < wanted {
        assert!(Instant::now() < end, "{:?}", b.mesh().status().dropped);
        std::thread::sleep(Duration::from_millis(50));
    }
    let after = b.mesh().status();
    assert_eq!(
        after.members[0].received_packets,
        before.members[0].received_packets
    );
    assert_eq!(
        after.members[0].route,
        Route::Direct(a.place()),
        "nobody moved it"
    );
    assert!(reaches(&a, &b, 9000, 9001, SOON));
}

#[test]
fn members_that_are_not_used_are_put_to_rest_and_wake() {
    skip!(["ip"]);
    let net = Net::new();
    let short = |config: &mut spur_mesh::Config| {
        config.times = Times {
            idle: Duration::from_secs(1),
            ..Times::default()
        };
    };
    let (a, b) = (net.node_with(1, short), net.node_with(2, short));
    a.meets(&[&b]);
    b.meets(&[&a]);
    assert!(!a.mesh().status().members[0].up, "nobody spoke yet");
    assert!(reaches(&a, &b, 9000, 9001, SOON));
    assert!(a.mesh().status().members[0].up);
    let end = Instant::now() + SOON;
    while a.mesh().status().members[0].up || b.mesh().status().members[0].up {
        assert!(Instant::now() < end, "never at rest");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(reaches(&b, &a, 9000, 9001, SOON));
}

#[test]
fn a_stopped_mesh_leaves_nothing() {
    skip!(["ip"]);
    let net = Net::new();
    let mut a = net.node_with(1, |config| {
        config.queues = Some(3);
        config.name = "leaves0".to_owned();
    });
    net::await_threads("leaves0", 7);
    assert!(a.interfaces().contains("leaves0"));
    assert!(a.routes().contains("leaves0"));
    a.stop();
    net::await_threads("leaves0", 0);
    assert!(!a.interfaces().contains("leaves0"));
    assert!(!a.routes().contains("leaves0"));
}

#[test]
fn a_tunnel_with_wireguard_go_works_whoever_begins() {
    skip!(["ip", "wg", "wireguard-go"]);
    for they_begin in [true, false] {
        let net = Net::new();
        let a = net.node(1);
        let other = net.reference(2, &a);
        a.meets_reference(&other);
        if they_begin {
            other.pings(a.four);
        } else {
            a.pings(other.four);
        }
        let key: PublicKey = other.key;
        let member = a.mesh().status().members.remove(0);
        assert_eq!((member.public_key, member.up), (Some(key), true));
        other.streams_to(&a, 4 * MIB);
        other.streams_from(&a, 4 * MIB);
    }
}
