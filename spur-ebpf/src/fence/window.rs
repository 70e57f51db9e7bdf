//! The device table of the running program, mapped into this process.

use crate::abi::RawTable;
use crate::{Error, Result};
use libbpf_rs::{MapCore, MapHandle};
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// A mapping of `struct spur_fence_table`. The kernel reads it while we write, so every access is one atomic word.
#[derive(Debug)]
pub(super) struct Window {
    words: NonNull<AtomicU32>,
}

const WORDS: usize = size_of::<RawTable>() / size_of::<u32>();
const FIRST_ENTRY: usize = offset_of!(RawTable, entries) / size_of::<u32>();

// SAFETY: the mapping is shared memory of atomic words and belongs to no thread.
unsafe impl Send for Window {}
// SAFETY: as above; `&Window` gives only atomic access.
unsafe impl Sync for Window {}

impl Window {
    /// Maps the value of the map, whose value size the caller has checked.
    pub(super) fn open(map: &MapHandle) -> Result<Window> {
        // SAFETY: maps new memory, backed by a descriptor that is open for the length of the call.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<RawTable>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        let words = NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED);
        let failed = || {
            Error::kernel("map into memory", map.name().to_string_lossy())(
                std::io::Error::last_os_error(),
            )
        };
        words.map(|words| Window { words }).ok_or_else(failed)
    }

    fn words(&self) -> &[AtomicU32] {
        // SAFETY: the mapping is page-aligned, holds exactly these words, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), WORDS) }
    }

    /// The words of the majors.
    pub(super) fn majors(&self) -> &[AtomicU32] {
        &self.words()[..FIRST_ENTRY]
    }

    /// The entries of the slots.
    pub(super) fn entries(&self) -> &[AtomicU32] {
        &self.words()[FIRST_ENTRY..]
    }
}

/// Reads a word that the kernel or another process may write.
pub(super) fn read(word: &AtomicU32) -> u32 {
    word.load(Ordering::Acquire)
}

/// Writes a word after everything that was written before.
pub(super) fn write(word: &AtomicU32, value: u32) {
    word.store(value, Ordering::SeqCst);
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: unmaps what `open` mapped; no borrow of it outlives `self`.
        unsafe { libc::munmap(self.words.as_ptr().cast(), size_of::<RawTable>()) };
    }
}
