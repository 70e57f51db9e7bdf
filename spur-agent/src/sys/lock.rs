//! Record locks of `fcntl(2)`: held by a process, not inherited by its children, gone with it, and the kernel tells who holds
//! one. So a lock proves that a supervisor lives and says which process it is, without a pid file that may lie.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

fn whole_file(kind: i32) -> libc::flock {
    // SAFETY: `flock` is plain integers, for which all zeroes is a value: from offset 0 to the end of the file.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::c_short::try_from(kind).expect("lock kinds are small");
    lock.l_whence = libc::c_short::try_from(libc::SEEK_SET).expect("SEEK_SET is 0");
    lock
}

/// Takes the write lock on a whole file, or gives `false` if another process holds it. The lock goes when this process closes
/// *any* descriptor of that file.
pub fn try_lock(file: impl AsFd) -> io::Result<bool> {
    let lock = whole_file(libc::F_WRLCK);
    // SAFETY: F_SETLK reads one `struct flock`, which lives across the call; the descriptor is open.
    let done = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_SETLK, &raw const lock) };
    if done == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EAGAIN) => Ok(false),
        _ => Err(error),
    }
}

/// The process that holds the write lock on a file, if another process does.
pub fn holder(file: impl AsFd) -> io::Result<Option<i32>> {
    let mut lock = whole_file(libc::F_WRLCK);
    // SAFETY: F_GETLK reads and writes one `struct flock`, which lives across the call; the descriptor is open.
    let done = unsafe { libc::fcntl(file.as_fd().as_raw_fd(), libc::F_GETLK, &raw mut lock) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let free = i32::from(lock.l_type) == libc::F_UNLCK;
    Ok((!free && lock.l_pid > 0).then_some(lock.l_pid))
}
