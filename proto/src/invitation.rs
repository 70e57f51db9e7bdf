//! Join tokens as text: what an operator hands to a host, and all that the host needs to find the mesh and to be let in, once.

use crate::{BadMessage, wire};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use prost::Message as _;
use spur_core::id::{MemberId, TokenId};
use spur_core::mesh::{MeshKey, MeshPrefix};
use std::fmt;
use std::net::SocketAddr;

/// What every such text begins with.
const HEAD: &str = "spur-join-";
/// Longest text in bytes: more controllers than any mesh has.
const TEXT_MAX: usize = 16_384;

/// A private key. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub [u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A controller, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// Its number, which says its addresses in the mesh.
    pub id: MemberId,
    /// Its key.
    pub key: MeshKey,
    /// Where it may be, the likeliest first.
    pub endpoints: Vec<SocketAddr>,
}

/// What a token carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// The key by which the bearer is let in.
    pub key: Secret,
    /// The token's number.
    pub token: TokenId,
    /// The mesh's network.
    pub prefix: MeshPrefix,
    /// Whom to ask.
    pub controllers: Vec<Meeting>,
}

/// A text that is no join token. The text itself is not shown: it may be a secret with a slip in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoInvitation {
    /// It is something else, or too long.
    #[error("reading a join token: it must begin with {HEAD} and have at most {TEXT_MAX} bytes")]
    Other,
    /// It is cut or changed.
    #[error(
        "reading a join token: it is cut or was changed; copy it again, or make another with `spur node token`"
    )]
    Broken,
    /// It is of another version.
    #[error("reading a join token")]
    Message(#[from] BadMessage),
}

impl Invitation {
    /// Its text, which is a secret.
    #[must_use]
    pub fn to_text(&self) -> String {
        let bytes = wire::MeshInvitation::from(self).encode_to_vec();
        format!("{HEAD}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Reads a text, with blanks around it or none.
    ///
    /// # Errors
    /// If it is not whole.
    pub fn from_text(text: &str) -> Result<Self, NoInvitation> {
        let text = text.trim();
        let rest = text.strip_prefix(HEAD).filter(|_| text.len() <= TEXT_MAX);
        let rest = rest.ok_or(NoInvitation::Other)?;
        let broken = |()| NoInvitation::Broken;
        let bytes = URL_SAFE_NO_PAD.decode(rest).map_err(drop).map_err(broken)?;
        let message = wire::MeshInvitation::decode(bytes.as_slice());
        let message = message.map_err(drop).map_err(broken)?;
        Ok(Self::try_from(message)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Invitation {
        Invitation {
            key: Secret([0xa5; 32]),
            token: TokenId(7),
            prefix: MeshPrefix(0xfd00_0000_0000_0001),
            controllers: vec![Meeting {
                id: MemberId(1),
                key: MeshKey([3; 32]),
                endpoints: vec![
                    "192.0.2.1:51820".parse().unwrap(),
                    "[2001:db8::1]:51820".parse().unwrap(),
                ],
            }],
        }
    }

    #[test]
    fn a_token_is_one_word_that_says_what_it_said() {
        let text = sample().to_text();
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        assert!(text.chars().all(legal) && text.len() < 300, "{text}");
        assert_eq!(Invitation::from_text(&format!(" {text}\n")), Ok(sample()));
    }

    #[test]
    fn what_is_cut_or_no_token_is_refused_and_no_secret_is_shown() {
        let text = sample().to_text();
        for end in 0..text.len() {
            let read = Invitation::from_text(&text[..end]);
            // What is cut between two parts still lacks one, but for controllers at the end: then there are none.
            assert!(
                read.is_err() || read.is_ok_and(|read| read.controllers.is_empty()),
                "{end}"
            );
        }
        for other in [
            "",
            "spur",
            "spur-join-",
            "spur-join-!!!",
            "spur-join-AAAA",
            &"A".repeat(4000),
        ] {
            let said = Invitation::from_text(other).unwrap_err().to_string();
            assert!(
                said.starts_with("reading a join token") && said.len() < 200,
                "{said}"
            );
        }
        let long = format!("{text}{}", "A".repeat(TEXT_MAX));
        assert_eq!(Invitation::from_text(&long), Err(NoInvitation::Other));
        let shown = format!("{:?}", sample());
        assert!(!shown.contains("165") && !shown.contains("a5"), "{shown}");
    }
}
