//! What operators ask of the mesh, and what they are told.

use super::{Member, MeshEvent, MeshPrefix, NewToken, Newcomer, Refused, Roster, Token};
use crate::id::{NodeName, TokenId};
use crate::time::Millis;
use serde::{Deserialize, Serialize};

/// A wish of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MeshAsk {
    /// Say who is in it.
    List,
    /// Found it.
    Found {
        /// Its network, drawn by lot.
        prefix: MeshPrefix,
        /// Its first controller.
        first: Newcomer,
    },
    /// Make a token.
    Token(NewToken),
    /// Take a token back.
    Withdraw {
        /// Which one.
        token: TokenId,
    },
    /// Remove a member.
    Remove {
        /// Which one.
        name: NodeName,
    },
}

/// What there is of the mesh, or what a wish was about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeshBook {
    /// Its network; 0 until it is founded.
    pub prefix: MeshPrefix,
    /// Members, by number.
    pub members: Vec<Member>,
    /// Open tokens, by number.
    pub tokens: Vec<Token>,
}

impl Roster {
    /// What there is at that time, with or without tokens.
    pub fn book(&self, now: Millis, tokens: bool) -> MeshBook {
        let tokens = self.tokens(now).filter(|_| tokens);
        MeshBook {
            prefix: self.prefix(),
            members: self.members().cloned().collect(),
            tokens: tokens.cloned().collect(),
        }
    }

    /// The event that meets a wish, with what it is about; `None`: nothing is to happen.
    pub fn meets(
        &self,
        now: Millis,
        ask: MeshAsk,
    ) -> Result<Option<(MeshEvent, MeshBook)>, Refused> {
        let event = match ask {
            MeshAsk::List => return Ok(None),
            MeshAsk::Found { prefix, first } => self.found(now, prefix, first)?,
            MeshAsk::Token(new) => self.make_token(now, new)?,
            MeshAsk::Withdraw { token } => self.withdraw(now, token)?,
            MeshAsk::Remove { name } => {
                let member = self.named(&name).ok_or(Refused::NoName(name))?;
                self.remove(now, member.id)?
            }
        };
        let about = self.about(&event);
        Ok(Some((event, about)))
    }

    fn about(&self, event: &MeshEvent) -> MeshBook {
        let mut book = MeshBook {
            prefix: self.prefix(),
            ..MeshBook::default()
        };
        match event {
            MeshEvent::Founded { prefix, first } => {
                book.prefix = *prefix;
                book.members.push(first.clone());
            }
            MeshEvent::TokenMade(token) => book.tokens.push(token.clone()),
            MeshEvent::TokenWithdrawn { token } => {
                book.tokens.extend(self.tokens.get(token).cloned())
            }
            MeshEvent::Joined { member, .. } => book.members.push(member.clone()),
            MeshEvent::Moved { member, .. }
            | MeshEvent::Rotated { member, .. }
            | MeshEvent::Removed { member } => book.members.extend(self.member(*member).cloned()),
        }
        book
    }
}
