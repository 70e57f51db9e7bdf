//! Processes inside cgroups that do as they are told, and descriptors that go between them.

use crate::lab::{errno, spawn};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A process in a cgroup. Each order is one number, each answer one: what the closure makes of it.
pub(crate) struct Actor {
    talk: UnixStream,
    pub(crate) pid: i32,
}

impl Actor {
    /// Starts it. The closure runs after a fork: it keeps to system calls.
    pub(crate) fn start(cgroup: &Path, mut act: impl FnMut(i32) -> i32) -> Actor {
        let (talk, theirs) = UnixStream::pair().unwrap();
        let folder = File::open(cgroup).unwrap();
        let pid = spawn(folder.as_raw_fd(), || {
            let fd = theirs.as_raw_fd();
            // SAFETY: closes the parent's end in the child, whose own table this is.
            unsafe { libc::close(talk.as_raw_fd()) };
            loop {
                let mut order = [0u8; 4];
                // SAFETY: four bytes into four bytes.
                if unsafe { libc::read(fd, order.as_mut_ptr().cast(), 4) } != 4 {
                    return 0;
                }
                let answer = act(i32::from_ne_bytes(order)).to_ne_bytes();
                // SAFETY: as many bytes as there are.
                unsafe { libc::write(fd, answer.as_ptr().cast(), answer.len()) };
            }
        });
        Actor { talk, pid }
    }

    /// Sends an order and waits for the answer.
    pub(crate) fn ask(&mut self, order: i32) -> i32 {
        self.talk.write_all(&order.to_ne_bytes()).unwrap();
        let mut answer = [0; 4];
        self.talk.read_exact(&mut answer).unwrap();
        i32::from_ne_bytes(answer)
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // SAFETY: the child is ours and not yet waited for.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

/// A control message with one descriptor: `struct cmsghdr` and the number, padded.
#[repr(C)]
struct Control {
    head: libc::cmsghdr,
    fd: i32,
    pad: i32,
}

fn message(vector: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = vector;
    message.msg_iovlen = 1;
    message.msg_control = std::ptr::from_mut(control).cast();
    message.msg_controllen = size_of::<Control>();
    message
}

fn one_byte(data: &mut u8) -> libc::iovec {
    libc::iovec {
        iov_base: std::ptr::from_mut(data).cast(),
        iov_len: 1,
    }
}

fn control(fd: i32) -> Control {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut control: Control = unsafe { std::mem::zeroed() };
    control.head.cmsg_len = size_of::<libc::cmsghdr>() + size_of::<i32>();
    control.head.cmsg_level = libc::SOL_SOCKET;
    control.head.cmsg_type = libc::SCM_RIGHTS;
    control.fd = fd;
    control
}

/// Passes a descriptor (`SCM_RIGHTS`); 0 or the errno.
pub(crate) fn send(socket: i32, fd: i32) -> i32 {
    let (mut data, mut control) = (0, control(fd));
    let mut vector = one_byte(&mut data);
    let message = message(&mut vector, &mut control);
    // SAFETY: the message points to live memory of the sizes that it names.
    if unsafe { libc::sendmsg(socket, &raw const message, 0) } == 1 {
        0
    } else {
        errno()
    }
}

/// Takes a descriptor; it, or the negative errno with which the kernel left it out (`EPERM`).
pub(crate) fn receive(socket: i32) -> i32 {
    let (mut data, mut control) = (0, control(-1));
    let mut vector = one_byte(&mut data);
    let mut message = message(&mut vector, &mut control);
    // SAFETY: the message points to live memory of the sizes that it names.
    if unsafe { libc::recvmsg(socket, &raw mut message, 0) } != 1 {
        return -errno();
    }
    if message.msg_flags & libc::MSG_CTRUNC != 0 {
        return -libc::EPERM;
    }
    control.fd
}
