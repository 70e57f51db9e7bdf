//! One task as its parent sees it: its pipes and how it ended.

use super::audience::Audience;
use super::plan::OurEnds;
use crate::launch::TaskEnd;
use bytes::{Buf, Bytes};
use spur_proto::wire::Output;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

/// How much of a task's output becomes one message.
const CHUNK: usize = 64 << 10;

/// A pipe never holds more (an unprivileged user's limit, `/proc/sys/fs/pipe-max-size`): so when this much was read after its
/// writers ended, all that they wrote has come, and what still comes is from somebody else who holds the pipe.
const PIPE_MAX: usize = 1 << 20;

/// Before which message a task's output is to be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// The task's own exit.
    Exit = 0,
    /// The end of the step on this node.
    Ended = 1,
}

/// A task.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) id: u32,
    pub(crate) pid: i32,
    /// Its process group when it started.
    pub(crate) group: i32,
    /// Open until exec (or death).
    pub(crate) status: Option<OwnedFd>,
    pub(crate) ready: bool,
    pub(crate) stdin: Option<Stdin>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    pub(crate) end: Option<TaskEnd>,
    /// It ended within MPI.
    pub(crate) in_mpi: bool,
    /// Whether the client was told of its end.
    pub(crate) told: bool,
    /// Bytes still to be waited for: for each [`Before`], of standard output and error.
    left: [[usize; 2]; 2],
}

/// Which stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout = 0,
    Stderr = 1,
}

/// The state of a stream after reading from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// There may be more.
    More,
    /// Nothing now; somebody still holds the other end.
    Empty,
    /// Nothing any more.
    Closed,
}

impl Task {
    pub(crate) fn new(id: u32, (pid, group): (i32, i32), status: OwnedFd, ends: OurEnds) -> Self {
        Self {
            id,
            pid,
            group,
            status: Some(status),
            ready: false,
            stdin: ends.stdin.map(Stdin::new),
            stdout: ends.stdout,
            stderr: ends.stderr,
            end: None,
            in_mpi: false,
            told: false,
            left: [[PIPE_MAX; 2]; 2],
        }
    }

    /// Moves one chunk of a stream's output to those who listen, or drops it if nobody does.
    pub(crate) fn pump(&mut self, stream: Stream, to: &mut Audience) -> Flow {
        let slot = match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        };
        let Some(pipe) = slot else {
            return Flow::Closed;
        };
        let mut data = vec![0; CHUNK];
        match rustix::io::read(&*pipe, &mut data) {
            Ok(0) => {}
            Ok(count) => {
                data.truncate(count);
                let stderr = stream == Stream::Stderr;
                to.output(Output {
                    task: self.id,
                    stderr,
                    data,
                });
                return Flow::More;
            }
            Err(rustix::io::Errno::AGAIN) => return Flow::Empty,
            Err(rustix::io::Errno::INTR) => return Flow::More,
            // A pipe gives no other error; were there one, reading on would be of no use.
            Err(_) => {}
        }
        *slot = None;
        Flow::Closed
    }

    /// Moves all output that is there now, but of each stream no more than its writers can have left in it; `false` if the
    /// client has no room for it.
    pub(crate) fn drain(&mut self, before: Before, to: &mut Audience) -> bool {
        for stream in [Stream::Stdout, Stream::Stderr] {
            while self.left[before as usize][stream as usize] > 0 {
                if !to.has_room() {
                    return false;
                }
                if self.pump(stream, to) != Flow::More {
                    break;
                }
                let left = &mut self.left[before as usize][stream as usize];
                *left = left.saturating_sub(CHUNK);
            }
        }
        true
    }
}

/// A task's standard input: what the client sent and the task has not taken. Tasks that get the same input share its bytes.
#[derive(Debug)]
pub(crate) struct Stdin {
    pub(crate) pipe: OwnedFd,
    queue: VecDeque<Bytes>,
    waiting: usize,
    eof: bool,
}

impl Stdin {
    fn new(pipe: OwnedFd) -> Self {
        Self {
            pipe,
            queue: VecDeque::new(),
            waiting: 0,
            eof: false,
        }
    }

    /// Bytes that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Queues input, and its end.
    pub(crate) fn push(&mut self, data: Bytes, eof: bool) {
        if self.eof {
            return;
        }
        self.eof = eof;
        self.waiting += data.len();
        if !data.is_empty() {
            self.queue.push_back(data);
        }
    }

    /// Writes what the task takes now; `false` when the pipe is to be closed: all was written, or nobody reads.
    pub(crate) fn write(&mut self) -> bool {
        while let Some(data) = self.queue.front_mut() {
            match rustix::io::write(&self.pipe, data) {
                Ok(count) => {
                    data.advance(count);
                    self.waiting -= count;
                    if data.is_empty() {
                        self.queue.pop_front();
                    }
                }
                Err(rustix::io::Errno::AGAIN) => return true,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        !self.eof
    }
}
