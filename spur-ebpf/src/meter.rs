//! The meter: what each job and step really uses, counted by the kernel at every event.
//!
//! Small programs at the scheduler's, the block layer's and the GPU scheduler's tracepoints add to the slot of the job or step whose
//! task it is. Programs, counts and links are pinned below the agent's folder, so counting goes on while no agent runs; the next
//! one adopts them. Reading costs no system call. Which source counts, and why another does not, says [`Coverage`]; what does not is
//! `None`, never 0.
//!
//! What is exact and what is not: `docs/decisions/meter-kernel.md`.

pub mod abi;
mod differs;
mod gpu;
mod holders;
mod memory;
mod object;
mod own;
mod probes;
mod slots;

pub use own::Timing;

use self::abi::RawMeterMeta;
use self::differs::KernelTypes;
use self::gpu::Gpu;
use self::holders::Walker;
use self::object::{Maps, MeterPins};
use self::probes::{Probe, Running, Starter};
use self::slots::Slots;
use crate::Result;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What counts, by the event that it is counted at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Time on CPUs, switches, page faults: at every switch of tasks.
    Cpu,
    /// Time that tasks waited for a CPU: there too, where the kernel keeps it.
    RunQueue,
    /// Processes that started.
    Starts,
    /// Processes that ended.
    Ends,
    /// Processes that the kernel killed for want of memory.
    OomKills,
    /// Block I/O.
    BlockIo,
    /// Work on GPUs whose driver has the kernel schedule them (`drm_sched`).
    Gpu,
}

impl Source {
    /// All, in the order in which they are reported.
    pub const ALL: [Source; 7] = [
        Source::Cpu,
        Source::RunQueue,
        Source::Starts,
        Source::Ends,
        Source::OomKills,
        Source::BlockIo,
        Source::Gpu,
    ];

    /// A word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Source::Cpu => "cpu",
            Source::RunQueue => "run queue",
            Source::Starts => "process starts",
            Source::Ends => "process ends",
            Source::OomKills => "oom kills",
            Source::BlockIo => "block i/o",
            Source::Gpu => "gpu scheduler",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Whether a source counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Covered {
    /// It does.
    Counted {
        /// By the programs that know the kernel's types, which cost less.
        typed: bool,
        /// The programs were attached by an earlier agent.
        adopted: bool,
        /// What of it is missing, if anything.
        note: Option<String>,
    },
    /// It does not, for this reason.
    Missing(String),
}

/// What came of every source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(BTreeMap<Source, Covered>);

impl Coverage {
    /// Each source, in the order of [`Source::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Source, &Covered)> {
        self.0.iter().map(|(source, covered)| (*source, covered))
    }

    /// Whether a source counts.
    #[must_use]
    pub fn counts(&self, source: Source) -> bool {
        matches!(self.0.get(&source), Some(Covered::Counted { .. }))
    }
}

/// Which programs are tried. Each event has two that do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Those that know the kernel's types, which cost less; where the kernel does not take them, the others.
    Best,
    /// Only those that do not: for tests, and for a kernel on which the first fail.
    Raw,
}

impl Flavour {
    /// Whether programs know types, in the order in which they are tried.
    fn typed(self) -> &'static [bool] {
        match self {
            Flavour::Best => &[true, false],
            Flavour::Raw => &[false],
        }
    }
}

/// How this meter came to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nothing of ours was pinned.
    New,
    /// Programs and counts of an earlier agent go on.
    Adopted,
    /// The counts of an earlier agent go on, with the programs of this build.
    Updated,
    /// What was pinned could not be used and was removed; counts begin at 0 and cgroups have to be added again.
    Replaced(String),
}

/// What a job or step has used since it was added. Counters never go back while its cgroup is metered by this process.
/// `None`: not counted here, see [`Coverage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Time on CPUs, that of slices which are under way included.
    pub cpu_ns: Option<u64>,
    /// Of that, outside the kernel. The division is sampled by the tick, as in `cpu.stat`; `None` before the first tick.
    pub user_ns: Option<u64>,
    /// Of that, inside the kernel.
    pub system_ns: Option<u64>,
    /// Time that tasks waited for a CPU, counted when they leave it.
    pub runqueue_ns: Option<u64>,
    /// Times that a task left a CPU.
    pub switches: Option<u64>,
    /// Page faults that waited for a device.
    pub major_faults: Option<u64>,
    /// Page faults that did not.
    pub minor_faults: Option<u64>,
    /// Processes (no threads) that started in it.
    pub starts: Option<u64>,
    /// Processes that ended in it.
    pub ends: Option<u64>,
    /// Processes that the kernel killed for want of memory.
    pub oom_kills: Option<u64>,
    /// Bytes read from block devices. In a stack of devices each counts, as in the sum of `io.stat`.
    pub read_bytes: Option<u64>,
    /// Bytes written to block devices.
    pub write_bytes: Option<u64>,
    /// Read operations.
    pub reads: Option<u64>,
    /// Write operations.
    pub writes: Option<u64>,
    /// Of reads and writes, those whose cgroup the block layer did not know (no `io` controller for it on the v2 tree): the running
    /// task's was taken, so what workers write later is missing. Where this is not 0, block I/O is estimated.
    pub guessed_ios: u64,
}

/// What a job or step had a ring of a GPU do since it was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuWork {
    /// Id of the metered cgroup whose process queued it.
    pub cgroup_id: u64,
    /// The device's name on its bus, as the link `/sys/dev/char/226:N/device` ends in; empty on kernels that do not tell it.
    pub device: String,
    /// The scheduler's name: an engine, or a queue of the device's firmware.
    pub ring: String,
    /// The ring worked on it and on nothing else; work that is under way included.
    pub busy_ns: u64,
    /// It waited for the ring.
    pub queue_ns: u64,
    /// Jobs that are done.
    pub jobs: u64,
}

/// A process that has a device open. What is only mapped is not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder {
    /// Process.
    pub pid: u32,
    /// Id of the step's cgroup, or of the job's, or of its own where that is above; metered or not.
    pub cgroup_id: u64,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// The meter of a node. Dropping it leaves everything pinned and counting.
#[derive(Debug)]
pub struct Meter {
    pins: MeterPins,
    maps: Maps,
    shape: RawMeterMeta,
    flags: u32,
    flavour: Flavour,
    origin: Origin,
    coverage: Coverage,
    outcomes: Outcomes,
    /// The kernel proper has the GPU scheduler.
    gpu_built_in: bool,
    /// Its modules when it was tried last.
    gpu_modules: String,
    slots: Mutex<Slots>,
    gpu: Mutex<Gpu>,
    walker: Mutex<Option<Walker>>,
}

/// What came of each probe.
type Outcomes = Vec<(Probe, probes::Outcome)>;

impl Meter {
    /// Adopts the meter pinned below `pins`, or loads one and pins it there. Jobs' cgroups are at depth `job_level` of the v2 tree
    /// (its root is 0), steps' one below. Counts go to the step's slot, else to the job's.
    ///
    /// What this kernel does not take is [`Covered::Missing`]; an error is only that nothing can be pinned or mapped.
    pub fn open(pins: &Path, job_level: u32) -> Result<Meter> {
        Meter::open_as(pins, job_level, Flavour::Best)
    }

    /// As [`Meter::open`], with programs of this flavour. What is adopted stays as it is.
    pub fn open_as(pins: &Path, job_level: u32, flavour: Flavour) -> Result<Meter> {
        let pins = MeterPins::prepare(pins)?;
        let shape = object::shape(job_level)?;
        let (maps, origin) = find_or_make(&pins, &shape)?;
        let types = KernelTypes::read();
        let flags = types.flags();
        let mut meter = Meter {
            slots: Mutex::new(Slots::open(&maps, &shape)?),
            gpu: Mutex::new(Gpu::open(&maps)?),
            pins,
            maps,
            shape,
            flags,
            origin,
            coverage: Coverage::default(),
            outcomes: Vec::new(),
            flavour,
            gpu_built_in: probes::has_gpu_scheduler(&types),
            gpu_modules: String::new(),
            walker: Mutex::default(),
        };
        meter.sweep(&mut lock(&meter.slots))?;
        meter.start(&types)?;
        meter.maps.write_meta(&shape)?;
        Ok(meter)
    }

    /// Forgets cgroups that are gone.
    fn sweep(&self, slots: &mut Slots) -> Result<()> {
        let places = slots.sweep(&self.maps)?;
        let mut gpu = lock(&self.gpu);
        places
            .into_iter()
            .try_for_each(|place| gpu.forget(&self.maps, place))
    }

    fn start(&mut self, types: &KernelTypes) -> Result<()> {
        let mut wanted = probes::KERNEL.to_vec();
        wanted.extend(probes::GPU);
        if self.origin == Origin::Adopted {
            wanted.retain(|probe| match probes::adopt(&self.pins, *probe) {
                Some(running) => {
                    self.outcomes.push((*probe, Ok(running)));
                    false
                }
                None => true,
            });
        }
        wanted.retain(|probe| probe.source != Source::Gpu);
        let started = self.starter().start_kernel(types, &wanted);
        self.outcomes.extend(started);
        self.start_gpu();
        self.survey(types.counts_waits());
        Ok(())
    }

    fn starter(&self) -> Starter<'_> {
        Starter {
            pins: &self.pins,
            maps: &self.maps,
            settings: object::settings(&self.shape, self.flags),
            flavours: self.flavour.typed(),
        }
    }

    /// Programs at the GPU scheduler, unless they run. They are all or none.
    fn start_gpu(&mut self) {
        let runs = |outcome: &(Probe, probes::Outcome)| {
            outcome.0.source == Source::Gpu && outcome.1.is_ok()
        };
        if self.outcomes.iter().filter(|outcome| runs(outcome)).count() == probes::GPU.len() {
            return;
        }
        self.outcomes
            .retain(|(probe, _)| probe.source != Source::Gpu);
        self.gpu_modules = probes::gpu_modules();
        let started = if self.gpu_modules.is_empty() && !self.gpu_built_in {
            probes::no_gpu_scheduler()
        } else {
            self.starter().start_gpu()
        };
        self.outcomes.extend(started);
    }

    fn survey(&mut self, counts_waits: bool) {
        let mut coverage: BTreeMap<Source, Covered> = Source::ALL
            .into_iter()
            .map(|source| (source, probes::covered(source, &self.outcomes)))
            .collect();
        if !counts_waits {
            let reason =
                "this kernel does not keep how long tasks wait (CONFIG_SCHED_INFO)".to_owned();
            coverage.insert(Source::RunQueue, Covered::Missing(reason));
        }
        self.coverage = Coverage(coverage);
    }

    /// Every source, and whether it counts.
    #[must_use]
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Whether counts of an earlier agent go on.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Attaches to the GPU scheduler's module if it was loaded since; says whether it was. Meant to be asked every few seconds: two
    /// looks at files if nothing changed.
    pub fn attach_late(&mut self) -> bool {
        if self.coverage.counts(Source::Gpu) || probes::gpu_modules() == self.gpu_modules {
            return false;
        }
        self.start_gpu();
        let gpu = probes::covered(Source::Gpu, &self.outcomes);
        self.coverage.0.insert(Source::Gpu, gpu);
        self.coverage.counts(Source::Gpu)
    }

    /// Lets go of the GPU scheduler's module, which cannot be unloaded while it is counted at. [`Meter::attach_late`] comes back only
    /// when modules have changed.
    pub fn release_gpu(&mut self) -> Result<()> {
        for probe in probes::GPU {
            crate::pins::Pins::remove(&self.pins.link(probe.name))?;
        }
        self.outcomes
            .retain(|(probe, _)| probe.source != Source::Gpu);
        let reason = "let go of, so that its module can be unloaded".to_owned();
        self.coverage
            .0
            .insert(Source::Gpu, Covered::Missing(reason));
        Ok(())
    }

    /// Begins to count for a cgroup; one that is counted for goes on. What its tasks have under way at this moment is not counted, so
    /// it is best done while the cgroup is empty. Not more than [`abi::SLOTS_MAX`] at a time: more is [`crate::Error::MeterFull`].
    pub fn add(&self, cgroup_id: u64) -> Result<()> {
        let mut slots = lock(&self.slots);
        if slots.is_full() {
            self.sweep(&mut slots)?;
        }
        slots.add(&self.maps, cgroup_id)
    }

    /// Ends counting for a cgroup; its last counts, or `None` if it was not counted for. Its work on GPUs is to be read before.
    pub fn remove(&self, cgroup_id: u64) -> Result<Option<Counts>> {
        let removed = lock(&self.slots).remove(&self.maps, &self.coverage, cgroup_id)?;
        let Some((counts, place)) = removed else {
            return Ok(None);
        };
        lock(&self.gpu).forget(&self.maps, place)?;
        Ok(Some(counts))
    }

    /// The counts of every cgroup that was added, by cgroup id. No system call.
    pub fn read(&self, into: &mut Vec<(u64, Counts)>) {
        lock(&self.slots).read(&self.coverage, into);
    }

    /// What every cgroup that was added had GPUs do. A few system calls; none while no GPU does anything.
    pub fn gpu(&self, into: &mut Vec<GpuWork>) -> Result<()> {
        let owners = lock(&self.slots).owners();
        lock(&self.gpu).read(&self.maps, &owners, into)
    }

    /// Jobs of GPUs that could not be charged: their beginning was not seen (they were queued before the meter came), was forgotten
    /// for want of room, or there was no row for them.
    #[must_use]
    pub fn lost(&self) -> u64 {
        lock(&self.gpu).lost()
    }

    /// Time that the kernel spent in our programs, since they were loaded, while it measured: see [`Timing`]. `None` if it never did.
    #[must_use]
    pub fn own_time_ns(&self) -> Option<u64> {
        own::run_time_ns(self.running())
    }

    /// Events that the kernel did not show to our programs, because it was in the middle of one on the same CPU. Time on CPUs makes up for
    /// them; processes, block I/O and work on GPUs do not. A few system calls.
    #[must_use]
    pub fn missed(&self) -> u64 {
        own::missed(self.running())
    }

    fn running(&self) -> impl Iterator<Item = &Running> {
        self.outcomes
            .iter()
            .filter_map(|(_, outcome)| outcome.as_ref().ok())
    }

    /// Every process that has one of the devices open for which `wanted`, given major and minor number, is true; each once per
    /// device. Memory devices and terminals (majors 1, 4, 5, 136 to 143) are never asked about. An error where the kernel has no
    /// iterator over open files.
    pub fn holders(&self, wanted: impl Fn(u32, u32) -> bool) -> Result<Vec<Holder>> {
        let mut walker = lock(&self.walker);
        if walker.is_none() {
            let settings = object::settings(&self.shape, self.flags);
            *walker = Some(Walker::load(&self.maps, &settings)?);
        }
        walker
            .as_ref()
            .map_or_else(|| Ok(Vec::new()), |walker| walker.walk(&wanted))
    }

    /// Takes the meter off the kernel and removes its pins.
    pub fn remove_all(self) -> Result<()> {
        self.pins.remove()
    }
}

/// The maps that are pinned, if they are ours and made for the same, else new ones.
fn find_or_make(pins: &MeterPins, shape: &RawMeterMeta) -> Result<(Maps, Origin)> {
    let other = pins.remove_others()?;
    if let Some(maps) = Maps::adopt(pins, shape) {
        if maps.meta()?.object_hash == shape.object_hash {
            return Ok((maps, Origin::Adopted));
        }
        let unfinished = RawMeterMeta {
            object_hash: 0,
            ..*shape
        };
        maps.write_meta(&unfinished)?;
        probes::take_off(pins)?;
        return Ok((maps, Origin::Updated));
    }
    let origin = match other {
        Some(name) => Origin::Replaced(format!("it was made by another version ({name})")),
        None if pins.is_empty() => Origin::New,
        None => Origin::Replaced("it was not whole, or made for other cgroups or CPUs".to_owned()),
    };
    pins.clear()?;
    Ok((Maps::create(pins, shape)?, origin))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
