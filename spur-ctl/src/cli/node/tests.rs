use super::words::{Asked, Wanted, read};
use super::*;
use crate::cli::render::clock::Clock;
use spur_core::id::{MemberId, TokenId};
use spur_core::mesh::{MeshKey, MeshPrefix, OldKey, Token};
use spur_core::time::Millis;

const NOW: Millis = Millis(1_796_040_000_000);

fn name(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

fn sample() -> MeshBook {
    let member = |id, text: &str, role, places: &[&str]| Member {
        id: MemberId(id),
        name: name(text),
        role,
        key: MeshKey([u8::try_from(id).unwrap(); 32]),
        previous: None,
        past: Vec::new(),
        endpoints: places.iter().map(|place| place.parse().unwrap()).collect(),
        since: NOW,
    };
    let mut node = member(2, "n1", Role::Node, &[]);
    node.previous = Some(OldKey {
        key: MeshKey([9; 32]),
        until: NOW.plus_secs(60),
    });
    MeshBook {
        prefix: MeshPrefix(0xfd12_3456_789a_0000),
        members: vec![
            member(
                1,
                "ctl",
                Role::Controller,
                &["192.0.2.1:51820", "[2001:db8::1]:51820"],
            ),
            node,
        ],
        tokens: vec![Token {
            id: TokenId(3),
            key: MeshKey([4; 32]),
            role: Role::Login,
            name: None,
            expires: NOW.plus_secs(3_600),
        }],
    }
}

#[test]
fn members_and_tokens_are_shown_in_columns() {
    let text = text::book(&Clock::utc(NOW), &sample());
    let wanted = "\
NAME  ROLE        IPV4        IPV6                ENDPOINTS
ctl   controller  100.64.0.1  fd12:3456:789a::1   192.0.2.1:51820,[2001:db8::1]:51820
n1    node        100.64.0.2  fd12:3456:789a::2   not known

TOKEN  ROLE   NAME  EXPIRES
3      login  any   2026-11-30T13:00:00
";
    let squeezed = |text: &str| {
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(squeezed(&text), squeezed(wanted), "{text}");
    let starts = |line: &str| line.find("100.64").or_else(|| line.find("IPV4"));
    let columns: Vec<_> = text.lines().take(3).map(starts).collect();
    assert_eq!(columns, [Some(18); 3], "{text}");
    let nothing = text::book(&Clock::utc(NOW), &MeshBook::default());
    assert_eq!(nothing, "The mesh is not founded.\n");
}

#[test]
fn a_member_is_shown_with_the_keys_that_it_may_use() {
    let book = sample();
    let shown = |at| text::member(&Clock::utc(at), book.prefix, &book.members[1]);
    let old = "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=";
    assert!(shown(NOW).contains(old), "{}", shown(NOW));
    assert!(!shown(NOW.plus_secs(60)).contains(old));
    assert!(shown(NOW).contains("AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=\n"));
}

#[test]
fn objects_say_the_same() {
    let book = sample();
    let value: serde_json::Value = serde_json::from_str(&json::book(&book)).unwrap();
    assert_eq!(value["network"], "fd12:3456:789a::/64");
    assert_eq!(value["members"][0]["endpoints"][1], "[2001:db8::1]:51820");
    assert_eq!(value["members"][1]["ipv6"], "fd12:3456:789a::2");
    assert_eq!(value["tokens"][0]["number"], 3);
    assert!(value["tokens"][0].get("token").is_none());
    let nothing: serde_json::Value =
        serde_json::from_str(&json::book(&MeshBook::default())).unwrap();
    assert!(nothing["network"].is_null());
}

#[test]
fn words_are_read_or_refused_by_name() {
    let wanted = |words: &str| read(&words.split(' ').collect::<Vec<_>>());
    let plain = |wanted| {
        Ok(Some(Asked {
            wanted,
            json: false,
        }))
    };
    let token = Wanted::Token {
        role: Role::Login,
        name: Some(name("l1")),
        secs: 600,
    };
    assert_eq!(
        wanted("token --role login --name l1 --lifetime 10"),
        plain(token)
    );
    let default = Wanted::Token {
        role: Role::Node,
        name: None,
        secs: 3_600,
    };
    assert_eq!(wanted("token"), plain(default));
    assert_eq!(wanted("withdraw 3"), plain(Wanted::Withdraw(TokenId(3))));
    let json = Asked {
        wanted: Wanted::Show(name("n1")),
        json: true,
    };
    assert_eq!(wanted("show --json n1"), Ok(Some(json)));
    for nonsense in [
        "",
        "list n1",
        "show",
        "token --role",
        "remove",
        "remove n1 --json",
        "found c",
    ] {
        assert_eq!(wanted(nonsense), Ok(None), "{nonsense}");
    }
    let secret = "YAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk";
    for (words, said) in [
        ("show /", "\"/\""),
        ("token --role king", "--role king"),
        ("token --lifetime UNLIMITED", "--lifetime UNLIMITED"),
        ("withdraw x", "by its number"),
        ("found c AAAA 192.0.2.1:1", "public key"),
        (
            "found c AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI= 192.0.2.1",
            "192.0.2.1: it must be",
        ),
        (&format!("found c {secret} 192.0.2.1:1"), "public key"),
    ] {
        let why = wanted(words).unwrap_err();
        assert!(why.contains(said) && !why.contains(secret), "{why}");
    }
}

#[test]
fn what_is_drawn_is_sound_and_new() {
    let (secret, key) = secret::pair().unwrap();
    let (_, other) = secret::pair().unwrap();
    assert!(key.is_sound() && key != other && key.0 != secret.0);
    assert_eq!((secret.0[0] & 7, secret.0[31] & 0xc0), (0, 0x40));
    let prefix = secret::prefix().unwrap();
    assert!(prefix.is_local() && prefix.0 & 0xffff == 0);
    assert_ne!(prefix, secret::prefix().unwrap());
}
