//! Taking connections, within bounds: so many in all, so many for one user. What is over them is closed at once, and an accept that
//! fails (no descriptor left, for one) is tried again a little later rather than ending the server.

use super::socket::Bound;
use spur_core::id::{Gid, Uid};
use spur_proto::door::{LocalUser, Member};
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

/// Most connections of one socket.
pub const ALL_MAX: usize = 16_384;
/// Most connections of one user other than root.
pub const USER_MAX: usize = 4096;
/// Connections that were taken and that the server has not looked at yet.
const BACKLOG: usize = 64;
/// Pause after a failed accept.
const PAUSE: Duration = Duration::from_millis(100);

/// Takes connections until the server goes; the socket's file goes with it.
pub fn accept(bound: Bound) -> ReceiverStream<io::Result<Connection>> {
    let (taken, connections) = mpsc::channel(BACKLOG);
    tokio::spawn(async move {
        let Bound { listener, file } = bound;
        let seats = Seats::default();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = taken.closed() => break,
            };
            match accepted {
                Ok((stream, _)) => {
                    if let Some(connection) = seats.seat(stream)
                        && taken.send(Ok(connection)).await.is_err()
                    {
                        break;
                    }
                }
                Err(e) => {
                    tracing::warn!("cannot take a connection: {e}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        drop(file);
    });
    ReceiverStream::new(connections)
}

/// How many connections each user has.
#[derive(Clone, Debug, Default)]
pub(super) struct Seats(Arc<Mutex<BTreeMap<u32, usize>>>);

impl Seats {
    /// Gives a connection its place, by who the kernel says is at its end; `None` closes it.
    fn seat(&self, stream: UnixStream) -> Option<Connection> {
        let peer = stream.peer_cred().ok()?;
        let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
        let user = LocalUser {
            uid: Uid(peer.uid()),
            gid: Gid(peer.gid()),
            pid: pid.unwrap_or(0),
        };
        self.give(stream, Peer { user, member: None })
    }

    /// The same by who is known to be at its end.
    pub(super) fn give(&self, stream: UnixStream, peer: Peer) -> Option<Connection> {
        let seat = self.take(peer.user.uid.0)?;
        Some(Connection {
            stream,
            peer,
            _seat: seat,
        })
    }

    fn take(&self, uid: u32) -> Option<Seat> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = taken.values().sum();
        let own = taken.get(&uid).copied().unwrap_or(0);
        if all >= ALL_MAX || (uid != 0 && own >= USER_MAX) {
            return None;
        }
        taken.insert(uid, own + 1);
        drop(taken);
        Some(Seat {
            uid,
            seats: self.clone(),
        })
    }
}

#[derive(Debug)]
struct Seat {
    uid: u32,
    seats: Seats,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.0.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.get_mut(&self.uid) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => drop(taken.remove(&self.uid)),
        }
    }
}

/// Connections as they come.
pub trait Connections: Stream<Item = io::Result<Connection>> + Send + Unpin + 'static {}

impl<S: Stream<Item = io::Result<Connection>> + Send + Unpin + 'static> Connections for S {}

/// Who is at the other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The process, as the kernel of its host says.
    pub user: LocalUser,
    /// Its host, if that is another one: a member of the mesh, as the key of its tunnel says.
    pub member: Option<Member>,
}

/// A connection that counts.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    peer: Peer,
    _seat: Seat,
}

impl Connection {
    /// Who is at the other end.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_cannot_take_every_place_and_places_come_back() {
        let seats = Seats::default();
        let mut taken: Vec<Seat> = std::iter::from_fn(|| seats.take(1000)).collect();
        assert_eq!(taken.len(), USER_MAX);
        let root: Vec<Seat> = std::iter::from_fn(|| seats.take(0)).collect();
        assert_eq!(
            root.len(),
            ALL_MAX - USER_MAX,
            "root is bounded by the whole only"
        );
        assert!(seats.take(1001).is_none());
        taken.pop();
        assert!(seats.take(1001).is_some());
        drop((taken, root));
        assert!(seats.0.lock().unwrap().is_empty());
    }
}
