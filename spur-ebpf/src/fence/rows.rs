//! A fenced cgroup's rows in the maps of the guard.

use super::{Maps, update};
use crate::abi::{Plain, RawCounters};
use crate::{CgroupId, Error, Result};
use libbpf_rs::{ErrorKind, MapCore, MapFlags};

/// Makes the rows, with no refusal counted. From here on the guard takes the cgroup for a job's or a step's.
pub(crate) fn make(maps: &Maps, cgroup: CgroupId, policy: &[u8]) -> Result<()> {
    zero_counters(maps, cgroup)?;
    update(&maps.guard_policies, &cgroup.0.to_ne_bytes(), policy)
}

/// Sets the guard's counts to zero.
pub(super) fn zero_counters(maps: &Maps, cgroup: CgroupId) -> Result<()> {
    maps.guard_counters
        .update_percpu(&cgroup.0.to_ne_bytes(), &zeros()?, MapFlags::ANY)
        .map_err(Error::libbpf("write map", "guard_counters"))
}

/// Counts of zero, for each CPU.
pub(super) fn zeros() -> Result<Vec<Vec<u8>>> {
    let cpus = libbpf_rs::num_possible_cpus().map_err(Error::libbpf("count", "possible cpus"))?;
    Ok(vec![RawCounters::default().bytes().to_vec(); cpus])
}

/// The cgroups that have rows.
pub(super) fn all(maps: &Maps) -> Vec<CgroupId> {
    let keys = maps.guard_policies.keys();
    let ids = keys.filter_map(|key| Some(u64::from_ne_bytes(key.try_into().ok()?)));
    ids.map(CgroupId).collect()
}

/// Takes the rows away. From here on the guard does not know the cgroup.
pub(crate) fn remove(maps: &Maps, cgroup: CgroupId) -> Result<()> {
    for map in [&maps.guard_policies, &maps.guard_counters] {
        match map.delete(&cgroup.0.to_ne_bytes()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let name = map.name().to_string_lossy();
                return Err(Error::libbpf("delete from map", name)(error));
            }
            _ => {}
        }
    }
    Ok(())
}
