//! The agent's side of a supervisor: start it, find it again, give it orders, notice its end.

use super::record::{LOCK, encode, mark_starting, private_file, reserve_exit_record};
use super::starter::Starter;
use super::{LaunchError, StepLaunch, failed, scratch};
use crate::sys;
use rustix::fs::{Mode, OFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::process::{Pid, PidfdFlags};
use serde::{Deserialize, Serialize};
use spur_core::pmi::VALUE_MAX;
use std::ffi::CString;
use std::fs;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Descriptors that a supervisor starts with, after the standard three.
pub(crate) const CONTROL_FD: i32 = 3;
/// The client's connection; `/dev/null` without one.
pub(crate) const CLIENT_FD: i32 = 4;

/// Greatest size of an order in bytes.
pub(crate) const MAX_ORDER: usize = 256;

/// An order to a supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Send a signal to every task.
    Signal(u8),
    /// End the step: `SIGTERM` and `SIGCONT` to every task, `SIGKILL` to all that is left after so many milliseconds.
    End { grace_ms: u64, reason: EndReason },
    /// Let the client in whose connection comes with this.
    Attach,
    /// Send a signal to every task's process group.
    SignalGroup(u8),
    /// The job is stopped, or goes on: its clocks do so too.
    Pause(bool),
}

/// An order, or why it cannot be read, and the connection that came with it.
pub(crate) type Received = (Result<Order, rmp_serde::decode::Error>, Option<OwnedFd>);

/// The next order; `WouldBlock` when there is none.
pub(crate) fn receive(control: &OwnedFd) -> io::Result<Received> {
    let mut bytes = [0; MAX_ORDER];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let count = rustix::net::recvmsg(control, &mut parts, &mut rights, flags)?.bytes;
    let socket = rights.drain().find_map(|message| {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message {
            fds.next()
        } else {
            None
        }
    });
    let order = rmp_serde::from_slice(bytes.get(..count).unwrap_or_default());
    Ok((order, socket))
}

/// Why a step is ended by order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EndReason {
    /// Cancelled, or the job it belongs to was.
    Cancelled,
    /// The job's time limit was reached.
    TimeLimit,
    /// Its node must let go of it (drained by force, superseded).
    NodeFailure,
}

/// How supervisors are started.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The program, started as `PROGRAM supervise DIR`.
    pub program: PathBuf,
    /// What makes supervisors by copying itself; `None`: each is started as a program.
    pub starter: Option<Arc<Starter>>,
}

impl Default for Launcher {
    /// This very program, also when its file was replaced meanwhile.
    fn default() -> Self {
        Self {
            program: "/proc/self/exe".into(),
            starter: Some(Arc::default()),
        }
    }
}

impl Launcher {
    /// Starts the supervisor of a step in the new folder `dir` (absolute; see [`super::step_dir`]), with the client's
    /// connection if there is one. When this returns, the supervisor exists and takes orders; whether the step's tasks start is
    /// in its exit record.
    ///
    /// # Errors
    /// The spec makes no sense, the folder cannot be made or written (`AlreadyExists` if it exists: a step is launched once),
    /// or the process cannot be started. Nothing is left behind then.
    pub fn start(
        &self,
        spec: &StepLaunch,
        dir: &Path,
        client: Option<OwnedFd>,
    ) -> Result<Supervisor, LaunchError> {
        validate(spec, dir)?;
        make_dir(dir)?;
        let started = self.start_in(spec, dir, client);
        if started.is_err() {
            remove_dir(dir)?;
        }
        started
    }

    fn start_in(
        &self,
        spec: &StepLaunch,
        dir: &Path,
        client: Option<OwnedFd>,
    ) -> Result<Supervisor, LaunchError> {
        let control = bind_control(dir)?;
        mark_starting(dir)?;
        reserve_exit_record(dir, spec.tasks.len())?;
        write_spec(spec, dir)?;
        // Users pass through to their script; its name is fixed and everything else here is for root alone.
        let passable = fs::Permissions::from_mode(0o711);
        fs::set_permissions(dir, passable).map_err(failed("set the mode of", dir))?;
        let null = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")
            .map_err(failed("open", "/dev/null"))?;
        let log_path = dir.join("log");
        let log = private_file(&log_path).map_err(failed("create", &log_path))?;
        let client = client.as_ref().map_or(null.as_fd(), AsFd::as_fd);
        let fds = [
            null.as_fd(),
            log.as_fd(),
            log.as_fd(),
            control.as_fd(),
            client,
        ];
        if let Some(starter) = &self.starter
            && let Some((pid, pidfd)) = starter
                .start(&self.program, dir, &fds)
                .map_err(failed("hear of the start in", dir))?
        {
            let dir = dir.into();
            return Ok(Supervisor { pid, pidfd, dir });
        }
        let text = |path: &Path| {
            CString::new(path.as_os_str().as_bytes()).map_err(|e| failed("name", path)(e.into()))
        };
        let program = text(&self.program)?;
        let argv = [c"spurd".into(), c"supervise".into(), text(dir)?];
        let env = [c"PATH=/usr/sbin:/usr/bin:/sbin:/bin".into()];
        let pid = sys::spawn::detached(&program, &argv, &env, &fds)
            .map_err(failed("start", &self.program))?;
        Supervisor::of(pid, dir)
    }
}

/// Refuses what could not be carried out.
fn validate(spec: &StepLaunch, dir: &Path) -> Result<(), LaunchError> {
    let has_nul = |bytes: &[u8]| bytes.contains(&0);
    let no_program = spec.script.is_none() && spec.tasks.iter().any(|task| task.argv.is_empty());
    let strings = spec
        .tasks
        .iter()
        .flat_map(|task| task.argv.iter().chain(&task.env))
        .chain(&spec.env)
        .chain([&spec.hooks.prolog, &spec.hooks.epilog]);
    let mpi = spec.mpi.iter();
    let mpi = mpi.flat_map(|mpi| [mpi.job.as_str(), mpi.mapping.as_str()]);
    let why = if spec.tasks.is_empty() {
        "it has no task here"
    } else if no_program {
        "it has no program to run"
    } else if strings.into_iter().any(|s| has_nul(s))
        || has_nul(spec.work_dir.as_os_str().as_bytes())
    {
        "an argument, environment entry or path holds a NUL byte"
    } else if mpi.into_iter().any(|text| text.len() >= VALUE_MAX) {
        "what its tasks are told by MPI is longer than any value there"
    } else if !dir.is_absolute() || has_nul(dir.as_os_str().as_bytes()) {
        "its folder is not an absolute path"
    } else {
        return Ok(());
    };
    Err(LaunchError::Invalid {
        step: spec.step,
        why,
    })
}

/// Makes a step's folder, closed to users until all in it has its final mode; what leads to it is made passable.
fn make_dir(dir: &Path) -> Result<(), LaunchError> {
    use std::os::unix::fs::DirBuilderExt;
    let create = || fs::DirBuilder::new().mode(0o700).create(dir);
    match create() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = dir.parent().unwrap_or(dir);
            let made = fs::DirBuilder::new()
                .mode(0o711)
                .recursive(true)
                .create(parent);
            made.map_err(failed("make", parent))?;
            create().map_err(failed("make", dir))
        }
        result => result.map_err(failed("make", dir)),
    }
}

/// The path of a step's control socket for `bind` and `connect`: through a descriptor of its folder, since a socket's address
/// holds 107 bytes only.
fn control_address(folder: BorrowedFd<'_>) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new(format!(
        "/proc/self/fd/{}/control",
        folder.as_raw_fd()
    ))?)
}

fn open_folder(dir: &Path) -> Result<OwnedFd, LaunchError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(dir, flags, Mode::empty()).map_err(|e| failed("open", dir)(e.into()))
}

fn control_socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)
}

fn bind_control(dir: &Path) -> Result<OwnedFd, LaunchError> {
    let folder = open_folder(dir)?;
    let path = dir.join("control");
    let bind = || -> io::Result<OwnedFd> {
        let socket = control_socket()?;
        rustix::net::bind(&socket, &control_address(folder.as_fd())?)?;
        // Only root may send; the folder is still closed to everybody else at this moment.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        Ok(socket)
    };
    bind().map_err(failed("make the socket", &path))
}

/// Writes the spec. It need not survive a crash of the machine, which ends the step too, only ours.
fn write_spec(spec: &StepLaunch, dir: &Path) -> Result<(), LaunchError> {
    let (path, draft) = (dir.join("spec"), dir.join("spec.new"));
    let mut file = private_file(&draft).map_err(failed("create", &draft))?;
    file.write_all(&encode(spec))
        .map_err(failed("write", &draft))?;
    fs::rename(&draft, &path).map_err(failed("put in place", &path))
}

/// Removes a step's folder once its end is in the agent's journal; nothing happens if it is gone already.
///
/// # Errors
/// It cannot be removed.
pub fn remove_dir(dir: &Path) -> Result<(), LaunchError> {
    // First, so that what an interrupted removal leaves is seen to be no step's that runs.
    let lock = dir.join(LOCK);
    match fs::remove_file(&lock) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("remove", &lock)(error));
        }
        Ok(()) | Err(_) => {}
    }
    // The rest is ours alone: nobody else can make folders there.
    scratch::remove(&scratch::path(dir))?;
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(failed("remove", dir)),
    }
}

/// A running (or just ended) supervisor.
#[derive(Debug)]
pub struct Supervisor {
    pid: i32,
    pidfd: OwnedFd,
    dir: PathBuf,
}

impl Supervisor {
    /// The process `pid`, which cannot have been reaped yet.
    fn of(pid: i32, dir: &Path) -> Result<Self, LaunchError> {
        let number = Pid::from_raw(pid).ok_or(rustix::io::Errno::SRCH);
        let pidfd =
            number.and_then(|number| rustix::process::pidfd_open(number, PidfdFlags::empty()));
        let pidfd = pidfd.map_err(|error| failed("watch the supervisor of", dir)(error.into()))?;
        Ok(Self {
            pid,
            pidfd,
            dir: dir.into(),
        })
    }

    /// Finds the supervisor of the step in `dir` after a restart of the agent. `None` if none lives; one that was about to
    /// start then gives up, so that nothing of the step can begin any more: look at the exit record.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn adopt(dir: &Path) -> Result<Option<Self>, LaunchError> {
        if let Some(found) = Self::find(dir)? {
            return Ok(Some(found));
        }
        // A supervisor locks first and reads its spec second. Without a spec it exits; if it was faster, it holds the lock now.
        let spec = dir.join("spec");
        match fs::remove_file(&spec) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(failed("remove", spec)(error))
            }
            Ok(()) | Err(_) => Self::find(dir),
        }
    }

    fn find(dir: &Path) -> Result<Option<Self>, LaunchError> {
        let path = dir.join(LOCK);
        let lock = match fs::OpenOptions::new().read(true).write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            lock => lock.map_err(failed("open", &path))?,
        };
        let holder = || sys::lock::holder(&lock).map_err(failed("examine", &path));
        let Some(pid) = holder()? else {
            return Ok(None);
        };
        let found = Self::of(pid, dir);
        // Still held by the same number after the descriptor was opened: so it lived throughout and the number is its own.
        if holder()? == Some(pid) {
            found.map(Some)
        } else {
            Ok(None)
        }
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Becomes readable when it has ended. Call [`Self::reap`] then.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Whether it has ended, reaping it if it is a child of this process. After that the exit record is final: if there is none,
    /// the supervisor was killed, and the step's cgroup is to be killed too.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn reap(&self) -> io::Result<bool> {
        use rustix::event::{PollFd, PollFlags, Timespec};
        sys::process::reap_pidfd(&self.pidfd)?;
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        Ok(rustix::event::poll(
            &mut fds,
            Some(&Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            }),
        )? > 0)
    }

    /// Sends a signal to every task of the step; with `group`, to their process groups, where their children are too. A supervisor
    /// of an older version does not know groups, and sends nothing.
    ///
    /// # Errors
    /// As [`Self::end`].
    pub fn signal(&self, number: u8, group: bool) -> io::Result<()> {
        self.order(if group {
            Order::SignalGroup(number)
        } else {
            Order::Signal(number)
        })
    }

    /// Ends the step: `SIGTERM` and `SIGCONT` to every task, then `SIGKILL` to all that is left after `grace`. A second order
    /// can only shorten the time.
    ///
    /// # Errors
    /// `ConnectionRefused` or `NotFound` if the supervisor has ended, `WouldBlock` if its queue of orders is full.
    pub fn end(&self, grace: Duration, reason: EndReason) -> io::Result<()> {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        self.order(Order::End { grace_ms, reason })
    }

    /// Stops the step's own clocks while its job is stopped, or lets them go on. A supervisor of an older version notes it only.
    ///
    /// # Errors
    /// As [`Self::end`].
    pub fn pause(&self, paused: bool) -> io::Result<()> {
        self.order(Order::Pause(paused))
    }

    /// Hands on the connection of a client that attaches to the step. A supervisor of an older version closes it.
    ///
    /// # Errors
    /// As [`Self::end`].
    pub fn attach(&self, client: BorrowedFd<'_>) -> io::Result<()> {
        self.send(Order::Attach, &[client])
    }

    fn order(&self, order: Order) -> io::Result<()> {
        self.send(order, &[])
    }

    fn send(&self, order: Order, with: &[BorrowedFd<'_>]) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&self.dir, flags, Mode::empty())?;
        let address = control_address(folder.as_fd())?;
        let bytes = encode(&order);
        let parts = [IoSlice::new(&bytes)];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        if !with.is_empty() {
            rights.push(SendAncillaryMessage::ScmRights(with));
        }
        let (socket, flags) = (control_socket()?, SendFlags::NOSIGNAL);
        rustix::net::sendmsg_addr(socket, &address, &parts, &mut rights, flags)?;
        Ok(())
    }
}
