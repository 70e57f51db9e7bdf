//! Maps of the running programs, mapped into this process: read without a system call.

use crate::{Error, Result};
use libbpf_rs::{MapCore, MapHandle};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// All values of an array map. The kernel changes them while we look, so every access is one atomic word.
#[derive(Debug)]
pub(super) struct Memory {
    words: NonNull<AtomicU64>,
    count: usize,
}

const WORD: usize = size_of::<u64>();

// SAFETY: the mapping is shared memory of atomic words and belongs to no thread.
unsafe impl Send for Memory {}
// SAFETY: as above; `&Memory` gives only atomic access.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps an array whose size the caller has checked; its values are whole words.
    pub(super) fn open(map: &MapHandle) -> Result<Memory> {
        let bytes = map.value_size() as usize * map.max_entries() as usize;
        // SAFETY: maps new memory, backed by a descriptor that is open for the length of the call.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        let words = NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED);
        let failed = || {
            let error = std::io::Error::last_os_error();
            Error::kernel("map into memory", map.name().to_string_lossy())(error)
        };
        let count = bytes / WORD;
        words
            .map(|words| Memory { words, count })
            .ok_or_else(failed)
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, holds this many words, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.count) }
    }

    /// The word at an offset in bytes, which is a multiple of eight.
    pub(super) fn word(&self, offset: usize) -> &AtomicU64 {
        &self.words()[offset / WORD]
    }

    /// The half word at an offset in bytes, which is a multiple of four.
    pub(super) fn half(&self, offset: usize) -> &AtomicU32 {
        let word = &raw const self.words()[offset / WORD];
        // SAFETY: an aligned half of a word within the mapping. The programs write halves as such, and so do we.
        unsafe {
            &*word
                .cast::<AtomicU32>()
                .add(offset % WORD / size_of::<u32>())
        }
    }

    /// Reads a word that the kernel may write.
    pub(super) fn read(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: unmaps what `open` mapped; no borrow of it outlives `self`.
        unsafe { libc::munmap(self.words.as_ptr().cast(), self.count * WORD) };
    }
}
