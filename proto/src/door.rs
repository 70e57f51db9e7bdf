//! Who is at the other end of a connection through the mesh: what agents tell each other, and the controller, before its first byte.
//!
//! An agent takes a local connection, whose end the kernel names, and dials the agent of the host that is wanted, through a tunnel
//! whose key names this one. That one adds the member's name and hands the connection to the daemon. So neither says of itself who
//! it is.

use crate::{BadMessage, envelope, wire};
use spur_core::id::{Gid, NodeName, Uid};
use spur_core::mesh::Role;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// TCP port of every member's door, on its addresses in the mesh. It is a control port: only root of a member that may reaches it.
pub const PORT: u16 = 6817;

/// Longest preface in bytes.
const PREFACE_MAX: usize = 4096;
/// How long one may take to come.
const COMES_WITHIN: Duration = Duration::from_secs(10);

/// A process, as the kernel of its host names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalUser {
    /// Its user.
    pub uid: Uid,
    /// Its group.
    pub gid: Gid,
    /// Its number there; 0: not known.
    pub pid: u32,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// A command's questions to the controller.
    Controller(LocalUser),
    /// The agent's own streams to the controller.
    Agent,
    /// A step on the host.
    Step(LocalUser),
}

/// A member from whose host a connection comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: NodeName,
    /// What it is for.
    pub role: Role,
}

/// What a connection begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preface {
    /// Where it comes from; between two hosts it is not said, since the tunnel's key says it.
    pub member: Option<Member>,
    /// What it is for.
    pub want: Want,
}

impl Preface {
    /// Writes it.
    ///
    /// # Errors
    /// The connection's.
    pub async fn write(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let bytes = envelope::seal(&wire::Preface::from(self), PREFACE_MAX)?;
        to.write_all(&bytes).await
    }

    /// Reads one, and not a byte more.
    ///
    /// # Errors
    /// The connection's; `TimedOut` if it does not come within ten seconds, `InvalidData` for what makes no sense.
    pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let read = async {
            let length = envelope::read_length(from, PREFACE_MAX).await?;
            envelope::read_body(from, length).await
        };
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        let body = timeout(COMES_WITHIN, read).await.map_err(late)??;
        let message: wire::Preface = envelope::decode(&body)?;
        Self::try_from(message).map_err(|bad| io::Error::new(io::ErrorKind::InvalidData, bad))
    }
}

impl From<&Preface> for wire::Preface {
    fn from(preface: &Preface) -> Self {
        use wire::preface::Want as Wire;
        Self {
            member: preface.member.as_ref().map(|member| wire::Member {
                name: member.name.to_string(),
                role: role_to_wire(member.role).into(),
            }),
            want: Some(match &preface.want {
                Want::Controller(user) => Wire::Controller(user.into()),
                Want::Agent => Wire::Agent(wire::Daemon {}),
                Want::Step(user) => Wire::Step(user.into()),
            }),
        }
    }
}

impl TryFrom<wire::Preface> for Preface {
    type Error = BadMessage;

    fn try_from(message: wire::Preface) -> Result<Self, BadMessage> {
        use wire::preface::Want as Wire;
        let member = message.member.map(|member| {
            let name = NodeName::new(member.name);
            let name = name.map_err(|why| BadMessage::new(why.to_string()).at("name"))?;
            let role = role_from_wire(member.role)?;
            Ok(Member { name, role })
        });
        Ok(Self {
            member: member
                .transpose()
                .map_err(|bad: BadMessage| bad.at("member"))?,
            want: match message.want {
                Some(Wire::Controller(user)) => Want::Controller(user.into()),
                Some(Wire::Agent(wire::Daemon {})) => Want::Agent,
                Some(Wire::Step(user)) => Want::Step(user.into()),
                None => return Err(BadMessage::new("nothing is wanted").at("want")),
            },
        })
    }
}

impl From<&LocalUser> for wire::LocalUser {
    fn from(user: &LocalUser) -> Self {
        Self {
            uid: user.uid.0,
            gid: user.gid.0,
            pid: user.pid,
        }
    }
}

impl From<wire::LocalUser> for LocalUser {
    fn from(user: wire::LocalUser) -> Self {
        Self {
            uid: Uid(user.uid),
            gid: Gid(user.gid),
            pid: user.pid,
        }
    }
}

fn role_to_wire(role: Role) -> wire::MemberRole {
    match role {
        Role::Controller => wire::MemberRole::Controller,
        Role::Node => wire::MemberRole::Node,
        Role::Login => wire::MemberRole::Login,
    }
}

fn role_from_wire(role: i32) -> Result<Role, BadMessage> {
    match wire::MemberRole::try_from(role) {
        Ok(wire::MemberRole::Controller) => Ok(Role::Controller),
        Ok(wire::MemberRole::Node) => Ok(Role::Node),
        Ok(wire::MemberRole::Login) => Ok(Role::Login),
        Ok(wire::MemberRole::Unspecified) | Err(_) => {
            Err(BadMessage::new("no known role").at("role"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn preface() -> impl Strategy<Value = Preface> {
        let user = any::<(u32, u32, u32)>().prop_map(|(uid, gid, pid)| LocalUser {
            uid: Uid(uid),
            gid: Gid(gid),
            pid,
        });
        let want = (user, 0..3).prop_map(|(user, kind)| match kind {
            0 => Want::Controller(user),
            1 => Want::Agent,
            _ => Want::Step(user),
        });
        let roles = prop::sample::select(vec![Role::Controller, Role::Node, Role::Login]);
        let name = "[a-z][a-z0-9.-]{0,60}".prop_map(|name| NodeName::new(name).unwrap());
        let member = (name, roles).prop_map(|(name, role)| Member { name, role });
        (prop::option::of(member), want).prop_map(|(member, want)| Preface { member, want })
    }

    proptest! {
        /// What is written is read, and what follows it is left alone.
        #[test]
        fn a_preface_is_read_as_it_was_written(preface in preface(), rest in any::<Vec<u8>>()) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                let mut bytes = Vec::new();
                preface.write(&mut bytes).await.unwrap();
                bytes.extend(&rest);
                let mut from = bytes.as_slice();
                prop_assert_eq!(Preface::read(&mut from).await.unwrap(), preface);
                prop_assert_eq!(from, rest);
                Ok(())
            })?;
        }
    }

    #[tokio::test]
    async fn what_makes_no_sense_is_refused() {
        let bad = |message: wire::Preface| async move {
            let bytes = envelope::seal(&message, PREFACE_MAX).unwrap();
            Preface::read(&mut bytes.as_slice())
                .await
                .unwrap_err()
                .to_string()
        };
        let want = Some(wire::preface::Want::Agent(wire::Daemon {}));
        let member = |name: &str, role| {
            let name = name.to_owned();
            Some(wire::Member { name, role })
        };
        let nothing = bad(wire::Preface::default()).await;
        assert_eq!(nothing, "bad message: want: nothing is wanted");
        for (name, role, at) in [
            ("n1", 0, "member.role"),
            ("n1", 9, "member.role"),
            ("", 2, "member.name"),
        ] {
            let member = member(name, role);
            let said = bad(wire::Preface { member, want }).await;
            assert!(said.starts_with(&format!("bad message: {at}: ")), "{said}");
        }
        let long = Preface::read(&mut [0, 1, 0, 0].as_slice())
            .await
            .unwrap_err();
        assert_eq!(long.kind(), io::ErrorKind::InvalidData);
    }
}
