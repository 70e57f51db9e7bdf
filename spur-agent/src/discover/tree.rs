//! Reading small text files below a root folder.

use std::io::Read;
use std::path::{Path, PathBuf};

/// Most bytes read of one file: `/proc` and `/sys` have nothing longer that we read.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Most entries read of one folder.
const ENTRIES_MAX: usize = 65_536;

/// A root folder: `/` on a real machine.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// A tree below `root`.
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    /// Whether this is the running machine itself.
    pub fn is_host(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The real path of `path`, which is relative to the root (a leading `/` is allowed).
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// A file's text.
    pub fn read(&self, path: &str) -> std::io::Result<String> {
        let mut bytes = Vec::new();
        std::fs::File::open(self.path(path))?
            .take(FILE_BYTES_MAX)
            .read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A file's text without surrounding white space, if it can be read and is not empty.
    pub fn line(&self, path: &str) -> Option<String> {
        let text = self.read(path).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// A decimal number in a file.
    pub fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.line(path)?.parse().ok()
    }

    /// Whether something is there.
    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Names in a folder, sorted; empty if it cannot be read.
    pub fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(path)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .take(ENTRIES_MAX)
            .filter_map(|e| e.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// Numbers `N` of the entries `prefixN` of a folder, rising.
    pub fn numbered(&self, path: &str, prefix: &str) -> Vec<u32> {
        let names = self.names(path);
        let mut numbers: Vec<u32> = names
            .iter()
            .filter_map(|name| name.strip_prefix(prefix)?.parse().ok())
            .collect();
        numbers.sort_unstable();
        numbers
    }

    /// Where a chain of links ends, as a path from the root (`/sys/devices/…`).
    pub fn resolve(&self, path: &str) -> Option<String> {
        let real = self.path(path).canonicalize().ok()?;
        let root = self.root.canonicalize().ok()?;
        Some(format!("/{}", real.strip_prefix(root).ok()?.to_str()?))
    }
}

/// The numbers of a kernel list such as `0-3,8,10-11`; what is not a list gives `None`.
pub fn parse_list(text: &str) -> Option<Vec<u32>> {
    const LIST_MAX: u32 = 65_536;
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= LIST_MAX {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

/// The numbers of a kernel mask such as `00000000,000000ff`: 32-bit words in hexadecimal, highest first.
pub fn parse_mask(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for (word, base) in text.trim().rsplit(',').zip((0u32..65_536).step_by(32)) {
        let bits = u32::from_str_radix(word.trim(), 16).ok()?;
        numbers.extend(
            (0..32)
                .filter(|bit| bits & (1 << bit) != 0)
                .map(|bit| base + bit),
        );
    }
    Some(numbers)
}
