//! Why something cannot be, in words for who wanted it.

use super::{ENDPOINTS_MAX, OVERLAP_SECS_MAX, TOKEN_SECS_MAX};
use crate::id::{MemberId, NodeName, TokenId};
use std::net::SocketAddr;

/// Why a wish about the mesh is not met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There is no mesh.
    #[error("the mesh is not founded: the controller has no key and no endpoint yet")]
    NotFounded,
    /// There is one.
    #[error("founding the mesh: it is founded already; other controllers join it by token")]
    Founded,
    /// A network that others may own.
    #[error("founding the mesh: its IPv6 network must be one of fd00::/8")]
    ForeignPrefix,
    /// Nobody may join with that.
    #[error(
        "joining the mesh: the token is unknown, used, withdrawn or expired; make one with `spur node token`"
    )]
    NoToken,
    /// There is no such token.
    #[error("withdrawing token {0} of the mesh: no such token is open")]
    UnknownToken(TokenId),
    /// The token is for another host.
    #[error(
        "joining the mesh as {0}: the token is for {1}; join under that name or make another token"
    )]
    OtherName(NodeName, NodeName),
    /// The name is taken.
    #[error("a member of the mesh is named {0}; remove it first or take another name")]
    NameTaken(NodeName),
    /// The key cannot be told from others.
    #[error("a key for the mesh is no sound X25519 public key; make a new one")]
    UnsoundKey,
    /// The key belongs to somebody or did.
    #[error("a key for the mesh is in use or was; make a new one")]
    KeySeen,
    /// The last rotation is not over.
    #[error(
        "changing the key of member {0} of the mesh: the one before is still accepted; wait until it is not"
    )]
    Rotating(MemberId),
    /// No such member.
    #[error("member {0} is not in the mesh; `spur node list` shows who is")]
    NoMember(MemberId),
    /// No member of that name.
    #[error("no member of the mesh is named {0}; `spur node list` shows who is")]
    NoName(NodeName),
    /// Without it nobody can join, or learn of others.
    #[error("removing member {0} from the mesh: it is the last controller; let another join first")]
    LastController(MemberId),
    /// A token must end.
    #[error("making a token of the mesh that lives {0} seconds: it must be 1 to {TOKEN_SECS_MAX}")]
    TokenLife(u64),
    /// An old key must end.
    #[error(
        "changing a key of the mesh and accepting the old one for {0} seconds: it must be at most {OVERLAP_SECS_MAX}"
    )]
    Overlap(u64),
    /// No host is there.
    #[error(
        "{0} cannot be where a member of the mesh is: give an address and a port of a host outside it"
    )]
    NoEndpoint(SocketAddr),
    /// Too many places.
    #[error("a member of the mesh at {0} endpoints: it may have {ENDPOINTS_MAX}, each once")]
    Endpoints(usize),
    /// Something is used up.
    #[error("the mesh has no room for another {0}")]
    Full(&'static str),
    /// An event that no decision made.
    #[error("the mesh cannot follow an event: {0}")]
    Nonsense(&'static str),
}

impl Refused {
    /// The same for logs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NotFounded => "the mesh is not founded",
            Self::Founded => "the mesh is founded",
            Self::ForeignPrefix => "the mesh has a network that others may own",
            Self::NoToken | Self::UnknownToken(_) => "no such token of the mesh is open",
            Self::OtherName(..) => "the token is for another host",
            Self::NameTaken(_) => "a member of the mesh has that name",
            Self::UnsoundKey => "a key of the mesh is unsound",
            Self::KeySeen => "a key of the mesh was seen before",
            Self::Rotating(_) => "the member's key before is still accepted",
            Self::NoMember(_) | Self::NoName(_) => "no such member of the mesh",
            Self::LastController(_) => "the last controller stays in the mesh",
            Self::TokenLife(_) => "a token of the mesh lives too long or not at all",
            Self::Overlap(_) => "an old key of the mesh is accepted for too long",
            Self::NoEndpoint(_) | Self::Endpoints(_) => "a member of the mesh cannot be there",
            Self::Full(_) => "the mesh is full",
            Self::Nonsense(why) => why,
        }
    }
}
