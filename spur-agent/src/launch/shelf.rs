//! The folder of all steps' folders is a file system in memory where that can be had. What is in it is of no use after a reboot, which
//! ends every step, and a step makes and removes eight files: on a disk that is what most of the time of a short job goes to (ext4 looks at
//! each inode that was removed within five seconds before it takes one).

use super::{LaunchError, failed};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;

/// Its name in tables of mounts.
const NAME: &str = "spur-steps";

/// Puts it in place, unless it is there, or steps of an earlier version have their folders on the disk. Whether it is there now.
///
/// # Errors
/// The folder cannot be made, or nothing can be mounted on it: steps do without.
pub fn prepare(steps: &Path) -> Result<bool, LaunchError> {
    let made = fs::DirBuilder::new()
        .mode(0o711)
        .recursive(true)
        .create(steps);
    made.map_err(failed("make", steps))?;
    if is_mounted(steps)? {
        return Ok(true);
    }
    let mut entries = fs::read_dir(steps).map_err(failed("read", steps))?;
    if entries.next().is_some() {
        return Ok(false);
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let mounted = rustix::mount::mount(NAME, steps, "tmpfs", flags, c"mode=0711");
    mounted.map_err(|errno| failed("mount a file system in memory on", steps)(errno.into()))?;
    Ok(true)
}

/// Takes it off, for an agent that leaves the machine. Nothing happens if it is not there.
///
/// # Errors
/// What the kernel says.
pub fn remove(steps: &Path) -> Result<(), LaunchError> {
    if !steps.exists() || !is_mounted(steps)? {
        return Ok(());
    }
    // Supervisors that were killed may not have let go of their files yet.
    let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    match rustix::mount::unmount(steps, flags) {
        Err(Errno::INVAL) | Ok(()) => Ok(()),
        Err(errno) => Err(failed("unmount", steps)(errno.into())),
    }
}

/// Whether a file system begins at this folder.
fn is_mounted(steps: &Path) -> Result<bool, LaunchError> {
    let device = |path: &Path| -> io::Result<u64> { Ok(fs::metadata(path)?.dev()) };
    let above = steps.parent().unwrap_or(steps);
    let differs = device(steps).and_then(|own| Ok(own != device(above)?));
    differs.map_err(failed("look at", steps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn it_is_put_in_place_once_and_taken_off() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root mounts");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let steps = folder.path().join("state/steps");
        for _ in 0..2 {
            assert!(prepare(&steps).unwrap());
            assert_ne!(
                fs::metadata(&steps).unwrap().dev(),
                fs::metadata(folder.path()).unwrap().dev()
            );
            assert_eq!(
                fs::metadata(&steps).unwrap().permissions().mode() & 0o777,
                0o711
            );
        }
        fs::write(steps.join("f"), "").unwrap();
        assert!(prepare(&steps).unwrap(), "what is there stays");
        assert!(steps.join("f").exists());
        remove(&steps).unwrap();
        assert!(!steps.join("f").exists(), "it was mounted once");
        remove(&steps).unwrap();
        fs::write(steps.join("7.0"), "").unwrap();
        assert!(
            !prepare(&steps).unwrap(),
            "steps on the disk are not hidden"
        );
        assert!(steps.join("7.0").exists());
    }
}
