//! Cgroup v2 folders and their ids.

use crate::{Error, Result};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// `CGROUP2_SUPER_MAGIC` of `<linux/magic.h>`.
const CGROUP2_MAGIC: i64 = 0x6367_7270;

/// The kernel's 64-bit id of a cgroup v2, which is its inode number; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CgroupId(pub u64);

impl std::fmt::Display for CgroupId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// An open cgroup v2 folder.
pub(crate) struct Cgroup {
    file: File,
    pub(crate) id: CgroupId,
    pub(crate) path: String,
}

impl Cgroup {
    pub(crate) fn open(path: &Path) -> Result<Cgroup> {
        let shown = path.display().to_string();
        let file = File::open(path).map_err(Error::kernel("open cgroup", &shown))?;
        let magic =
            crate::sys::fs_magic(file.as_fd()).map_err(Error::kernel("inspect cgroup", &shown))?;
        let meta = file
            .metadata()
            .map_err(Error::kernel("inspect cgroup", &shown))?;
        if magic != CGROUP2_MAGIC || !meta.is_dir() {
            return Err(Error::NotCgroup2(shown));
        }
        Ok(Cgroup {
            file,
            id: CgroupId(meta.ino()),
            path: shown,
        })
    }
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
