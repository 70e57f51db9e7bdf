//! Starting a detached program of our own by `posix_spawn(3)`, which does not copy the caller's page tables.

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// `POSIX_SPAWN_SETSID` of glibc and musl (`spawn.h`): start in a session of its own.
const SETSID: i32 = 0x80;

/// Starts `program` in a session of its own, with default signals, an empty environment but for `env`, and `fds[i]` as
/// descriptor `i`. Gives its process id. Descriptors of the caller without close-on-exec are inherited too: the program
/// closes what it does not know.
pub fn detached(
    program: &CStr,
    argv: &[CString],
    env: &[CString],
    fds: &[BorrowedFd<'_>],
) -> io::Result<i32> {
    // Copies above the target range, so that no dup2 below overwrites a descriptor still to be copied.
    let floor = i32::try_from(fds.len()).map_err(io::Error::other)?;
    let copies: Vec<_> = fds
        .iter()
        .map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, floor))
        .collect::<Result<_, _>>()?;
    let mut actions = Actions::new()?;
    for (target, copy) in (0..).zip(&copies) {
        actions.dup2(copy.as_raw_fd(), target)?;
    }
    let attributes = Attributes::new()?;
    let argv: Vec<_> = pointers(argv);
    let env: Vec<_> = pointers(env);
    let mut pid = 0;
    // SAFETY: the two arrays end in null and their strings outlive the call; actions and attributes are initialised.
    let failed = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            program.as_ptr(),
            actions.0.as_ptr(),
            attributes.0.as_ptr(),
            argv.as_ptr(),
            env.as_ptr(),
        )
    };
    check(failed).map(|()| pid)
}

fn pointers(strings: &[CString]) -> Vec<*mut libc::c_char> {
    strings
        .iter()
        .map(|s| s.as_ptr().cast_mut())
        .chain([ptr::null_mut()])
        .collect()
}

fn check(error: libc::c_int) -> io::Result<()> {
    if error == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(error))
    }
}

struct Actions(MaybeUninit<libc::posix_spawn_file_actions_t>);

impl Actions {
    fn new() -> io::Result<Self> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: initialises the value that it is given.
        check(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        Ok(Self(actions))
    }

    fn dup2(&mut self, from: i32, to: i32) -> io::Result<()> {
        // SAFETY: initialised by `new`.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(self.0.as_mut_ptr(), from, to) })
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, destroyed once.
        unsafe { libc::posix_spawn_file_actions_destroy(self.0.as_mut_ptr()) };
    }
}

struct Attributes(MaybeUninit<libc::posix_spawnattr_t>);

impl Attributes {
    fn new() -> io::Result<Self> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: initialises the value that it is given.
        check(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        let mut this = Self(attributes);
        let (mut none, mut all) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        let flags = SETSID | libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF;
        let flags = libc::c_short::try_from(flags).map_err(io::Error::other)?;
        // SAFETY: the sets are initialised by the first two calls; the attributes by `posix_spawnattr_init`.
        unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::sigfillset(all.as_mut_ptr());
            check(libc::posix_spawnattr_setsigmask(
                this.0.as_mut_ptr(),
                none.as_ptr(),
            ))?;
            check(libc::posix_spawnattr_setsigdefault(
                this.0.as_mut_ptr(),
                all.as_ptr(),
            ))?;
            check(libc::posix_spawnattr_setflags(this.0.as_mut_ptr(), flags))?;
        }
        Ok(this)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised by `new`, destroyed once.
        unsafe { libc::posix_spawnattr_destroy(self.0.as_mut_ptr()) };
    }
}
