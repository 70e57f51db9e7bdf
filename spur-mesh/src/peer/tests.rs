use super::*;
use crate::path::Endpoint;
use proptest::prelude::*;
use std::net::SocketAddr;

const A: u8 = 1;
const B: u8 = 2;

fn secret(n: u8) -> PrivateKey {
    PrivateKey::from_bytes([n; 32])
}

fn at(n: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, n], 51820))
}

/// One member with one peer, and its half of a wire.
struct Side {
    me: u8,
    indices: Indices,
    identities: Identities,
    peer: Arc<Peer>,
    received: Vec<Vec<u8>>,
}

impl Side {
    fn new(me: u8, other: u8) -> Self {
        let identities = Arc::new(vec![Arc::new(Identity::new(secret(me), 1000))]);
        let known = known(&[other], other);
        let addresses = vec![IpAddr::from([10, 0, 0, other])];
        let peer = Peer::new(addresses, known, Arc::clone(&identities), Times::default());
        let indices = Indices::default();
        // Each side has its own, as in life.
        indices.next.store(u32::from(me) * 1000, Ordering::Relaxed);
        Self {
            me,
            indices,
            identities,
            peer: Arc::new(peer),
            received: Vec::new(),
        }
    }

    /// Sends a packet; the messages that go out.
    fn send(&self, packet: &[u8]) -> Vec<Vec<u8>> {
        let mut to = vec![0; packet.len() + 200];
        match self
            .peer
            .seal(&self.indices, Instant::now(), 1420, packet, &mut to)
        {
            Sealed::Ready(len, _) => vec![to[..len].to_vec()],
            Sealed::Waits(letters) => letters.into_iter().map(|(_, letter)| letter).collect(),
            Sealed::TooLong(_) | Sealed::Cut => Vec::new(),
        }
    }

    /// Takes a message from the wire; the answers.
    fn take(&mut self, message: &[u8]) -> Result<Vec<Vec<u8>>, WireGuardError> {
        let from = at(if self.me == A { B } else { A });
        let mut to = vec![0; message.len().max(HANDSHAKE_MAX)];
        let via = (Via::Direct(Endpoint::from(from)), from.ip());
        let now = Instant::now();
        let tries: Vec<Which<'_>> = if message.first() == Some(&kind::INITIATION) {
            let keys = self.peer.state.lock().keys.clone();
            let pairs = self.identities.iter();
            pairs
                .flat_map(|i| keys.iter().map(move |key| Which::Pair(i, *key)))
                .collect()
        } else {
            let receiver = receiver_index(message).ok_or(WireGuardError::InvalidPacket)?;
            vec![Which::Receiver(receiver)]
        };
        let mut outcome = Err(WireGuardError::WrongKey);
        for which in tries {
            outcome = self
                .peer
                .open(&self.indices, now, via, &which, message, &mut to);
            if outcome.is_ok() {
                break;
            }
        }
        let opened = outcome?;
        self.received
            .extend(opened.packet.map(|len| to[..len].to_vec()));
        Ok(opened
            .letters
            .into_iter()
            .map(|(_, letter)| letter)
            .collect())
    }

    fn rotate(&mut self, key: u8, keep_old: bool) {
        let mut identities = vec![Arc::new(Identity::new(secret(key), 1000))];
        identities.extend(self.identities.first().filter(|_| keep_old).cloned());
        self.identities = Arc::new(identities);
        self.peer
            .set_identities(&self.indices, Arc::clone(&self.identities));
    }
}

fn known(keys: &[u8], place: u8) -> Known {
    Known {
        keys: keys.iter().map(|n| secret(*n).public()).collect(),
        places: Places {
            endpoints: vec![at(place)],
            ..Places::default()
        },
        control: false,
    }
}

/// Carries messages between two sides until nothing moves; errors are losses.
fn carry(from: &mut Side, to: &mut Side, messages: Vec<Vec<u8>>) {
    let mut messages: VecDeque<(bool, Vec<u8>)> = messages
        .into_iter()
        .map(|message| (true, message))
        .collect();
    for _ in 0..1000 {
        let Some((there, message)) = messages.pop_front() else {
            return;
        };
        let taker = if there { &mut *to } else { &mut *from };
        let answers = taker.take(&message).unwrap_or_default();
        messages.extend(answers.into_iter().map(|answer| (!there, answer)));
    }
    panic!("the two talk for ever");
}

fn packet(n: u8) -> Vec<u8> {
    crate::packet::tests::v4([10, 0, 0, 1], [10, 0, 0, 2], 17, &[n; 100])
}

/// Two members with a session, begun by the first.
fn pair() -> (Side, Side) {
    let (mut a, mut b) = (Side::new(A, B), Side::new(B, A));
    let messages = a.send(&packet(0));
    carry(&mut a, &mut b, messages);
    assert_eq!(b.received.len(), 1);
    (a, b)
}

#[test]
fn a_tunnel_is_made_by_the_first_packet_which_arrives() {
    let (mut a, mut b) = pair();
    assert_eq!(b.received, [packet(0)]);
    for n in 1..50 {
        let messages = a.send(&packet(n));
        assert_eq!(messages.len(), 1);
        carry(&mut a, &mut b, messages);
        let messages = b.send(&packet(n));
        carry(&mut b, &mut a, messages);
    }
    assert_eq!((a.received.len(), b.received.len()), (49, 50));
    assert!(a.peer.snapshot().up && b.peer.snapshot().up);
}

#[test]
fn packets_wait_for_the_handshake_in_order_up_to_a_limit() {
    let (mut a, mut b) = (Side::new(A, B), Side::new(B, A));
    let mut messages = a.send(&packet(0));
    for n in 1..200 {
        messages.extend(a.send(&packet(n)));
    }
    assert_eq!(messages.len(), 1, "one knock for all of them");
    carry(&mut a, &mut b, messages);
    let wanted: Vec<Vec<u8>> = (0..128).map(packet).collect();
    assert_eq!(b.received, wanted);
}

#[test]
fn a_member_that_is_cut_off_sends_and_receives_nothing() {
    let (a, mut b) = pair();
    let late = a.send(&packet(1));
    b.peer.cut(&b.indices);
    assert!(b.take(&late[0]).is_err());
    assert!(b.send(&packet(2)).is_empty());
    let fresh = Side::new(A, B).send(&packet(3));
    assert!(b.take(&fresh[0]).is_err());
    assert!(b.indices.owners.read().is_empty());
    assert_eq!(b.received.len(), 1);
}

#[test]
fn packets_come_once_and_in_any_order() {
    let (a, mut b) = pair();
    let mut sent: Vec<Vec<u8>> = (1..200).flat_map(|n| a.send(&packet(n))).collect();
    sent.reverse();
    for message in &sent {
        assert!(b.take(message).is_ok());
    }
    assert_eq!(b.received.len(), 200);
    for message in &sent {
        assert!(b.take(message).is_err(), "a copy");
    }
    assert_eq!(b.received.len(), 200);
}

#[test]
fn a_key_rotates_without_loss_whoever_learns_of_it_first() {
    for peer_first in [false, true] {
        let (mut a, mut b) = pair();
        let learn = |b: &Side| b.peer.set_known(&b.indices, known(&[9, A], A));
        if peer_first {
            learn(&b);
        }
        a.rotate(9, true);
        let mut sent = 1;
        let mut exchange = |a: &mut Side, b: &mut Side| {
            let messages = a.send(&packet(sent));
            carry(a, b, messages);
            sent += 1;
            assert_eq!(b.received.last(), Some(&packet(sent - 1)));
            let messages = b.send(&packet(sent));
            carry(b, a, messages);
            assert_eq!(a.received.last(), Some(&packet(sent)));
            let due = a.peer.tick(&a.indices, Instant::now());
            carry(a, b, due.into_iter().map(|(_, letter)| letter).collect());
            let due = b.peer.tick(&b.indices, Instant::now());
            carry(b, a, due.into_iter().map(|(_, letter)| letter).collect());
        };
        for _ in 0..3 {
            exchange(&mut a, &mut b);
        }
        learn(&b);
        // The time between two tries passes.
        for side in [&a, &b] {
            for tunnel in &mut side.peer.state.lock().tunnels {
                tunnel.tried_at = None;
            }
        }
        for _ in 0..3 {
            exchange(&mut a, &mut b);
        }
        let new = secret(9).public();
        assert_eq!(a.peer.snapshot().own_key, Some(new), "the new key is used");
        // The old one goes, on both sides, and nothing is lost.
        a.identities = Arc::new(a.identities.iter().take(1).cloned().collect());
        a.peer.set_identities(&a.indices, Arc::clone(&a.identities));
        b.peer.set_known(&b.indices, known(&[9], A));
        exchange(&mut a, &mut b);
        assert_eq!(a.peer.state.lock().tunnels.len(), 1);
        assert_eq!(b.indices.owners.read().len(), 1);
    }
}

#[test]
fn an_old_key_is_refused_once_it_is_over() {
    let (mut a, mut b) = pair();
    let late = b.send(&packet(1));
    a.rotate(9, false);
    assert!(a.take(&late[0]).is_err(), "a session of the old key");
    let mut stranger = Side::new(B, A);
    let fresh = stranger.send(&packet(2));
    assert!(a.take(&fresh[0]).is_err(), "a handshake with the old key");
    b.peer.set_known(&b.indices, known(&[9], A));
    let messages = b.send(&packet(3));
    carry(&mut b, &mut a, messages);
    assert_eq!(a.received, [packet(3)]);
    stranger.received.clear();
}

#[test]
fn a_member_at_rest_holds_no_tunnels_and_wakes() {
    let (mut a, mut b) = pair();
    for side in [&mut a, &mut b] {
        let later = Instant::now() + Times::default().idle + Duration::from_secs(1);
        assert!(side.peer.tick(&side.indices, later).is_empty());
        assert!(side.peer.state.lock().tunnels.is_empty());
        assert!(side.indices.owners.read().is_empty());
    }
    let messages = b.send(&packet(7));
    carry(&mut b, &mut a, messages);
    assert_eq!(a.received, [packet(7)]);
}

#[test]
fn a_copied_handshake_moves_nobody() {
    let (mut a, mut b) = (Side::new(A, B), Side::new(B, A));
    let first = a.send(&packet(0));
    carry(&mut a, &mut b, first.clone());
    b.peer.cut(&b.indices);
    // The receiver starts anew and knows no timestamp: a copy is answered, to where it came from, and that is all.
    let mut b = Side::new(B, A);
    let before = b.peer.snapshot().via;
    let answers = b.take(&first[0]).expect("it cannot be told from a new one");
    assert_eq!(answers[0].first(), Some(&kind::RESPONSE));
    assert_eq!(b.peer.snapshot().via, before);
    assert!(!b.peer.snapshot().up);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Genuine messages, damaged anywhere: nothing is delivered but what was sent, and nothing breaks.
    #[test]
    fn damaged_and_random_messages_do_no_harm(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), 1..=u8::MAX, any::<bool>()), 1..20),
        noise in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..20),
    ) {
        let (mut a, mut b) = pair();
        for (index, flip, cut) in damage {
            let mut message = a.send(&packet(1)).remove(0);
            let at = index.index(message.len());
            if cut { message.truncate(at) } else { message[at] ^= flip }
            // The three reserved bytes and the index's low ones are not all authenticated, the rest is.
            drop(b.take(&message));
        }
        for mut message in noise {
            drop(b.take(&message));
            if let Some(first) = message.first_mut() {
                *first = *first % 4 + 1;
                message.iter_mut().skip(1).take(3).for_each(|byte| *byte = 0);
                drop(b.take(&message));
            }
        }
        prop_assert!(b.received.iter().all(|got| *got == packet(0) || *got == packet(1)));
        let messages = a.send(&packet(2));
        carry(&mut a, &mut b, messages);
        prop_assert_eq!(b.received.last(), Some(&packet(2)));
    }
}
