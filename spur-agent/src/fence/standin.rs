//! Making character device nodes: stand-ins for GPUs, and the canary.

use crate::config::DeclaredGpus;
use crate::discover::declared;
use rustix::fs::{FileType, Mode, chmod, makedev, mknodat};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Why a device node could not be made.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot make the device node {path} ({major}:{minor}): {source}; spurd must be root, on a file system without nodev"
)]
pub struct StandInError {
    path: String,
    major: u32,
    minor: u32,
    source: io::Error,
}

/// Makes every declared stand-in that is not there yet. Everybody may open them as far as file modes go.
pub fn make_all(groups: &[DeclaredGpus]) -> Result<(), StandInError> {
    for group in groups {
        for number in 0..group.devices() {
            let file = declared::file(group, number);
            make(Path::new(&file.path), file.major, file.minor)?;
        }
    }
    Ok(())
}

/// Makes one node of mode 0666, and its folder. What is there already must be a device node, which is replaced if it has another number.
pub fn make(path: &Path, major: u32, minor: u32) -> Result<(), StandInError> {
    try_make(path, major, minor).map_err(|source| StandInError {
        path: path.display().to_string(),
        major,
        minor,
        source,
    })
}

fn try_make(path: &Path, major: u32, minor: u32) -> io::Result<()> {
    let number = makedev(major, minor);
    match std::fs::symlink_metadata(path) {
        Ok(meta) if !meta.file_type().is_char_device() => {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "something else is there; remove it",
            ));
        }
        Ok(meta) if meta.rdev() == number => {}
        Ok(_) => {
            std::fs::remove_file(path)?;
            create(path, number)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            create(path, number)?;
        }
        Err(error) => return Err(error),
    }
    // The umask took bits away.
    Ok(chmod(path, Mode::from_raw_mode(0o666))?)
}

fn create(path: &Path, number: u64) -> io::Result<()> {
    Ok(mknodat(
        rustix::fs::CWD,
        path,
        FileType::CharacterDevice,
        Mode::from_raw_mode(0o666),
        number,
    )?)
}
