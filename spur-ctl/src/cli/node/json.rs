//! The same as objects. Keys only grow; moments are milliseconds since the epoch.

use super::role;
use super::text::{key, network};
use serde::Serialize;
use spur_core::mesh::{Member, MeshBook, MeshPrefix, Token};
use spur_proto::invitation::Invitation;

#[derive(Serialize)]
struct Book<'a> {
    /// `null` until the mesh is founded.
    network: Option<String>,
    members: Vec<Row<'a>>,
    tokens: Vec<Open<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    number: u32,
    name: &'a str,
    role: &'static str,
    key: String,
    previous_key: Option<String>,
    previous_key_until_ms: Option<u64>,
    ipv4: String,
    ipv6: String,
    endpoints: Vec<String>,
    since_ms: u64,
}

#[derive(Serialize)]
struct Open<'a> {
    number: u32,
    key: String,
    role: &'static str,
    name: Option<&'a str>,
    expires_ms: u64,
    /// The secret itself, once: when the token is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

fn row(prefix: MeshPrefix, member: &Member) -> Row<'_> {
    Row {
        number: member.id.0,
        name: member.name.as_str(),
        role: role(member.role),
        key: key(member.key),
        previous_key: member.previous.map(|old| key(old.key)),
        previous_key_until_ms: member.previous.map(|old| old.until.0),
        ipv4: member.v4().to_string(),
        ipv6: member.v6(prefix).to_string(),
        endpoints: member.endpoints.iter().map(ToString::to_string).collect(),
        since_ms: member.since.0,
    }
}

fn open(token: &Token, secret: Option<String>) -> Open<'_> {
    Open {
        number: token.id.0,
        key: key(token.key),
        role: role(token.role),
        name: token.name.as_ref().map(spur_core::id::NodeName::as_str),
        expires_ms: token.expires.0,
        token: secret,
    }
}

fn text(object: &impl Serialize) -> String {
    serde_json::to_string_pretty(object)
        .expect("these types have names for keys and no failing parts")
        + "\n"
}

/// Everything.
pub(super) fn book(book: &MeshBook) -> String {
    text(&Book {
        network: (!book.members.is_empty()).then(|| network(book.prefix)),
        members: book
            .members
            .iter()
            .map(|member| row(book.prefix, member))
            .collect(),
        tokens: book.tokens.iter().map(|token| open(token, None)).collect(),
    })
}

/// One member.
pub(super) fn member(prefix: MeshPrefix, member: &Member) -> String {
    text(&row(prefix, member))
}

/// A token that was made.
pub(super) fn token(book: &MeshBook, invitation: &Invitation) -> String {
    let mut made = book.tokens.iter();
    text(
        &made
            .next()
            .map(|token| open(token, Some(invitation.to_text()))),
    )
}
