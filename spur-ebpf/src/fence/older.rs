//! Taking over from a fence of an older ABI, while jobs run.
//!
//! Both fences are in force for a moment, and a device opens only if both let it. Our program is attached with an empty table,
//! which refuses nothing, then gets every policy, then the table; only then the older links go. An agent that dies on the way
//! leaves the older fence in force, and the next one begins again.

use super::window::Window;
use super::{Fence, lookup, object, tables};
use crate::abi::{ABI, Plain, RawCounters, RawMeta, RawPolicy, RawTable};
use crate::cgroup::Cgroup;
use crate::pins::{self, ABI_FOLDER, Pins};
use crate::{CgroupId, Error, Result, sys};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::fs;
use std::mem::size_of;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// The oldest ABI that can be taken over. Its pins lay in the agent's folder itself.
const OLDEST: u32 = 1;

/// A pinned fence of an older ABI.
pub(super) struct Older {
    folder: PathBuf,
}

/// Looks at `meta` in the agent's folder, which every agent reads and the newest writes. A newer ABI is an error.
pub(super) fn find(pins: &Pins) -> Result<Option<Older>> {
    let marker = pins.marker();
    if !marker.exists() {
        return Ok(None);
    }
    let shown = marker.display().to_string();
    let map =
        MapHandle::from_pinned_path(&marker).map_err(Error::libbpf("open pinned map", shown))?;
    let RawMeta { abi: found, .. } = object::read_meta(&map)?;
    let advice = match found {
        ABI => return Ok(None),
        OLDEST..ABI => {
            let folder = folder_of(&pins.base, found);
            return Ok(Some(Older { folder }));
        }
        0 => "end its jobs with the agent that made it, then remove this folder",
        _ => "run the agent that made it, or a newer one",
    };
    Err(Error::Abi {
        pins: pins.base.clone(),
        found,
        known: ABI,
        advice,
    })
}

fn folder_of(base: &Path, abi: u32) -> PathBuf {
    if abi == OLDEST {
        base.to_owned()
    } else {
        base.join(format!("{ABI_FOLDER}{abi}"))
    }
}

/// Says that from now on our ABI is in force here, and removes what is left of older ones.
pub(super) fn settle(fence: &Fence) -> Result<()> {
    let pins = &fence.inner.pins;
    pins::replace(fence.inner.maps.meta.as_fd(), &pins.marker())?;
    for abi in OLDEST..ABI {
        remove(&folder_of(&pins.base, abi))?;
    }
    Ok(())
}

/// Removes an older fence, links first. Programs of its guard stay until ours run: see [`remove_guards`].
fn remove(folder: &Path) -> Result<()> {
    let links = folder.join("links");
    for path in entries(&links).into_iter().chain(entries(folder)) {
        if path.is_file() && path.file_name() != Some("meta".as_ref()) {
            Pins::remove(&path)?;
        }
    }
    for folder in [&links, folder] {
        // Not empty, or not there: no harm.
        drop(fs::remove_dir(folder));
    }
    Ok(())
}

/// Removes the guards of older ABIs.
pub(crate) fn remove_guards(pins: &Pins) -> Result<()> {
    // The oldest had none.
    for abi in (OLDEST..ABI).skip(1) {
        let folder = folder_of(&pins.base, abi);
        crate::guard::remove(&folder.join("guard"))?;
        Pins::remove(&folder.join("meta"))?;
        drop(fs::remove_dir(folder));
    }
    Ok(())
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

impl Older {
    /// Brings our fence to what this one enforces, cgroup by cgroup. Ours refuses nothing until the end, so no job meets a refusal
    /// that it would not have met.
    pub(super) fn hand_over(&self, fence: &Fence) -> Result<()> {
        let map = |name: &str, value: usize| -> Result<MapHandle> {
            let path = self.folder.join(name);
            let shown = path.display().to_string();
            let map = MapHandle::from_pinned_path(&path)
                .map_err(Error::libbpf("open pinned map", &shown))?;
            if map.value_size() as usize == value {
                return Ok(map);
            }
            let reason = format!("its values have {} bytes, not {value}", map.value_size());
            Err(Error::Unfit {
                subject: shown,
                reason,
            })
        };
        let policies = map("policies", size_of::<RawPolicy>())?;
        let table = map("table", size_of::<RawTable>())?;
        let devices = map("devices", 4)?;
        let counters = self.folder.join("counters");
        let counters = MapHandle::from_pinned_path(&counters).map_err(Error::libbpf(
            "open pinned map",
            counters.display().to_string(),
        ))?;
        for link in entries(&self.folder.join("links")) {
            self.hand_over_link(fence, &link, &policies, &counters)?;
        }
        fence.set_devices(&tables::read(&Window::open(&table)?, &devices)?)
    }

    fn hand_over_link(
        &self,
        fence: &Fence,
        link: &Path,
        policies: &MapHandle,
        counters: &MapHandle,
    ) -> Result<()> {
        let name = link.file_name().unwrap_or_default().to_string_lossy();
        let shown = link.display().to_string();
        let fd = sys::pinned(link).map_err(Error::kernel("open pinned link", &shown))?;
        let facts = sys::link_facts(fd.as_fd()).map_err(Error::kernel("inspect link", &shown))?;
        // 0: the cgroup is gone and took the link off.
        let id = Some(CgroupId(facts.cgroup)).filter(|id| id.0 != 0);
        let Some(cgroup) = id.map(Cgroup::by_id).transpose()?.flatten() else {
            return Ok(());
        };
        let key = facts.cgroup.to_ne_bytes();
        let job = fence.attach_to(&cgroup, &name)?;
        let policy = lookup(policies, &key)?.and_then(|bytes| RawPolicy::from_bytes(&bytes));
        if let Some(policy) = policy.filter(|policy| policy.abi != 0) {
            // Up to here all ABIs have the same policy.
            job.write_raw(&RawPolicy {
                abi: ABI,
                audit_next_ns: 0,
                ..policy
            })?;
        }
        let counts = counters
            .lookup_percpu(&key, MapFlags::ANY)
            .map_err(Error::libbpf("read map", "counters"))?;
        job.start_counters_at(counts.iter().flatten().filter_map(|bytes| counts_of(bytes)))
    }
}

/// The counts of any ABI begin with the same members.
fn counts_of(bytes: &[u8]) -> Option<RawCounters> {
    let mut whole = [0; size_of::<RawCounters>()];
    let common = bytes.len().min(whole.len());
    whole[..common].copy_from_slice(&bytes[..common]);
    RawCounters::from_bytes(&whole)
}
