//! A small file that is read again and again: opened once, read from its start with one system call.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Most bytes that are read of one file: `memory.stat` has less than 2 KiB, `io.stat` one line a device.
pub const BYTES_MAX: usize = 16 << 10;

/// The file, if it could be opened.
#[derive(Debug, Default)]
pub struct Kept {
    file: Option<File>,
}

impl Kept {
    /// Opens a file; one that is not there reads as absent for good.
    pub fn open(path: &Path) -> Self {
        Self {
            file: File::open(path).ok(),
        }
    }

    /// Whether there is one.
    pub fn is_there(&self) -> bool {
        self.file.is_some()
    }

    /// Its bytes, if it can be read. `buffer` is overwritten.
    pub fn bytes<'a>(&self, buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let file = self.file.as_ref()?;
        buffer.resize(BYTES_MAX, 0);
        let length = file.read_at(buffer, 0).ok()?;
        buffer.get(..length)
    }

    /// Its text, if it can be read and is text. `buffer` is overwritten.
    pub fn read<'a>(&self, buffer: &'a mut Vec<u8>) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(buffer)?).ok()
    }

    /// A decimal number; `max` and everything else are absent.
    pub fn number(&self, buffer: &mut Vec<u8>) -> Option<u64> {
        self.read(buffer)?.trim().parse().ok()
    }
}

/// The number after `key` and a space at a line's start.
pub fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?.strip_prefix(' ')?;
        rest.trim().parse().ok()
    })
}
