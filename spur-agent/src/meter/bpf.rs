//! The kernel's counts by BPF, as the meter wants them.

use super::kernel::{Counts, GpuWork, Kernel};
use crate::fence::node::chain;
use spur_ebpf::meter::{self, Covered, Meter, Source};
use std::path::Path;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Nanoseconds of a microsecond.
const MICRO: u64 = 1000;

/// The pinned meter.
#[derive(Debug)]
pub struct Bpf {
    meter: RwLock<Meter>,
}

impl Bpf {
    /// Loads the meter, or adopts the one of an earlier agent. An error is a sentence for the log.
    ///
    /// # Errors
    /// It cannot be loaded, or not be pinned below `pins`.
    pub fn open(pins: &Path, job_level: u32) -> Result<Self, String> {
        let meter = Meter::open(pins, job_level).map_err(|error| chain(&error))?;
        for (source, covered) in meter.coverage().iter() {
            match covered {
                Covered::Counted {
                    note: Some(note), ..
                } => tracing::info!(%source, note, "counted by the kernel in part"),
                Covered::Counted { .. } => tracing::debug!(%source, "counted by the kernel"),
                Covered::Missing(why) => tracing::info!(%source, why, "not counted by the kernel"),
            }
        }
        tracing::info!(origin = ?meter.origin(), "the kernel's meter is up");
        Ok(Self {
            meter: RwLock::new(meter),
        })
    }

    fn meter(&self) -> RwLockReadGuard<'_, Meter> {
        self.meter.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kernel for Bpf {
    fn add(&self, cgroup: u64) -> Result<(), String> {
        self.meter().add(cgroup).map_err(|error| chain(&error))
    }

    fn remove(&self, cgroup: u64) -> Option<Counts> {
        match self.meter().remove(cgroup) {
            Ok(counts) => counts.map(|counts| from(&counts)),
            Err(error) => {
                tracing::warn!(
                    cgroup,
                    error = chain(&error),
                    "a group is still counted for"
                );
                None
            }
        }
    }

    fn read(&self, into: &mut Vec<(u64, Counts)>) {
        let mut all = Vec::new();
        self.meter().read(&mut all);
        into.extend(all.iter().map(|(cgroup, counts)| (*cgroup, from(counts))));
    }

    fn gpu(&self, into: &mut Vec<GpuWork>) {
        let mut all = Vec::new();
        if let Err(error) = self.meter().gpu(&mut all) {
            tracing::debug!(error = chain(&error), "work on GPUs cannot be read");
        }
        into.extend(all.into_iter().map(|work| GpuWork {
            cgroup: work.cgroup_id,
            device: work.device,
            busy: work.busy_ns / MICRO,
            queue: work.queue_ns / MICRO,
            jobs: work.jobs,
        }));
    }

    fn sees_drm_sched(&self) -> bool {
        self.meter().coverage().counts(Source::Gpu)
    }

    fn counts_cpu(&self) -> bool {
        self.meter().coverage().counts(Source::Cpu)
    }

    fn lost(&self) -> u64 {
        self.meter().lost()
    }

    fn own_time(&self) -> Option<u64> {
        self.meter().own_time_ns().map(|ns| ns / MICRO)
    }

    fn attach_late(&self) {
        let mut meter = self.meter.write().unwrap_or_else(PoisonError::into_inner);
        if meter.attach_late() {
            tracing::info!("work on GPUs is counted from now on");
        }
    }

    fn holders(&self, wanted: &dyn Fn(u32, u32) -> bool) -> Option<Vec<(u32, (u32, u32))>> {
        let found = self.meter().holders(wanted);
        match found {
            Ok(found) => Some(
                found
                    .into_iter()
                    .map(|holder| (holder.pid, (holder.major, holder.minor)))
                    .collect(),
            ),
            Err(error) => {
                tracing::debug!(error = chain(&error), "no iterator over open files");
                None
            }
        }
    }
}

fn from(counts: &meter::Counts) -> Counts {
    let micros = |ns: Option<u64>| ns.map(|ns| ns / MICRO);
    Counts {
        cpu: micros(counts.cpu_ns),
        user: micros(counts.user_ns),
        system: micros(counts.system_ns),
        runqueue: micros(counts.runqueue_ns),
        throttled: None,
        switches: counts.switches,
        major_faults: counts.major_faults,
        minor_faults: counts.minor_faults,
        starts: counts.starts,
        ends: counts.ends,
        oom_kills: counts.oom_kills,
        read_bytes: counts.read_bytes,
        write_bytes: counts.write_bytes,
        reads: counts.reads,
        writes: counts.writes,
        guessed_io: counts.guessed_ios > 0,
    }
}
