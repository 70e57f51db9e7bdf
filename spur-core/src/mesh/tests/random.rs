//! Random histories of a mesh, of decisions and of events that nobody decided, beside a model that only remembers.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Token(u32, Role, Option<u8>, u64),
    Withdraw(u32),
    Join(u32, u8, u32),
    Rotate(u32, u32, u64),
    Remove(u32),
    Move(u32, Vec<u8>),
    /// An event as it may stand in no log.
    Raw(MeshEvent),
    /// Time passes, in seconds.
    Wait(u64),
}

fn any_role() -> impl Strategy<Value = Role> {
    prop::sample::select(vec![Role::Controller, Role::Node, Role::Login])
}

fn any_name(number: u8) -> NodeName {
    name(&format!("n{number}"))
}

prop_compose! {
    fn any_member()(id in 0u32..12, n in 0u8..8, role in any_role(), k in 0u32..40, old in prop::option::of(0u32..40)) -> Member {
        Member {
            id: MemberId(id), name: any_name(n), role, key: key(k), endpoints: Vec::new(), since: Millis(0),
            previous: old.map(|old| OldKey { key: key(old), until: Millis(9) }),
            past: Vec::new(),
        }
    }
}

fn any_event() -> impl Strategy<Value = MeshEvent> {
    let token = (0u32..12, 0u32..40, any_role(), 0u64..20_000);
    let member = || (0u32..12).prop_map(MemberId);
    prop_oneof![
        any_member().prop_map(|first| MeshEvent::Founded {
            prefix: PREFIX,
            first
        }),
        token.prop_map(|(id, k, role, expires)| MeshEvent::TokenMade(Token {
            id: TokenId(id),
            key: key(k),
            role,
            name: None,
            expires: Millis(expires),
        })),
        (0u32..12).prop_map(|id| MeshEvent::TokenWithdrawn { token: TokenId(id) }),
        (0u32..12, any_member()).prop_map(|(id, member)| MeshEvent::Joined {
            token: TokenId(id),
            member,
        }),
        (member(), 0u32..40, 0u64..20_000).prop_map(|(member, k, until)| MeshEvent::Rotated {
            member,
            key: key(k),
            keep_until: Millis(until),
        }),
        member().prop_map(|member| MeshEvent::Removed { member }),
    ]
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0u32..40, any_role(), prop::option::of(0u8..8), 1u64..12).prop_map(|(k, role, only, secs)| Op::Token(k, role, only, secs)),
        1 => (1u32..12).prop_map(Op::Withdraw),
        6 => (0u32..40, 0u8..8, 0u32..40).prop_map(|(token, n, k)| Op::Join(token, n, k)),
        4 => (1u32..12, 0u32..40, 0u64..6).prop_map(|(id, k, secs)| Op::Rotate(id, k, secs)),
        3 => (1u32..12).prop_map(Op::Remove),
        1 => (1u32..12, prop::collection::vec(0u8..4, 0..3)).prop_map(|(id, at)| Op::Move(id, at)),
        3 => any_event().prop_map(Op::Raw),
        2 => (0u64..6).prop_map(Op::Wait),
    ]
}

/// What must not be forgotten.
#[derive(Default)]
struct Seen {
    /// Of members that were removed, with the keys that they had then or just before.
    gone: BTreeSet<MeshKey>,
    /// Tokens that were used, withdrawn or past their time.
    useless: BTreeSet<TokenId>,
    numbers: BTreeSet<MemberId>,
    addresses: BTreeSet<Ipv4Addr>,
}

impl Seen {
    /// What is so before an event that happens.
    fn note(
        &mut self,
        before: &Roster,
        now: Millis,
        event: &MeshEvent,
    ) -> Result<(), TestCaseError> {
        let over = before.tokens.values().filter(|token| token.expires <= now);
        self.useless.extend(over.map(|token| token.id));
        match event {
            MeshEvent::Founded { first: member, .. } => self.enters(member)?,
            MeshEvent::Joined { token, member } => {
                self.enters(member)?;
                prop_assert!(self.useless.insert(*token), "a useless token was used");
            }
            MeshEvent::TokenMade(token) => {
                prop_assert!(!self.useless.contains(&token.id) && !self.gone.contains(&token.key));
            }
            MeshEvent::TokenWithdrawn { token } => drop(self.useless.insert(*token)),
            MeshEvent::Moved { .. } => {}
            MeshEvent::Rotated { key, .. } => prop_assert!(!self.gone.contains(key)),
            MeshEvent::Removed { member } => {
                let member = before.member(*member).expect("only a member is removed");
                self.gone.extend(member.keys());
            }
        }
        Ok(())
    }

    fn enters(&mut self, member: &Member) -> Result<(), TestCaseError> {
        prop_assert!(!self.gone.contains(&member.key), "a removed key came back");
        prop_assert!(self.numbers.insert(member.id), "a number came twice");
        prop_assert!(self.addresses.insert(member.v4()), "an address came twice");
        Ok(())
    }
}

fn decide(roster: &Roster, now: Millis, op: &Op) -> Option<MeshEvent> {
    let place = |n: &u8| SocketAddr::from(([192, 0, 2, *n], 51820));
    let decided = match op {
        Op::Token(k, role, only, secs) => roster.make_token(
            now,
            NewToken {
                key: key(*k),
                role: *role,
                name: only.map(any_name),
                secs: *secs,
            },
        ),
        Op::Withdraw(id) => roster.withdraw(now, TokenId(*id)),
        Op::Join(token, n, k) => roster.join(
            now,
            key(*token),
            Newcomer {
                name: any_name(*n),
                key: key(*k),
                endpoints: vec![place(n)],
            },
        ),
        Op::Rotate(id, k, secs) => roster.rotate(now, MemberId(*id), key(*k), *secs),
        Op::Remove(id) => roster.remove(now, MemberId(*id)),
        Op::Move(id, at) => {
            return roster
                .move_to(now, MemberId(*id), at.iter().map(place).collect())
                .ok()?;
        }
        Op::Raw(event) => return Some(event.clone()),
        Op::Wait(_) => return None,
    };
    decided.ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn nothing_clashes_or_comes_back(early in any::<bool>(), ops in prop::collection::vec(any_op(), 0..120)) {
        let (mut roster, mut seen, mut now) = (Roster::default(), Seen::default(), Millis(0));
        if !early {
            let founded = roster.found(now, PREFIX, who("c", 50)).unwrap();
            seen.note(&roster, now, &founded)?;
            roster.apply(now, &founded).unwrap();
        }
        for op in ops {
            if let Op::Wait(secs) = op {
                now = now.plus_secs(secs);
            }
            let Some(event) = decide(&roster, now, &op) else { continue };
            let before = roster.clone();
            let taken = roster.apply(now, &event);
            if taken.is_err() {
                prop_assert!(matches!(op, Op::Raw(_)), "what was decided is refused: {:?}", event);
                prop_assert_eq!(&before, &roster, "what is refused changed something");
                continue;
            }
            seen.note(&before, now, &event)?;
            prop_assert_eq!(roster.is_sound(), Ok(()));
            prop_assert_eq!(roster.follows(&before), Ok(()));
            let keys = roster.members().flat_map(|member| [Some(member.key), member.previous_key(now)]);
            for key in keys.flatten() {
                prop_assert!(!seen.gone.contains(&key) && roster.owner(key, now).is_some());
            }
            for gone in &seen.gone {
                prop_assert!(roster.owner(*gone, now).is_none());
            }
            prop_assert!(roster.tokens(now).all(|token| !seen.useless.contains(&token.id)));
            let bytes = rmp_serde::to_vec_named(&roster).unwrap();
            prop_assert_eq!(&rmp_serde::from_slice::<Roster>(&bytes).unwrap(), &roster);
        }
        let led = roster.members().any(|member| member.role == Role::Controller);
        prop_assert_eq!(led, roster.is_founded());
    }
}
