//! Writes the `newc` archives that the kernel unpacks as its first file system (`Documentation/driver-api/early-userspace/
//! buffer-format.rst`).

use std::io::{self, Write};

const DIR: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const CHAR: u32 = 0o020_000;

/// An archive in the making. Folders must be added before what they hold.
pub struct Archive<W: Write> {
    out: W,
    inode: u32,
}

impl<W: Write> Archive<W> {
    /// An empty archive.
    pub fn new(out: W) -> Self {
        Self { out, inode: 0 }
    }

    /// Adds a folder; `mode` is its permission bits.
    pub fn dir(&mut self, path: &str, mode: u32) -> io::Result<()> {
        self.entry(path, DIR | mode, (0, 0), &[])
    }

    /// Adds a file.
    pub fn file(&mut self, path: &str, mode: u32, data: &[u8]) -> io::Result<()> {
        self.entry(path, FILE | mode, (0, 0), data)
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.entry(path, LINK | 0o777, (0, 0), target.as_bytes())
    }

    /// Adds a character device.
    pub fn device(&mut self, path: &str, mode: u32, major: u32, minor: u32) -> io::Result<()> {
        self.entry(path, CHAR | mode, (major, minor), &[])
    }

    /// Ends the archive.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", 0, (0, 0), &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn entry(&mut self, path: &str, mode: u32, device: (u32, u32), data: &[u8]) -> io::Result<()> {
        let path = path.trim_start_matches('/');
        let too_big = |_| io::Error::other(format!("{path} is too big for an archive"));
        let size = u32::try_from(data.len()).map_err(too_big)?;
        let name_size = u32::try_from(path.len() + 1).map_err(too_big)?;
        self.inode += 1;
        let links = if mode & DIR == DIR { 2 } else { 1 };
        let fields = [
            self.inode, mode, 0, 0, links, 0, size, 0, 0, device.0, device.1, name_size, 0,
        ];
        self.out.write_all(b"070701")?;
        for field in fields {
            write!(self.out, "{field:08X}")?;
        }
        self.out.write_all(path.as_bytes())?;
        self.out.write_all(&[0])?;
        self.pad(110 + path.len() + 1)?;
        self.out.write_all(data)?;
        self.pad(data.len())
    }

    /// Everything starts at a multiple of four.
    fn pad(&mut self, length: usize) -> io::Result<()> {
        self.out.write_all(&[0; 3][..length.wrapping_neg() % 4])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_its_entries_at_multiples_of_four() {
        let mut archive = Archive::new(Vec::new());
        archive.dir("etc", 0o755).unwrap();
        archive.file("/etc/x", 0o644, b"hello").unwrap();
        archive.device("dev/null", 0o666, 1, 3).unwrap();
        let bytes = archive.finish().unwrap();
        let at: Vec<usize> = (0..bytes.len() - 5)
            .filter(|at| &bytes[*at..at + 6] == b"070701")
            .collect();
        assert_eq!(at.len(), 4);
        assert!(at.iter().all(|at| at % 4 == 0), "{at:?}");
        let text = String::from_utf8_lossy(&bytes[at[1]..at[2]]).into_owned();
        assert!(text.contains("etc/x\0") && text.contains("hello"), "{text}");
        assert!(text.starts_with("07070100000002000081A4"), "{text}");
    }
}
