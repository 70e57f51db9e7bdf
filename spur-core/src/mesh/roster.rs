//! All members and open tokens, and what is found by name and by key.

use super::{Member, MeshKey, MeshPrefix, Token};
use crate::id::{MemberId, NodeName, TokenId};
use crate::time::Millis;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Who is in the mesh, who may join, and which keys may not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored")]
pub struct Roster {
    /// 0 until the mesh is founded.
    pub(super) prefix: MeshPrefix,
    pub(super) members: BTreeMap<MemberId, Member>,
    pub(super) tokens: BTreeMap<TokenId, Token>,
    /// Keys of removed members.
    pub(super) gone: BTreeSet<MeshKey>,
    /// The last numbers given; they never fall.
    pub(super) last_member: MemberId,
    pub(super) last_token: TokenId,
    #[serde(skip)]
    pub(super) index: Index,
}

/// The stored fields. Persisted: fields are only ever added, with `#[serde(default)]`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Stored {
    prefix: MeshPrefix,
    members: BTreeMap<MemberId, Member>,
    tokens: BTreeMap<TokenId, Token>,
    gone: BTreeSet<MeshKey>,
    last_member: MemberId,
    last_token: TokenId,
}

impl From<Stored> for Roster {
    fn from(stored: Stored) -> Self {
        let index = Index::of(stored.members.values(), stored.tokens.values());
        Self {
            prefix: stored.prefix,
            members: stored.members,
            tokens: stored.tokens,
            gone: stored.gone,
            last_member: stored.last_member,
            last_token: stored.last_token,
            index,
        }
    }
}

/// What can be derived: whose a name or a key is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    /// Keys of members, present and past.
    pub(super) keys: BTreeMap<MeshKey, MemberId>,
    pub(super) names: BTreeMap<NodeName, MemberId>,
    pub(super) tokens: BTreeMap<MeshKey, TokenId>,
}

impl Index {
    pub(super) fn of<'a>(
        members: impl Iterator<Item = &'a Member>,
        tokens: impl Iterator<Item = &'a Token>,
    ) -> Self {
        let mut index = Self::default();
        members.for_each(|member| index.add(member));
        index.tokens = tokens.map(|token| (token.key, token.id)).collect();
        index
    }

    pub(super) fn add(&mut self, member: &Member) {
        self.names.insert(member.name.clone(), member.id);
        let keys = member.keys().map(|key| (key, member.id));
        self.keys.extend(keys);
    }

    pub(super) fn take_away(&mut self, member: &Member) {
        self.names.remove(&member.name);
        for key in member.keys() {
            self.keys.remove(&key);
        }
    }
}

impl Roster {
    /// Whether there is a mesh.
    pub fn is_founded(&self) -> bool {
        self.prefix != MeshPrefix::default()
    }

    /// Its network.
    pub fn prefix(&self) -> MeshPrefix {
        self.prefix
    }

    /// All members, by number.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// A member.
    pub fn member(&self, id: MemberId) -> Option<&Member> {
        self.members.get(&id)
    }

    /// The member of that name.
    pub fn named(&self, name: &NodeName) -> Option<&Member> {
        self.member(*self.index.names.get(name)?)
    }

    /// Whose key it is at that time. An old key counts as long as it is accepted.
    pub fn owner(&self, key: MeshKey, now: Millis) -> Option<&Member> {
        let member = self.member(*self.index.keys.get(&key)?)?;
        let counts = member.key == key || member.previous_key(now) == Some(key);
        counts.then_some(member)
    }

    /// Tokens that are open at that time, by number.
    pub fn tokens(&self, now: Millis) -> impl Iterator<Item = &Token> {
        self.tokens.values().filter(move |open| now < open.expires)
    }

    /// The token with that key, if it is open at that time.
    pub fn token(&self, key: MeshKey, now: Millis) -> Option<&Token> {
        let token = self.tokens.get(self.index.tokens.get(&key)?)?;
        (now < token.expires).then_some(token)
    }
}
