//! The folder of a BPF file system that keeps a fence alive.

use crate::{Error, Result};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// `BPF_FS_MAGIC` of `<linux/magic.h>`.
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;
/// Bytes of a pin's name.
const NAME_LEN_MAX: usize = 128;

/// Mounts a BPF file system (mode 0700) at `path`, which is made if it is missing, unless one is there already.
pub fn mount_bpffs_if_needed(path: &Path) -> Result<()> {
    let shown = path.display().to_string();
    fs::create_dir_all(path).map_err(Error::kernel("make folder", &shown))?;
    if on_bpffs(path)? {
        return Ok(());
    }
    crate::sys::mount_bpffs(path).map_err(Error::kernel("mount a BPF file system at", &shown))
}

fn on_bpffs(path: &Path) -> Result<bool> {
    let shown = path.display().to_string();
    let folder = File::open(path).map_err(Error::kernel("open folder", &shown))?;
    let magic =
        crate::sys::fs_magic(folder.as_fd()).map_err(Error::kernel("inspect folder", &shown))?;
    Ok(magic == BPF_FS_MAGIC)
}

/// Paths below the pins folder of one agent.
#[derive(Clone, Debug)]
pub(crate) struct Pins {
    pub(crate) root: PathBuf,
}

impl Pins {
    /// Makes the folder, for its owner alone.
    pub(crate) fn prepare(root: &Path) -> Result<Pins> {
        let pins = Pins {
            root: root.to_owned(),
        };
        for folder in [&pins.root, &pins.links()] {
            let shown = folder.display().to_string();
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(Error::kernel("make folder", &shown))?;
            if !on_bpffs(folder)? {
                return Err(Error::Unfit {
                    subject: shown,
                    reason: "it is not on a BPF file system, so nothing can be pinned there"
                        .to_owned(),
                });
            }
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
                .map_err(Error::kernel("close to others the folder", &shown))?;
        }
        Ok(pins)
    }

    pub(crate) fn object(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn links(&self) -> PathBuf {
        self.root.join("links")
    }

    /// The pin of a link. A BPF file system refuses dots; we also refuse what could leave the folder.
    pub(crate) fn link(&self, name: &str) -> Result<PathBuf> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(legal) {
            return Err(Error::BadName(name.to_owned()));
        }
        Ok(self.links().join(name))
    }

    /// Names of the pinned links, sorted.
    pub(crate) fn link_names(&self) -> Result<Vec<String>> {
        let folder = self.links();
        let failed = || Error::kernel("list folder", folder.display().to_string());
        let mut names = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failed())? {
            names.push(
                entry
                    .map_err(failed())?
                    .file_name()
                    .to_string_lossy()
                    .into_owned(),
            );
        }
        names.sort();
        Ok(names)
    }

    /// Removes a pin; one that is gone already is fine.
    pub(crate) fn remove(path: &Path) -> Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::kernel("unpin", path.display().to_string())(error))
            }
            _ => Ok(()),
        }
    }
}
