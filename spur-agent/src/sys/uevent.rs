//! The kernel's device events, `netlink(7)` with `NETLINK_KOBJECT_UEVENT`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// The multicast group of the kernel's own events (udev's are in another).
const KERNEL_GROUP: u32 = 1;

/// A socket that receives every event from now on.
pub fn socket() -> io::Result<OwnedFd> {
    // SAFETY: takes integers only.
    let fd = unsafe {
        libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_DGRAM | libc::SOCK_CLOEXEC,
            libc::NETLINK_KOBJECT_UEVENT,
        )
    };
    if fd == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: `sockaddr_nl` is plain integers, for which all zeroes is a value.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    address.nl_family = family();
    address.nl_groups = KERNEL_GROUP;
    let size = address_size();
    // SAFETY: `address` is a live `sockaddr_nl` of `size` bytes.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) };
    if bound == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(socket)
    }
}

/// Waits for an event from the kernel and gives its length; messages from other senders have length 0.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: as in `socket`.
    let mut from: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    let mut size = address_size();
    // SAFETY: the kernel writes at most `buffer.len()` bytes into the buffer and at most `size` into `from`; both live.
    let got = unsafe {
        libc::recvfrom(
            socket.as_fd().as_raw_fd(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            0,
            (&raw mut from).cast(),
            &raw mut size,
        )
    };
    match usize::try_from(got) {
        Ok(_) if from.nl_pid != 0 => Ok(0),
        Ok(len) => Ok(len),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

fn family() -> libc::sa_family_t {
    libc::sa_family_t::try_from(libc::AF_NETLINK).expect("families are small")
}

fn address_size() -> libc::socklen_t {
    libc::socklen_t::try_from(size_of::<libc::sockaddr_nl>()).expect("12 bytes")
}
