//! Processes: signals, reaping, limits, affinity.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reaped {
    /// Process id.
    pub pid: i32,
    /// Exit code, 0 if a signal ended it.
    pub code: u8,
    /// Signal, 0 if it exited.
    pub signal: u8,
    /// Whether it dumped core.
    pub core: bool,
}

/// Sends a signal (1..=64, or 0 to ask whether the process exists). The caller must be the parent and not have reaped the
/// process, or the number may name another one.
pub fn kill(pid: i32, signal: i32) -> io::Result<()> {
    if pid <= 0 {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    // SAFETY: takes two integers and touches no memory of ours.
    check(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// Sends a signal to a process group. The caller must know that the group still is the one it means: a child that it has not
/// reaped is a member.
pub fn kill_group(group: i32, signal: i32) -> io::Result<()> {
    if group <= 1 {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    // SAFETY: takes two integers and touches no memory of ours.
    check(unsafe { libc::kill(-group, signal) }).map(drop)
}

/// Reaps one ended child of this process, whichever it is; `None` if none has ended (or there is none).
pub fn reap_any() -> io::Result<Option<Reaped>> {
    wait(libc::P_ALL, 0)
}

/// Reaps the child that `pidfd` stands for, if it has ended. `None` if it still runs, or is not (or no longer) our child.
pub fn reap_pidfd(pidfd: impl AsFd) -> io::Result<Option<Reaped>> {
    wait(libc::P_PIDFD, pidfd.as_fd().as_raw_fd().cast_unsigned())
}

fn wait(kind: libc::idtype_t, id: libc::id_t) -> io::Result<Option<Reaped>> {
    // SAFETY: `siginfo_t` is plain data, for which all zeroes is a value.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is a live `siginfo_t` for the kernel to write.
    let done = unsafe { libc::waitid(kind, id, &raw mut info, libc::WEXITED | libc::WNOHANG) };
    if let Err(error) = check(done) {
        return if error.raw_os_error() == Some(libc::ECHILD) {
            Ok(None)
        } else {
            Err(error)
        };
    }
    // SAFETY: waitid filled `info` for SIGCHLD, or left it zero when no child had ended.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    if pid == 0 {
        return Ok(None);
    }
    let [low, ..] = status.to_le_bytes();
    Ok(Some(match info.si_code {
        libc::CLD_EXITED => Reaped {
            pid,
            code: low,
            signal: 0,
            core: false,
        },
        code => Reaped {
            pid,
            code: 0,
            signal: low,
            core: code == libc::CLD_DUMPED,
        },
    }))
}

/// Sets a soft limit (`RLIMIT_*` number; `u64::MAX` is no limit), at most the hard limit, which stays.
pub fn set_soft_limit(resource: u32, soft: u64) -> io::Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a live `rlimit` for the kernel to write.
    check(unsafe { libc::getrlimit(resource, &raw mut limit) })?;
    limit.rlim_cur = soft.min(limit.rlim_max);
    // SAFETY: `limit` is a live `rlimit` for the kernel to read.
    check(unsafe { libc::setrlimit(resource, &raw const limit) }).map(drop)
}

/// Ends this process at once, running nothing of what a normal exit would.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` does not return and touches no memory of ours.
    unsafe { libc::_exit(code) }
}

/// Shows these words as this process's command line (`/proc/PID/cmdline`), in the place of those that it was started with; what does not
/// fit there is left out.
///
/// # Errors
/// What the kernel says of where the words are.
pub fn show_as(words: &[&[u8]]) -> io::Result<()> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // Behind the name, which is in brackets and may hold blanks: fields 48 and 49 of proc(5), counted from 3.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let number = |at: usize| fields.get(at).and_then(|text| text.parse::<usize>().ok());
    let (Some(start), Some(end)) = (number(45), number(46)) else {
        return Err(io::Error::other(
            "/proc/self/stat does not say where the words are",
        ));
    };
    let mut text: Vec<u8> = words.join(&0);
    text.push(0);
    text.resize(end.saturating_sub(start), 0);
    // SAFETY: the kernel put the words of the command line from `start` to `end` on this process's own stack at exec, where they stay
    // and may be written; `text` has exactly that many bytes. Nothing else reads or writes them: this is only called with one thread.
    unsafe {
        std::ptr::copy_nonoverlapping(
            text.as_ptr(),
            std::ptr::with_exposed_provenance_mut(start),
            text.len(),
        );
    }
    Ok(())
}

/// Closes every descriptor from `first` up.
pub fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: only used where nothing that owns such a descriptor runs afterwards: right before exec, or first thing in `main`.
    let done = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0u32) };
    if done == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
