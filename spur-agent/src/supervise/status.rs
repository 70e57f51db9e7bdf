//! What a child tells its supervisor before it executes the job's program: one small message over a socket that closes at exec.

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Greatest length of a message; longer reasons are cut.
const MAX: usize = 4096;

/// Where in its preparation a child failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The fence did not refuse the canary.
    Fence,
    /// Something that the node owes every job: credentials, limits, descriptors.
    Node,
    /// Something that the job asked for: its files.
    Job,
}

/// A child's message.
#[derive(Debug)]
pub(crate) enum Status {
    /// Everything is in place; only exec is left. Arrives with standard error, if that is a regular file, for later messages.
    Ready(Option<OwnedFd>),
    /// It could not prepare; nothing of the job ran in it.
    Failed(Stage, String),
    /// Exec failed with this `errno` text; the child has said so on its standard error.
    NoExec(String),
}

/// Both ends: the supervisor's does not block, the child's does.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, childs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, childs))
}

/// Sends a message, with a copy of a descriptor if one is given.
pub(crate) fn send(
    socket: impl AsFd,
    status: &Status,
    fd: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let (tag, text) = match status {
        Status::Ready(_) => (b'r', ""),
        Status::Failed(Stage::Fence, text) => (b'f', text.as_str()),
        Status::Failed(Stage::Node, text) => (b'n', text.as_str()),
        Status::Failed(Stage::Job, text) => (b'j', text.as_str()),
        Status::NoExec(text) => (b'x', text.as_str()),
    };
    let text = text.as_bytes();
    let text = text.get(..MAX - 1).unwrap_or(text);
    let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&fds));
    }
    let parts = [IoSlice::new(std::slice::from_ref(&tag)), IoSlice::new(text)];
    rustix::net::sendmsg(socket, &parts, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next message; `Ok(None)` when the child executed its program or is gone, `WouldBlock` when there is none yet.
pub(crate) fn receive(socket: impl AsFd) -> io::Result<Option<Status>> {
    let mut bytes = [0; MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let got =
        rustix::net::recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let fd = control.drain().find_map(|message| {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message {
            fds.next()
        } else {
            None
        }
    });
    let Some((tag, text)) = bytes.get(..got).and_then(<[u8]>::split_first) else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(text).into_owned();
    Ok(Some(match tag {
        b'r' => Status::Ready(fd),
        b'f' => Status::Failed(Stage::Fence, text),
        b'j' => Status::Failed(Stage::Job, text),
        b'x' => Status::NoExec(text),
        _ => Status::Failed(Stage::Node, text),
    }))
}
