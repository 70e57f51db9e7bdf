//! The client's connection: frames in, frames out, neither side's queue without bound.

use super::note;
use bytes::{Buf, BytesMut};
use prost::Message;
use rustix::net::SendFlags;
use spur_core::pmi::node::HELD_MAX;
use spur_proto::wire::{FromStep, ToStep, from_step};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// While more than this waits to be sent, no task's output is read: so a slow client slows its tasks, not our memory.
const OUT_HIGH: usize = 256 << 10;

/// When more than this waits to be sent, the client is taken for gone. What is said besides output is bounded by what the tasks hold at
/// once, which is far less.
const OUT_MAX: usize = HELD_MAX + (8 << 20);

/// Longest message of a client: it becomes many times larger in memory than it was on its way. Senders stay far below it.
const MESSAGE_MAX: usize = 2 << 20;

/// How much is read from the client at once.
const READ: usize = 64 << 10;

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Client {
    socket: OwnedFd,
    inward: BytesMut,
    outward: BytesMut,
    /// It shut down its sending side: no more input or signals, but it still listens.
    half_closed: bool,
}

/// The client is gone, or broke the protocol, which comes to the same.
#[derive(Debug)]
pub(crate) struct Gone;

impl Client {
    /// Takes over a connection; `early` was read from it already.
    pub(crate) fn new(socket: OwnedFd, early: &[u8]) -> std::io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self {
            socket,
            inward: BytesMut::from(early),
            outward: BytesMut::new(),
            half_closed: false,
        })
    }

    /// Whether output may be queued.
    pub(crate) fn has_room(&self) -> bool {
        self.outward.len() < OUT_HIGH
    }

    /// Bytes that wait to be sent.
    pub(crate) fn waiting(&self) -> usize {
        self.outward.len()
    }

    /// Whether something waits to be sent.
    pub(crate) fn wants_out(&self) -> bool {
        !self.outward.is_empty()
    }

    /// Whether more can come from it.
    pub(crate) fn is_open(&self) -> bool {
        !self.half_closed
    }

    /// Queues a message. Only output and what tasks ask for by MPI are subject to [`Self::has_room`]; all else is small, and ends with
    /// the connection where it is too much.
    pub(crate) fn queue(&mut self, kind: from_step::Kind) {
        drop(self.queue_kept(kind));
    }

    /// The same; the message comes back.
    pub(crate) fn queue_kept(&mut self, kind: from_step::Kind) -> from_step::Kind {
        let message = FromStep { kind: Some(kind) };
        message
            .encode_length_delimited(&mut self.outward)
            .expect("a growing buffer has room");
        message.kind.expect("it was put there")
    }

    /// Sends what the socket takes now.
    pub(crate) fn flush(&mut self) -> Result<(), Gone> {
        if self.waiting() > OUT_MAX {
            note(&format!(
                "a client takes nothing: {} bytes wait for it",
                self.waiting()
            ));
            return Err(Gone);
        }
        while self.wants_out() {
            match rustix::net::send(&self.socket, &self.outward, SendFlags::NOSIGNAL) {
                Ok(count) => self.outward.advance(count),
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return Err(Gone),
            }
        }
        Ok(())
    }

    /// Reads once from the socket. The messages are then taken by [`Self::next`].
    pub(crate) fn read(&mut self) -> Result<(), Gone> {
        let mut chunk = [0; READ];
        match rustix::io::read(&self.socket, &mut chunk) {
            Ok(0) => self.half_closed = true,
            Ok(count) => self
                .inward
                .extend_from_slice(chunk.get(..count).unwrap_or_default()),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => return Err(Gone),
        }
        Ok(())
    }

    /// The next whole message that was read.
    pub(crate) fn next(&mut self) -> Result<Option<ToStep>, Gone> {
        let Some((prefix, length)) = length(&self.inward)? else {
            return Ok(None);
        };
        if self.inward.len() < prefix + length {
            return Ok(None);
        }
        self.inward.advance(prefix);
        let body = self.inward.split_to(length);
        ToStep::decode(body.as_ref()).map(Some).map_err(|_| Gone)
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The length prefix at the start of `bytes` (its own size, the message's size), if it is whole.
fn length(bytes: &[u8]) -> Result<Option<(usize, usize)>, Gone> {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * at);
        if value > MESSAGE_MAX {
            return Err(Gone);
        }
        if byte & 0x80 == 0 {
            return Ok(Some((at + 1, value)));
        }
        if at >= 3 {
            return Err(Gone);
        }
    }
    Ok(None)
}
