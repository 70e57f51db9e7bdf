//! MPI's process management interface: a socket for each task, answered here by `spur_core::pmi`; what concerns other nodes goes to
//! them by way of the client.

use super::client::Gone;
use super::note;
use super::step::{Phase, Step};
use crate::launch::{self, StepLaunch};
use bytes::{Buf, BytesMut};
use rustix::event::PollFlags;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use spur_core::job::state::ExitStatus;
use spur_core::pmi::node::{Effect, Layout, Refused, Server};
use spur_core::pmi::{Entry, NameRequest};
use spur_proto::wire::{
    Abort, Exchange, KvsEntry, NameAnswer, NameAsk, StdinTaken, from_step, name_ask,
};
use std::io;
use std::os::fd::OwnedFd;

/// How much is read from a task at once.
const READ: usize = 16 << 10;

/// While more than this waits for a task to take it, nothing more is read from it.
const OUT_HIGH: usize = 64 << 10;

/// The interface of a node's tasks.
#[derive(Debug)]
pub(crate) struct Mpi {
    server: Server,
    peers: Vec<Peer>,
    /// Bytes of input that came from the client, and how many of them it knows to be with the tasks.
    input: u64,
    taken: u64,
}

/// One task's socket.
#[derive(Debug)]
struct Peer {
    task: u32,
    socket: Option<OwnedFd>,
    outward: BytesMut,
}

impl Mpi {
    /// For the tasks of a step; `None` if they are to have none.
    pub(crate) fn new(spec: &StepLaunch) -> Option<Self> {
        let launch::Mpi {
            job,
            size,
            universe,
            program,
            mapping,
            pmix,
        } = spec.mpi.clone()?;
        let layout = Layout {
            job,
            size,
            universe,
            program,
            mapping,
        };
        // By PMIx nobody speaks here, but input is counted.
        let tasks = spec.tasks.iter().filter(|_| pmix.is_none());
        let tasks = tasks.map(|task| task.id);
        Some(Self {
            server: Server::new(layout, tasks),
            peers: Vec::new(),
            input: 0,
            taken: 0,
        })
    }

    /// Makes the socket of the next task, and gives its end.
    pub(crate) fn connect(&mut self, task: u32) -> io::Result<OwnedFd> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let (ours, theirs) = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        self.peers.push(Peer {
            task,
            socket: Some(ours),
            outward: BytesMut::new(),
        });
        Ok(theirs)
    }

    /// What is waited for on which task's socket. Nothing is read while the client has no `room` for what may come of it.
    pub(crate) fn interests(
        &self,
        room: bool,
    ) -> impl Iterator<Item = (usize, &OwnedFd, PollFlags)> {
        self.peers.iter().enumerate().filter_map(move |(at, peer)| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, room && peer.outward.len() < OUT_HIGH);
            flags.set(PollFlags::OUT, !peer.outward.is_empty());
            peer.socket.as_ref().map(|socket| (at, socket, flags))
        })
    }

    /// Reads what a task says.
    fn hear(&mut self, at: usize) -> Vec<Effect> {
        let Some(peer) = self.peers.get_mut(at) else {
            return Vec::new();
        };
        let Some(socket) = &peer.socket else {
            return Vec::new();
        };
        let mut bytes = [0; READ];
        // Descriptors that a task might send along are not taken.
        match rustix::net::recv(socket, bytes.as_mut_slice(), RecvFlags::DONTWAIT) {
            Ok((0, _)) => {}
            Ok((count, _)) => {
                let said = bytes.get(..count).unwrap_or_default();
                match self.server.hear(peer.task, said) {
                    Ok(effects) => return effects,
                    Err(broken) => note(&format!("task {} speaks no PMI: {}", peer.task, broken.0)),
                }
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Vec::new(),
            Err(_) => {}
        }
        peer.socket = None;
        Vec::new()
    }

    fn send(&mut self, task: u32, bytes: &[u8]) {
        if let Some(at) = self.peers.iter().position(|peer| peer.task == task) {
            self.peers[at].outward.extend_from_slice(bytes);
            self.flush(at);
        }
    }

    /// Sends what a task's socket takes now.
    fn flush(&mut self, at: usize) {
        let Some(peer) = self.peers.get_mut(at) else {
            return;
        };
        let Some(socket) = &peer.socket else {
            return peer.outward.clear();
        };
        while !peer.outward.is_empty() {
            match rustix::net::send(
                socket,
                &peer.outward,
                SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
            ) {
                Ok(count) => peer.outward.advance(count),
                Err(rustix::io::Errno::AGAIN) => return,
                Err(rustix::io::Errno::INTR) => {}
                // Nobody has it any more. What it said last may still be there to be read.
                Err(_) => return peer.outward.clear(),
            }
        }
    }
}

impl Step<'_> {
    /// Something happened on a task's socket.
    pub(crate) fn serve_mpi(&mut self, at: usize, what: PollFlags) {
        let Some(mpi) = &mut self.mpi else { return };
        if what.contains(PollFlags::OUT) {
            mpi.flush(at);
        }
        if what.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            let effects = mpi.hear(at);
            self.carry_out(effects);
        }
    }

    /// A task has ended; gives whether it was still within MPI.
    pub(crate) fn left_mpi(&mut self, task: u32) -> bool {
        if self.pmix.is_some() {
            return self.left_pmix(task);
        }
        let Some(mpi) = &mut self.mpi else {
            return false;
        };
        let (inside, effects) = mpi.server.ended(task);
        self.carry_out(effects);
        inside
    }

    /// All nodes are at the barrier. A client that says so unasked, or brings what no task may put, breaks the protocol.
    pub(crate) fn exchanged(&mut self, exchange: Exchange) -> Result<(), Gone> {
        let Some(mpi) = &mut self.mpi else {
            return Err(Gone);
        };
        let entry = |entry: KvsEntry| -> Entry { (entry.key, entry.value) };
        let entries = exchange.entries.into_iter().map(entry).collect();
        match mpi.server.exchanged(entries, exchange.last) {
            Ok(effects) => self.carry_out(effects),
            // More may be under way.
            Err(Refused::Full) if self.aborted.is_some() => {}
            Err(full @ Refused::Full) => {
                let why = full.to_string();
                note(&why);
                if let Some(first) = self.tasks.first() {
                    self.say(first.id, &why);
                }
                self.abort(1);
            }
            Err(refused @ (Refused::NotAwaited | Refused::TooLong)) => {
                note(&refused.to_string());
                return Err(Gone);
            }
        }
        Ok(())
    }

    /// The client's word on a name.
    pub(crate) fn name_answered(&mut self, answer: NameAnswer) {
        if let Some(mpi) = &mut self.mpi {
            let found = answer.done.then_some(answer.port);
            let effects = mpi.server.answered(answer.id, found);
            self.carry_out(effects);
        }
    }

    /// Ends the step with this code, as one of its tasks wants, here or on another node.
    pub(crate) fn abort(&mut self, code: u32) {
        if self.phase == Phase::Running {
            let code = u8::try_from(code).unwrap_or(1).max(1);
            self.aborted.get_or_insert(ExitStatus { code, signal: 0 });
            self.kill();
        }
    }

    /// Ends the step here and, by way of the client, everywhere.
    pub(crate) fn aborted_by(&mut self, abort: Abort) {
        if self.phase == Phase::Running && self.aborted.is_none() {
            let code = abort.code;
            self.tell_client(from_step::Kind::Abort(abort));
            self.abort(code);
        }
    }

    /// What an ended task makes of the step's code.
    fn code_of(&self, task: u32) -> u32 {
        let found = self.tasks.iter().find(|known| known.id == task);
        let end = found.and_then(|task| task.end);
        let code = end.map_or(1, |end| super::step::shell_status(end.exit));
        u32::from(code.max(1))
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send { task, bytes } => {
                    if let Some(mpi) = &mut self.mpi {
                        mpi.send(task, &bytes);
                    }
                }
                Effect::Exchange { entries, last } => {
                    let entry = |(key, value): Entry| KvsEntry { key, value };
                    let entries = entries.into_iter().map(entry).collect();
                    self.tell_client(from_step::Kind::Exchange(Exchange { entries, last }));
                }
                Effect::Ask { id, name, request } => {
                    let what = Some(match request {
                        NameRequest::Publish { port } => name_ask::What::Publish(port),
                        NameRequest::Unpublish => name_ask::What::Unpublish(true),
                        NameRequest::Lookup => name_ask::What::Lookup(true),
                    });
                    self.tell_client(from_step::Kind::Name(NameAsk { id, name, what }));
                }
                Effect::Abort { task, code, text } => self.aborted_by(Abort {
                    task,
                    code: code.into(),
                    text,
                    ..Abort::default()
                }),
                Effect::Stuck { task } => self.aborted_by(Abort {
                    task,
                    code: self.code_of(task),
                    stuck: true,
                    ..Abort::default()
                }),
            }
        }
    }

    /// What goes on between the tasks is no business of those who attached.
    pub(crate) fn tell_client(&mut self, kind: from_step::Kind) {
        if let Some(client) = self.audience.client_mut() {
            client.queue(kind);
        }
    }

    /// So much input came from the client.
    pub(crate) fn count_input(&mut self, bytes: usize) {
        if let Some(mpi) = &mut self.mpi {
            mpi.input += bytes as u64;
        }
    }

    /// Tells the client how much of its input the slowest task has taken, so that it never sends more than is read here at once.
    pub(crate) fn tell_taken(&mut self) {
        let stdins = self.tasks.iter().filter_map(|task| task.stdin.as_ref());
        let waiting = stdins.map(super::task::Stdin::waiting).max().unwrap_or(0);
        let Some(mpi) = &mut self.mpi else { return };
        let taken = mpi.input.saturating_sub(waiting as u64);
        let bytes = taken.saturating_sub(mpi.taken);
        if bytes > 0 {
            mpi.taken = taken;
            self.tell_client(from_step::Kind::Taken(StdinTaken { bytes }));
        }
    }
}
