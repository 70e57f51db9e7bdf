//! `spurd starter`: a small process of one thread that makes supervisors by copying itself. A supervisor that is started as a program
//! takes longer to be loaded, linked and taken apart than it does anything for a short step.
//!
//! The agent keeps one, asks it by a socket, and does without where it has none. It ends with the agent; the supervisors do not.

use super::supervisor::{CLIENT_FD, CONTROL_FD};
use crate::{supervise, sys};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::process::{Pid, PidfdFlags};
use std::ffi::{CString, OsStr};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The word that makes this program the starter.
pub const COMMAND: &str = "starter";
/// The agent's end of the socket is there.
const SOCKET_FD: i32 = 5;
/// Descriptors of a supervisor: the standard three, its orders, its client.
const FDS: usize = 5;
/// Longest path of a step's folder.
const PATH_MAX: usize = 4096;
/// Room for the words of a supervisor in the command line of the starter.
const ROOM: usize = PATH_MAX + 32;

/// The agent's side.
#[derive(Debug, Default)]
pub struct Starter {
    process: Mutex<Option<Process>>,
}

/// The process, as long as it lives.
#[derive(Debug)]
struct Process {
    socket: OwnedFd,
    pidfd: OwnedFd,
}

impl Starter {
    /// Starts a supervisor in the folder `dir` with these descriptors, and gives its process id and a descriptor that stands for it.
    /// `program` is this program. `None` if there is no starter, or none any more: nothing was started then.
    ///
    /// # Errors
    /// The starter was asked and did not answer: it is not known whether it started the supervisor.
    pub fn start(
        &self,
        program: &Path,
        dir: &Path,
        fds: &[BorrowedFd<'_>; FDS],
    ) -> io::Result<Option<(i32, OwnedFd)>> {
        let mut process = self.lock();
        if process.is_none() {
            *process = begin(program)
                .inspect_err(|error| tracing::warn!(%error, "steps are started the slow way"))
                .ok();
        }
        let Some(Process { socket, .. }) = &*process else {
            return Ok(None);
        };
        let started = match ask(socket, dir, fds) {
            Ok(()) => answered(socket).map(Some),
            Err(error) => {
                tracing::warn!(%error, "the starter is gone; the next step begins another one");
                Ok(None)
            }
        };
        if !matches!(started, Ok(Some(_)))
            && let Some(Process { pidfd, .. }) = process.take()
        {
            end(&pidfd);
        }
        started
    }

    fn lock(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a starter that does not answer as it should, and waits until it is gone: it may not start what is started otherwise.
fn end(pidfd: &OwnedFd) {
    use rustix::event::{PollFd, PollFlags};
    if rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL).is_ok() {
        let mut ended = [PollFd::new(pidfd, PollFlags::IN)];
        // Nothing is left to be done if this fails.
        rustix::event::poll(&mut ended, None).ok();
    }
    sys::process::reap_pidfd(pidfd).ok();
}

/// Begins a starter.
fn begin(program: &Path) -> io::Result<Process> {
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let null = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    let null = null.as_fd();
    let name = CString::new(program.as_os_str().as_bytes())?;
    let room = CString::new(vec![b'.'; ROOM])?;
    let argv = [c"spurd".into(), CString::new(COMMAND)?, room];
    let env = [c"PATH=/usr/sbin:/usr/bin:/sbin:/bin".into()];
    let fds = [null, null, null, null, null, theirs.as_fd()];
    let pid = sys::spawn::detached(&name, &argv, &env, &fds)?;
    let pid = Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH)?;
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    Ok(Process {
        socket: ours,
        pidfd,
    })
}

fn ask(socket: &OwnedFd, dir: &Path, fds: &[BorrowedFd<'_>; FDS]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    rights.push(SendAncillaryMessage::ScmRights(fds));
    let parts = [IoSlice::new(dir.as_os_str().as_bytes())];
    rustix::net::sendmsg(socket, &parts, &mut rights, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn answered(socket: &OwnedFd) -> io::Result<(i32, OwnedFd)> {
    let mut bytes = [0; 4];
    let (count, mut pidfds) = receive(socket, &mut bytes)?;
    match pidfds.pop() {
        Some(pidfd) if count == bytes.len() => Ok((i32::from_le_bytes(bytes), pidfd)),
        Some(_) | None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A message, and the descriptors that came with it.
fn receive(socket: &OwnedFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(bytes)];
    let count = loop {
        match rustix::net::recvmsg(socket, &mut parts, &mut rights, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received?.bytes,
        }
    };
    let mut fds = Vec::new();
    for message in rights.drain() {
        if let RecvAncillaryMessage::ScmRights(came) = message {
            fds.extend(came);
        }
    }
    Ok((count, fds))
}

/// Runs the starter until the agent is gone.
pub fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve() -> io::Result<()> {
    sys::process::close_from(SOCKET_FD.unsigned_abs() + 1)?;
    let socket = sys::fd::take(SOCKET_FD)?;
    rustix::process::chdir("/")?;
    let signals = sys::signal::descriptor(&[libc::SIGCHLD])?;
    let mut bytes = [0; PATH_MAX];
    loop {
        wait(&socket, &signals)?;
        let (count, fds) = receive(&socket, &mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        let dir = PathBuf::from(OsStr::from_bytes(bytes.get(..count).unwrap_or_default()));
        if fds.len() != FDS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (pid, pidfd) = sys::clone::fork(|| i32::from(supervise_in(&dir, &fds).is_err()))?;
        answer(&socket, pid, &pidfd)?;
    }
}

/// Waits until somebody asks, and meanwhile takes leave of supervisors that end: who asked for them has a descriptor that says so.
fn wait(socket: &OwnedFd, signals: &OwnedFd) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags};
    loop {
        let mut fds = [
            PollFd::new(socket, PollFlags::IN),
            PollFd::new(signals, PollFlags::IN),
        ];
        match rustix::event::poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            polled => polled?,
        };
        let asked = !fds[0].revents().is_empty();
        while sys::signal::next(signals)?.is_some() {}
        while sys::process::reap_any()?.is_some() {}
        if asked {
            return Ok(());
        }
    }
}

fn answer(socket: &OwnedFd, pid: i32, pidfd: &OwnedFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    let fds = [pidfd.as_fd()];
    rights.push(SendAncillaryMessage::ScmRights(&fds));
    let bytes = pid.to_le_bytes();
    let parts = [IoSlice::new(&bytes)];
    rustix::net::sendmsg(socket, &parts, &mut rights, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// In the copy: becomes a supervisor as one that was started as a program is.
fn supervise_in(dir: &Path, fds: &[OwnedFd]) -> io::Result<()> {
    rustix::process::setsid()?;
    let words: [&[u8]; 3] = [b"spurd", b"supervise", dir.as_os_str().as_bytes()];
    sys::process::show_as(&words)?;
    // Copies above the target range, so that none is overwritten before it is placed.
    let above: Vec<OwnedFd> = fds
        .iter()
        .map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, SOCKET_FD + 1))
        .collect::<Result<_, _>>()?;
    for (number, fd) in (0..).zip(&above) {
        let placed = sys::fd::place(fd, number, false)?;
        // Owned by nobody here: the number stays open.
        let _: i32 = std::os::fd::IntoRawFd::into_raw_fd(placed);
    }
    const { assert!(CONTROL_FD < SOCKET_FD && CLIENT_FD < SOCKET_FD) };
    drop(above);
    supervise::run_in(dir)
}
