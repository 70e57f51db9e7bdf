//! A user's folder within a step's: for the files of its PMIx server and of those who speak with it. It is a file system of its own, in
//! memory, so that what a user puts there neither fills the agent's nor has to be walked through by root: it goes away as a whole. What
//! is written counts as memory of the job, as in `/dev/shm`; programs map files there, so it has no limit of its own.

use super::{LaunchError, failed};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How often a file system is taken off: once, unless somebody put another one on top.
const UNMOUNTS_MAX: u32 = 8;

/// The folder in the folder of a step.
pub(crate) fn path(step: &Path) -> PathBuf {
    step.join("pmix")
}

/// Makes it new, for its user alone.
pub(crate) fn make(dir: &Path, uid: u32, gid: u32) -> Result<(), LaunchError> {
    remove(dir)?;
    fs::create_dir(dir).map_err(failed("make", dir))?;
    let options = CString::new(format!("mode=0700,uid={uid},gid={gid}")).unwrap_or_default();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let mounted = rustix::mount::mount("spur-pmix", dir, "tmpfs", flags, options.as_c_str());
    mounted.map_err(|errno| failed("mount a file system in memory on", dir)(errno.into()))
}

/// Removes it, if it is there. Nothing in it is looked at.
pub(crate) fn remove(dir: &Path) -> Result<(), LaunchError> {
    for _ in 0..UNMOUNTS_MAX {
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        match rustix::mount::unmount(dir, flags) {
            Ok(()) => {}
            // There is none, or none any more. Who may not take it off cannot have put it there.
            Err(Errno::INVAL | Errno::NOENT | Errno::PERM) => break,
            Err(errno) => return Err(failed("unmount", dir)(errno.into())),
        }
    }
    match fs::remove_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(failed("remove", dir)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn what_a_user_leaves_there_goes_away_unseen() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root mounts");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let step = folder.path().join("7.0");
        for removed_by_agent in [false, true] {
            fs::create_dir_all(&step).unwrap();
            let dir = path(&step);
            make(&dir, 54_321, 54_322).unwrap();
            let made = fs::metadata(&dir).unwrap();
            assert_eq!(
                (made.uid(), made.gid(), made.mode() & 0o7777),
                (54_321, 54_322, 0o700)
            );
            assert_ne!(made.dev(), fs::metadata(&step).unwrap().dev());
            // Deeper than a process may have files open, and than its stack is.
            let mut at = rustix::fs::open(&dir, rustix::fs::OFlags::PATH, 0.into()).unwrap();
            for _ in 0..20_000 {
                rustix::fs::mkdirat(&at, "d", 0o000.into()).unwrap();
                at = rustix::fs::openat(&at, "d", rustix::fs::OFlags::PATH, 0.into()).unwrap();
            }
            if removed_by_agent {
                super::super::remove_dir(&step).unwrap();
                assert!(!step.exists());
            } else {
                // Also under somebody who still has it open.
                remove(&dir).unwrap();
                assert!(!dir.exists() && step.exists());
                remove(&dir).unwrap();
            }
            drop(at);
        }
    }

    #[test]
    fn a_folder_that_is_not_empty_is_not_walked_through() {
        let folder = tempfile::tempdir().unwrap();
        let dir = path(folder.path());
        fs::create_dir_all(dir.join("d")).unwrap();
        let error = remove(&dir).unwrap_err().to_string();
        assert!(
            error.starts_with("could not remove") && error.contains("pmix"),
            "{error}"
        );
        assert!(super::super::remove_dir(folder.path()).is_err() && dir.join("d").exists());
    }
}
