//! `spur node`: who is in the mesh, and who may join it.

mod json;
mod secret;
#[cfg(test)]
mod tests;
mod text;
mod words;

use super::failure::Failure;
use super::link::{self, Trouble};
use super::{output, process};
use spur_core::api::{Reply, Request};
use spur_core::id::NodeName;
use spur_core::mesh::{Member, MeshAsk, MeshBook, NewToken, Role};
use spur_proto::invitation::{Invitation, Meeting};
use std::ffi::OsString;
use words::{Asked, Wanted};

const USAGE: &str = "Usage: spur node list [--json]
       spur node show NAME [--json]
       spur node found NAME KEY ADDRESS:PORT...
       spur node token [--role node|login|controller] [--name NAME] [--lifetime TIME] [--json]
       spur node withdraw TOKEN
       spur node remove NAME

Who is in the mesh of hosts, and who may join it. Everybody may look; all else is for operators.

  found     the mesh begins, with this controller: its WireGuard public key, and where it is reached
  token     a secret with which one host can join once, within TIME (as for --time of srun; an hour)
  withdraw  a token is useless from now on
  remove    a member is cut off, and its keys are never taken again

The membership is kept and checked; no tunnel is made by it yet.
";

/// Runs it.
pub fn main(args: &[OsString]) -> Result<u8, Failure> {
    let words: Option<Vec<&str>> = args.iter().map(|word| word.to_str()).collect();
    let words = words.unwrap_or_default();
    if let ["--help" | "-h"] = words.as_slice() {
        output::print(USAGE);
        return Ok(0);
    }
    let Asked { wanted, json } = match words::read(&words) {
        Ok(Some(asked)) => asked,
        Ok(None) => {
            return Err(Failure {
                text: USAGE.to_owned(),
                code: 1,
            });
        }
        Err(why) => return Err(failed(why)),
    };
    output::print(&answer(wanted, json)?);
    Ok(0)
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::error("spur node", why)
}

fn ask(wish: MeshAsk) -> Result<MeshBook, Failure> {
    let troubled = |trouble: &Trouble| failed(trouble.text());
    match link::question(&Request::Mesh(Box::new(wish))) {
        Ok(Reply::Mesh(book)) => Ok(*book),
        Ok(_) => Err(troubled(&link::unexpected())),
        Err(trouble) => Err(troubled(&trouble)),
    }
}

fn answer(wanted: Wanted, json: bool) -> Result<String, Failure> {
    let clock = process::clock();
    Ok(match wanted {
        Wanted::List => {
            let book = ask(MeshAsk::List)?;
            if json {
                json::book(&book)
            } else {
                text::book(&clock, &book)
            }
        }
        Wanted::Show(name) => {
            let book = ask(MeshAsk::List)?;
            let member = book.members.iter().find(|member| member.name == name);
            let member = member.ok_or_else(|| {
                failed(format!(
                    "no member of the mesh is named {name}; `spur node list` shows who is"
                ))
            })?;
            if json {
                json::member(book.prefix, member)
            } else {
                text::member(&clock, book.prefix, member)
            }
        }
        Wanted::Found(first) => {
            let prefix = secret::prefix().map_err(failed)?;
            let book = ask(MeshAsk::Found { prefix, first })?;
            text::founded(&book)
        }
        Wanted::Token { role, name, secs } => {
            let (invitation, book) = invite(role, name, secs)?;
            if json {
                json::token(&book, &invitation)
            } else {
                format!("{}\n", invitation.to_text())
            }
        }
        Wanted::Withdraw(token) => {
            ask(MeshAsk::Withdraw { token })?;
            format!("Token {token} is useless now.\n")
        }
        Wanted::Remove(name) => {
            let removed = format!("{name} is no member of the mesh any more.\n");
            ask(MeshAsk::Remove { name })?;
            removed
        }
    })
}

/// Makes a token whose bearer can find a controller.
fn invite(
    role: Role,
    name: Option<NodeName>,
    secs: u64,
) -> Result<(Invitation, MeshBook), Failure> {
    let known = ask(MeshAsk::List)?;
    let lead = |member: &&Member| member.role == Role::Controller && !member.endpoints.is_empty();
    let controllers: Vec<Meeting> = known.members.iter().filter(lead).map(meeting).collect();
    if controllers.is_empty() {
        return Err(failed(
            "making a token of the mesh: no controller is known with an endpoint, so nobody could join; `spur node list` shows who is there",
        ));
    }
    let (secret, key) = secret::pair().map_err(failed)?;
    let book = ask(MeshAsk::Token(NewToken {
        key,
        role,
        name,
        secs,
    }))?;
    let made = book.tokens.first();
    let made = made.ok_or_else(|| failed(link::unexpected().text()))?;
    let invitation = Invitation {
        key: secret,
        token: made.id,
        prefix: book.prefix,
        controllers,
    };
    Ok((invitation, book))
}

fn meeting(member: &Member) -> Meeting {
    Meeting {
        id: member.id,
        key: member.key,
        endpoints: member.endpoints.clone(),
    }
}

/// A role as people write it.
fn role(role: Role) -> &'static str {
    match role {
        Role::Controller => "controller",
        Role::Node => "node",
        Role::Login => "login",
    }
}
