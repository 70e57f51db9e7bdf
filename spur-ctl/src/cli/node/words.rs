//! What was typed.

use super::role;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use spur_core::id::{NodeName, TokenId};
use spur_core::mesh::{MeshKey, Newcomer, Role};
use spur_core::slurm::timespec::parse_limit;
use spur_core::time::TimeLimit;
use std::net::SocketAddr;

/// Seconds that a token lives if nothing is said.
const LIFETIME_SECS: u64 = 3_600;

/// What is wanted, and how it is shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) wanted: Wanted,
    pub(super) json: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    List,
    Show(NodeName),
    Found(Newcomer),
    Token {
        role: Role,
        name: Option<NodeName>,
        secs: u64,
    },
    Withdraw(TokenId),
    Remove(NodeName),
}

/// Reads the words after `spur node`; `None`: they are no sentence.
pub(super) fn read(words: &[&str]) -> Result<Option<Asked>, String> {
    let json = words.contains(&"--json");
    let rest: Vec<&str> = words
        .iter()
        .copied()
        .filter(|word| *word != "--json")
        .collect();
    let wanted = match rest.as_slice() {
        ["list"] => Wanted::List,
        ["show", member] => Wanted::Show(name(member)?),
        ["token", options @ ..] => match token(options)? {
            Some(token) => token,
            None => return Ok(None),
        },
        _ if json => return Ok(None),
        ["found", member, key_text, places @ ..] if !places.is_empty() => {
            let endpoints: Result<_, _> = places.iter().map(|text| place(text)).collect();
            Wanted::Found(Newcomer {
                name: name(member)?,
                key: key(key_text)?,
                endpoints: endpoints?,
            })
        }
        ["withdraw", number] => {
            let number = number.parse().map(TokenId);
            Wanted::Withdraw(number.map_err(|_| {
                "withdraw: a token is named by its number; `spur node list` shows those that are open"
            })?)
        }
        ["remove", member] => Wanted::Remove(name(member)?),
        _ => return Ok(None),
    };
    Ok(Some(Asked { wanted, json }))
}

fn token(options: &[&str]) -> Result<Option<Wanted>, String> {
    let (mut wanted, mut only, mut secs) = (Role::Node, None, LIFETIME_SECS);
    for pair in options.chunks(2) {
        match pair {
            ["--role", text] => {
                let all = [Role::Node, Role::Login, Role::Controller];
                let found = all.into_iter().find(|known| role(*known) == *text);
                wanted = found.ok_or_else(|| {
                    format!("--role {text}: it must be node, login or controller")
                })?;
            }
            ["--name", text] => only = Some(name(text)?),
            ["--lifetime", text] => match parse_limit(text) {
                Ok(TimeLimit::Secs(limit)) => secs = limit,
                _ => {
                    return Err(format!(
                        "--lifetime {text}: it must be a time as for --time of srun, and end"
                    ));
                }
            },
            _ => return Ok(None),
        }
    }
    Ok(Some(Wanted::Token {
        role: wanted,
        name: only,
        secs,
    }))
}

fn name(text: &str) -> Result<NodeName, String> {
    NodeName::new(text).map_err(|bad| bad.to_string())
}

fn key(text: &str) -> Result<MeshKey, String> {
    let bytes = STANDARD.decode(text).ok();
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    // What is typed may be a private key by mistake.
    bytes.map(MeshKey).ok_or_else(|| {
        "the key must be a WireGuard public key: 32 bytes in base64, as `wg pubkey` writes it"
            .to_owned()
    })
}

fn place(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("{text}: it must be ADDRESS:PORT, or [ADDRESS]:PORT for IPv6"))
}
