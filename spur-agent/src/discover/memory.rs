//! How much memory the machine has.

use super::tree::Tree;

/// Total memory in MiB: `MemTotal` of `/proc/meminfo`, or the sum over NUMA nodes where that file is missing; 0 if unknown.
pub fn total_mib(tree: &Tree) -> u64 {
    if let Some(kib) = tree
        .read("proc/meminfo")
        .ok()
        .and_then(|text| kib_of(&text, "MemTotal:"))
    {
        return kib / 1024;
    }
    let nodes = tree.numbered("sys/devices/system/node", "node");
    let texts = nodes.iter().filter_map(|n| {
        tree.read(&format!("sys/devices/system/node/node{n}/meminfo"))
            .ok()
    });
    texts
        .filter_map(|text| kib_of(&text, "MemTotal:"))
        .sum::<u64>()
        / 1024
}

/// Memory that could be given out now, in MiB (`MemAvailable`, before Linux 3.14 `MemFree`).
pub fn free_mib(tree: &Tree) -> u64 {
    let Ok(text) = tree.read("proc/meminfo") else {
        return 0;
    };
    kib_of(&text, "MemAvailable:")
        .or_else(|| kib_of(&text, "MemFree:"))
        .unwrap_or(0)
        / 1024
}

/// The number after `key` on its line, in KiB.
fn kib_of(text: &str, key: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| Some(line.split_once(key)?.1))?;
    line.split_whitespace().next()?.parse().ok()
}
