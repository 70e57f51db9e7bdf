//! Control groups for work that is measured.

use crate::cluster::SOON;
use crate::{host, wait};
use std::fs;
use std::path::{Path, PathBuf};

/// How deep [`Groups::make`]'s folders are below the mount, which is what the meter calls the level of jobs.
pub const JOB_LEVEL: u32 = 2;

/// A folder in the version 2 tree, and groups below it; removed when dropped.
pub struct Groups {
    root: PathBuf,
}

impl Groups {
    /// A folder of our own, with the controllers that there are.
    pub fn new() -> Self {
        let mount = host::cgroup2().expect("a version 2 tree of control groups is mounted");
        let root = mount.join(format!("spur-meter-{}", std::process::id()));
        fs::create_dir(&root).unwrap_or_else(|error| panic!("{}: {error}", root.display()));
        for name in ["cpu", "io", "memory"] {
            // Which there are is for the caller to find out. At the top as well: a systemd that ran before may have taken them away.
            for dir in [&mount, &root] {
                fs::write(dir.join("cgroup.subtree_control"), format!("+{name}")).ok();
            }
        }
        Self { root }
    }

    /// A new group.
    pub fn make(&self, name: &str) -> PathBuf {
        let dir = self.root.join(name);
        fs::create_dir(&dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
        dir
    }
}

impl Default for Groups {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        let below = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let dirs: Vec<PathBuf> = below
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .collect();
        for dir in dirs.iter().chain([&self.root]) {
            fs::write(dir.join("cgroup.kill"), "1").ok();
            let gone = || fs::remove_dir(dir).is_ok() || !dir.exists();
            wait::until_true(&format!("{} can be removed", dir.display()), SOON, gone);
        }
    }
}

/// A number of one of a group's files, `NAME NUMBER` a line.
pub fn number(dir: &Path, file: &str, name: &str) -> u64 {
    let text = host::read(&dir.join(file));
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.trim().parse().ok())
        .unwrap_or_else(|| panic!("no {name} in {file}: {text}"))
}

/// The sum over all devices of a key of `io.stat`, which may be empty.
pub fn io(dir: &Path, key: &str) -> u64 {
    let text = host::read(&dir.join("io.stat"));
    let prefix = format!("{key}=");
    text.split_whitespace()
        .filter_map(|word| word.strip_prefix(&prefix)?.parse::<u64>().ok())
        .sum()
}
