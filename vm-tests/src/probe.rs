//! The hostile program, and what its scan says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The program itself: static, so that it runs anywhere.
const PROGRAM: &[u8] = include_bytes!(env!("SPUR_PROBE"));

/// A fence program that refuses nothing, for a test that the canary notices.
pub const BROKEN_FENCE: &[u8] = include_bytes!(env!("SPUR_BROKEN_FENCE"));

/// Writes the program into a folder, executable by everybody.
pub fn install(dir: &Path) -> PathBuf {
    let path = dir.join("probe");
    fs::write(&path, PROGRAM).expect("the probe can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("and made executable");
    path
}

/// What came of trying to reach a device in every way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Every open reached the kernel's driver lookup.
    Reached,
    /// Every open was refused by the fence.
    Refused,
}

/// A scan without the opens of a process that moved itself out of its job. Root may write to every cgroup; what keeps GPUs
/// from processes outside jobs is the node's fence, not the job's.
pub fn within_the_job(scan: &str) -> String {
    let inside = scan
        .lines()
        .filter(|line| line.split(' ').nth(1) != Some("moved"));
    inside.fold(String::new(), |text, line| text + line + "\n")
}

/// Reads the lines of a scan: device to verdict. Panics when the ways to one device disagree, or when anything was opened.
pub fn verdicts(scan: &str) -> BTreeMap<String, Verdict> {
    let mut seen: BTreeMap<&str, BTreeSet<(&str, &str)>> = BTreeMap::new();
    for line in scan.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [path, way, outcome] = words[..] else {
            panic!("not a line of a scan: {line:?}")
        };
        // Making a link, a node, a namespace or a cgroup may be refused for reasons of its own: no way, no verdict.
        if !way.starts_with("make-") && outcome != "NORING" && way != "watch" {
            seen.entry(path).or_default().insert((way, outcome));
        }
    }
    seen.into_iter()
        .map(|(path, outcomes)| (path.to_owned(), verdict(path, &outcomes)))
        .collect()
}

fn verdict(path: &str, outcomes: &BTreeSet<(&str, &str)>) -> Verdict {
    // A major number without a driver gives ENXIO, a minor that its driver does not know ENODEV.
    let reached = outcomes
        .iter()
        .all(|(_, outcome)| matches!(*outcome, "ENXIO" | "ENODEV"));
    let refused = outcomes.iter().all(|(_, outcome)| *outcome == "EPERM");
    match (reached, refused) {
        (true, false) => Verdict::Reached,
        (false, true) => Verdict::Refused,
        _ => panic!("{path}: neither reached nor refused in every way: {outcomes:?}"),
    }
}

/// The devices that were reached.
pub fn reached(scan: &str) -> BTreeSet<String> {
    let all = verdicts(scan).into_iter();
    all.filter(|(_, verdict)| *verdict == Verdict::Reached)
        .map(|(path, _)| path)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_is_judged_as_a_whole() {
        let scan = "/g0 read ENXIO\n/g0 uring ENODEV\n/g0 make-node EPERM\n/g1 read EPERM\n/g1 uring NORING\n";
        let verdicts = verdicts(scan);
        assert_eq!(verdicts["/g0"], Verdict::Reached);
        assert_eq!(verdicts["/g1"], Verdict::Refused);
    }

    #[test]
    #[should_panic(expected = "neither reached nor refused")]
    fn one_way_through_is_a_breach() {
        verdicts("/g0 read EPERM\n/g0 uring ENXIO\n");
    }

    #[test]
    #[should_panic(expected = "neither reached nor refused")]
    fn an_opened_device_is_a_breach() {
        verdicts("/g0 read OPENED\n");
    }
}
