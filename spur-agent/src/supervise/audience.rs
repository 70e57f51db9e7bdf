//! Who hears a step: the client that started it, and those who attached since (`sattach`), who hear what was said last and what comes.
//! A slow client slows the tasks; somebody who only attached never does, and misses output instead.

use super::client::{Client, Gone};
use rustix::event::PollFlags;
use spur_proto::wire::{Output, Skipped, ToStep, from_step};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How many may be attached at once.
pub(crate) const VIEWERS_MAX: usize = 16;

/// While more than this waits for somebody who attached, output passes by.
const VIEWER_HIGH: usize = 1 << 20;
/// Once no more than this waits, it goes there again.
const VIEWER_LOW: usize = 256 << 10;

/// How much of the last output is kept for those who attach: as much as Slurm keeps, 128 messages of a KiB.
const RECENT_MAX: usize = 128 << 10;

/// All that listen.
#[derive(Debug)]
pub(crate) struct Audience {
    client: Option<Client>,
    viewers: Vec<Viewer>,
    recent: Recent,
}

/// The last output.
#[derive(Debug, Default)]
struct Recent {
    pieces: VecDeque<Output>,
    bytes: usize,
}

impl Recent {
    fn keep(&mut self, piece: Output) {
        self.bytes += piece.data.len();
        self.pieces.push_back(piece);
        while self.bytes > RECENT_MAX {
            let Some(oldest) = self.pieces.pop_front() else {
                return;
            };
            self.bytes -= oldest.data.len();
        }
    }
}

/// Somebody who attached.
#[derive(Debug)]
struct Viewer {
    client: Client,
    /// Output passes by.
    skipping: bool,
    /// Bytes of it that were not told of yet.
    skipped: u64,
    gone: bool,
}

impl Viewer {
    fn queue(&mut self, kind: &from_step::Kind) {
        let waiting = self.client.waiting();
        if let from_step::Kind::Output(output) = kind {
            self.skipping = waiting
                > if self.skipping {
                    VIEWER_LOW
                } else {
                    VIEWER_HIGH
                };
            if self.skipping {
                self.skipped += u64::try_from(output.data.len()).unwrap_or(u64::MAX);
                return;
            }
        }
        if self.skipped > 0 {
            let bytes = std::mem::take(&mut self.skipped);
            self.client
                .queue(from_step::Kind::Skipped(Skipped { bytes }));
        }
        self.client.queue(kind.clone());
    }
}

impl Audience {
    /// The client alone, if there is one.
    pub(crate) fn new(client: Option<Client>) -> Self {
        Self {
            client,
            viewers: Vec::new(),
            recent: Recent::default(),
        }
    }

    /// The client that started the step.
    pub(crate) fn client(&self) -> Option<&Client> {
        self.client.as_ref()
    }

    /// See [`Self::client`].
    pub(crate) fn client_mut(&mut self) -> Option<&mut Client> {
        self.client.as_mut()
    }

    /// Lets the client go; `false` if there is none.
    pub(crate) fn drop_client(&mut self) -> bool {
        self.client.take().is_some()
    }

    /// Lets somebody in, with what is to be heard before and after the last output; `false` if there is no place.
    pub(crate) fn admit(
        &mut self,
        socket: OwnedFd,
        before: Option<from_step::Kind>,
        after: impl IntoIterator<Item = from_step::Kind>,
    ) -> std::io::Result<bool> {
        if self.viewers.len() >= VIEWERS_MAX {
            return Ok(false);
        }
        let mut viewer = Viewer {
            client: Client::new(socket, &[])?,
            skipping: false,
            skipped: 0,
            gone: false,
        };
        before.iter().for_each(|kind| viewer.queue(kind));
        let recent = self.recent.pieces.iter().cloned();
        recent.for_each(|piece| viewer.queue(&from_step::Kind::Output(piece)));
        after.into_iter().for_each(|kind| viewer.queue(&kind));
        self.viewers.push(viewer);
        Ok(true)
    }

    /// Whether output may be read: the client has room for it.
    pub(crate) fn has_room(&self) -> bool {
        self.client.as_ref().is_none_or(Client::has_room)
    }

    /// Hands on a piece of output.
    pub(crate) fn output(&mut self, output: Output) {
        if let from_step::Kind::Output(output) = self.say(from_step::Kind::Output(output)) {
            self.recent.keep(output);
        }
    }

    /// Queues a message for all.
    pub(crate) fn tell(&mut self, kind: from_step::Kind) {
        drop(self.say(kind));
    }

    fn say(&mut self, kind: from_step::Kind) -> from_step::Kind {
        for viewer in &mut self.viewers {
            viewer.queue(&kind);
        }
        match &mut self.client {
            Some(client) => client.queue_kept(kind),
            None => kind,
        }
    }

    /// Sends what the sockets take now. Those who attached and are gone are forgotten.
    pub(crate) fn flush(&mut self) -> Result<(), Gone> {
        for viewer in &mut self.viewers {
            viewer.gone |= viewer.client.flush().is_err();
        }
        self.viewers.retain(|viewer| !viewer.gone);
        self.client.as_mut().map_or(Ok(()), Client::flush)
    }

    /// Whether the client has been sent everything.
    pub(crate) fn client_has_all(&self) -> bool {
        !self.client.as_ref().is_some_and(Client::wants_out)
    }

    /// Whether those who attached have been sent everything.
    pub(crate) fn viewers_have_all(&self) -> bool {
        !self.viewers.iter().any(|viewer| viewer.client.wants_out())
    }

    /// What those who attached wait for, by number: input is taken from them while there is `room` for it.
    pub(crate) fn viewers(
        &self,
        room: bool,
    ) -> impl Iterator<Item = (usize, BorrowedFd<'_>, PollFlags)> {
        self.viewers.iter().enumerate().map(move |(at, viewer)| {
            let client = &viewer.client;
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, room && client.is_open());
            flags.set(PollFlags::OUT, client.wants_out());
            (at, client.as_fd(), flags)
        })
    }

    /// Something happened to one of those who attached: what it sent. What is no message ends its stay.
    pub(crate) fn hear(&mut self, at: usize, what: PollFlags) -> Vec<ToStep> {
        let Some(viewer) = self.viewers.get_mut(at) else {
            return Vec::new();
        };
        viewer.gone |= what.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
        if what.contains(PollFlags::IN) && !viewer.gone {
            viewer.gone = viewer.client.read().is_err();
        }
        let mut messages = Vec::new();
        while !viewer.gone {
            match viewer.client.next() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(Gone) => viewer.gone = true,
            }
        }
        messages
    }
}
