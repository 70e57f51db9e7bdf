//! Who has a device open, or mapped.
//!
//! A process has one memory, but its threads may have tables of descriptors of their own (`unshare(CLONE_FILES)`), and its first
//! thread may have ended before the others, with nothing more to be seen below `/proc/PID`. So each thread is asked.

use crate::sys::kcmp;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fs::DirEntry;
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
        let threads = threads(pid);
        for thread in tables(&threads) {
            for entry in entries(&format!("/proc/{pid}/task/{thread}/fd")) {
                // Sockets and pipes are passed over by the link's text.
                if std::fs::read_link(entry.path()).is_ok_and(|to| to.is_absolute()) {
                    note(&entry.path(), false);
                }
            }
        }
        // The memory of any thread that still has it is that of all.
        let mapped = threads
            .iter()
            .map(|thread| (*thread, mapped_files(*thread)));
        if let Some((thread, ranges)) = mapped.into_iter().find(|(_, files)| !files.is_empty()) {
            for range in ranges {
                note(
                    Path::new(&format!("/proc/{thread}/map_files/{range}")),
                    true,
                );
            }
        }
    }
    found
}

fn entries(folder: &str) -> impl Iterator<Item = DirEntry> + use<> {
    std::fs::read_dir(folder).into_iter().flatten().flatten()
}

/// The threads of a process, which the kernel bounds (`threads-max`, `pids.max`), its first one included if that has ended.
fn threads(pid: u32) -> Vec<u32> {
    let names = entries(&format!("/proc/{pid}/task")).map(|entry| entry.file_name());
    names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect()
}

/// One thread for each table of descriptors. Where the kernel cannot say which are the same, all.
fn tables(threads: &[u32]) -> Vec<u32> {
    let order = |one: u32, other: u32| {
        let pair = (i32::try_from(one).ok()?, i32::try_from(other).ok()?);
        kcmp::files(pair.0, pair.1).ok()
    };
    let mut distinct: Vec<u32> = Vec::new();
    let mut unknown = Vec::new();
    for thread in threads {
        let mut known = true;
        let place = distinct.binary_search_by(|other| {
            order(*other, *thread).unwrap_or_else(|| {
                known = false;
                Ordering::Less
            })
        });
        match place {
            _ if !known => unknown.push(*thread),
            Ok(_) => {}
            Err(at) => distinct.insert(at, *thread),
        }
    }
    distinct.extend(unknown);
    distinct
}

/// Every process of the machine.
pub fn everybody() -> impl Iterator<Item = u32> {
    entries("/proc").filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// One address range for each file that a process or thread has mapped, as `map_files` names it.
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
mod tests;
