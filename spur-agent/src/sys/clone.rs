//! `clone3(2)` straight into a cgroup, so that no instruction of a job ever runs outside its fence.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

/// `CLONE_INTO_CGROUP` of `linux/sched.h`, since Linux 5.7.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The arguments of `clone3`, second version of `struct clone_args` in `linux/sched.h` (88 bytes, with `cgroup`).
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Makes a child process that is born in the cgroup whose directory is open as `cgroup`, and runs `body` in it. Gives the
/// child's process id; the child raises `SIGCHLD` at its end and must be reaped by the caller.
///
/// The child never returns from here: `body` ends in `exec`, or gives the code to exit with at once; a panic aborts the child.
///
/// # Errors
/// `EINVAL` if this process has more than one thread (the child could then inherit a lock held for ever), otherwise
/// what `clone3` says: `ENOENT`/`ENODEV` for a removed cgroup, `EBUSY` for one with controllers and children, `EAGAIN` for
/// `pids.max`, `ENOSYS` before Linux 5.7.
pub fn clone_into(cgroup: BorrowedFd<'_>, body: impl FnOnce() -> i32) -> io::Result<i32> {
    let args = CloneArgs {
        flags: CLONE_INTO_CGROUP,
        cgroup: u64::from(cgroup.as_raw_fd().cast_unsigned()),
        ..CloneArgs::default()
    };
    copy(args, body).map(|(pid, _)| pid)
}

/// Makes a child process that runs `body`, and gives its process id and a descriptor that stands for it. The child raises `SIGCHLD` at its
/// end and must be reaped by the caller; it never returns from here, as with [`clone_into`].
///
/// # Errors
/// `EINVAL` if this process has more than one thread, otherwise what `clone3` says.
pub fn fork(body: impl FnOnce() -> i32) -> io::Result<(i32, OwnedFd)> {
    let args = CloneArgs {
        flags: u64::try_from(libc::CLONE_PIDFD).map_err(io::Error::other)?,
        ..CloneArgs::default()
    };
    let (pid, pidfd) = copy(args, body)?;
    let pidfd = pidfd.ok_or_else(|| io::Error::other("the kernel gave no descriptor"))?;
    Ok((pid, pidfd))
}

/// `clone3` without shared memory: the child runs `body` and ends. Gives its process id, and its descriptor where the flags ask for one.
fn copy(mut args: CloneArgs, body: impl FnOnce() -> i32) -> io::Result<(i32, Option<OwnedFd>)> {
    if threads()? != 1 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a process with several threads may not clone",
        ));
    }
    let mut pidfd: i32 = -1;
    args.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    args.pidfd = (&raw mut pidfd).expose_provenance() as u64;
    // SAFETY: `args` is a live struct of the size given, and its one pointer is to a live integer, which the kernel writes if the flags
    // say so; no memory is shared with the child (no CLONE_VM), and with one thread in this process no lock can be held by anybody else
    // at the copy.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let _abort = AbortOnDrop;
            super::process::exit_now(body())
        }
        pid => {
            // SAFETY: a number that is not negative was given by the kernel to this process just now, and nothing else owns it.
            let pidfd = (pidfd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(pidfd) });
            Ok((i32::try_from(pid).map_err(io::Error::other)?, pidfd))
        }
    }
}

/// Keeps a panic in the child from unwinding into the parent's code.
struct AbortOnDrop;

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Number of threads of this process.
fn threads() -> io::Result<u64> {
    // Each entry of the directory is one thread and counts as one link, besides `.` and the entry in its parent.
    Ok(std::fs::metadata("/proc/self/task")?
        .nlink()
        .saturating_sub(2))
}
