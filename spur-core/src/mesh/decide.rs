//! Decisions: each makes the event that would meet a wish, and answers with it if it may happen now.

use super::{
    Member, MeshEvent, MeshKey, MeshPrefix, OVERLAP_SECS_MAX, Refused, Role, Roster,
    TOKEN_SECS_MAX, Token,
};
use crate::id::{MemberId, NodeName, TokenId};
use crate::time::Millis;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A token that an operator wants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewToken {
    /// The public half of the key that it carries.
    pub key: MeshKey,
    /// Role of whoever joins with it.
    pub role: Role,
    /// The only name with which it can be used; `None`: any.
    pub name: Option<NodeName>,
    /// Seconds that it lives: 1 to 30 days.
    pub secs: u64,
}

/// Who wants to be a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Newcomer {
    /// Under which name.
    pub name: NodeName,
    /// With which key, made by itself.
    pub key: MeshKey,
    /// Where it may be, the likeliest first.
    pub endpoints: Vec<SocketAddr>,
}

impl Newcomer {
    fn member(self, id: MemberId, role: Role, since: Millis) -> Member {
        Member {
            id,
            name: self.name,
            role,
            key: self.key,
            previous: None,
            past: Vec::new(),
            endpoints: self.endpoints,
            since,
        }
    }
}

impl Roster {
    /// Founds the mesh, with its first controller.
    pub fn found(
        &self,
        now: Millis,
        prefix: MeshPrefix,
        first: Newcomer,
    ) -> Result<MeshEvent, Refused> {
        let first = first.member(self.next_member(), Role::Controller, now);
        self.allowed(now, MeshEvent::Founded { prefix, first })
    }

    /// Makes a token.
    pub fn make_token(&self, now: Millis, new: NewToken) -> Result<MeshEvent, Refused> {
        if !(1..=TOKEN_SECS_MAX).contains(&new.secs) {
            return Err(Refused::TokenLife(new.secs));
        }
        let id = self.last_token.0.checked_add(1);
        let token = Token {
            id: id.map(TokenId).ok_or(Refused::Full("token"))?,
            key: new.key,
            role: new.role,
            name: new.name,
            expires: now.plus_secs(new.secs),
        };
        self.allowed(now, MeshEvent::TokenMade(token))
    }

    /// Takes a token back that nobody has used.
    pub fn withdraw(&self, now: Millis, token: TokenId) -> Result<MeshEvent, Refused> {
        self.allowed(now, MeshEvent::TokenWithdrawn { token })
    }

    /// Lets a host join that has shown the key of a token.
    pub fn join(&self, now: Millis, token: MeshKey, who: Newcomer) -> Result<MeshEvent, Refused> {
        let open = self.token(token, now).ok_or(Refused::NoToken)?;
        let member = who.member(self.next_member(), open.role, now);
        let token = open.id;
        self.allowed(now, MeshEvent::Joined { token, member })
    }

    /// Says where a member may be now; `None`: it is known to be there.
    pub fn move_to(
        &self,
        now: Millis,
        member: MemberId,
        endpoints: Vec<SocketAddr>,
    ) -> Result<Option<MeshEvent>, Refused> {
        if self.member(member).map(|known| &known.endpoints) == Some(&endpoints) {
            return Ok(None);
        }
        let moved = MeshEvent::Moved { member, endpoints };
        self.allowed(now, moved).map(Some)
    }

    /// Gives a member a new key, and accepts the old one for so many seconds: none, if it fell into wrong hands.
    pub fn rotate(
        &self,
        now: Millis,
        member: MemberId,
        key: MeshKey,
        overlap_secs: u64,
    ) -> Result<MeshEvent, Refused> {
        if overlap_secs > OVERLAP_SECS_MAX {
            return Err(Refused::Overlap(overlap_secs));
        }
        let keep_until = now.plus_secs(overlap_secs);
        let rotated = MeshEvent::Rotated {
            member,
            key,
            keep_until,
        };
        self.allowed(now, rotated)
    }

    /// Removes a member.
    pub fn remove(&self, now: Millis, member: MemberId) -> Result<MeshEvent, Refused> {
        self.allowed(now, MeshEvent::Removed { member })
    }

    fn next_member(&self) -> MemberId {
        MemberId(self.last_member.0.saturating_add(1))
    }

    fn allowed(&self, now: Millis, event: MeshEvent) -> Result<MeshEvent, Refused> {
        self.check(now, &event).map(|()| event)
    }
}
