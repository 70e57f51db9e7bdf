//! The canary: a device node of a fenced class that no driver has. Outside a fence its open must reach the kernel's device table
//! and find nothing (`ENXIO`, or `ENODEV` when the major has other minors); inside it must be refused (`EPERM`) before that.
//! So a job's first act can prove its fence without touching a device.

use super::standin;
use crate::discover::{drm, tree::Tree};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// The canary's minor: the last that a device number can hold; DRM hands them out from below.
pub const MINOR: u32 = (1 << 20) - 1;
/// The canary's major: DRM is fenced on every machine.
pub const MAJOR: u32 = drm::MAJOR;

/// Why there is no usable canary; without one, no fence can be proven.
#[derive(Debug, thiserror::Error)]
pub enum CanaryError {
    /// The node cannot be made.
    #[error(transparent)]
    Make(#[from] standin::StandInError),
    /// A driver has this number.
    #[error("device {MAJOR}:{MINOR} has a driver on this machine: it cannot be the canary")]
    Taken,
    /// The file system does not serve device nodes.
    #[error(
        "{path} is on a file system that is mounted nodev: set state_dir to another one, or remount it with dev"
    )]
    NoDev {
        /// Where.
        path: PathBuf,
    },
    /// The agent is fenced itself.
    #[error(
        "opening the canary {path} outside any job gives EPERM: spurd runs inside somebody's device fence; start it elsewhere"
    )]
    FencedHere {
        /// Where.
        path: PathBuf,
    },
    /// Something else happened.
    #[error("opening the canary {path} gives {got}, where ENXIO or ENODEV was expected")]
    Unexpected {
        /// Where.
        path: PathBuf,
        /// What the open gave.
        got: String,
    },
}

/// Makes the canary below `state_dir` and checks that an open here and now reaches the device table. Gives its path.
pub fn make(tree: &Tree, state_dir: &Path) -> Result<PathBuf, CanaryError> {
    if tree.exists(&format!("sys/dev/char/{MAJOR}:{MINOR}")) {
        return Err(CanaryError::Taken);
    }
    let path = state_dir.join("canary");
    standin::make(&path, MAJOR, MINOR)?;
    match open(
        &path,
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK,
        Mode::empty(),
    ) {
        Err(Errno::NXIO | Errno::NODEV) => Ok(path),
        Err(Errno::ACCESS) => Err(CanaryError::NoDev { path }),
        Err(Errno::PERM) => Err(CanaryError::FencedHere { path }),
        Err(errno) => Err(CanaryError::Unexpected {
            path,
            got: errno.to_string(),
        }),
        Ok(_) => Err(CanaryError::Unexpected {
            path,
            got: "an open file".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfenced_open_reaches_the_device_table() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: device nodes need root");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = make(&Tree::new(Path::new("/")), dir.path()).unwrap();
        assert_eq!(
            make(&Tree::new(Path::new("/")), dir.path()).unwrap(),
            path,
            "a second start finds its own"
        );
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "x").unwrap();
        assert!(
            make(&Tree::new(Path::new("/")), dir.path())
                .unwrap_err()
                .to_string()
                .contains("something else is there")
        );
    }
}
