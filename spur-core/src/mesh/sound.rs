//! What must be true of a roster at all times, and what no event may take back.

use super::follow::are_places;
use super::roster::Index;
use super::{
    GONE_MAX, MEMBER_KEYS_MAX, MEMBERS_MAX, NUMBERS_END, PAST_MAX, Role, Roster, TOKENS_MAX,
};
use crate::id::{MemberId, TokenId};
use std::collections::BTreeSet;

impl Roster {
    /// Checks every rule; the first that is broken is the error.
    pub fn is_sound(&self) -> Result<(), &'static str> {
        let empty = self.members.is_empty() && self.tokens.is_empty() && self.gone.is_empty();
        if !self.is_founded() {
            let new = empty && self.last_member == MemberId(0) && self.last_token == TokenId(0);
            return rule(new, "a mesh that is not founded has something");
        }
        rule(self.prefix.is_local(), "the mesh has a foreign network")?;
        let lead = self.members().any(|m| m.role == Role::Controller);
        rule(lead, "the mesh has no controller")?;
        self.members_are_sound()?;
        self.keys_are_sound()?;
        let mut open = self.tokens.iter();
        let counted = |(id, token): (&TokenId, &super::Token)| {
            *id == token.id && token.id.0 > 0 && token.id <= self.last_token
        };
        rule(open.all(counted), "a token has a wrong number")?;
        rule(self.tokens.len() <= TOKENS_MAX, "too many tokens are open")?;
        let index = Index::of(self.members.values(), self.tokens.values());
        rule(index == self.index, "the index of the mesh is wrong")
    }

    fn members_are_sound(&self) -> Result<(), &'static str> {
        for (id, member) in &self.members {
            let counted = *id == member.id && (1..NUMBERS_END).contains(&id.0);
            rule(
                counted && *id <= self.last_member,
                "a member has a wrong number",
            )?;
            rule(
                member.past.len() <= PAST_MAX,
                "a member has too many past keys",
            )?;
            let places = are_places(self.prefix, &member.endpoints).is_ok();
            rule(places, "a member has an impossible endpoint")?;
        }
        let names: BTreeSet<_> = self.members().map(|member| &member.name).collect();
        let once = names.len() == self.members.len();
        rule(once, "two members of the mesh have one name")
    }

    fn keys_are_sound(&self) -> Result<(), &'static str> {
        let of_members = self.members().flat_map(|member| member.keys());
        let all = of_members.chain(self.tokens.values().map(|token| token.key));
        let all: Vec<_> = all.collect();
        let different: BTreeSet<_> = all.iter().collect();
        rule(
            different.len() == all.len(),
            "a key of the mesh has two owners",
        )?;
        rule(
            all.iter().all(|key| key.is_sound()),
            "a key of the mesh is unsound",
        )?;
        let back = all.iter().any(|key| self.gone.contains(key));
        rule(!back, "a removed key came back")?;
        let fits = self.gone.len() + self.members.len() * MEMBER_KEYS_MAX <= GONE_MAX;
        rule(
            fits && self.members.len() <= MEMBERS_MAX,
            "the mesh has too many members",
        )
    }

    /// Checks what no event may take back: numbers never fall or come again, and removed keys are remembered.
    pub fn follows(&self, before: &Self) -> Result<(), &'static str> {
        let fell = self.last_member < before.last_member || self.last_token < before.last_token;
        rule(!fell, "a number of the mesh fell")?;
        let mut new = self
            .members
            .keys()
            .filter(|id| !before.members.contains_key(id));
        let again = new.any(|id| *id <= before.last_member);
        let mut new = self
            .tokens
            .keys()
            .filter(|id| !before.tokens.contains_key(id));
        let again = again || new.any(|id| *id <= before.last_token);
        rule(!again, "a number of the mesh was given twice")?;
        let founded = !before.is_founded() || self.prefix == before.prefix;
        rule(founded, "the mesh has another network")?;
        rule(
            before.gone.is_subset(&self.gone),
            "a removed key was forgotten",
        )
    }
}

fn rule(kept: bool, otherwise: &'static str) -> Result<(), &'static str> {
    if kept { Ok(()) } else { Err(otherwise) }
}
