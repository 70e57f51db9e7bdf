//! What jobs did on GPUs that the kernel schedules.

use super::GpuWork;
use super::abi::{RawGpuJob, RawGpuKey, RawGpuRing, RawGpuWork, RawMeterPlace};
use super::object::Maps;
use super::slots::{forget, rows};
use crate::abi::Plain;
use crate::{Result, sys};
use std::collections::BTreeMap;

/// What was said last of each row: a counter never goes back.
#[derive(Debug, Default)]
pub(super) struct Gpu {
    said: BTreeMap<RawGpuKey, u64>,
}

impl Gpu {
    /// Every row of a metered cgroup, and time of jobs that the GPUs work on now.
    pub(super) fn read(
        &mut self,
        maps: &Maps,
        owners: &BTreeMap<RawMeterPlace, u64>,
        into: &mut Vec<GpuWork>,
    ) -> Result<()> {
        let mut work: BTreeMap<RawGpuKey, RawGpuWork> =
            rows(maps.get("gpu_work"))?.into_iter().collect();
        for (key, busy_ns) in in_flight(maps)? {
            work.entry(key).or_default().busy_ns += busy_ns;
        }
        for (key, raw) in work {
            let Some(&cgroup_id) = owners.get(&key.place) else {
                continue;
            };
            let said = self.said.entry(key).or_default();
            *said = raw.busy_ns.max(*said);
            into.push(GpuWork {
                cgroup_id,
                device: text(&key.device),
                ring: text(&key.ring),
                busy_ns: *said,
                queue_ns: raw.queue_ns,
                jobs: raw.jobs,
            });
        }
        Ok(())
    }

    /// Removes the rows of a cgroup that is no longer metered.
    pub(super) fn forget(&mut self, maps: &Maps, place: RawMeterPlace) -> Result<()> {
        let map = maps.get("gpu_work");
        let keys = rows::<RawGpuKey, RawGpuWork>(map)?
            .into_iter()
            .map(|(key, _)| key);
        for key in keys.filter(|key| key.place == place) {
            forget(map, key.bytes())?;
        }
        self.said.retain(|key, _| key.place != place);
        Ok(())
    }
}

/// The job that each ring works on: of those that were handed over after the last one that is done, the first.
fn in_flight(maps: &Maps) -> Result<BTreeMap<RawGpuKey, u64>> {
    let mut heads: BTreeMap<u64, RawGpuJob> = BTreeMap::new();
    let mut jobs = rows::<u64, RawGpuJob>(maps.get("gpu_jobs"))?;
    jobs.retain(|(_, job)| job.run_ns != 0);
    if jobs.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rings: BTreeMap<u64, RawGpuRing> = rows(maps.get("gpu_rings"))?.into_iter().collect();
    for (_, job) in jobs {
        let done_run_ns = rings
            .get(&job.ring)
            .map_or(u64::MAX, |ring| ring.done_run_ns);
        if job.run_ns > done_run_ns
            && heads
                .get(&job.ring)
                .is_none_or(|head| job.run_ns < head.run_ns)
        {
            heads.insert(job.ring, job);
        }
    }
    let now = sys::monotonic_ns();
    let mut found = BTreeMap::new();
    for (ring, job) in heads {
        let Some(ring) = rings.get(&ring) else {
            continue;
        };
        let key = RawGpuKey {
            place: job.place,
            device: ring.device,
            ring: ring.name,
        };
        let since = job.run_ns.max(ring.done_ns);
        *found.entry(key).or_insert(0) += now.saturating_sub(since);
    }
    Ok(found)
}

fn text(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
