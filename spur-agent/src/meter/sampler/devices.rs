//! Looking at GPUs, and whose work it was.

use super::{GAP, Sampler};
use crate::meter::account::gpu::{BusyTold, JobGpu, MemoryTold, Rank};
use crate::meter::claims::{Claim, Claims};
use crate::meter::device::{DeviceBusy, DeviceLook};
use crate::meter::governor::Part;
use crate::meter::latest::Latest;
use crate::meter::whose;
use crate::node::now as wall;
use spur_core::id::JobId;
use spur_core::resources::GpuVendor;
use spur_core::usage::idle::Change;
use spur_core::usage::metric::{Metric, Quality, Source, Value};
use spur_core::usage::words::UsageEventKind;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A look that is older says nothing any more, ms.
const STALE: u64 = 5_000;

/// A source and how far it was read.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) latest: Arc<Latest>,
    serial: u64,
    uptime: u64,
}

impl Watched {
    pub(super) fn new(latest: Arc<Latest>) -> Self {
        Self {
            latest,
            serial: 0,
            uptime: 0,
        }
    }
}

/// A device and its last look.
#[derive(Debug, Default)]
pub(super) struct Device {
    pub(super) look: DeviceLook,
    pub(super) at: u64,
    /// Errors since the meter began, if the source tells them.
    pub(super) errors: Option<u64>,
    /// Busy time since the meter began, µs, if it is told.
    pub(super) busy: Option<(u64, Source, Quality)>,
}

impl Device {
    /// Whether its last look still says something.
    pub(super) fn is_fresh(&self, now: u64) -> bool {
        now.saturating_sub(self.at) < STALE
    }
}

impl Sampler {
    /// Takes what `drm_sched` tells of the jobs' work.
    pub(super) fn read_work(&mut self, now: u64, millis: u64) {
        self.work.clear();
        if !self.kernel.sees_drm_sched() || self.setup.names.is_empty() {
            return;
        }
        self.kernel.gpu(&mut self.work);
        let owners = self.owners();
        let mut sums: BTreeMap<(JobId, u32), (u64, u64, u64)> = BTreeMap::new();
        let mut seen = std::collections::BTreeSet::new();
        for work in &self.work {
            let Some(gpu) = self.setup.names.get(&work.device) else {
                continue;
            };
            seen.insert(*gpu);
            if let Some((job, _)) = owners.get(&work.cgroup) {
                let sum = sums.entry((*job, *gpu)).or_default();
                *sum = (sum.0 + work.busy, sum.1 + work.queue, sum.2 + work.jobs);
            }
        }
        for (job, present) in &mut self.jobs {
            for (gpu, part) in &mut present.job.gpus {
                // A device of which nothing was ever seen may have a driver that does not use drm_sched.
                if seen.contains(gpu) {
                    let sum = sums.get(&(*job, *gpu)).copied().unwrap_or_default();
                    part.take_work(now, millis, sum);
                }
            }
        }
    }

    /// Takes a new look at who has which GPU open, and says whether another is wanted.
    pub(super) fn read_claims(&mut self) {
        let real = |gpu: &u32| {
            let known = usize::try_from(*gpu)
                .ok()
                .and_then(|at| self.setup.gpus.get(at));
            known.is_some_and(|known| known.vendor != GpuVendor::Simulated)
        };
        let wanted = self
            .jobs
            .values()
            .any(|present| present.job.gpus.keys().any(real));
        self.board.want(wanted, self.governor.does(Part::Fdinfo));
        let Some(claims) = self.board.newer(self.claimed) else {
            return;
        };
        self.claimed = claims.serial;
        for (job, present) in &mut self.jobs {
            for (gpu, part) in &mut present.job.gpus {
                if claims.gpus.contains(gpu) {
                    let claim = claims.by.get(&(*job, *gpu)).copied().unwrap_or_default();
                    let vendor = self.setup.gpus.get(*gpu as usize).map(|gpu| gpu.vendor);
                    tell_claim(part, claim, &claims, vendor == Some(GpuVendor::Drm));
                }
            }
        }
    }

    /// Takes new looks of all sources.
    pub(super) fn read_devices(&mut self, now: u64) {
        let interval = self.interval(now);
        let costly = self.governor.does(Part::Occupancy);
        for at in 0..self.sources.len() {
            let source = &mut self.sources[at];
            source.latest.want(interval, costly);
            let Some(looks) = source.latest.newer(source.serial) else {
                continue;
            };
            let before = source.uptime;
            (source.serial, source.uptime) = (looks.serial, looks.uptime);
            for (gpu, look) in looks.gpus {
                self.take_look(gpu, before, looks.uptime, look);
            }
        }
        let anew = now >= self.times.second;
        for at in 0..self.standins.len() {
            let standin = &mut self.standins[at];
            let gpu = standin.index;
            // Somebody may be about to write it: the next look counts for this time too.
            let Some(permille) = standin.read(anew) else {
                continue;
            };
            let look = DeviceLook {
                busy: Some(DeviceBusy {
                    permille,
                    source: Source::Simulated,
                    quality: Quality::Estimated,
                }),
                ..DeviceLook::default()
            };
            let before = self.devices.get(&gpu).map_or(0, |device| device.at);
            self.take_look(gpu, before, now, look);
        }
    }

    /// Takes a look at a device at `at`, the one before it having been at `before` (0 for none).
    fn take_look(&mut self, gpu: u32, before: u64, at: u64, look: DeviceLook) {
        let span = at.saturating_sub(before);
        let span = if before == 0 || span > GAP { 0 } else { span };
        let holder = self.jobs.iter_mut().find_map(|(job, present)| {
            let part = present.job.gpus.get_mut(&gpu)?;
            Some((*job, part))
        });
        let job = holder.as_ref().map(|(job, _)| *job);
        if let Some((job, part)) = holder {
            let span = span.min(at.saturating_sub(part.since));
            let own = |pid| whose::job_of(&self.setup.proc, &self.setup.folder, pid) == Some(job);
            tell_job(part, at, span, &look, &own);
        }
        for (code, text) in look.errors.clone() {
            self.event(job, Some(gpu), UsageEventKind::DeviceError { code, text });
        }
        let device = self.devices.entry(gpu).or_default();
        if let Some(busy) = look.busy {
            let us = u64::from(busy.permille) * span;
            let total = device
                .busy
                .map_or(0, |(total, _, _)| total)
                .saturating_add(us);
            device.busy = Some((total, busy.source, busy.quality));
        }
        if look.tells_errors {
            device.errors = Some(device.errors.unwrap_or(0) + look.errors.len() as u64);
        }
        (device.look, device.at) = (look, at);
    }

    /// Ends a round of looks: idle verdicts.
    pub(super) fn judge(&mut self, now: u64, second: bool) {
        let jobs: Vec<JobId> = self.jobs.keys().copied().collect();
        for job in jobs {
            self.judge_job(job, now, second);
        }
    }

    pub(super) fn judge_job(&mut self, job: JobId, now: u64, second: bool) {
        let Some(present) = self.jobs.get_mut(&job) else {
            return;
        };
        if second {
            // Its groups may be gone, what it held is not.
            present.job.looked(now, GAP);
        }
        let policy = &self.setup.policy;
        let changes: Vec<(u32, Change)> = present
            .job
            .gpus
            .iter_mut()
            .filter_map(|(gpu, part)| part.tick(now, wall(), policy).map(|change| (*gpu, change)))
            .collect();
        for (gpu, change) in changes {
            let what = match change {
                Change::Idle(idle) => UsageEventKind::Idle(idle),
                Change::Busy => UsageEventKind::Busy,
            };
            self.event(Some(job), Some(gpu), what);
        }
    }

    /// Devices that fell silent or speak again.
    pub(super) fn take_notes(&mut self) {
        for at in 0..self.sources.len() {
            for note in self.sources[at].latest.take_notes() {
                let what = UsageEventKind::DeviceStale {
                    stale: note.stale,
                    why: note.why,
                };
                let job = self.holder(note.gpu);
                self.event(job, Some(note.gpu), what);
            }
        }
    }

    /// The job that holds a GPU.
    fn holder(&self, gpu: u32) -> Option<JobId> {
        let held = self
            .jobs
            .iter()
            .find(|(_, present)| present.job.gpus.contains_key(&gpu));
        held.map(|(job, _)| *job)
    }
}

/// Tells a job's part of a device what its processes' hold on it means. What clients of plain DRM devices do is all that the device
/// does; a job without a client does nothing.
fn tell_claim(part: &mut JobGpu, claim: Claim, claims: &Claims, plain: bool) {
    part.holders = Some(claim.holders);
    let span = claims.span.min(claims.uptime.saturating_sub(part.since));
    if !plain || !claims.asked || span == 0 {
        return;
    }
    let none = (claim.holders == 0).then_some(0);
    if let Some(us) = claim.busy_us.or(none) {
        let told = BusyTold {
            rank: Rank::Client,
            source: Source::Fdinfo,
            quality: Quality::Sampled,
            us: us.min(span.saturating_mul(1000)),
            millis: span,
        };
        part.tell(claims.uptime, told);
    }
    if let Some(bytes) = claim.memory.or(none) {
        let told = MemoryTold {
            bytes,
            source: Source::Fdinfo,
            quality: Quality::Sampled,
        };
        part.take_memory(claims.uptime, span, told);
    }
}

/// Tells a job's part of a device what a look at it means. `own` says whose a process is.
fn tell_job(part: &mut JobGpu, at: u64, span: u64, look: &DeviceLook, own: &dyn Fn(u32) -> bool) {
    part.take_device(at, look);
    let processes: Option<Vec<_>> = look
        .processes
        .as_ref()
        .map(|all| all.iter().filter(|process| own(process.pid)).collect());
    if let (true, Some(own)) = (look.by_process, &processes) {
        let us = own
            .iter()
            .filter_map(|process| process.busy_us)
            .fold(0, u64::saturating_add);
        let source = look.busy.map_or(Source::Nvml, |busy| busy.source);
        let told = BusyTold {
            rank: Rank::Process,
            source,
            quality: Quality::Sampled,
            us: us.min(span.saturating_mul(1000)),
            millis: span,
        };
        part.tell(at, told);
    }
    if let Some(busy) = look.busy {
        let simulated = busy.source == Source::Simulated;
        let told = BusyTold {
            rank: if simulated {
                Rank::Simulated
            } else {
                Rank::Device
            },
            source: busy.source,
            quality: busy.quality,
            us: u64::from(busy.permille).saturating_mul(span),
            millis: span,
        };
        part.tell(at, told);
    }
    let by_process = processes.as_ref().and_then(|own| {
        let known = own.iter().filter_map(|process| process.memory);
        known
            .reduce(u64::saturating_add)
            .or(own.is_empty().then_some(0))
    });
    let source = look
        .told
        .iter()
        .find(|told| told.metric == Metric::HwMemory);
    if let Some(bytes) = by_process {
        let source = source.map_or(Source::Nvml, |told| told.source);
        let told = MemoryTold {
            bytes,
            source,
            quality: Quality::Sampled,
        };
        part.take_memory(at, span, told);
    } else if let Some(told) = source
        && let Value::Level { mean, .. } = told.value
    {
        // The device is the job's alone: what others use of it is the driver's own.
        let told = MemoryTold {
            bytes: u64::try_from(mean).unwrap_or(0),
            source: told.source,
            quality: Quality::Estimated,
        };
        part.take_memory(at, span, told);
    }
    if let Some(own) = processes {
        part.holders = Some(part.holders.unwrap_or(0).max(own.len() as u64));
    }
}
