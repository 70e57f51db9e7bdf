//! The folder of a BPF file system that keeps a fence alive.

use crate::{Error, Result};
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// `BPF_FS_MAGIC` of `<linux/magic.h>`.
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;
/// Bytes of a pin's name.
const NAME_LEN_MAX: usize = 128;
/// Ends the name of a pin that is about to take another's place.
const NEW: &str = "_new";
/// Begins the name of an ABI's folder; the number follows.
pub(crate) const ABI_FOLDER: &str = "abi";

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

/// The folder of link pins below an agent's folder of pins: one pin for each fenced cgroup.
#[must_use]
pub fn links_folder(pins: &Path) -> PathBuf {
    Pins::new(pins).links()
}

/// Makes a folder of pins, for its owner alone.
pub(crate) fn prepare_folder(folder: &Path) -> Result<()> {
    let shown = folder.display().to_string();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(Error::kernel("make folder", &shown))?;
    if !on_bpffs(folder)? {
        return Err(Error::Unfit {
            subject: shown,
            reason: "it is not on a BPF file system, so nothing can be pinned there".to_owned(),
        });
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
        .map_err(Error::kernel("close to others the folder", &shown))
}

/// Pins an object, in the place of what may be pinned there, in one step.
pub(crate) fn replace(object: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let shown = path.display().to_string();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // A BPF file system refuses dots, so no pin of ours ends so.
    let new = path.with_file_name(format!("{name}{NEW}"));
    Pins::remove(&new)?;
    crate::sys::pin(object, &new).map_err(Error::kernel("pin", new.display().to_string()))?;
    fs::rename(&new, path).map_err(Error::kernel("pin", shown))
}

/// Paths below the pins folder of one agent. Each ABI has a folder of its own, so that an upgrade can have both for a moment.
#[derive(Clone, Debug)]
pub(crate) struct Pins {
    /// The agent's folder.
    pub(crate) base: PathBuf,
    /// Our ABI's folder in it.
    pub(crate) root: PathBuf,
}

impl Pins {
    pub(crate) fn new(base: &Path) -> Pins {
        Pins {
            base: base.to_owned(),
            root: base.join(format!("{ABI_FOLDER}{}", crate::abi::ABI)),
        }
    }

    /// Makes the folders, for their owner alone.
    pub(crate) fn prepare(base: &Path) -> Result<Pins> {
        let pins = Pins::new(base);
        for folder in [&pins.base, &pins.root, &pins.links()] {
            prepare_folder(folder)?;
        }
        Ok(pins)
    }

    /// Says in every version's place which ABI is in force in the agent's folder.
    pub(crate) fn marker(&self) -> PathBuf {
        self.base.join("meta")
    }

    /// The folder of the guard's links.
    pub(crate) fn guard(&self) -> PathBuf {
        self.root.join("guard")
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
