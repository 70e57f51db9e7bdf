//! `spurd pmix-server`: the PMIx server of a step on this node, by OpenPMIx's library.
//!
//! A process of its own, since the library has threads and a supervisor must not; in the step's cgroup and as the job's user, since
//! what the tasks say is read by it. The step's supervisor starts it and speaks with it over a socket; when that ends, it ends.

mod facts;
mod relay;

use crate::supervise::creds;
use crate::sys;
use crate::sys::pmix::{Library, PmixError};
use relay::Relay;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;
use spur_core::id::{Gid, Uid};
use spur_core::job::spec::Owner;
use spur_core::pmix::layout::Layout;
use spur_proto::BadMessage;
use spur_proto::frame::read_frame;
use spur_proto::wire::{FromPmix, PmixEnv, PmixReady, PmixStart, ToPmix, from_pmix, to_pmix};
use std::io;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

/// The (hidden) command by which a supervisor starts it.
pub const COMMAND: &str = "pmix-server";

/// The same, as an argument.
pub(crate) const COMMAND_ARG: &std::ffi::CStr = c"pmix-server";

/// Where it finds the socket to its supervisor.
pub(crate) const SOCKET_FD: i32 = 3;

/// Why a server cannot begin.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Library(#[from] PmixError),
    #[error("could not become the job's user: {0}")]
    User(io::Error),
    #[error("what the PMIx server is told makes no sense: {0}")]
    Told(#[from] BadMessage),
    #[error("what the PMIx server is told names no node")]
    NoNode,
    #[error("the PMIx server lost its supervisor: {0}")]
    Supervisor(#[from] io::Error),
}

/// Runs the server until the supervisor's end of the socket is closed.
pub fn main() -> ExitCode {
    // Whoever would be told is not there without it.
    let Ok(socket) = sys::fd::take(SOCKET_FD) else {
        return ExitCode::FAILURE;
    };
    let socket = UnixStream::from(socket);
    let failed = match serve(&socket) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failed) => failed,
    };
    let kind = Some(from_pmix::Kind::Failed(failed.to_string()));
    // The supervisor sees the end of the socket otherwise.
    drop(spur_proto::frame::write_frame(
        &mut &socket,
        &FromPmix { kind },
    ));
    ExitCode::FAILURE
}

fn serve(socket: &UnixStream) -> Result<(), Failed> {
    let mut from = socket;
    let Some(ToPmix {
        kind: Some(to_pmix::Kind::Start(start)),
    }) = read_frame(&mut from)?
    else {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    };
    // Nothing but this was done as root.
    let groups = start.groups.iter().map(|group| Gid(*group));
    let owner = Owner {
        uid: Uid(start.uid),
        gid: Gid(start.gid),
        groups: groups.collect(),
        ..Owner::default()
    };
    creds::become_user(&owner).map_err(Failed::User)?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(io::Error::from)?;
    let relay = Relay::new(socket.try_clone()?);
    let (server, tasks) = begin(start, &relay)?;
    relay.say(from_pmix::Kind::Ready(PmixReady { tasks }));
    loop {
        await_message(socket, &relay)?;
        let Some(ToPmix { kind }) = read_frame(&mut from)? else {
            break;
        };
        match kind {
            Some(to_pmix::Kind::Ended(rank)) => relay.ended(rank),
            Some(to_pmix::Kind::Pmix(message)) => relay.hear(&server, message.try_into()?),
            Some(to_pmix::Kind::Start(_)) | None => {}
        }
    }
    Ok(server.end()?)
}

/// Waits for the supervisor to say something, and does meanwhile what is due.
fn await_message(socket: &UnixStream, relay: &Relay) -> io::Result<()> {
    loop {
        relay.give_up(Instant::now());
        let left = relay
            .due()
            .map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = [PollFd::new(socket, PollFlags::IN)];
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Starts the library's server, and lets the tasks of this node in.
fn begin(
    start: PmixStart,
    relay: &Arc<Relay>,
) -> Result<(sys::pmix::Server, Vec<PmixEnv>), Failed> {
    let step = start.step.clone().unwrap_or_default();
    let library = Library::load(step.version)?;
    let layout = Layout::try_from(step)?;
    let at = usize::try_from(start.node).unwrap_or(usize::MAX);
    let node = layout.nodes().get(at).ok_or(Failed::NoNode)?;
    let dir = String::from_utf8_lossy(&start.dir);
    let namespace = format!("spur.{}", start.job);
    let host = Box::new(Arc::clone(relay));
    let server = library.serve(&namespace, &facts::of_server(node, &dir), host)?;
    let maps = (
        server.names(&layout.names())?,
        server.ranks(&layout.ranks())?,
    );
    let here = facts::Here {
        layout: &layout,
        node,
        at: start.node,
        job: &start.job,
        universe: start.universe,
        dir: &dir,
    };
    server.describe(node.ranks.len(), &facts::of_step(&here, maps))?;
    let env = |rank: &u32| -> Result<PmixEnv, Failed> {
        let env = server.admit(*rank, start.uid, start.gid)?;
        Ok(PmixEnv { rank: *rank, env })
    };
    let tasks = node.ranks.iter().map(env).collect::<Result<_, _>>()?;
    Ok((server, tasks))
}
