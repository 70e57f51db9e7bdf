//! The terminal of a step's first task (`srun --pty`). The supervisor makes it, outside the job; the task gets its side.

use crate::launch::Window;
use rustix::fs::Mode;
use rustix::process::{Gid, Uid};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use spur_core::job::spec::Owner;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// What `tty(1)` and `mesg(1)` expect of a terminal: its owner reads and writes, and nobody else writes to it.
const MODE: u32 = 0o600;

/// Numbers of the kernel's Unix98 terminals, their tasks' side (`Documentation/admin-guide/devices.txt`).
const MAJORS: std::ops::RangeInclusive<u32> = 136..=143;

/// Makes a terminal of the job's user: the supervisor's side, which does not block, and the task's.
pub(crate) fn open(owner: &Owner, window: Window) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = rustix::pty::openpt(flags)?;
    rustix::pty::unlockpt(&ours)?;
    let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, flags)?;
    let (uid, gid) = (Uid::from_raw(owner.uid.0), Gid::from_raw(owner.gid.0));
    rustix::fs::fchown(&theirs, Some(uid), Some(gid))?;
    rustix::fs::fchmod(&theirs, Mode::from_raw_mode(MODE))?;
    resize(&ours, window)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// Sets a terminal's size; the kernel tells its foreground processes.
pub(crate) fn resize(terminal: impl AsFd, window: Window) -> io::Result<()> {
    let size = Winsize {
        ws_row: window.rows,
        ws_col: window.columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    Ok(rustix::termios::tcsetwinsize(terminal, size)?)
}

/// Begins a session of this process's own with this terminal.
pub(crate) fn take(theirs: impl AsFd) -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(rustix::process::ioctl_tiocsctty(theirs)?)
}

/// Whether a character device of this number is a terminal that [`open`] gives.
pub(crate) fn is_one(major: u32) -> bool {
    MAJORS.contains(&major)
}
