mod peers;
mod random;

use super::follow::has_room;
use super::*;
use std::collections::BTreeSet;

const PREFIX: MeshPrefix = MeshPrefix(0xfd12_3456_789a_0000);
const HOUR: u64 = 3600;

fn key(number: u32) -> MeshKey {
    let mut bytes = [7; 32];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    MeshKey(bytes)
}

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

fn who(text: &str, number: u32) -> Newcomer {
    Newcomer {
        name: name(text),
        key: key(number),
        endpoints: Vec::new(),
    }
}

fn token(number: u32, role: Role, only: Option<&str>) -> NewToken {
    NewToken {
        key: key(number),
        role,
        name: only.map(name),
        secs: HOUR,
    }
}

/// Follows a decision, and checks that the rules hold.
#[track_caller]
fn does(roster: &mut Roster, at: Millis, decided: Result<MeshEvent, Refused>) {
    let before = roster.clone();
    let event = decided.expect("it is allowed");
    assert_eq!(roster.apply(at, &event), Ok(()));
    assert_eq!(roster.is_sound(), Ok(()));
    assert_eq!(roster.follows(&before), Ok(()));
}

/// A mesh with the controller `c`, number 1, key 1.
fn founded() -> Roster {
    let mut roster = Roster::default();
    let founded = roster.found(Millis(0), PREFIX, who("c", 1));
    does(&mut roster, Millis(0), founded);
    roster
}

/// Lets a host join with a token of its own, whose key is `key + 1000`.
fn join(roster: &mut Roster, at: Millis, text: &str, key_number: u32, role: Role) -> MemberId {
    let made = roster.make_token(at, token(key_number + 1000, role, None));
    does(roster, at, made);
    let joined = roster.join(at, key(key_number + 1000), who(text, key_number));
    does(roster, at, joined);
    roster.named(&name(text)).expect("it joined").id
}

#[test]
fn a_mesh_is_founded_once_in_a_network_of_its_own() {
    let nothing = Roster::default();
    let wanted = nothing.make_token(Millis(0), token(9, Role::Node, None));
    assert_eq!(wanted, Err(Refused::NotFounded));
    for foreign in [0, 0x2001_0db8_0000_0000, 0xfc00_0000_0000_0000] {
        let founded = nothing.found(Millis(0), MeshPrefix(foreign), who("c", 1));
        assert_eq!(founded, Err(Refused::ForeignPrefix), "{foreign:x}");
    }
    let roster = founded();
    let again = roster.found(Millis(1), MeshPrefix(PREFIX.0 + 1), who("d", 2));
    assert_eq!(again, Err(Refused::Founded));
    let first = roster.named(&name("c")).expect("the founder");
    assert_eq!(first.v4(), Ipv4Addr::new(100, 64, 0, 1));
    let six: Ipv6Addr = "fd12:3456:789a::1".parse().unwrap();
    assert_eq!(first.v6(roster.prefix()), six);
}

#[test]
fn a_token_works_once_in_its_time_and_for_its_name() {
    let mut roster = founded();
    let made = roster.make_token(Millis(0), token(10, Role::Node, Some("a")));
    does(&mut roster, Millis(0), made);
    let (last, over) = (Millis(HOUR * 1000 - 1), Millis(HOUR * 1000));
    let join = |roster: &Roster, at, who| roster.join(at, key(10), who);
    assert_eq!(join(&roster, over, who("a", 2)), Err(Refused::NoToken));
    let other = join(&roster, last, who("b", 2));
    assert_eq!(other, Err(Refused::OtherName(name("b"), name("a"))));
    assert_eq!(join(&roster, last, who("a", 10)), Err(Refused::KeySeen));
    assert_eq!(join(&roster, last, who("a", 1)), Err(Refused::KeySeen));
    let joined = join(&roster, last, who("a", 2));
    let event = joined.clone().unwrap();
    does(&mut roster, last, joined);
    assert_eq!(join(&roster, last, who("d", 3)), Err(Refused::NoToken));
    assert_eq!(roster.apply(last, &event), Err(Refused::NoToken));
    assert_eq!(roster.tokens(last).count(), 0);
    let member = roster.owner(key(2), last).unwrap();
    assert_eq!((member.id, member.role), (MemberId(2), Role::Node));
    let taken = roster.make_token(last, token(11, Role::Node, Some("a")));
    assert_eq!(taken, Err(Refused::NameTaken(name("a"))));
}

#[test]
fn a_token_that_is_withdrawn_or_expired_is_useless() {
    let mut roster = founded();
    for number in [10, 11] {
        let made = roster.make_token(Millis(0), token(number, Role::Login, None));
        does(&mut roster, Millis(0), made);
    }
    let withdrawn = roster.withdraw(Millis(1), TokenId(1));
    does(&mut roster, Millis(1), withdrawn);
    let joined = roster.join(Millis(1), key(10), who("a", 2));
    assert_eq!(joined, Err(Refused::NoToken));
    let unknown = |id| Err(Refused::UnknownToken(TokenId(id)));
    assert_eq!(roster.withdraw(Millis(1), TokenId(1)), unknown(1));
    let over = Millis(HOUR * 1000);
    assert_eq!(roster.withdraw(over, TokenId(2)), unknown(2));
    assert!(roster.token(key(11), over).is_none());
    // Its record goes when the next one is made, and its number is not given again.
    let made = roster.make_token(over, token(12, Role::Login, None));
    does(&mut roster, over, made);
    assert_eq!(roster.tokens.keys().collect::<Vec<_>>(), [&TokenId(3)]);
}

#[test]
fn tokens_and_old_keys_end() {
    let mut roster = founded();
    for secs in [0, TOKEN_SECS_MAX + 1, u64::MAX] {
        let mut new = token(10, Role::Node, None);
        new.secs = secs;
        let made = roster.make_token(Millis(5), new);
        assert_eq!(made, Err(Refused::TokenLife(secs)));
    }
    let event = MeshEvent::TokenMade(Token {
        id: TokenId(1),
        key: key(10),
        role: Role::Node,
        name: None,
        expires: Millis(u64::MAX),
    });
    assert!(matches!(
        roster.apply(Millis(5), &event),
        Err(Refused::TokenLife(_))
    ));
    let secs = OVERLAP_SECS_MAX + 1;
    let rotated = roster.rotate(Millis(5), MemberId(1), key(2), secs);
    assert_eq!(rotated, Err(Refused::Overlap(secs)));
    let event = MeshEvent::Rotated {
        member: MemberId(1),
        key: key(2),
        keep_until: Millis(u64::MAX),
    };
    let followed = roster.apply(Millis(5), &event);
    assert!(matches!(followed, Err(Refused::Overlap(_))));
}

#[test]
fn an_old_key_is_accepted_until_its_time_and_never_becomes_anothers() {
    let mut roster = founded();
    let a = join(&mut roster, Millis(0), "a", 2, Role::Node);
    let rotated = roster.rotate(Millis(0), a, key(3), 10);
    does(&mut roster, Millis(0), rotated);
    let owner = |roster: &Roster, number, at| roster.owner(key(number), Millis(at)).map(|m| m.id);
    assert_eq!(owner(&roster, 2, 9_999), Some(a));
    assert_eq!(owner(&roster, 3, 9_999), Some(a));
    assert_eq!(owner(&roster, 2, 10_000), None);
    assert_eq!(owner(&roster, 3, 10_000), Some(a));
    let rotate =
        |roster: &Roster, at, number, secs| roster.rotate(Millis(at), a, key(number), secs);
    let early = rotate(&roster, 9_999, 4, 10);
    assert_eq!(early, Err(Refused::Rotating(a)));
    for seen in [1, 2, 3] {
        assert_eq!(rotate(&roster, 10_000, seen, 10), Err(Refused::KeySeen));
    }
    let at_once = rotate(&roster, 10_000, 4, 0);
    does(&mut roster, Millis(10_000), at_once);
    assert_eq!(owner(&roster, 3, 10_000), None);
    assert_eq!(rotate(&roster, 10_000, 2, 0), Err(Refused::KeySeen));
    let unknown = roster.rotate(Millis(0), MemberId(9), key(5), 0);
    assert_eq!(unknown, Err(Refused::NoMember(MemberId(9))));
}

#[test]
fn no_key_of_a_removed_member_comes_back() {
    let mut roster = founded();
    let a = join(&mut roster, Millis(0), "a", 2, Role::Node);
    // The first two of its ten keys are forgotten for newer ones.
    for number in 3..12 {
        let rotated = roster.rotate(Millis(0), a, key(number), 0);
        does(&mut roster, Millis(0), rotated);
    }
    let removed = roster.remove(Millis(1), a);
    does(&mut roster, Millis(1), removed);
    assert_eq!(roster.gone.len(), MEMBER_KEYS_MAX);
    assert!(roster.owner(key(11), Millis(1)).is_none());
    assert_eq!(
        roster.remove(Millis(1), a),
        Err(Refused::NoMember(a)),
        "it is gone"
    );
    let made = roster.make_token(Millis(1), token(100, Role::Node, None));
    does(&mut roster, Millis(1), made);
    for number in 4..12 {
        let back = roster.join(Millis(1), key(100), who("a", number));
        assert_eq!(back, Err(Refused::KeySeen), "{number}");
        let rotated = roster.rotate(Millis(1), MemberId(1), key(number), 0);
        assert_eq!(rotated, Err(Refused::KeySeen), "{number}");
        let made = roster.make_token(Millis(1), token(number, Role::Node, None));
        assert_eq!(made, Err(Refused::KeySeen), "{number}");
    }
    let joined = roster.join(Millis(1), key(100), who("a", 12));
    does(&mut roster, Millis(1), joined);
    let id = roster.named(&name("a")).map(|member| member.id);
    assert_eq!(id, Some(MemberId(3)), "with a new number");
}

#[test]
fn the_last_controller_stays() {
    let mut roster = founded();
    join(&mut roster, Millis(0), "a", 2, Role::Node);
    let first = MemberId(1);
    let last = Err(Refused::LastController(first));
    assert_eq!(roster.remove(Millis(0), first), last);
    let event = MeshEvent::Removed { member: first };
    assert_eq!(
        roster.apply(Millis(0), &event),
        Err(Refused::LastController(first))
    );
    let second = join(&mut roster, Millis(0), "d", 3, Role::Controller);
    let removed = roster.remove(Millis(0), first);
    does(&mut roster, Millis(0), removed);
    let last = Err(Refused::LastController(second));
    assert_eq!(roster.remove(Millis(0), second), last);
}

#[test]
fn members_are_where_hosts_can_be() {
    let roster = founded();
    let move_to = |texts: &[&str]| {
        let endpoints = texts.iter().map(|text| text.parse().unwrap()).collect();
        roster.move_to(Millis(0), MemberId(1), endpoints)
    };
    for wrong in [
        "192.0.2.1:0",
        "0.0.0.0:51820",
        "[::]:51820",
        "255.255.255.255:51820",
        "224.0.0.1:51820",
        "[ff02::1]:51820",
        "100.64.0.1:51820",
        "100.127.255.254:51820",
        "[::ffff:100.64.0.1]:51820",
        "[fd12:3456:789a::1]:51820",
    ] {
        let refused = Err(Refused::NoEndpoint(wrong.parse().unwrap()));
        assert_eq!(move_to(&["192.0.2.1:51820", wrong]), refused);
    }
    let twice = move_to(&["192.0.2.1:51820", "192.0.2.1:51820"]);
    assert_eq!(twice, Err(Refused::Endpoints(2)));
    let many: Vec<_> = (1..=9).map(|n| format!("192.0.2.{n}:51820")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    assert_eq!(move_to(&many), Err(Refused::Endpoints(9)));
    assert!(matches!(move_to(&many[..8]), Ok(Some(_))));
    assert_eq!(move_to(&[]), Ok(None), "that is known");
    let mut roster = roster.clone();
    let near = ["100.128.0.1:1", "[fd12:3456:789b::1]:1", "100.63.255.255:1"];
    let near: Vec<_> = near.iter().map(|text| text.parse().unwrap()).collect();
    let moved = roster.move_to(Millis(0), MemberId(1), near.clone());
    does(
        &mut roster,
        Millis(0),
        moved.map(|event| event.expect("it is news")),
    );
    assert_eq!(roster.member(MemberId(1)).unwrap().endpoints, near);
}

#[test]
fn keys_that_are_no_points_or_others_too_are_refused() {
    let sound = |change: &dyn Fn(&mut [u8; 32])| {
        let mut bytes = [0; 32];
        change(&mut bytes);
        MeshKey(bytes).is_sound()
    };
    assert!(!sound(&|_| ()), "zero");
    assert!(!sound(&|bytes| bytes[0] = 1), "one");
    assert!(sound(&|bytes| bytes[0] = 9), "the base point");
    assert!(
        !sound(&|bytes| (bytes[0], bytes[31]) = (9, 0x80)),
        "not least"
    );
    let below = |low: u8| {
        sound(&move |bytes| {
            *bytes = [0xff; 32];
            (bytes[0], bytes[31]) = (low, 0x7f);
        })
    };
    assert!(below(0xeb) && !below(0xec) && !below(0xed) && !below(0xff));
    let mut roster = founded();
    let made = roster.make_token(Millis(0), token(10, Role::Node, None));
    does(&mut roster, Millis(0), made);
    let mut zero = who("a", 2);
    zero.key = MeshKey([0; 32]);
    let joined = roster.join(Millis(0), key(10), zero);
    assert_eq!(joined, Err(Refused::UnsoundKey));
}

#[test]
fn a_mesh_that_is_full_says_so_and_what_is_there_stays() {
    let mut roster = founded();
    for number in 0..4096 {
        let made = roster.make_token(Millis(0), token(10_000 + number, Role::Node, None));
        let event = made.expect("there is room");
        assert_eq!(roster.apply(Millis(0), &event), Ok(()));
    }
    let full = |roster: &Roster, at| roster.make_token(Millis(at), token(9, Role::Node, None));
    assert!(matches!(full(&roster, 0), Err(Refused::Full(_))));
    let withdrawn = roster.withdraw(Millis(0), TokenId(7));
    does(&mut roster, Millis(0), withdrawn);
    assert!(full(&roster, 0).is_ok(), "one was withdrawn");
    assert!(full(&roster, HOUR * 1000).is_ok(), "all expired");

    let join = |roster: &Roster| roster.join(Millis(0), key(10_000), who("a", 2));
    assert!(join(&roster).is_ok());
    roster.last_member = MemberId(NUMBERS_END - 2);
    let last = join(&roster).expect("one number is left");
    let MeshEvent::Joined { member, .. } = &last else {
        panic!("{last:?}");
    };
    assert_eq!(member.v4(), Ipv4Addr::new(100, 127, 255, 254));
    roster.last_member = MemberId(NUMBERS_END - 1);
    assert_eq!(join(&roster), Err(Refused::Full("member")));
    assert_eq!(
        roster.apply(Millis(0), &last),
        Err(Refused::Nonsense("a member's number was given before"))
    );
}

#[test]
fn hosts_join_only_when_the_keys_of_all_would_fit_among_the_removed() {
    assert!(has_room(0, 0) && has_room(MEMBERS_MAX - 1, 0));
    assert!(!has_room(MEMBERS_MAX, 0));
    let most = GONE_MAX - 4 * MEMBER_KEYS_MAX;
    assert!(has_room(3, most) && !has_room(3, most + 1) && !has_room(4, most));
    let mut roster = founded();
    let made = roster.make_token(Millis(0), token(10, Role::Node, None));
    does(&mut roster, Millis(0), made);
    let gone = |number| {
        let mut bytes = [0x33; 32];
        bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
        MeshKey(bytes)
    };
    roster.gone = (0..GONE_MAX - 2 * MEMBER_KEYS_MAX).map(gone).collect();
    assert!(roster.join(Millis(0), key(10), who("a", 2)).is_ok());
    roster.gone.insert(gone(GONE_MAX));
    let joined = roster.join(Millis(0), key(10), who("a", 2));
    assert_eq!(joined, Err(Refused::Full("member")));
}

#[test]
fn a_roster_is_stored_whole_and_what_is_broken_is_seen() {
    let mut roster = founded();
    let a = join(&mut roster, Millis(0), "a", 2, Role::Node);
    let rotated = roster.rotate(Millis(0), a, key(3), 10);
    does(&mut roster, Millis(0), rotated);
    let b = join(&mut roster, Millis(0), "b", 4, Role::Login);
    let removed = roster.remove(Millis(0), b);
    does(&mut roster, Millis(0), removed);
    let bytes = rmp_serde::to_vec_named(&roster).unwrap();
    assert_eq!(rmp_serde::from_slice::<Roster>(&bytes).unwrap(), roster);

    type Break = fn(&mut Roster);
    let breaks: [Break; 8] = [
        |roster| roster.prefix = MeshPrefix(1),
        |roster| drop(roster.members.remove(&MemberId(1))),
        |roster| roster.last_member = MemberId(1),
        |roster| roster.gone.extend([key(2)]),
        |roster| roster.index.keys.retain(|other, _| *other != key(2)),
        |roster| roster.members.get_mut(&MemberId(2)).unwrap().key = key(1),
        |roster| roster.members.get_mut(&MemberId(2)).unwrap().name = name("c"),
        |roster| roster.prefix = MeshPrefix::default(),
    ];
    for broken in breaks {
        let mut other = roster.clone();
        broken(&mut other);
        assert!(other.is_sound().is_err(), "{other:?}");
    }
    let mut forgot = roster.clone();
    forgot.gone.clear();
    assert!(forgot.follows(&roster).is_err());
}
