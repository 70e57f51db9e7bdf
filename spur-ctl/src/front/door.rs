//! The door: connections that come through the mesh. The agent on this host takes them from other hosts, and says of each from which
//! member it comes and who is at its end there; nobody but root can connect here.
//!
//! From then on a connection is as one of the local sockets: commands go to the commands' front, an agent's streams to the agents'.

use super::accept::{Connection, Peer, Seats};
use super::socket::Bound;
use spur_core::id::{Gid, Uid};
use spur_proto::door::{LocalUser, Preface, Want};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;

/// Connections of which the preface is awaited; further ones wait in the socket's own queue.
const INCOMING_MAX: usize = 256;
/// Connections that were taken and that a server has not looked at yet.
const BACKLOG: usize = 64;
/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(100);
/// Who is at the end of an agent's own connection.
const ROOT: LocalUser = LocalUser {
    uid: Uid(0),
    gid: Gid(0),
    pid: 0,
};

/// What comes in, sorted.
#[derive(Debug)]
pub struct Door {
    /// Of commands.
    pub commands: ReceiverStream<io::Result<Connection>>,
    /// Of agents.
    pub agents: ReceiverStream<io::Result<Connection>>,
}

/// Where what comes in goes.
#[derive(Clone, Debug)]
struct Ways {
    seats: Seats,
    commands: mpsc::Sender<io::Result<Connection>>,
    agents: mpsc::Sender<io::Result<Connection>>,
}

/// Opens the door; without a socket nothing ever comes.
pub fn open(bound: Option<Bound>) -> Door {
    let (commands, of_commands) = mpsc::channel(BACKLOG);
    let (agents, of_agents) = mpsc::channel(BACKLOG);
    if let Some(bound) = bound {
        let seats = Seats::default();
        tokio::spawn(take_all(
            bound,
            Ways {
                seats,
                commands,
                agents,
            },
        ));
    }
    Door {
        commands: ReceiverStream::new(of_commands),
        agents: ReceiverStream::new(of_agents),
    }
}

async fn take_all(bound: Bound, ways: Ways) {
    let Bound { listener, file } = bound;
    let room = Arc::new(Semaphore::new(INCOMING_MAX));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else {
            break;
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = ways.commands.closed() => break,
            () = ways.agents.closed() => break,
        };
        match accepted {
            Ok((stream, _)) => {
                let ways = ways.clone();
                tokio::spawn(async move {
                    if let Err(error) = take(stream, &ways).await {
                        tracing::warn!(%error, "a connection through the mesh is closed");
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot take a connection through the mesh");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(file);
}

/// Reads who it is, and passes the connection on.
async fn take(mut stream: UnixStream, ways: &Ways) -> io::Result<()> {
    let here = stream.peer_cred()?.uid();
    if here != 0 {
        return Err(io::Error::other(format!(
            "user {here} connects to the door, which is root's"
        )));
    }
    let preface = Preface::read(&mut stream).await?;
    let member = preface.member.ok_or_else(|| {
        io::Error::other("the agent here does not say from which member it comes")
    })?;
    let (user, way) = match preface.want {
        Want::Controller(user) => (user, &ways.commands),
        Want::Agent => (ROOT, &ways.agents),
        Want::Step(_) => return Err(io::Error::other("there are no steps in the controller")),
    };
    let name = member.name.clone();
    let member = Some(member);
    let seated = ways.seats.give(stream, Peer { user, member });
    let connection = seated.ok_or_else(|| {
        io::Error::other(format!(
            "user {} of member {name} has too many connections",
            user.uid
        ))
    })?;
    // Who closed meanwhile takes nothing more.
    way.send(Ok(connection)).await.ok();
    Ok(())
}
