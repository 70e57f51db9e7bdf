//! Modules that a test loads for itself, and takes away again.

use crate::cluster::SOON;
use crate::host;
use crate::vm::{LATE_DIR, MISSING};
use crate::wait;
use rustix::io::Errno;
use rustix::system::{delete_module, init_module};
use std::ffi::CString;
use std::fs;
use std::path::Path;

/// The oldest kernel for which every module of ours must be there.
const PROMISED: (u32, u32) = (6, 1);

/// A module that is loaded; unloaded when dropped. What it needed stays.
pub(super) struct Loaded {
    name: CString,
}

/// Why this kernel has no such set, if so: a reason to leave a test out. On kernels for which there must be one it is a failure.
pub(super) fn missing(set: &str) -> Option<String> {
    let note = Path::new(LATE_DIR).join(set).join(MISSING);
    if !note.exists() {
        return None;
    }
    let why = format!("no module {set}: {}", host::read(&note));
    assert!(host::kernel() < PROMISED, "{why}");
    Some(why)
}

/// Loads a set's modules, the last with these parameters.
pub(super) fn load(set: &str, parameters: &str) -> Loaded {
    let dir = Path::new(LATE_DIR).join(set);
    let mut paths: Vec<_> = fs::read_dir(&dir)
        .unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
        .map(|entry| entry.expect("a folder can be listed").path())
        .collect();
    paths.sort();
    for (at, path) in paths.iter().enumerate() {
        let image = fs::read(path).expect("a module can be read");
        let last = at + 1 == paths.len();
        let words = if last { parameters } else { "" };
        let words = CString::new(words).expect("parameters are plain words");
        match init_module(&image, &words) {
            Ok(()) => {}
            Err(Errno::EXIST) if !last => {}
            Err(error) => panic!("loading {} {parameters}: {error}", path.display()),
        }
    }
    Loaded {
        name: CString::new(set).expect("a plain name"),
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let gone = || matches!(delete_module(&self.name, 0), Ok(()) | Err(Errno::NOENT));
        if std::thread::panicking() {
            gone();
        } else {
            // Whoever had it open may be on its way out.
            wait::until_true(&format!("{:?} is unloaded", self.name), SOON, gone);
        }
    }
}
