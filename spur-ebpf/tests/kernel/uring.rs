//! One `IORING_OP_OPENAT`, with the raw system calls.

use crate::lab::errno;
use std::ffi::CString;
use std::sync::atomic::{AtomicU32, Ordering};

const IORING_OFF_SQ_RING: i64 = 0;
const IORING_OFF_CQ_RING: i64 = 0x800_0000;
const IORING_OFF_SQES: i64 = 0x1000_0000;
const IORING_OP_OPENAT: u8 = 18;
const IORING_ENTER_GETEVENTS: u32 = 1;

/// `struct io_uring_params` of `<linux/io_uring.h>`, as words.
#[repr(C)]
#[derive(Default)]
struct Params {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    sq_thread_cpu: u32,
    sq_thread_idle: u32,
    features: u32,
    wq_fd: u32,
    resv: [u32; 3],
    /// head, tail, ring_mask, ring_entries, flags, dropped, array, resv1, user_addr (2 words)
    sq_off: [u32; 10],
    /// head, tail, ring_mask, ring_entries, overflow, cqes, flags, resv1, user_addr (2 words)
    cq_off: [u32; 10],
}

/// Start of `struct io_uring_sqe`.
#[repr(C)]
struct Sqe {
    opcode: u8,
    flags: u8,
    ioprio: u16,
    fd: i32,
    off: u64,
    addr: u64,
    len: u32,
    open_flags: u32,
    rest: [u64; 4],
}

/// Errno of an open through a ring of the caller's own, or 0. Only system calls, safe after a fork.
pub(crate) fn open(path: &CString) -> i32 {
    let mut params = Params::default();
    // SAFETY: `params` has the layout and size that the call writes.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, &raw mut params) };
    let Ok(ring @ 0..) = i32::try_from(ring) else {
        return errno();
    };
    // SAFETY: maps the rings that the call above made; one page holds rings of one entry.
    unsafe {
        let map = |offset| {
            libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                ring,
                offset,
            )
            .cast::<u8>()
        };
        let (submit, complete, entries) = (
            map(IORING_OFF_SQ_RING),
            map(IORING_OFF_CQ_RING),
            map(IORING_OFF_SQES),
        );
        if [submit, complete, entries]
            .iter()
            .any(|mapped| mapped.cast() == libc::MAP_FAILED)
        {
            return errno();
        }
        *entries.cast::<Sqe>() = Sqe {
            opcode: IORING_OP_OPENAT,
            flags: 0,
            ioprio: 0,
            fd: libc::AT_FDCWD,
            off: 0,
            addr: path.as_ptr() as u64,
            len: 0,
            open_flags: libc::O_RDWR as u32,
            rest: [0; 4],
        };
        *submit.add(params.sq_off[6] as usize).cast::<u32>() = 0;
        (*submit.add(params.sq_off[1] as usize).cast::<AtomicU32>()).store(1, Ordering::Release);
        let entered = libc::syscall(
            libc::SYS_io_uring_enter,
            ring,
            1,
            1,
            IORING_ENTER_GETEVENTS,
            0,
            0,
        );
        if entered != 1 {
            return errno();
        }
        // `struct io_uring_cqe`: user_data, then the result.
        let result = *complete.add(params.cq_off[5] as usize + 8).cast::<i32>();
        libc::close(ring);
        if result < 0 {
            -result
        } else {
            libc::close(result)
        }
    }
}
