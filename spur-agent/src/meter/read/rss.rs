//! Memory of a group on hosts whose v2 tree has no memory controller: the resident memory of its processes, added up. What they
//! share is counted for each of them, so this is an estimate from above.

use super::kept::Kept;
use std::path::{Path, PathBuf};

/// Most processes of a group that are asked; a group with more has no estimate.
pub const PROCESSES_MAX: usize = 4096;

/// Most processes of a group whose files stay open: to open one costs more than to read it.
const KEPT_MAX: usize = 8;

/// Longer lists are read by as many calls as that takes: the kernel gives a page at a time.
const LIST_BYTES: usize = 3 << 10;

/// The sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Bytes.
    pub bytes: u64,
    /// Processes.
    pub processes: usize,
}

/// The processes of a group, asked again and again. A file of a process that ended tells nothing, also when its number is used
/// again.
#[derive(Debug)]
pub struct Processes {
    path: PathBuf,
    list: Kept,
    open: Vec<(i32, Kept)>,
}

impl Processes {
    /// Those of this group; nobody is asked yet.
    pub fn of(group: &Path) -> Self {
        let path = group.join("cgroup.procs");
        Self {
            list: Kept::open(&path),
            path,
            open: Vec::new(),
        }
    }

    /// Adds up the resident memory of those that there are now. `proc` is `/proc`; `buffer` is overwritten.
    pub fn read(&mut self, proc: &Path, buffer: &mut Vec<u8>) -> Option<Resident> {
        let text = self.list.read(buffer)?;
        let pids = if text.len() < LIST_BYTES {
            numbers(text)
        } else {
            numbers(&std::fs::read_to_string(&self.path).ok()?)
        };
        self.sum(proc, &pids, buffer)
    }

    fn sum(&mut self, proc: &Path, pids: &[i32], buffer: &mut Vec<u8>) -> Option<Resident> {
        if pids.len() > PROCESSES_MAX {
            return None;
        }
        let keep = pids.len() <= KEPT_MAX;
        self.open.retain(|(pid, _)| keep && pids.contains(pid));
        let mut sum = None;
        for pid in pids {
            let kept = self.open.iter().position(|(open, _)| open == pid);
            let known = kept.and_then(|at| pages(&self.open.get(at)?.1, buffer));
            let told = known.or_else(|| {
                let file = Kept::open(&proc.join(pid.to_string()).join("statm"));
                let told = pages(&file, buffer);
                self.open.retain(|(open, _)| open != pid);
                if keep && told.is_some() {
                    self.open.push((*pid, file));
                }
                told
            });
            sum = told.map_or(sum, |told| Some(told.saturating_add(sum.unwrap_or(0))));
        }
        // None that told anything: the group was empty just then, which is not the same as using nothing.
        Some(Resident {
            bytes: sum?.saturating_mul(rustix::param::page_size() as u64),
            processes: pids.len(),
        })
    }
}

fn numbers(text: &str) -> Vec<i32> {
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Resident pages by `statm` (proc_pid_statm(5)).
fn pages(statm: &Kept, buffer: &mut Vec<u8>) -> Option<u64> {
    let text = statm.read(buffer)?;
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statm(dir: &Path, pid: &str, text: &str) {
        std::fs::create_dir_all(dir.join(pid)).unwrap();
        std::fs::write(dir.join(pid).join("statm"), text).unwrap();
    }

    #[test]
    fn what_ended_or_makes_no_sense_counts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for (pid, text) in [("1", "100 20 5 1 0 9 0\n"), ("2", "100 30"), ("3", "x y")] {
            statm(dir.path(), pid, text);
        }
        let page = rustix::param::page_size() as u64;
        let told = |pages, processes| {
            Some(Resident {
                bytes: pages * page,
                processes,
            })
        };
        let mut group = Processes::of(dir.path());
        let mut buffer = Vec::new();
        let mut sum = |pids: &[i32]| group.sum(dir.path(), pids, &mut buffer);
        assert_eq!(sum(&[1, 2, 3, 4]), told(50, 4));
        assert_eq!(sum(&[3, 4]), None);
        assert_eq!(sum(&[]), None);
        assert_eq!(sum(&[1; PROCESSES_MAX + 1]), None);
        assert_eq!(sum(&[2; KEPT_MAX + 1]), told(30 * 9, 9));
        statm(dir.path(), "2", "100 31");
        assert_eq!(sum(&[1, 2]), told(51, 2));
    }

    #[test]
    fn files_stay_open_and_are_opened_anew_for_another_process_of_the_same_number() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("cgroup.procs"), "7\n").unwrap();
        statm(dir.path(), "7", "9 5");
        let mut group = Processes::of(dir.path());
        let mut buffer = Vec::new();
        let page = rustix::param::page_size() as u64;
        let mut bytes = || {
            group
                .read(dir.path(), &mut buffer)
                .map(|told| told.bytes / page)
        };
        assert_eq!(bytes(), Some(5));
        // The file that is open tells nothing any more, as that of an ended process does.
        std::fs::write(dir.path().join("7/statm"), "").unwrap();
        std::fs::rename(dir.path().join("7"), dir.path().join("8")).unwrap();
        statm(dir.path(), "7", "9 6");
        assert_eq!(bytes(), Some(6));
        assert_eq!(group.open.len(), 1);
    }
}
