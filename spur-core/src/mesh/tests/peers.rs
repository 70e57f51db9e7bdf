//! Whom each member must know.

use super::*;
use crate::mesh::MeshPeer;
use proptest::prelude::*;

/// Names of those whom a member knows, with `!` behind those whose tunnel is always up and `+` behind those that rule.
fn known(roster: &Roster, id: MemberId) -> String {
    let peers = roster.peers_of(id, Millis(0));
    let mark = |set, mark| if set { mark } else { "" };
    let texts = peers.iter().map(|peer| {
        let (always, control) = (mark(peer.persistent, "!"), mark(peer.control, "+"));
        format!("{}{always}{control}", peer.name)
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// Controllers `c` and `d`, nodes `n1` and `n2`, login hosts `l1` and `l2`: members 1 to 6 with keys 1 to 6.
fn six() -> Roster {
    let mut roster = founded();
    let rest = [
        ("d", Role::Controller),
        ("n1", Role::Node),
        ("n2", Role::Node),
        ("l1", Role::Login),
        ("l2", Role::Login),
    ];
    for ((text, role), number) in rest.into_iter().zip(2..) {
        join(&mut roster, Millis(0), text, number, role);
    }
    roster
}

#[test]
fn all_know_who_they_have_to_speak_with() {
    let roster = six();
    let wanted = [
        "d!+ n1+ n2+ l1+ l2+",
        "c!+ n1+ n2+ l1+ l2+",
        "c!+ d!+ n2 l1+ l2+",
        "c!+ d!+ n1 l1+ l2+",
        "c!+ d!+ n1+ n2+",
        "c!+ d!+ n1+ n2+",
    ];
    for (wanted, id) in wanted.into_iter().zip(1..) {
        assert_eq!(known(&roster, MemberId(id)), wanted, "member {id}");
    }
    assert_eq!(known(&roster, MemberId(7)), "", "no member");
    let relays = |own, other| {
        let peers = roster.peers_of(MemberId(own), Millis(0));
        let peer = peers.iter().find(|peer| peer.id == MemberId(other));
        peer.expect("it is known").relays.clone()
    };
    assert_eq!(relays(3, 4), [key(1), key(2)]);
    assert_eq!(relays(3, 1), [key(2)]);
    assert_eq!(relays(1, 2), []);
}

#[test]
fn a_peer_is_told_of_with_its_keys_and_places() {
    let mut roster = six();
    let node = MemberId(3);
    let moved = roster.move_to(Millis(0), node, vec!["192.0.2.3:51820".parse().unwrap()]);
    does(&mut roster, Millis(0), moved.map(|event| event.unwrap()));
    let rotated = roster.rotate(Millis(0), node, key(33), 10);
    does(&mut roster, Millis(0), rotated);
    let peer = |roster: &Roster, at| {
        let peers = roster.peers_of(MemberId(1), at);
        peers.into_iter().find(|peer| peer.id == node)
    };
    let wanted = MeshPeer {
        id: node,
        name: name("n1"),
        role: Role::Node,
        key: key(33),
        previous: Some(OldKey {
            key: key(3),
            until: Millis(10_000),
        }),
        v4: Ipv4Addr::new(100, 64, 0, 3),
        v6: "fd12:3456:789a::3".parse().unwrap(),
        endpoints: vec!["192.0.2.3:51820".parse().unwrap()],
        relays: vec![key(2)],
        persistent: false,
        control: true,
    };
    assert_eq!(peer(&roster, Millis(9_999)).as_ref(), Some(&wanted));
    let later = peer(&roster, Millis(10_000)).expect("it is known");
    assert_eq!(later.previous, None, "the old key is accepted no more");
    let removed = roster.remove(Millis(0), node);
    does(&mut roster, Millis(0), removed);
    assert_eq!(peer(&roster, Millis(0)), None);
    assert_eq!(roster.peers_of(node, Millis(0)), []);
}

proptest! {
    #[test]
    fn whoever_knows_is_known_and_no_two_are_alike(
        roles in prop::collection::vec(prop::sample::select(vec![Role::Controller, Role::Node, Role::Login]), 0..8),
        rotated in prop::collection::vec((1u32..10, 0u64..3), 0..6), removed in prop::collection::vec(1u32..10, 0..4),
        at in 0u64..3,
    ) {
        let mut roster = founded();
        for (role, number) in roles.into_iter().zip(2..) {
            join(&mut roster, Millis(0), &format!("m{number}"), number, role);
        }
        for ((id, secs), number) in rotated.into_iter().zip(100..) {
            if let Ok(event) = roster.rotate(Millis(0), MemberId(id), key(number), secs) {
                roster.apply(Millis(0), &event).unwrap();
            }
        }
        for id in removed {
            if let Ok(event) = roster.remove(Millis(0), MemberId(id)) {
                roster.apply(Millis(0), &event).unwrap();
            }
        }
        let now = Millis(at * 1000);
        for own in roster.members() {
            let peers = roster.peers_of(own.id, now);
            let mut keys = vec![own.key];
            for peer in &peers {
                prop_assert!(peer.id != own.id);
                let back = roster.peers_of(peer.id, now);
                let back = back.iter().find(|back| back.id == own.id);
                prop_assert_eq!(back.map(|back| back.control), Some(peer.control), "a tunnel has two ends");
                keys.push(peer.key);
                keys.extend(peer.previous.map(|old| old.key));
                prop_assert!(peer.previous.is_none_or(|old| now < old.until));
                let led = |key: &MeshKey| roster.owner(*key, now).is_some_and(|m| m.role == Role::Controller);
                prop_assert!(peer.relays.iter().all(led));
                prop_assert!(!peer.relays.contains(&own.key) && !peer.relays.contains(&peer.key));
            }
            prop_assert!(keys.iter().all(|key| roster.owner(*key, now).is_some()));
            let different: BTreeSet<_> = keys.iter().collect();
            prop_assert_eq!(different.len(), keys.len());
            let addresses: BTreeSet<_> = peers.iter().map(|peer| (peer.v4, peer.v6)).collect();
            prop_assert_eq!(addresses.len(), peers.len());
        }
    }
}
