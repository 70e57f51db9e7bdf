use super::*;
use proptest::prelude::*;

const RELAY: PublicKey = PublicKey::from_bytes([9; 32]);

fn at(n: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], n))
}

fn direct(n: u16) -> Via {
    Via::Direct(at(n).into())
}

fn places(endpoints: &[u16]) -> Places {
    Places {
        endpoints: endpoints.iter().map(|n| at(*n)).collect(),
        relays: vec![RELAY],
        persistent: false,
    }
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A path with a session to endpoint 1, used at `now`.
fn up(now: Instant) -> Path {
    let mut path = Path::new(Times::default(), places(&[1, 2]));
    path.want(now);
    assert_eq!(path.knock(now), [direct(1), direct(2)]);
    path.received(now, direct(1), Received::Response);
    path.sent(now, true);
    path.received(now, direct(1), Received::Packet { data: true });
    path
}

const DATA: Received = Received::Packet { data: true };

#[test]
fn all_endpoints_are_tried_then_also_the_relay() {
    let start = Instant::now();
    let mut path = Path::new(Times::default(), places(&[1, 2]));
    assert_eq!(path.task(start, false), Some(Task::Rest));
    path.want(start);
    assert_eq!(path.knock(start), [direct(1), direct(2)]);
    assert_eq!(path.route(), None);
    assert_eq!(path.task(start + seconds(1), false), None);
    let late = start + seconds(2);
    assert_eq!(path.task(late, false), Some(Task::Knock));
    assert_eq!(path.knock(late), [direct(1), direct(2), Via::Relay(RELAY)]);
    assert_eq!(path.task(late + seconds(1), false), None);
    path.received(late, Via::Relay(RELAY), Received::Response);
    assert_eq!(path.route(), Some(Via::Relay(RELAY)));
    assert!(!path.is_knocking());
}

#[test]
fn without_endpoints_the_relay_is_asked_at_once() {
    let start = Instant::now();
    let mut path = Path::new(Times::default(), places(&[]));
    path.want(start);
    assert_eq!(path.knock(start), [Via::Relay(RELAY)]);
}

#[test]
fn a_direct_member_roams_with_any_genuine_packet() {
    let now = Instant::now();
    let mut path = up(now);
    path.received(now, direct(7), Received::Packet { data: false });
    assert_eq!(path.route(), Some(direct(7)));
    path.received(now, direct(8), Received::Initiation);
    assert_eq!(path.route(), Some(direct(7)), "an initiation may be a copy");
}

#[test]
fn silence_leads_to_the_relay_and_back_when_a_handshake_gets_through() {
    let start = Instant::now();
    let mut path = up(start);
    let sent = start + seconds(1);
    path.sent(sent, true);
    assert_eq!(path.task(sent + seconds(4), true), None);
    let silent = start + seconds(20);
    path.sent(silent, true);
    assert_eq!(path.task(silent, true), Some(Task::Knock));
    assert_eq!(path.knock(silent), [direct(1)]);
    let late = silent + seconds(2);
    assert_eq!(path.task(late, true), Some(Task::Knock));
    assert_eq!(path.knock(late), [direct(1), direct(2), Via::Relay(RELAY)]);
    path.received(late, Via::Relay(RELAY), Received::Response);
    assert_eq!(path.route(), Some(Via::Relay(RELAY)));
    // Direct packets that are not the outcome of a handshake say nothing of the way there.
    path.received(late, direct(1), DATA);
    assert_eq!(path.route(), Some(Via::Relay(RELAY)));
    let retry = late + seconds(30);
    path.received(retry, Via::Relay(RELAY), DATA);
    assert_eq!(path.task(retry, true), Some(Task::Knock));
    assert_eq!(path.knock(retry), [direct(1), direct(2)]);
    path.received(retry, direct(2), Received::Response);
    assert_eq!(path.route(), Some(direct(2)));
}

#[test]
fn a_direct_try_that_fails_goes_on_through_the_relay() {
    let start = Instant::now();
    let mut path = Path::new(Times::default(), places(&[1]));
    path.want(start);
    drop(path.knock(start));
    path.received(start, Via::Relay(RELAY), Received::Response);
    let retry = start + seconds(30);
    path.sent(retry, true);
    assert_eq!(path.task(retry, true), Some(Task::Knock));
    assert_eq!(path.knock(retry), [direct(1)]);
    assert_eq!(path.route(), Some(Via::Relay(RELAY)), "data still flows");
    let late = retry + seconds(2);
    assert_eq!(path.task(late, true), Some(Task::Knock));
    assert_eq!(path.knock(late), [Via::Relay(RELAY)]);
}

#[test]
fn the_one_who_answers_follows_the_handshake() {
    let now = Instant::now();
    let mut path = up(now);
    path.received(now, Via::Relay(RELAY), Received::Initiation);
    path.received(now, direct(1), DATA);
    assert_eq!(path.route(), Some(direct(1)), "packets still on their way");
    path.received(now, Via::Relay(RELAY), Received::Initiation);
    path.received(now, Via::Relay(RELAY), DATA);
    assert_eq!(path.route(), Some(Via::Relay(RELAY)));
    path.received(now, direct(5), Received::Initiation);
    path.received(now + seconds(16), direct(5), DATA);
    assert_eq!(path.route(), Some(Via::Relay(RELAY)), "too late");
    path.received(now, direct(5), Received::Initiation);
    path.received(now, direct(5), DATA);
    assert_eq!(path.route(), Some(direct(5)));
}

#[test]
fn the_idle_rest_and_the_persistent_do_not() {
    let start = Instant::now();
    let mut path = up(start);
    assert_eq!(path.task(start + seconds(179), true), None);
    path.received(
        start + seconds(179),
        direct(1),
        Received::Packet { data: false },
    );
    assert_eq!(path.task(start + seconds(180), true), Some(Task::Rest));
    path.rested();
    path.set_places(Places {
        persistent: true,
        ..places(&[1, 2])
    });
    let later = start + seconds(200);
    assert_eq!(path.task(later, false), Some(Task::Knock));
    assert_eq!(path.knock(later), [direct(1)]);
    path.give_up();
    assert_eq!(path.task(later + seconds(4), false), None);
    assert_eq!(path.task(later + seconds(5), false), Some(Task::Knock));
}

#[test]
fn a_session_that_the_other_began_is_kept_before_anything_came_in_it() {
    let start = Instant::now();
    for from in [direct(1), Via::Relay(RELAY)] {
        let mut path = Path::new(Times::default(), places(&[1]));
        path.received(start, from, Received::Initiation);
        assert_eq!(path.task(start, false), None);
        path.received(start, from, Received::Packet { data: false });
        assert_eq!(path.task(start + seconds(20), true), None);
        assert_eq!(path.task(start + seconds(180), true), Some(Task::Rest));
    }
}

#[test]
fn a_keepalive_is_sent_only_behind_nat_and_is_no_use() {
    let start = Instant::now();
    let mut path = up(start);
    assert_eq!(path.task(start + seconds(100), true), None);
    path.times.keepalive = Some(seconds(25));
    assert_eq!(path.task(start + seconds(24), true), None);
    assert_eq!(path.task(start + seconds(25), true), Some(Task::Keepalive));
    path.sent(start + seconds(25), false);
    assert_eq!(path.task(start + seconds(26), true), None);
    assert_eq!(path.task(start + seconds(180), true), Some(Task::Rest));
}

#[test]
fn a_relay_that_is_one_no_more_is_left() {
    let now = Instant::now();
    let mut path = Path::new(Times::default(), places(&[]));
    path.want(now);
    drop(path.knock(now));
    path.received(now, Via::Relay(RELAY), Received::Response);
    path.set_places(Places::default());
    assert_eq!(path.route(), None);
    assert!(!path.is_relay(&RELAY));
}

proptest! {
    /// Whatever happens in whatever order: a route is only ever where something genuine came from, an initiation alone moves
    /// nothing, and knocking always has somewhere to go and ends at the relay too.
    #[test]
    fn the_route_is_where_something_genuine_came_from(
        steps in proptest::collection::vec((0..7_u8, 1..4_u16, 0..20_u64, any::<bool>()), 1..60),
    ) {
        let mut now = Instant::now();
        let mut path = Path::new(Times::default(), places(&[1, 2]));
        let mut genuine: Vec<Via> = Vec::new();
        for (step, n, wait, relayed) in steps {
            now += seconds(wait);
            let from = if relayed { Via::Relay(RELAY) } else { direct(n) };
            let before = path.route();
            match step {
                0 => path.want(now),
                1 => {
                    let to = path.knock(now);
                    prop_assert!(!to.is_empty());
                    prop_assert!(to.len() <= CANDIDATES_MAX + 2);
                    let mut unique = to.clone();
                    unique.dedup();
                    prop_assert_eq!(unique, to);
                }
                2 => {
                    path.received(now, from, Received::Initiation);
                    prop_assert_eq!(path.route(), before);
                }
                3 => {
                    path.received(now, from, Received::Response);
                    genuine.push(from);
                    prop_assert_eq!(path.route(), Some(from));
                }
                4 => {
                    path.received(now, from, DATA);
                    genuine.push(from);
                }
                5 => path.sent(now, true),
                _ => {
                    if path.task(now, true) == Some(Task::Rest) {
                        path.rested();
                    }
                }
            }
            prop_assert!(path.route().is_none_or(|route| genuine.contains(&route)));
        }
        // From any state, a handshake that nobody answers reaches the relay after the wait.
        path.want(now);
        drop(path.knock(now));
        let to = path.knock(now + Times::default().relay_after);
        prop_assert!(to.contains(&Via::Relay(RELAY)), "{:?}", to);
    }
}
