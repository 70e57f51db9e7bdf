//! Signal masks, dispositions and `signalfd(2)`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// Highest signal number of Linux (`_NSIG`).
pub const SIGNALS: i32 = 64;

fn set_of(signals: &[i32]) -> io::Result<libc::sigset_t> {
    // SAFETY: `sigset_t` is plain data; `sigemptyset` gives it its value, and it lives across both calls.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    unsafe { libc::sigemptyset(&raw mut set) };
    for signal in signals {
        // SAFETY: as above; a bad number is refused with EINVAL.
        if unsafe { libc::sigaddset(&raw mut set, *signal) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(set)
}

/// Blocks the given signals in this thread and gives a non-blocking descriptor from which [`next`] reads them.
pub fn descriptor(signals: &[i32]) -> io::Result<OwnedFd> {
    let set = set_of(signals)?;
    // SAFETY: `set` is an initialised signal set; the old mask is not asked for.
    let blocked = unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
    if blocked != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `set` is an initialised signal set; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The next pending signal's number, if there is one.
pub fn next(descriptor: impl AsFd) -> io::Result<Option<i32>> {
    // SAFETY: `signalfd_siginfo` is plain data, for which all zeroes is a value.
    let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::signalfd_siginfo>();
    // SAFETY: the kernel writes at most `size` bytes into `info`, which is that large.
    let got = unsafe { libc::read(descriptor.as_fd().as_raw_fd(), (&raw mut info).cast(), size) };
    if got == -1 {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock {
            Ok(None)
        } else {
            Err(error)
        };
    }
    Ok(i32::try_from(info.ssi_signo)
        .ok()
        .filter(|_| usize::try_from(got) == Ok(size)))
}

/// Gives every signal its default disposition and unblocks all, as a program expects at its start.
pub fn reset_all() {
    // The kernel's own `struct sigaction` (handler, flags, restorer, mask), all zero: SIG_DFL. Not libc's function, which refuses
    // the numbers that it keeps for itself, and those are what `posix_spawn` leaves ignored.
    let default = [0u64; 4];
    for signal in 1..=SIGNALS {
        // SAFETY: reads `default`, which is as large as the kernel's structure; SIG_DFL installs no code of ours. KILL and
        // STOP are refused harmlessly.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                ptr::null_mut::<u64>(),
                size_of::<u64>(),
            )
        };
    }
    if let Ok(none) = set_of(&[]) {
        // SAFETY: `none` is an initialised signal set; the old mask is not asked for.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut()) };
    }
}

/// Ignores a signal in this process.
pub fn ignore(signal: i32) {
    // SAFETY: SIG_IGN installs no code of ours.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}
