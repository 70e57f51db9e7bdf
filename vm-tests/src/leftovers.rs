//! What a cluster has on a machine, noted while it lives, looked for when it should be gone.

use crate::host::{self, Mount};
use crate::procs;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Everything to look for.
#[derive(Debug)]
pub struct Leftovers {
    dir: String,
    folders: BTreeSet<PathBuf>,
    mounts: BTreeSet<Mount>,
}

impl Leftovers {
    /// Notes what was mounted before the cluster came. The folders are noted later, by [`Self::note`].
    pub fn before(dir: &Path) -> Self {
        let dir = dir
            .to_str()
            .expect("test folders have plain names")
            .to_owned();
        Self {
            dir,
            folders: BTreeSet::new(),
            mounts: host::mounts().into_iter().collect(),
        }
    }

    /// Notes, from every agent's configuration below the folder, its cgroup and its pins.
    pub fn note(&mut self) {
        let root = host::cgroup2().expect("a version 2 tree of control groups is mounted");
        for file in toml_files(Path::new(&self.dir), 4) {
            let text = host::read(&file);
            if let Some(cgroup) = value(&text, "cgroup") {
                self.folders.insert(root.join(cgroup));
            }
            if let (Some(bpffs), Some(pins)) = (value(&text, "bpffs"), value(&text, "pins")) {
                self.folders.insert(Path::new(bpffs).join(pins));
            }
        }
    }

    /// How many folders outside the cluster's own were noted.
    pub fn folders(&self) -> usize {
        self.folders.len()
    }

    /// Everything that is still there, in words.
    pub fn found(&self) -> Vec<String> {
        let mut found = Vec::new();
        for process in procs::mentioning(&self.dir) {
            found.push(format!("process {} {:?}", process.pid, process.args));
        }
        for folder in self.folders.iter().filter(|folder| folder.exists()) {
            found.push(format!("folder {}", folder.display()));
        }
        for mount in host::mounts() {
            // Elsewhere somebody else may mount things meanwhile.
            let ours = mount.at.contains(&self.dir) || mount.at == "/sys/fs/bpf";
            if ours && !self.mounts.contains(&mount) {
                found.push(format!("mount {} of type {}", mount.at, mount.kind));
            }
        }
        found
    }
}

/// The string that a key has, in a line of its own.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name.trim() == key).then(|| value.trim().trim_matches('"'))
    })
}

fn toml_files(dir: &Path, depth: u32) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() && depth > 0 && !path.is_symlink() {
            found.extend(toml_files(&path, depth - 1));
        } else if path.extension().is_some_and(|ext| ext == "toml") {
            found.push(path);
        }
    }
    found
}
