//! The step's PMIx server on this node (`spurd pmix-server`): a child in the step's cgroup, which is there before any task is made, since
//! it says what is to be in their environments. What it says to the servers of other nodes goes to them by way of the client.

use super::child::{Failure, become_server};
use super::step::{Phase, Step};
use super::{brief, note};
use crate::launch::{self, scratch};
use crate::sys;
use bytes::{Buf, BytesMut};
use prost::Message as _;
use rustix::event::PollFlags;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use spur_core::job::state::ExitStatus;
use spur_proto::frame::take_frame;
use spur_proto::wire::{
    Abort, FromPmix, Pmix as Message, PmixEnv, PmixNode, PmixStart, PmixStep, ToPmix, from_pmix,
    from_step, to_pmix,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How much is read from the server at once.
const READ: usize = 64 << 10;

/// The server's socket never holds more (`net.core.wmem_default`, 208 KiB where nobody changed it): so when this much was read after a task
/// ended, all that the server had said by then has come.
const SOCKET_MAX: usize = 1 << 20;

/// While more than this waits for the server to take it, the client's messages are not read.
const OUT_HIGH: usize = 1 << 20;

/// How long the server may take to begin.
const BEGIN_WITHIN: Duration = Duration::from_secs(60);

/// A server that has ended may have been killed with all the rest; after this time it was not.
const ALONE_AFTER: Duration = Duration::from_secs(1);

/// How long the server may take to end.
const END_WITHIN: Duration = Duration::from_secs(2);

/// The server of a node's tasks.
#[derive(Debug)]
pub(crate) struct Pmix {
    socket: Option<OwnedFd>,
    inward: BytesMut,
    outward: BytesMut,
    /// Its folder.
    dir: PathBuf,
    /// When it is too late to be ready, or to have ended with the rest.
    due: Option<Instant>,
    /// By task: what is to be in its environment.
    env: BTreeMap<u32, Vec<Vec<u8>>>,
    /// Tasks that have begun with MPI and have not ended with it.
    inside: BTreeSet<u32>,
    /// It was told to end.
    leaving: bool,
}

impl Pmix {
    /// What a task's environment has of it.
    pub(crate) fn env(&self, task: u32) -> &[Vec<u8>] {
        self.env.get(&task).map_or(&[], Vec::as_slice)
    }

    /// What is waited for on its socket.
    pub(crate) fn interest(&self, room: bool) -> Option<(&OwnedFd, PollFlags)> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, room);
        flags.set(PollFlags::OUT, !self.outward.is_empty());
        self.socket.as_ref().map(|socket| (socket, flags))
    }

    /// Whether more may be said to the server: it takes what it is told.
    pub(crate) fn has_room(&self) -> bool {
        self.outward.len() < OUT_HIGH
    }

    /// When something is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    fn queue(&mut self, kind: to_pmix::Kind) {
        let message = ToPmix { kind: Some(kind) };
        message
            .encode_length_delimited(&mut self.outward)
            .expect("a growing buffer has room");
        self.flush();
    }

    /// Sends what the socket takes now.
    fn flush(&mut self) {
        let Some(socket) = &self.socket else {
            return self.outward.clear();
        };
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        while !self.outward.is_empty() {
            match rustix::net::send(socket, &self.outward, flags) {
                Ok(count) => self.outward.advance(count),
                Err(rustix::io::Errno::AGAIN) => return,
                Err(rustix::io::Errno::INTR) => {}
                // What it said last may still be there to be read.
                Err(_) => return self.outward.clear(),
            }
        }
    }

    /// Reads what is there, until it is so much or more.
    fn read_up_to(&mut self, bytes: usize) {
        let mut left = bytes;
        while left > 0
            && let Some(count) = self.read()
        {
            left = left.saturating_sub(count);
        }
    }

    /// Reads once: how much; `None` when there is nothing more now.
    fn read(&mut self) -> Option<usize> {
        let socket = self.socket.as_ref()?;
        let mut bytes = [0; READ];
        // Descriptors that it might send along are not taken.
        match rustix::net::recv(socket, bytes.as_mut_slice(), RecvFlags::DONTWAIT) {
            Ok((0, _)) => {}
            Ok((count, _)) => {
                let said = bytes.get(..count).unwrap_or_default();
                self.inward.extend_from_slice(said);
                return Some(count);
            }
            Err(rustix::io::Errno::INTR) => return Some(0),
            Err(rustix::io::Errno::AGAIN) => return None,
            Err(_) => {}
        }
        self.socket = None;
        None
    }

    /// The next message that was read; one that makes no sense is the last.
    fn next(&mut self) -> Option<from_pmix::Kind> {
        match take_frame::<FromPmix>(&self.inward) {
            Ok(Some((message, length))) => {
                self.inward.advance(length);
                message.kind
            }
            Ok(None) => None,
            Err(why) => {
                note(&format!("the PMIx server speaks no sense: {why}"));
                self.socket = None;
                None
            }
        }
    }
}

impl Step<'_> {
    /// Starts the server. Tasks are made when it is ready.
    pub(crate) fn start_pmix(&mut self, step: &launch::Pmix) -> io::Result<()> {
        let dir = scratch::path(self.dir);
        let owner = &self.spec.owner;
        scratch::make(&dir, owner.uid.0, owner.gid.0).map_err(io::Error::other)?;
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let (ours, theirs) = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
        let (canary, oom_score) = (self.spec.canary.as_deref(), self.oom_score.as_deref());
        let run = || {
            let Err(Failure(_, why)) = become_server(canary, oom_score, (&theirs, &dir));
            let kind = Some(from_pmix::Kind::Failed(why));
            let said = FromPmix { kind }.encode_length_delimited_to_vec();
            // Its end says as much, if less clearly.
            rustix::io::write(&theirs, &said).ok();
            1
        };
        sys::clone::clone_into(self.cgroup.as_fd(), run)?;
        drop(theirs);
        let mut pmix = Pmix {
            socket: Some(ours),
            inward: BytesMut::new(),
            outward: BytesMut::new(),
            dir,
            due: Some(Instant::now() + BEGIN_WITHIN),
            env: BTreeMap::new(),
            inside: BTreeSet::new(),
            leaving: false,
        };
        pmix.queue(to_pmix::Kind::Start(self.told(step, &pmix.dir)));
        self.pmix = Some(pmix);
        Ok(())
    }

    fn told(&self, step: &launch::Pmix, dir: &Path) -> PmixStart {
        let owner = &self.spec.owner;
        let mpi = self.spec.mpi.as_ref();
        // A node is in a step once.
        let node = step.nodes.iter();
        let node = node.take_while(|node| node.name != self.spec.node).count();
        let nodes = step.nodes.iter().map(|node| PmixNode {
            name: node.name.clone(),
            ranks: node.tasks.clone(),
            program: node.program,
        });
        PmixStart {
            job: mpi.map(|mpi| mpi.job.clone()).unwrap_or_default(),
            node: u32::try_from(node).unwrap_or(u32::MAX),
            universe: mpi.map_or(0, |mpi| mpi.universe),
            step: Some(PmixStep {
                version: step.version,
                nodes: nodes.collect(),
            }),
            dir: dir.as_os_str().as_bytes().to_vec(),
            uid: owner.uid.0,
            gid: owner.gid.0,
            groups: owner.groups.iter().map(|group| group.0).collect(),
        }
    }

    /// Whether there are no tasks yet because the server is not ready.
    pub(crate) fn waits_for_pmix(&self) -> bool {
        let starting = self.phase == Phase::Starting && self.record.failure.is_none();
        starting && self.pmix.is_some() && self.tasks.is_empty()
    }

    /// Something happened on the server's socket.
    pub(crate) fn serve_pmix(&mut self, what: PollFlags) {
        if let Some(pmix) = &mut self.pmix
            && what.contains(PollFlags::OUT)
        {
            pmix.flush();
        }
        if what.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            self.hear_pmix(false);
        }
    }

    /// Takes what the server has said: some of it, or all that is there now. Who goes on writing is not waited for.
    fn hear_pmix(&mut self, all: bool) {
        let Some(pmix) = &mut self.pmix else { return };
        let was_there = pmix.socket.is_some();
        pmix.read_up_to(if all { SOCKET_MAX } else { 1 });
        while let Some(kind) = self.pmix.as_mut().and_then(Pmix::next) {
            self.pmix_says(kind);
        }
        if let Some(pmix) = &mut self.pmix
            && was_there
            && pmix.socket.is_none()
        {
            pmix.due = Some(Instant::now() + ALONE_AFTER);
            if self.phase == Phase::Starting {
                self.fail("the PMIx server ended before it was ready", false);
            }
        }
    }

    fn pmix_says(&mut self, kind: from_pmix::Kind) {
        let Some(pmix) = &mut self.pmix else { return };
        match kind {
            from_pmix::Kind::Ready(ready) => {
                let first = std::mem::take(&mut pmix.due).is_some() && self.tasks.is_empty();
                if first && self.phase == Phase::Starting && self.record.failure.is_none() {
                    let ids: BTreeSet<u32> = self.spec.tasks.iter().map(|task| task.id).collect();
                    let ours = |task: &PmixEnv| ids.contains(&task.rank);
                    let nul = |entry: &Vec<u8>| entry.contains(&0);
                    if ready.tasks.iter().any(|task| task.env.iter().any(nul)) {
                        return self.fail("the PMIx server gives an entry with a NUL byte", false);
                    }
                    let tasks = ready.tasks.into_iter().filter(ours);
                    pmix.env = tasks.map(|task| (task.rank, task.env)).collect();
                    self.start_tasks();
                    // What came meanwhile.
                    if self.take_messages().is_err() {
                        self.client_gone();
                    }
                }
            }
            from_pmix::Kind::Failed(why) => self.fail(brief(&why), false),
            from_pmix::Kind::Connected(rank) => {
                if pmix.env.contains_key(&rank) {
                    pmix.inside.insert(rank);
                }
            }
            from_pmix::Kind::Finalized(rank) => {
                pmix.inside.remove(&rank);
            }
            from_pmix::Kind::Abort(abort) => self.aborted_by(abort),
            from_pmix::Kind::Pmix(message) => self.tell_client(from_step::Kind::Pmix(message)),
        }
    }

    /// The servers of other nodes say something.
    pub(crate) fn tell_pmix(&mut self, message: Message) {
        if let Some(pmix) = &mut self.pmix {
            pmix.queue(to_pmix::Kind::Pmix(message));
        }
    }

    /// A task has ended; gives whether it was still within MPI. What the server had said of it by then is there to be read.
    pub(crate) fn left_pmix(&mut self, task: u32) -> bool {
        self.hear_pmix(true);
        let Some(pmix) = &mut self.pmix else {
            return false;
        };
        pmix.queue(to_pmix::Kind::Ended(task));
        let inside = pmix.inside.remove(&task);
        let ended = self.tasks.iter().find(|known| known.id == task);
        let exit = ended.and_then(|task| task.end).map(|end| end.exit);
        let well = exit == Some(ExitStatus::default());
        let killed = exit.is_some_and(|exit| i32::from(exit.signal) == libc::SIGKILL);
        if inside && pmix.socket.is_none() && !killed {
            // It noticed first that the server is gone.
            self.aborted_by(Abort {
                code: 1,
                server: true,
                ..Abort::default()
            });
            return inside;
        }
        let alone = self.spec.mpi.as_ref().is_none_or(|mpi| mpi.size < 2);
        if inside && well && !alone {
            // The others cannot tell, and would wait for it in whatever comes next.
            self.aborted_by(Abort {
                task,
                code: 1,
                stuck: true,
                ..Abort::default()
            });
        }
        inside
    }

    /// Does what is due: a server is too late, or tasks are left without one.
    pub(crate) fn pmix_on_time(&mut self, now: Instant) {
        let due = self.pmix.as_mut().map(|pmix| &mut pmix.due);
        let Some(due) = due.filter(|due| due.is_some_and(|at| at <= now)) else {
            return;
        };
        *due = None;
        if let Some(pmix) = self.pmix.as_mut().filter(|pmix| pmix.leaving) {
            // It had its time: what is left is killed.
            pmix.socket = None;
        }
        let left = self.tasks.iter().any(|task| task.end.is_none());
        match self.phase {
            Phase::Starting => self.fail("the PMIx server did not begin in time", false),
            Phase::Running if left => self.aborted_by(Abort {
                code: 1,
                server: true,
                ..Abort::default()
            }),
            Phase::Running | Phase::Draining | Phase::Closing => {}
        }
    }

    /// Whether the server still has time to end by itself, now that the tasks have ended: it removes files of theirs.
    pub(crate) fn pmix_has_grace(&mut self) -> bool {
        let ends_well = self.phase == Phase::Running && self.aborted.is_none();
        let Some(pmix) = self.pmix.as_mut().filter(|_| ends_well) else {
            return false;
        };
        let Some(socket) = &pmix.socket else {
            return false;
        };
        if !std::mem::replace(&mut pmix.leaving, true) {
            pmix.due = Some(Instant::now() + END_WITHIN);
            // It hears the end of the stream.
            rustix::net::shutdown(socket, rustix::net::Shutdown::Write).ok();
        }
        true
    }

    /// Removes what is left of the server, and of the tasks in its folder.
    pub(crate) fn clear_pmix(&self) {
        if let Some(pmix) = &self.pmix
            && let Err(error) = scratch::remove(&pmix.dir)
        {
            note(&error.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    /// A server, and its end of the socket.
    fn server() -> (Pmix, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let pmix = Pmix {
            socket: Some(ours.into()),
            inward: BytesMut::new(),
            outward: BytesMut::new(),
            dir: PathBuf::new(),
            due: None,
            env: BTreeMap::new(),
            inside: BTreeSet::new(),
            leaving: false,
        };
        (pmix, theirs)
    }

    #[test]
    fn a_server_that_takes_nothing_has_no_room_for_more() {
        let (mut pmix, theirs) = server();
        let told = || {
            to_pmix::Kind::Pmix(Message {
                kind: Some(spur_proto::wire::pmix::Kind::Told(
                    spur_proto::wire::PmixTold {
                        data: vec![0; 64 << 10],
                        ..Default::default()
                    },
                )),
            })
        };
        let most = (0..64).find(|_| {
            pmix.queue(told());
            !pmix.has_room()
        });
        assert!(most.is_some_and(|most| most < 40), "{most:?}");
        drop(theirs);
        pmix.flush();
        assert!(pmix.has_room());
    }

    #[test]
    fn who_never_stops_writing_is_not_read_for_ever() {
        let (mut pmix, mut theirs) = server();
        let writer = std::thread::spawn(move || {
            // Until nobody reads any more.
            while theirs.write_all(&[0; READ]).is_ok() {}
        });
        let end = Instant::now() + Duration::from_secs(60);
        while pmix.inward.is_empty() {
            pmix.read_up_to(SOCKET_MAX);
            assert!(Instant::now() < end, "nothing comes");
        }
        assert!(pmix.inward.len() < SOCKET_MAX + READ);
        drop(pmix);
        writer.join().unwrap();
    }
}
