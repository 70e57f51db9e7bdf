//! `clone3(2)` straight into a cgroup, so that no instruction of a job ever runs outside its fence.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
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
    if threads()? != 1 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a process with several threads may not clone",
        ));
    }
    let cgroup = u64::from(cgroup.as_raw_fd().cast_unsigned());
    let exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    let args = CloneArgs {
        flags: CLONE_INTO_CGROUP,
        exit_signal,
        cgroup,
        ..CloneArgs::default()
    };
    // SAFETY: `args` is a live struct of the size given, without pointers in it; no memory is shared with the child
    // (no CLONE_VM), and with one thread in this process no lock can be held by anybody else at the copy.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let _abort = AbortOnDrop;
            super::process::exit_now(body())
        }
        pid => i32::try_from(pid).map_err(io::Error::other),
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
