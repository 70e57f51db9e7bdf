//! Descriptors at fixed numbers: those that a program is started with, and those that it is to find.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers below 64 that were taken already.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Takes over a descriptor that this program was started with, by its number (3 to 63), once in its life. It is closed at
/// exec from now on.
///
/// # Errors
/// `EBADF` if there is none, or it was taken already.
pub fn take(number: RawFd) -> io::Result<OwnedFd> {
    let bad = || io::Error::from_raw_os_error(libc::EBADF);
    let bit = (3..64)
        .contains(&number)
        .then(|| 1u64 << number)
        .ok_or_else(bad)?;
    if TAKEN.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
        return Err(bad());
    }
    // SAFETY: takes integers; fails with EBADF if nothing is open under the number.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: open, as just seen; inherited and not given out before, so nothing else in this program owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Makes `number` a copy of `fd`, closing what it was, and gives the copy. For a child between clone and exec only, where
/// nothing that owns the old descriptor runs any more. The copy is closed at exec if `cloexec`.
///
/// # Errors
/// What `dup3` says; `EINVAL` if `fd` is `number` already.
pub fn place(fd: impl AsFd, number: RawFd, cloexec: bool) -> io::Result<OwnedFd> {
    let flags = if cloexec { libc::O_CLOEXEC } else { 0 };
    // SAFETY: takes integers; the caller's contract covers what was open under `number`.
    if unsafe { libc::dup3(fd.as_fd().as_raw_fd(), number, flags) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just made this descriptor; what owned the number before does not run any more.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
