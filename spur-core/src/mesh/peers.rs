//! Whom each member must know, and how it may speak with them: what the data plane is told.
//!
//! Whoever knows somebody is known by them, or no tunnel would come about: only login hosts have nothing to say to one another.
//! A controller also lets in who comes with a token ([`Roster::tokens`], [`super::Token::v6`]).

use super::{Member, MeshKey, OldKey, Role, Roster};
use crate::id::{MemberId, NodeName};
use crate::time::Millis;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// A member, as another one must know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshPeer {
    /// Its number.
    pub id: MemberId,
    /// Its name.
    pub name: NodeName,
    /// What it is for.
    pub role: Role,
    /// Its key.
    pub key: MeshKey,
    /// The key before that, if it is still accepted.
    pub previous: Option<OldKey>,
    /// Its IPv4 address in the mesh.
    pub v4: Ipv4Addr,
    /// Its IPv6 address in the mesh.
    pub v6: Ipv6Addr,
    /// Where it may be in the network below, the likeliest first.
    pub endpoints: Vec<SocketAddr>,
    /// Controllers that pass packets on to it where it cannot be reached: by number, none of the two themselves.
    pub relays: Vec<MeshKey>,
    /// Whether the tunnel to it is up at all times: a controller must reach whoever is behind a NAT, and only that side can begin.
    pub persistent: bool,
    /// Whether the two may reach each other's control ports.
    pub control: bool,
}

impl Roster {
    /// Whom a member must know at that time, by number: nobody, if it is none.
    pub fn peers_of(&self, id: MemberId, now: Millis) -> Vec<MeshPeer> {
        let Some(own) = self.member(id) else {
            return Vec::new();
        };
        let lead = |member: &&Member| member.role == Role::Controller;
        let controllers: Vec<&Member> = self.members().filter(lead).collect();
        let known = self.members().filter(|other| knows(own.role, other.role));
        let others = known.filter(|other| other.id != id);
        others
            .map(|other| self.peer(own, other, &controllers, now))
            .collect()
    }

    fn peer(&self, own: &Member, other: &Member, controllers: &[&Member], now: Millis) -> MeshPeer {
        let between = controllers.iter();
        let between = between.filter(|relay| relay.id != own.id && relay.id != other.id);
        MeshPeer {
            id: other.id,
            name: other.name.clone(),
            role: other.role,
            key: other.key,
            previous: other.previous.filter(|old| now < old.until),
            v4: other.v4(),
            v6: other.v6(self.prefix()),
            endpoints: other.endpoints.clone(),
            relays: between.map(|relay| relay.key).collect(),
            persistent: other.role == Role::Controller,
            control: rules(own.role, other.role),
        }
    }
}

/// Whether two members have anything to say to one another.
fn knows(one: Role, other: Role) -> bool {
    match (one, other) {
        (Role::Login, Role::Login) => false,
        (Role::Controller | Role::Node, _) | (_, Role::Controller | Role::Node) => true,
    }
}

/// Whether daemons of two members speak with one another. Between nodes there are only jobs: what an agent does, the controller or
/// a login host with the controller's ticket asks of it.
fn rules(one: Role, other: Role) -> bool {
    match (one, other) {
        (Role::Node, Role::Node) | (Role::Login, Role::Login) => false,
        (Role::Controller, _) | (_, Role::Controller) => true,
        (Role::Node, Role::Login) | (Role::Login, Role::Node) => true,
    }
}
