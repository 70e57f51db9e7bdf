//! Cgroup v2 folders and their ids.

use crate::{Error, Result};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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

impl Cgroup {
    /// The cgroup with this id, or `None` if there is none (any more).
    pub(crate) fn by_id(id: CgroupId) -> Result<Option<Cgroup>> {
        let point = mount_point()?;
        let mount = File::open(&point)
            .map_err(Error::kernel("open cgroup", point.display().to_string()))?;
        match crate::sys::open_cgroup(mount.as_fd(), id.0) {
            Ok(fd) => Ok(Some(Cgroup {
                file: fd.into(),
                id,
                path: format!("cgroup {id}"),
            })),
            Err(error)
                if [Some(libc::ESTALE), Some(libc::ENOENT)].contains(&error.raw_os_error()) =>
            {
                Ok(None)
            }
            Err(error) => Err(Error::kernel("open cgroup", id.to_string())(error)),
        }
    }
}

/// Where a cgroup v2 tree is mounted, the whole of it if there is a choice.
fn mount_point() -> Result<PathBuf> {
    let text = std::fs::read_to_string("/proc/self/mountinfo")
        .map_err(Error::kernel("read", "/proc/self/mountinfo"))?;
    let point = mounts(&text).min_by_key(|(root, _)| root.components().count());
    point
        .map(|(_, point)| point.to_owned())
        .ok_or_else(|| Error::NotCgroup2("no mount of this process".to_owned()))
}

/// Root within the tree and mount point, of each cgroup v2 mount (`proc_pid_mountinfo(5)`).
pub(crate) fn mounts(mountinfo: &str) -> impl Iterator<Item = (&Path, &Path)> {
    mountinfo.lines().filter_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        kind.starts_with("cgroup2 ")
            .then_some((Path::new(root), Path::new(point)))
    })
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
