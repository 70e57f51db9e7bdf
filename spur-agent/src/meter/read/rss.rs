//! Memory of a group on hosts whose v2 tree has no memory controller: the resident memory of its processes, added up. What they
//! share is counted for each of them, so this is an estimate from above.

use std::path::Path;

/// Most processes of a group that are asked; a group with more has no estimate.
pub const PROCESSES_MAX: usize = 4096;

/// The sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Bytes.
    pub bytes: u64,
    /// Processes.
    pub processes: usize,
}

/// Adds up the resident memory of these processes. `proc` is `/proc`. Processes that end meanwhile have none.
pub fn read(proc: &Path, pids: &[i32]) -> Option<Resident> {
    if pids.len() > PROCESSES_MAX {
        return None;
    }
    let page = rustix::param::page_size() as u64;
    let pages = pids.iter().filter_map(|pid| {
        let text = std::fs::read_to_string(proc.join(pid.to_string()).join("statm")).ok()?;
        text.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    // None that told anything: the group was empty just then, which is not the same as using nothing.
    let sum = pages.reduce(u64::saturating_add)?;
    Some(Resident {
        bytes: sum.saturating_mul(page),
        processes: pids.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_or_makes_no_sense_counts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for (pid, text) in [("1", "100 20 5 1 0 9 0\n"), ("2", "100 30"), ("3", "x y")] {
            std::fs::create_dir(dir.path().join(pid)).unwrap();
            std::fs::write(dir.path().join(pid).join("statm"), text).unwrap();
        }
        let page = rustix::param::page_size() as u64;
        let told = Resident {
            bytes: 50 * page,
            processes: 4,
        };
        assert_eq!(read(dir.path(), &[1, 2, 3, 4]), Some(told));
        assert_eq!(read(dir.path(), &[3, 4]), None);
        assert_eq!(read(dir.path(), &[]), None);
        assert_eq!(read(dir.path(), &[1; PROCESSES_MAX + 1]), None);
    }
}
