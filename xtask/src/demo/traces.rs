//! What a cluster has outside its folder, noted while it runs, looked for afterwards.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// Where to look.
pub(super) struct Traces {
    dir: String,
    folders: Vec<PathBuf>,
}

impl Traces {
    /// Notes cgroups and pins from the agents' configurations.
    pub(super) fn of(dir: &Path) -> Result<Self> {
        let mut folders = Vec::new();
        for entry in std::fs::read_dir(dir.join("nodes")).context("listing the nodes")? {
            let file = entry?.path().join("spurd.toml");
            let text = std::fs::read_to_string(&file)
                .with_context(|| format!("reading {}", file.display()))?;
            let value = |key: &str| {
                let line = text
                    .lines()
                    .find(|line| line.split('=').next().is_some_and(|k| k.trim() == key));
                line.and_then(|line| line.split('"').nth(1))
                    .map(PathBuf::from)
            };
            folders.extend(value("cgroup").and_then(|folder| Some(cgroup2()?.join(folder))));
            folders.extend(
                value("pins")
                    .zip(value("bpffs"))
                    .map(|(pins, bpffs)| bpffs.join(pins)),
            );
        }
        ensure!(
            !folders.is_empty(),
            "no agent's configuration was found: nothing would be checked"
        );
        let dir = dir.to_string_lossy().into_owned();
        Ok(Self { dir, folders })
    }

    /// What is still there.
    pub(super) fn left(&self) -> Vec<String> {
        let folders = self.folders.iter().filter(|folder| folder.exists());
        let mut found: Vec<String> = folders.map(|folder| folder.display().to_string()).collect();
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        found.extend(
            mounts
                .lines()
                .filter(|line| line.contains(&self.dir))
                .map(str::to_owned),
        );
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let words = ["cmdline", "environ"]
                .map(|file| std::fs::read(entry.path().join(file)).unwrap_or_default());
            if words
                .iter()
                .any(|bytes| String::from_utf8_lossy(bytes).contains(&self.dir))
            {
                found.push(format!("process {}", entry.file_name().to_string_lossy()));
            }
        }
        found
    }
}

fn cgroup2() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let line = mounts
        .lines()
        .find(|line| line.split(' ').nth(2) == Some("cgroup2"))?;
    line.split(' ').nth(1).map(PathBuf::from)
}
