//! A job's process that never stops trying.

use crate::lab::*;
use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A process in the job that opens node 0, which it holds, and node 1, which it does not, until it is asked to stop.
pub(crate) struct Looper {
    talk: UnixStream,
    pid: i32,
}

impl Looper {
    /// Returns when it has tried both once.
    pub(crate) fn start(cgroup: &Path, nodes: &[CString; 2]) -> Looper {
        let (mut talk, theirs) = UnixStream::pair().unwrap();
        let folder = File::open(cgroup).unwrap();
        let pid = spawn(folder.as_raw_fd(), || {
            let mut wrong = [0u32; 3];
            let mut byte = 0u8;
            let fd = theirs.as_raw_fd();
            // SAFETY: one byte into one byte, without waiting.
            while unsafe { libc::recv(fd, (&raw mut byte).cast(), 1, libc::MSG_DONTWAIT) } != 1 {
                wrong[0] += u32::from(!REACHED.contains(&open(&nodes[0])));
                wrong[1] += u32::from(open(&nodes[1]) != libc::EPERM);
                wrong[2] += 1;
                if wrong[2] == 1 {
                    // SAFETY: one byte from one byte.
                    unsafe { libc::write(fd, (&raw const byte).cast(), 1) };
                }
            }
            // SAFETY: as many bytes as there are.
            unsafe { libc::write(fd, wrong.as_ptr().cast(), 12) };
            0
        });
        talk.read_exact(&mut [0]).unwrap();
        Looper { talk, pid }
    }

    /// How often a granted device was refused, a refused one let through, and both were tried.
    pub(crate) fn stop(mut self) -> [u32; 3] {
        self.talk.write_all(&[1]).unwrap();
        let mut answer = [0; 12];
        self.talk.read_exact(&mut answer).unwrap();
        // SAFETY: the child is ours and not yet waited for.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
        [0, 4, 8].map(|at| u32::from_ne_bytes(answer[at..][..4].try_into().unwrap()))
    }
}
