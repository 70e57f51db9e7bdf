//! Resource limits through the v2 controllers, where the host has them in the v2 tree, and a plain list of those that cannot
//! be enforced where it has not (hybrid hosts keep their controllers in v1).

use super::Cgroup;
use std::fs;
use std::io;
use std::path::Path;

/// Controllers that limits need.
const WANTED: [&str; 4] = ["memory", "pids", "cpuset", "cpu"];

/// Default `cpu.weight` of the kernel, for one CPU's worth of share.
const WEIGHT_PER_CPU: u64 = 100;

/// Greatest `cpu.weight` that the kernel takes.
const MAX_WEIGHT: u64 = 10_000;

/// Limits of a job or a step on this node. `None` and empty mean: no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Memory in bytes; swap is then 0, so that the figure means what it says.
    pub memory: Option<u64>,
    /// Number of processes and threads.
    pub pids: Option<u64>,
    /// CPUs in the kernel's list form (`0-3,8`); empty where the inventory is declared rather than real.
    pub cpus: String,
    /// Number of CPUs held, for the weight against other jobs; 0 if unknown.
    pub cpu_count: u32,
}

/// A limit that was asked for and that this host does not enforce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unenforced {
    /// Which: `memory`, `pids`, `cpuset` or `cpu`.
    pub limit: &'static str,
    /// Why not.
    pub why: String,
}

impl Limits {
    /// Sets the limits on a group. Gives those that this host cannot enforce; whether to go on without is the caller's
    /// choice, a failure of one does not keep the others from being set.
    pub fn apply(&self, cgroup: &Cgroup) -> Vec<Unenforced> {
        let mut unenforced = Vec::new();
        let mut set = |limit: &'static str, file: &str, value: String| {
            if let Err(error) = fs::write(cgroup.path().join(file), &value) {
                let why = if error.kind() == io::ErrorKind::NotFound {
                    absent(limit)
                } else {
                    format!("could not write {value} to {file}: {error}")
                };
                unenforced.push(Unenforced { limit, why });
            }
        };
        if let Some(bytes) = self.memory {
            set("memory", "memory.max", bytes.to_string());
            // Absent on kernels without swap accounting, where there is no swap to limit.
            if cgroup.path().join("memory.swap.max").exists() {
                set("memory", "memory.swap.max", "0".into());
            }
        }
        if let Some(pids) = self.pids {
            set("pids", "pids.max", pids.to_string());
        }
        if !self.cpus.is_empty() {
            set("cpuset", "cpuset.cpus", self.cpus.clone());
        }
        if self.cpu_count > 0 {
            let weight = (u64::from(self.cpu_count) * WEIGHT_PER_CPU).min(MAX_WEIGHT);
            set("cpu", "cpu.weight", weight.to_string());
        }
        unenforced
    }
}

/// The limits that no job of this host can have enforced: their controllers are not available below `folder`. On hybrid
/// hosts that is all of them.
pub fn unenforced(folder: &Path) -> Vec<Unenforced> {
    let have = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
    let missing = WANTED
        .into_iter()
        .filter(|limit| !have.split_whitespace().any(|c| c == *limit));
    missing
        .map(|limit| Unenforced {
            limit,
            why: absent(limit),
        })
        .collect()
}

fn absent(controller: &str) -> String {
    format!("the {controller} controller is not in the cgroup v2 tree")
}

/// Hands every wanted controller that a group has on to its children. One that cannot be handed on shows as
/// [`Unenforced`] below, so failures are not errors here.
pub(super) fn delegate(folder: &Path) {
    let have = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
    for controller in have.split_whitespace().filter(|c| WANTED.contains(c)) {
        if let Err(error) = fs::write(
            folder.join("cgroup.subtree_control"),
            format!("+{controller}"),
        ) {
            tracing::debug!(%controller, folder = %folder.display(), %error, "cannot hand on a controller");
        }
    }
}
