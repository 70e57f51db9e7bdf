//! CPUs: which may be given to jobs, and how they sit in cores, sockets and NUMA nodes.

use super::tree::{Tree, parse_list, parse_mask};
use spur_core::resources::IdSet;
use std::collections::{BTreeMap, BTreeSet};

const CPUS: &str = "sys/devices/system/cpu";

/// Schedulable CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpus {
    /// The kernel's number of each, ordered by socket, then core, then thread: neighbours share a core.
    pub host: Vec<u32>,
    /// NUMA node of each, parallel to `host`; 0 if unknown.
    pub numa: Vec<u32>,
    /// Sockets; at least 1.
    pub sockets: u32,
    /// Cores per socket, rounded down where sockets differ; at least 1.
    pub cores_per_socket: u32,
    /// Threads per core, rounded down where cores differ, as on hybrid processors; at least 1.
    pub threads_per_core: u32,
}

/// Finds every CPU that is online and that this process's cpuset allows: an agent that is confined to some CPUs offers only those.
pub fn find(tree: &Tree) -> Cpus {
    let mut online = online(tree);
    if let Some(allowed) = allowed(tree) {
        let allowed: BTreeSet<u32> = allowed.into_iter().collect();
        if online.iter().any(|cpu| allowed.contains(cpu)) {
            online.retain(|cpu| allowed.contains(cpu));
        }
    }
    let mut places: Vec<(u32, u32, u32)> = online
        .iter()
        .map(|&cpu| {
            let socket = first_of(tree, cpu, &["package_cpus", "core_siblings"]);
            let core = first_of(tree, cpu, &["core_cpus", "thread_siblings"]);
            (socket.unwrap_or(0), core.unwrap_or(cpu), cpu)
        })
        .collect();
    places.sort_unstable();
    let sockets: BTreeSet<u32> = places.iter().map(|place| place.0).collect();
    let cores: BTreeSet<(u32, u32)> = places.iter().map(|place| (place.0, place.1)).collect();
    let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX).max(1);
    let (sockets, cores) = (count(sockets.len()), count(cores.len()));
    let nodes = numa_of(tree);
    Cpus {
        numa: places
            .iter()
            .map(|place| nodes.get(&place.2).copied().unwrap_or(0))
            .collect(),
        sockets,
        cores_per_socket: (cores / sockets).max(1),
        threads_per_core: (count(places.len()) / cores).max(1),
        host: places.into_iter().map(|place| place.2).collect(),
    }
}

/// Most NUMA nodes that are told apart: the kernel's `MAX_NUMNODES` on the greatest machines.
const NUMA_MAX: u32 = 1024;

/// Positions of the CPUs of each NUMA node, by the node's number.
pub fn by_numa(numa: &[u32]) -> Vec<IdSet> {
    let mut nodes: Vec<IdSet> = Vec::new();
    for (cpu, node) in (0..).zip(numa).filter(|(_, node)| **node < NUMA_MAX) {
        let at = *node as usize;
        if nodes.len() <= at {
            nodes.resize_with(at + 1, IdSet::new);
        }
        nodes[at].insert(cpu);
    }
    nodes
}

/// CPUs that are online: the kernel's list, or for kernels without one every `cpuN` that does not say otherwise.
fn online(tree: &Tree) -> Vec<u32> {
    if let Some(list) = tree
        .line(&format!("{CPUS}/online"))
        .and_then(|text| parse_list(&text))
    {
        return list;
    }
    let mut cpus = tree.numbered(CPUS, "cpu");
    cpus.retain(|cpu| {
        tree.line(&format!("{CPUS}/cpu{cpu}/online"))
            .is_none_or(|flag| flag != "0")
    });
    cpus
}

/// The lowest CPU of a sibling set of `cpu`, which names the set. The kernel writes a list beside each mask since 2.6.26.
fn first_of(tree: &Tree, cpu: u32, files: &[&str]) -> Option<u32> {
    files.iter().find_map(|file| {
        let path = format!("{CPUS}/cpu{cpu}/topology/{file}");
        let list = tree
            .line(&format!("{path}_list"))
            .and_then(|text| parse_list(&text));
        let set = list.or_else(|| tree.line(&path).and_then(|text| parse_mask(&text)))?;
        set.into_iter().min()
    })
}

/// NUMA node of each CPU.
fn numa_of(tree: &Tree) -> BTreeMap<u32, u32> {
    let mut of = BTreeMap::new();
    for node in tree.numbered("sys/devices/system/node", "node") {
        let path = format!("sys/devices/system/node/node{node}");
        let list = tree
            .line(&format!("{path}/cpulist"))
            .and_then(|text| parse_list(&text));
        let cpus = list.or_else(|| {
            tree.line(&format!("{path}/cpumap"))
                .and_then(|text| parse_mask(&text))
        });
        of.extend(cpus.unwrap_or_default().into_iter().map(|cpu| (cpu, node)));
    }
    of
}

/// CPUs that this process's cpuset allows, cgroup v2 or v1; `None` if there is no cpuset.
fn allowed(tree: &Tree) -> Option<Vec<u32>> {
    let own = tree
        .line("proc/self/cpuset")
        .or_else(|| unified_path(tree))?;
    let mounts = tree.read("proc/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (mount, kind, options) = (fields.nth(1)?, fields.next()?, fields.next()?);
        let v1 = kind == "cpuset"
            || (kind == "cgroup" && options.split(',').any(|option| option == "cpuset"));
        let files: &[&str] = match kind {
            _ if v1 => &[
                "cpuset.effective_cpus",
                "effective_cpus",
                "cpuset.cpus",
                "cpus",
            ],
            "cgroup2" => &["cpuset.cpus.effective"],
            _ => return None,
        };
        nearest(tree, mount, own.trim_end_matches('/'), files)
    })
}

/// The CPU list of a group, or of the nearest one above it that has the controller.
fn nearest(tree: &Tree, mount: &str, group: &str, files: &[&str]) -> Option<Vec<u32>> {
    let mut folder = group;
    loop {
        let found = files
            .iter()
            .find_map(|file| tree.line(&format!("{mount}{folder}/{file}")));
        if let Some(list) = found.and_then(|text| parse_list(&text)) {
            return Some(list);
        }
        folder = folder.rsplit_once('/')?.0;
    }
}

/// This process's place in the v2 tree.
fn unified_path(tree: &Tree) -> Option<String> {
    let text = tree.read("proc/self/cgroup").ok()?;
    text.lines()
        .find_map(|line| Some(line.strip_prefix("0::")?.to_owned()))
}
