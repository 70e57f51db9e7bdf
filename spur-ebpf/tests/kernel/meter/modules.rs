//! Kernel modules that lie ready in the virtual machines.

use crate::lab::errno;
use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A folder for each set, with its modules named in order of loading.
const FOLDER: &str = "/late-modules";

/// A module that is loaded; unloaded when dropped. What it needed stays.
pub(crate) struct Loaded {
    name: CString,
}

/// Loads a set, its last module with these parameters; `None` if there is none here.
pub(crate) fn load(set: &str, parameters: &str) -> Option<Loaded> {
    let folder = Path::new(FOLDER).join(set);
    if !folder.exists() || folder.join("missing").exists() {
        return None;
    }
    let entries = fs::read_dir(&folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for (at, path) in paths.iter().enumerate() {
        let image = fs::read(path).unwrap();
        let last = at + 1 == paths.len();
        let words = CString::new(if last { parameters } else { "" }).unwrap();
        // SAFETY: live memory of the size that is said, and a C string.
        let result = unsafe {
            libc::syscall(
                libc::SYS_init_module,
                image.as_ptr(),
                image.len(),
                words.as_ptr(),
            )
        };
        let there = result != 0 && errno() == libc::EEXIST && !last;
        assert!(
            result == 0 || there,
            "loading {}: {}",
            path.display(),
            std::io::Error::last_os_error()
        );
    }
    let name = CString::new(set).unwrap();
    Some(Loaded { name })
}

/// Waits for a file.
pub(super) fn await_file(path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !path.exists() {
        assert!(
            Instant::now() < deadline,
            "{} does not come",
            path.display()
        );
        std::thread::yield_now();
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        // SAFETY: a C string that lives through the call.
        let unload = || unsafe { libc::syscall(libc::SYS_delete_module, self.name.as_ptr(), 0) };
        // Whoever had it open may be on its way out.
        while unload() != 0 && errno() != libc::ENOENT {
            if Instant::now() > deadline {
                println!("module {:?} stays loaded", self.name);
                return;
            }
            std::thread::yield_now();
        }
    }
}
