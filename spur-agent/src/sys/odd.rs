//! What odd programs do to their threads and memory, for tests that look for it.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Gives the calling thread a table of descriptors of its own.
pub(crate) fn own_files() -> io::Result<()> {
    // SAFETY: the table is a copy, in which every descriptor that this thread owns or borrows is still open.
    let done = unsafe { libc::unshare(libc::CLONE_FILES) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Maps one page of a file privately, for ever.
pub(crate) fn map(file: impl AsFd) -> io::Result<()> {
    let (read, private) = (libc::PROT_READ, libc::MAP_PRIVATE);
    let file = file.as_fd().as_raw_fd();
    // SAFETY: a new mapping at an address of the kernel's choice; nothing refers to it.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, read, private, file, 0) };
    if page == libc::MAP_FAILED {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Ends the first thread of this process alone, running nothing of what its end would. The harness waits there for its tests.
pub(crate) fn end_first_thread() -> io::Result<()> {
    extern "C" fn end(_: libc::c_int) {
        // SAFETY: `exit` of one thread does not return; its stack stays, so what others borrow from it stays valid.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    let handler: extern "C" fn(libc::c_int) = end;
    // SAFETY: the handler makes one system call and touches no memory.
    if unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    let pid = std::process::id();
    // SAFETY: takes integers; the first thread's number is its process's.
    match unsafe { libc::syscall(libc::SYS_tgkill, pid, pid, libc::SIGUSR1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
