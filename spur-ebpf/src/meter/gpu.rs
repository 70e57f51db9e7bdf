//! What jobs did on GPUs that the kernel schedules.

use super::GpuWork;
use super::abi::{RawGpuJob, RawGpuKey, RawGpuRing, RawGpuTotals, RawGpuWork, RawMeterPlace};
use super::memory::Memory;
use super::object::Maps;
use super::slots::{forget, rows};
use crate::abi::Plain;
use crate::{Result, sys};
use std::collections::BTreeMap;
use std::mem::offset_of;

/// Cgroups by their places.
pub(super) type Owners = BTreeMap<RawMeterPlace, u64>;

#[derive(Debug)]
pub(super) struct Gpu {
    totals: Memory,
    /// What was said last of each row: a counter never goes back.
    said: BTreeMap<RawGpuKey, RawGpuWork>,
    /// Number of events then, if no job was under way: as long as it stays, the rows do.
    idle_since: Option<u64>,
}

impl Gpu {
    pub(super) fn open(maps: &Maps) -> Result<Gpu> {
        Ok(Gpu {
            totals: Memory::open(maps.get("gpu_totals"))?,
            said: BTreeMap::new(),
            idle_since: None,
        })
    }

    /// Jobs that could not be charged.
    pub(super) fn lost(&self) -> u64 {
        let lost = |offset| self.totals.read(offset);
        let jobs = lost(offset_of!(RawGpuTotals, lost_jobs));
        jobs.saturating_add(lost(offset_of!(RawGpuTotals, lost_rows)))
    }

    /// Every row of a metered cgroup, and time of jobs that the GPUs work on now.
    pub(super) fn read(
        &mut self,
        maps: &Maps,
        owners: &Owners,
        into: &mut Vec<GpuWork>,
    ) -> Result<()> {
        let events = self.totals.read(offset_of!(RawGpuTotals, events));
        if self.idle_since != Some(events) {
            self.look(maps, owners, events)?;
        }
        let of = |(key, raw): (&RawGpuKey, &RawGpuWork)| {
            Some(GpuWork {
                cgroup_id: *owners.get(&key.place)?,
                device: text(&key.device),
                ring: text(&key.ring),
                busy_ns: raw.busy_ns,
                queue_ns: raw.queue_ns,
                jobs: raw.jobs,
            })
        };
        into.extend(self.said.iter().filter_map(of));
        Ok(())
    }

    fn look(&mut self, maps: &Maps, owners: &Owners, events: u64) -> Result<()> {
        let work: Vec<(RawGpuKey, RawGpuWork)> = rows(maps.get("gpu_work"))?;
        let mut work: BTreeMap<RawGpuKey, RawGpuWork> = work.into_iter().collect();
        let mut in_flight = in_flight(maps)?;
        in_flight.retain(|key, _| owners.contains_key(&key.place));
        self.idle_since = in_flight.is_empty().then_some(events);
        for (key, busy_ns) in in_flight {
            work.entry(key).or_default().busy_ns += busy_ns;
        }
        for (key, mut raw) in work
            .into_iter()
            .filter(|(key, _)| owners.contains_key(&key.place))
        {
            let said = self.said.entry(key).or_default();
            raw.busy_ns = raw.busy_ns.max(said.busy_ns);
            *said = raw;
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
