//! `spur dev down`: whatever state the cluster is in, nothing of it stays.

use super::layout::{Layout, MARK, MARK_NEW, OWN};
use super::{default, failed, proc};
use crate::cli::failure::Failure;
use crate::cli::output;
use rustix::mount::{UnmountFlags, unmount};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Stops the cluster of a folder and removes what it made.
pub(super) fn down(dir: &Path) -> Result<u8, Failure> {
    let nothing = || {
        output::print(&format!("{}: nothing there\n", dir.display()));
        Ok(0)
    };
    let layout = match Layout::new(dir) {
        Ok(layout) if !OWN.iter().any(|name| layout.path(name).exists()) => return nothing(),
        Ok(layout) => layout,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return nothing(),
        Err(why) => return Err(failed(format_args!("{}: {why}", dir.display()))),
    };
    check_ours(&layout)?;
    remove(&layout).map(|()| 0)
}

/// Only a folder that `up` marked is taken down, and only by its owner or root: everything that has the folder in its path is
/// killed, unmounted and removed, and `--dir /` would be the whole machine.
fn check_ours(layout: &Layout) -> Result<(), Failure> {
    use std::os::unix::fs::MetadataExt as _;
    let mark = layout.path(MARK);
    let found = fs::symlink_metadata(&mark).map_err(|_| {
        failed(format_args!(
            "{}: no cluster of `spur dev up` is there (no file {}); nothing was touched",
            layout.dir().display(),
            mark.display()
        ))
    })?;
    let me = rustix::process::geteuid();
    if me.is_root() || found.uid() == me.as_raw() {
        return Ok(());
    }
    Err(failed(format_args!(
        "{}: this cluster is of user {}, who may take it down, or root; nothing was touched",
        layout.dir().display(),
        found.uid()
    )))
}

/// The same for a folder that is known. Goes on after a failure, so that as little as possible stays, and then tells of all.
pub(super) fn remove(layout: &Layout) -> Result<(), Failure> {
    let mut troubles: Vec<String> = Vec::new();
    for pid in proc::kill_all(layout) {
        troubles.push(format!("process {pid} does not end"));
    }
    for config in node_configs(layout) {
        troubles.extend(clean_node(layout, &config).err());
    }
    // While anything of a job may be left, its pinned fence must stay, and so the mount and the files that name it.
    if troubles.is_empty() {
        troubles.extend(unmount_all(layout));
    }
    if troubles.is_empty() {
        troubles.extend(default::release(layout));
    }
    if troubles.is_empty() {
        troubles.extend(remove_files(layout));
    }
    if troubles.is_empty() {
        Ok(())
    } else {
        Err(failed(troubles.join("\n")))
    }
}

fn node_configs(layout: &Layout) -> Vec<PathBuf> {
    let nodes = fs::read_dir(layout.path("nodes"))
        .into_iter()
        .flatten()
        .flatten();
    let mut configs: Vec<_> = nodes
        .map(|node| node.path().join("spurd.toml"))
        .filter(|config| config.is_file())
        .collect();
    configs.sort();
    configs
}

/// Has the agent remove what it left in the kernel: processes, cgroups, pins, its mount. The agent knows these by its
/// configuration alone.
fn clean_node(layout: &Layout, config: &Path) -> Result<(), String> {
    // Hollow nodes, and nodes of an ordinary user, have nothing in the kernel.
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let spurd = layout.path("bin").join("spurd");
    let mut command = Command::new(&spurd);
    command
        .arg("leftovers")
        .arg("--config")
        .arg(config)
        .stdin(Stdio::null());
    let told = |why: String| format!("{}: {why}", config.display());
    let output = command
        .output()
        .map_err(|why| told(format!("{}: {why}", spurd.display())))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr)
        .trim_end()
        .to_owned();
    Err(told(format!(
        "spurd leftovers failed ({}): {text}",
        output.status
    )))
}

/// Unmounts whatever is mounted below the folder, the innermost first.
fn unmount_all(layout: &Layout) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let point = |line: &str| {
        line.split(' ')
            .nth(4)
            .map(|point| PathBuf::from(unescaped(point)))
    };
    let mut points: Vec<PathBuf> = table.lines().filter_map(point).collect();
    points.retain(|point| layout.owns(point));
    points.reverse();
    let left = |point: PathBuf| {
        let why = unmount(&point, UnmountFlags::empty()).err()?;
        Some(format!("cannot unmount {}: {why}", point.display()))
    };
    points.into_iter().filter_map(left).collect()
}

/// Blanks and the like are written as `\040` in the table (proc(5)).
fn unescaped(text: &str) -> String {
    let mut out = text.to_owned();
    for (code, plain) in [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ] {
        out = out.replace(code, plain);
    }
    out
}

fn remove_files(layout: &Layout) -> Vec<String> {
    let made = fs::read_to_string(layout.path(MARK)).is_ok_and(|text| text == MARK_NEW);
    let mut troubles = Vec::new();
    for name in OWN {
        if name == MARK && !troubles.is_empty() {
            // So that another try is possible.
            break;
        }
        let path = layout.path(name);
        let removed = match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(_) => continue,
        };
        troubles.extend(
            removed
                .err()
                .map(|why| format!("cannot remove {}: {why}", path.display())),
        );
    }
    if made {
        // What others put there keeps the folder.
        fs::remove_dir(layout.dir()).ok();
    }
    troubles
}

#[cfg(test)]
mod tests {
    use super::super::layout::MARK_IN_OLD;
    use super::*;

    #[test]
    fn half_made_folders_go_and_other_files_stay() {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("cluster");
        fs::create_dir_all(dir.join("nodes/n1")).unwrap();
        fs::write(dir.join(MARK), MARK_NEW).unwrap();
        fs::write(dir.join("mine"), "").unwrap();
        assert_eq!(down(&dir).unwrap(), 0);
        let left: Vec<_> = fs::read_dir(&dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["mine"]);
        fs::remove_file(dir.join("mine")).unwrap();
        fs::write(dir.join(MARK), MARK_NEW).unwrap();
        assert_eq!(down(&dir).unwrap(), 0);
        assert!(!dir.exists());
        assert_eq!(down(&dir).unwrap(), 0, "nothing there is fine");
    }

    #[test]
    fn a_folder_that_holds_no_cluster_is_left_alone() {
        let outer = tempfile::tempdir().unwrap();
        let other = outer.path().join("cluster");
        for name in ["bin", "run", "cluster"] {
            fs::create_dir(outer.path().join(name)).unwrap();
        }
        fs::write(other.join(MARK), MARK_IN_OLD).unwrap();
        let refused = down(outer.path()).unwrap_err();
        assert!(refused.text.contains("nothing was touched"), "{refused:?}");
        assert!(outer.path().join("bin").exists() && other.join(MARK).exists());
        assert_eq!(down(&other).unwrap(), 0);
        assert!(
            other.exists() && !other.join(MARK).exists(),
            "the folder was there before"
        );
        assert_eq!(down(&other).unwrap(), 0, "nothing there is fine");
    }

    #[test]
    fn mount_points_may_hold_blanks() {
        assert_eq!(unescaped("/a\\040b\\134c"), "/a b\\c");
    }
}
