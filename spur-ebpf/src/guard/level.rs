//! How deep a cgroup lies, as the kernel counts it.

use crate::{Error, Result};
use std::path::{Component, Path};

/// Level of the children of `folder`, seen from the root of the kernel's cgroup v2 tree, whose own level is 0.
pub(super) fn of_children(folder: &Path) -> Result<u32> {
    let folder = folder
        .canonicalize()
        .map_err(Error::kernel("find cgroup", folder.display().to_string()))?;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")
        .map_err(Error::kernel("read", "/proc/self/mountinfo"))?;
    level(&mounts, &folder).ok_or_else(|| Error::NotCgroup2(folder.display().to_string()))
}

/// The deepest cgroup v2 mount above the folder says where the folder is in the tree.
fn level(mountinfo: &str, folder: &Path) -> Option<u32> {
    let (root, below) = crate::cgroup::mounts(mountinfo)
        .filter_map(|(root, point)| Some((root, folder.strip_prefix(point).ok()?)))
        .min_by_key(|(_, below)| below.components().count())?;
    Some(names(root)? + names(below)? + 1)
}

/// Names in a path; `None` if it leads above our cgroup namespace, whose depth cannot be known.
fn names(path: &Path) -> Option<u32> {
    path.components()
        .map(|part| match part {
            Component::Normal(_) => Some(1),
            Component::RootDir | Component::CurDir => Some(0),
            Component::ParentDir | Component::Prefix(_) => None,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::level;
    use std::path::Path;

    #[test]
    fn levels_count_from_the_root_of_the_tree() {
        let whole = "26 25 0:23 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n\
                     24 21 0:22 / /sys rw - sysfs sysfs rw\n";
        let of = |mounts: &str, folder| level(mounts, Path::new(folder));
        assert_eq!(of(whole, "/sys/fs/cgroup/spur"), Some(2));
        assert_eq!(of(whole, "/sys/fs/cgroup"), Some(1));
        assert_eq!(of(whole, "/sys/fs/cgroup/a.slice/b/spur"), Some(4));
        assert_eq!(of(whole, "/srv"), None);
        let part = "40 25 0:23 /a.slice/b /mnt rw - cgroup2 cgroup2 rw\n";
        assert_eq!(of(part, "/mnt/spur"), Some(4));
        assert_eq!(of(&format!("{whole}{part}"), "/mnt/spur"), Some(4));
        let above = "40 25 0:23 /../.. /mnt rw - cgroup2 cgroup2 rw\n";
        assert_eq!(of(above, "/mnt/spur"), None);
    }
}
