//! A few ioctls of DRM (`<drm/drm.h>`), for `vgem`. Only system calls, safe after a fork.

use crate::lab::errno;

pub(crate) const CARD: &std::ffi::CStr = c"/dev/dri/card0";
pub(crate) const RENDER: &std::ffi::CStr = c"/dev/dri/renderD128";
/// The devices' numbers.
pub(crate) const MAJOR: u32 = 226;
pub(crate) const CARD_MINOR: u32 = 0;
pub(crate) const RENDER_MINOR: u32 = 128;
/// Bytes of a buffer.
pub(crate) const SIZE: usize = 64 * 64 * 4;

const VERSION: libc::c_ulong = 0xc040_6400;
const CREATE_DUMB: libc::c_ulong = 0xc020_64b2;
const MAP_DUMB: libc::c_ulong = 0xc010_64b3;
const HANDLE_TO_FD: libc::c_ulong = 0xc00c_642d;

/// Opens for reading and writing; the descriptor or a negative errno.
pub(crate) fn open(path: &std::ffi::CStr) -> i32 {
    // SAFETY: a C string that lives through the call.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR) };
    if fd < 0 { -errno() } else { fd }
}

fn ioctl<T>(fd: i32, request: libc::c_ulong, arg: &mut T) -> i32 {
    // SAFETY: the request's number holds the size of the struct that the caller passes.
    let result = unsafe { libc::ioctl(fd, request, std::ptr::from_mut(arg)) };
    if result < 0 { errno() } else { 0 }
}

/// Asks for the driver's version; 0 or the errno.
pub(crate) fn version(fd: i32) -> i32 {
    ioctl(fd, VERSION, &mut [0u64; 8])
}

/// Makes a buffer; its handle or a negative errno.
pub(crate) fn create(card: i32) -> i32 {
    // height, width, bits per pixel, flags, handle, pitch, size (2 words)
    let mut dumb = [64u32, 64, 32, 0, 0, 0, 0, 0];
    match ioctl(card, CREATE_DUMB, &mut dumb) {
        0 => dumb[4].cast_signed(),
        error => -error,
    }
}

/// Maps a buffer through the card; 0 or the errno.
pub(crate) fn map(card: i32, handle: i32) -> i32 {
    // handle, pad, offset (2 words)
    let mut place = [handle.cast_unsigned(), 0, 0, 0];
    match ioctl(card, MAP_DUMB, &mut place) {
        0 => map_at(card, i64::from(place[2]) | i64::from(place[3]) << 32),
        error => error,
    }
}

/// Maps a descriptor and touches the memory; 0 or the errno.
pub(crate) fn map_at(fd: i32, offset: i64) -> i32 {
    let both = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: maps new memory, which is written within its bounds and unmapped.
    unsafe {
        let start = libc::mmap(
            std::ptr::null_mut(),
            SIZE,
            both,
            libc::MAP_SHARED,
            fd,
            offset,
        );
        if start == libc::MAP_FAILED {
            return errno();
        }
        start.cast::<u8>().write_volatile(1);
        libc::munmap(start, SIZE);
    }
    0
}

/// Exports a buffer as a dma-buf; its descriptor or a negative errno.
pub(crate) fn export(card: i32, handle: i32) -> i32 {
    // handle, flags, descriptor
    let mut prime = [handle, libc::O_RDWR, -1];
    match ioctl(card, HANDLE_TO_FD, &mut prime) {
        0 => prime[2],
        error => -error,
    }
}

/// Opens the card, makes a buffer and exports it.
pub(crate) fn new_dma_buf() -> i32 {
    let card = open(CARD);
    let handle = if card < 0 { card } else { create(card) };
    if handle < 0 {
        handle
    } else {
        export(card, handle)
    }
}
