//! Who has a device open, or mapped.

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::collections::BTreeSet;
use std::path::Path;

/// A process that holds a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// Process.
    pub pid: u32,
    /// Major and minor number.
    pub device: (u32, u32),
    /// Mapped into its memory, rather than only open.
    pub mapped: bool,
}

/// `S_IFMT` and `S_IFCHR` of `<linux/stat.h>`.
const FILE_TYPE: u16 = 0o170_000;
const CHARACTER: u16 = 0o020_000;

/// What these processes have open or mapped of the character devices that `wanted` names. Processes that end meanwhile have
/// nothing.
pub fn find(
    pids: impl IntoIterator<Item = u32>,
    wanted: &dyn Fn(u32, u32) -> bool,
) -> BTreeSet<Holder> {
    let mut found = BTreeSet::new();
    for pid in pids {
        let mut note = |path: &Path, mapped| {
            if let Some(device) = device(path).filter(|(major, minor)| wanted(*major, *minor)) {
                found.insert(Holder {
                    pid,
                    device,
                    mapped,
                });
            }
        };
        for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .flatten()
        {
            // Sockets and pipes are passed over by the link's text.
            if std::fs::read_link(entry.path()).is_ok_and(|to| to.is_absolute()) {
                note(&entry.path(), false);
            }
        }
        for range in mapped_files(pid) {
            note(Path::new(&format!("/proc/{pid}/map_files/{range}")), true);
        }
    }
    found
}

/// Every process of the machine.
pub fn everybody() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// One address range for each file that a process has mapped, as `map_files` names it.
fn mapped_files(pid: u32) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut seen = BTreeSet::new();
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let (range, _, _) = (fields.next()?, fields.next()?, fields.next()?);
            let file = (fields.next()?, fields.next()?);
            (file.1 != "0" && seen.insert(file)).then(|| range.to_owned())
        })
        .collect()
}

/// The number of the character device behind a path. What is known of it is asked, so that no file server is waited for.
fn device(path: &Path) -> Option<(u32, u32)> {
    let stat = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::BASIC_STATS).ok()?;
    (stat.stx_mode & FILE_TYPE == CHARACTER).then_some((stat.stx_rdev_major, stat.stx_rdev_minor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn open_and_mapped_devices_are_found() {
        let full = std::fs::File::open("/dev/full").unwrap();
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(full)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id();
        let is = |minor: u32| move |major, of| (major, of) == (1, minor);
        let holder = |minor| Holder {
            pid,
            device: (1, minor),
            mapped: false,
        };
        assert_eq!(find([pid], &is(7)), BTreeSet::from([holder(7)]));
        assert_eq!(
            find([pid], &is(3)),
            BTreeSet::from([holder(3)]),
            "its output"
        );
        assert_eq!(find([pid], &is(9)), BTreeSet::new());
        assert!(!mapped_files(pid).is_empty(), "its program is mapped");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(find([pid], &is(7)).is_empty());
    }
}
