//! What events may happen, and what follows from them.

use super::{
    ENDPOINTS_MAX, GONE_MAX, MEMBER_KEYS_MAX, MEMBERS_MAX, Member, MeshEvent, MeshKey, MeshPrefix,
    NUMBERS_END, OVERLAP_SECS_MAX, OldKey, PAST_MAX, Refused, Role, Roster, TOKEN_SECS_MAX,
    TOKENS_MAX, Token,
};
use crate::id::{MemberId, TokenId};
use crate::time::Millis;
use std::net::{IpAddr, SocketAddr};

impl Roster {
    /// Follows what happened. Cannot fail: what may not happen changes nothing, and the answer says why.
    pub fn apply(&mut self, at: Millis, event: &MeshEvent) -> Result<(), Refused> {
        self.check(at, event)?;
        match event {
            MeshEvent::Founded { prefix, first } => {
                self.prefix = *prefix;
                self.add(first);
            }
            MeshEvent::TokenMade(token) => {
                self.drop_tokens(|open| open.expires <= at);
                self.last_token = token.id;
                self.index.tokens.insert(token.key, token.id);
                self.tokens.insert(token.id, token.clone());
            }
            MeshEvent::TokenWithdrawn { token } => self.drop_tokens(|open| open.id == *token),
            MeshEvent::Joined { token, member } => {
                self.drop_tokens(|open| open.id == *token);
                self.add(member);
            }
            MeshEvent::Moved { member, endpoints } => {
                if let Some(member) = self.members.get_mut(member) {
                    member.endpoints.clone_from(endpoints);
                }
            }
            MeshEvent::Rotated {
                member,
                key,
                keep_until,
            } => self.renew(*member, *key, *keep_until),
            MeshEvent::Removed { member } => {
                if let Some(member) = self.members.remove(member) {
                    self.index.take_away(&member);
                    self.gone.extend(member.keys());
                }
            }
        }
        Ok(())
    }

    /// Whether an event may happen now. Whatever passes leaves the roster sound.
    pub(super) fn check(&self, now: Millis, event: &MeshEvent) -> Result<(), Refused> {
        match event {
            MeshEvent::Founded { prefix, first } => self.may_found(*prefix, first),
            MeshEvent::TokenMade(token) => self.may_make(now, token),
            MeshEvent::TokenWithdrawn { token } => {
                let open = self.tokens.get(token).filter(|open| now < open.expires);
                open.map(drop).ok_or(Refused::UnknownToken(*token))
            }
            MeshEvent::Joined { token, member } => self.may_join(now, *token, member),
            MeshEvent::Moved { member, endpoints } => {
                self.known(*member)?;
                are_places(self.prefix, endpoints)
            }
            MeshEvent::Rotated {
                member,
                key,
                keep_until,
            } => {
                if self.known(*member)?.previous_key(now).is_some() {
                    return Err(Refused::Rotating(*member));
                }
                if *keep_until > now.plus_secs(OVERLAP_SECS_MAX) {
                    return Err(Refused::Overlap(keep_until.secs_since(now)));
                }
                self.is_fresh(*key)
            }
            MeshEvent::Removed { member } => {
                let controllers = || self.members().filter(|m| m.role == Role::Controller);
                let role = self.known(*member)?.role;
                if role == Role::Controller && controllers().nth(1).is_none() {
                    return Err(Refused::LastController(*member));
                }
                Ok(())
            }
        }
    }

    fn may_found(&self, prefix: MeshPrefix, first: &Member) -> Result<(), Refused> {
        if self.is_founded() {
            return Err(Refused::Founded);
        }
        if !prefix.is_local() {
            return Err(Refused::ForeignPrefix);
        }
        if first.role != Role::Controller {
            return Err(Refused::Nonsense("the first member is no controller"));
        }
        self.may_enter(prefix, first)
    }

    fn may_make(&self, now: Millis, token: &Token) -> Result<(), Refused> {
        if !self.is_founded() {
            return Err(Refused::NotFounded);
        }
        if token.id <= self.last_token {
            return Err(Refused::Nonsense("a token's number was given before"));
        }
        if token.expires <= now || token.expires > now.plus_secs(TOKEN_SECS_MAX) {
            return Err(Refused::TokenLife(token.expires.secs_since(now)));
        }
        if let Some(name) = token
            .name
            .as_ref()
            .filter(|name| self.named(name).is_some())
        {
            return Err(Refused::NameTaken(name.clone()));
        }
        if self.tokens(now).count() >= TOKENS_MAX {
            return Err(Refused::Full(
                "open token; withdraw some, or wait until some expire",
            ));
        }
        self.is_fresh(token.key)
    }

    fn may_join(&self, now: Millis, token: TokenId, member: &Member) -> Result<(), Refused> {
        let open = self.tokens.get(&token).filter(|open| now < open.expires);
        let open = open.ok_or(Refused::NoToken)?;
        if let Some(only) = open.name.as_ref().filter(|only| **only != member.name) {
            return Err(Refused::OtherName(member.name.clone(), only.clone()));
        }
        if open.role != member.role {
            return Err(Refused::Nonsense(
                "a host joins in another role than its token's",
            ));
        }
        self.may_enter(self.prefix, member)
    }

    /// Whether somebody can be a member who is none.
    fn may_enter(&self, prefix: MeshPrefix, new: &Member) -> Result<(), Refused> {
        if self.named(&new.name).is_some() {
            return Err(Refused::NameTaken(new.name.clone()));
        }
        if new.id <= self.last_member {
            return Err(Refused::Nonsense("a member's number was given before"));
        }
        if new.id.0 >= NUMBERS_END || !has_room(self.members.len(), self.gone.len()) {
            return Err(Refused::Full("member"));
        }
        if new.previous.is_some() || !new.past.is_empty() {
            return Err(Refused::Nonsense("a new member had a key before"));
        }
        are_places(prefix, &new.endpoints)?;
        self.is_fresh(new.key)
    }

    fn known(&self, id: MemberId) -> Result<&Member, Refused> {
        self.member(id).ok_or(Refused::NoMember(id))
    }

    /// Whether a key is sound, and nobody's.
    fn is_fresh(&self, key: MeshKey) -> Result<(), Refused> {
        if !key.is_sound() {
            return Err(Refused::UnsoundKey);
        }
        let of_member = self.index.keys.contains_key(&key) || self.gone.contains(&key);
        if of_member || self.index.tokens.contains_key(&key) {
            return Err(Refused::KeySeen);
        }
        Ok(())
    }

    fn add(&mut self, member: &Member) {
        self.last_member = member.id;
        self.index.add(member);
        self.members.insert(member.id, member.clone());
    }

    fn renew(&mut self, id: MemberId, key: MeshKey, until: Millis) {
        let Some(member) = self.members.get_mut(&id) else {
            return;
        };
        self.index.take_away(member);
        member.past.extend(member.previous.map(|old| old.key));
        let surplus = member.past.len().saturating_sub(PAST_MAX);
        member.past.drain(..surplus);
        member.previous = Some(OldKey {
            key: member.key,
            until,
        });
        member.key = key;
        self.index.add(member);
    }

    fn drop_tokens(&mut self, over: impl Fn(&Token) -> bool) {
        let keys = &mut self.index.tokens;
        self.tokens.retain(|_, token| {
            let over = over(token);
            if over {
                keys.remove(&token.key);
            }
            !over
        });
    }
}

/// Whether one more can join: then the keys of all can be remembered, however they are removed.
pub(super) const fn has_room(members: usize, gone: usize) -> bool {
    members < MEMBERS_MAX && gone + (members + 1) * MEMBER_KEYS_MAX <= GONE_MAX
}

/// Whether members can be there: few, each once, a host's, and not reached through the mesh itself.
pub(super) fn are_places(prefix: MeshPrefix, endpoints: &[SocketAddr]) -> Result<(), Refused> {
    let outside = |at: &SocketAddr| {
        let ip = at.ip().to_canonical();
        let group = ip == IpAddr::from([255; 4]) || ip.is_unspecified() || ip.is_multicast();
        at.port() != 0 && !group && !prefix.contains(ip)
    };
    if let Some(wrong) = endpoints.iter().find(|at| !outside(at)) {
        return Err(Refused::NoEndpoint(*wrong));
    }
    let twice = |(n, at)| endpoints.iter().take(n).any(|other| other == at);
    if endpoints.len() > ENDPOINTS_MAX || endpoints.iter().enumerate().any(twice) {
        return Err(Refused::Endpoints(endpoints.len()));
    }
    Ok(())
}
