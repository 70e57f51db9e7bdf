//! By what this node tells good tickets from others: the key that the controller gave it, or else the cluster's token.

use spur_core::agent::order::TicketKey;
use spur_core::time::Millis;
use spur_proto::ticket::{Ticket, TicketError, verify};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The keys. Shared by whoever lets clients in and whoever hears the controller.
#[derive(Debug)]
pub struct Keys {
    token: Option<Token>,
    own: Mutex<Option<TicketKey>>,
}

/// The cluster's token, not to be shown.
struct Token(Vec<u8>);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Keys {
    /// With the cluster's token, where this host has it.
    pub fn new(token: Option<Vec<u8>>) -> Self {
        Self {
            token: token.filter(|token| !token.is_empty()).map(Token),
            own: Mutex::default(),
        }
    }

    /// The cluster's token, to be shown to a controller on this host; empty without one.
    pub fn token(&self) -> &[u8] {
        self.token.as_ref().map_or(&[], |token| &token.0)
    }

    /// Takes the key that the controller gave with its welcome; `None`: the token counts.
    pub fn given(&self, key: Option<TicketKey>) {
        *self.own() = key;
    }

    /// What a ticket says.
    ///
    /// # Errors
    /// It is no good one; without any key none is.
    pub fn verify(&self, ticket: &[u8], now: Millis) -> Result<Ticket, TicketError> {
        let own = self.own().clone();
        match (&own, &self.token) {
            (Some(own), _) => verify(&own.0, ticket, now),
            (None, Some(token)) => verify(&token.0, ticket, now),
            (None, None) => Err(TicketError::Forged),
        }
    }

    fn own(&self) -> MutexGuard<'_, Option<TicketKey>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spur_core::id::{Generation, JobId, NodeName, StepId, StepKind, Uid};
    use spur_proto::ticket::{key_of, sign};

    #[test]
    fn a_node_goes_by_its_own_key_once_it_has_one_and_by_nothing_without_any() {
        let node = NodeName::new("n1").unwrap();
        let says = Ticket {
            node: node.clone(),
            step: StepId {
                job: JobId(1),
                step: StepKind::Numbered(0),
            },
            uid: Uid(1000),
            generation: Generation(1),
            expires: Millis(10),
            attach: false,
        };
        let own = key_of(b"token", &node);
        let (by_token, by_own, by_nothing) =
            (sign(b"token", &says), sign(&own.0, &says), sign(b"", &says));
        let good = |keys: &Keys, ticket: &[u8]| keys.verify(ticket, Millis(0)).is_ok();
        let keys = Keys::new(Some(b"token".to_vec()));
        assert!(good(&keys, &by_token) && !good(&keys, &by_own));
        keys.given(Some(own));
        assert!(!good(&keys, &by_token) && good(&keys, &by_own));
        keys.given(None);
        assert!(good(&keys, &by_token));
        for without in [None, Some(Vec::new())] {
            let keys = Keys::new(without);
            assert!(
                ![&by_token, &by_own, &by_nothing]
                    .iter()
                    .any(|ticket| good(&keys, ticket))
            );
        }
        assert!(!format!("{:?}", Keys::new(Some(b"token".to_vec()))).contains("116"));
    }
}
