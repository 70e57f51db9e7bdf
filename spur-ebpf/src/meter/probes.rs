//! The meter's programs: which there are, and attaching, pinning and adopting them.

use super::differs::KernelTypes;
use super::object::{self, GPU_OBJECT, METER_OBJECT, Maps, MeterPins};
use super::{Covered, Source};
use crate::guard::said;
use crate::meter::abi::RawMeterSettings;
use crate::{Error, Result, pins, sys};
use libbpf_rs::Object;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

/// One event that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) source: Source,
    /// Its programs are `<name>_typed` and `<name>_raw`; its pin has this name.
    pub(super) name: &'static str,
    /// The tracepoint's names, the newest first.
    events: &'static [&'static str],
    /// Whether the source counts without it.
    optional: bool,
}

/// How long replaced programs are waited for: looks, and the time between them.
const TAKE_OFF_LOOKS: u32 = 200;
const TAKE_OFF_PAUSE: Duration = Duration::from_millis(10);
/// Modules that may have the GPU scheduler: the kernel's, and the one that AMD's own packages bring.
const GPU_MODULES: [&str; 2] = ["gpu_sched", "amd_sched"];

const fn probe(source: Source, name: &'static str, events: &'static [&'static str]) -> Probe {
    Probe {
        source,
        name,
        events,
        optional: false,
    }
}

/// Events of the kernel proper.
pub(super) const KERNEL: [Probe; 6] = [
    probe(Source::Cpu, "switch", &["sched_switch"]),
    probe(Source::Starts, "fork", &["sched_process_fork"]),
    probe(Source::Ends, "exit", &["sched_process_exit"]),
    probe(Source::OomKills, "victim", &["mark_victim"]),
    probe(Source::BlockIo, "bio", &["block_bio_queue"]),
    Probe {
        optional: true,
        ..probe(Source::BlockIo, "split", &["block_split"])
    },
];
/// Events of the GPU scheduler, which may be a module.
pub(super) const GPU: [Probe; 3] = [
    probe(
        Source::Gpu,
        "queue",
        &["drm_sched_job_queue", "drm_sched_job"],
    ),
    probe(Source::Gpu, "run", &["drm_sched_job_run", "drm_run_job"]),
    probe(
        Source::Gpu,
        "done",
        &["drm_sched_job_done", "drm_sched_process_job"],
    ),
];

/// A program that runs.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) probe: Probe,
    pub(super) program: OwnedFd,
    /// Keeps it attached also where somebody removes the pin.
    _link: OwnedFd,
    pub(super) typed: bool,
    pub(super) adopted: bool,
}

/// What loading a probe came to.
pub(super) type Outcome = std::result::Result<Running, String>;

/// Takes over a pinned program, if it is the one of its name.
pub(super) fn adopt(pins: &MeterPins, probe: Probe) -> Option<Running> {
    let link = sys::pinned(&pins.link(probe.name)).ok()?;
    let running = Running::of(probe, link, true).ok()?;
    let name = sys::program_name(running.program.as_fd()).ok()?;
    let typed = name == format!("{}_typed", probe.name);
    (typed || name == format!("{}_raw", probe.name)).then_some(Running { typed, ..running })
}

impl Running {
    fn of(probe: Probe, link: OwnedFd, adopted: bool) -> Result<Running> {
        let facts = sys::link_facts(link.as_fd())
            .map_err(Error::kernel("inspect", "a link of the meter"))?;
        let program = sys::program_by_id(facts.program_id)
            .map_err(Error::kernel("open program", facts.program_id.to_string()))?;
        Ok(Running {
            probe,
            program,
            _link: link,
            typed: false,
            adopted,
        })
    }
}

/// Loads, attaches and pins programs: with types where the kernel has such programs, else without; all at once, or each alone
/// where it does not take all.
pub(super) struct Starter<'a> {
    pub(super) pins: &'a MeterPins,
    pub(super) maps: &'a Maps,
    pub(super) settings: RawMeterSettings,
    /// Whether programs know types, in the order in which they are tried.
    pub(super) flavours: &'static [bool],
}

/// A probe with the name that its event has here.
type Wanted = (Probe, &'static str);

impl Starter<'_> {
    /// Probes at the kernel proper.
    pub(super) fn start_kernel(
        &self,
        types: &KernelTypes,
        probes: &[Probe],
    ) -> Vec<(Probe, Outcome)> {
        let mut outcomes = Vec::new();
        let mut wanted: Vec<Wanted> = Vec::new();
        for probe in probes {
            match probe.events.iter().find(|event| types.is_known_form(event)) {
                Some(event) => wanted.push((*probe, event)),
                None => outcomes.push((*probe, Err(absent(*probe, types)))),
            }
        }
        for &typed in self.flavours {
            if let Ok(object) = self.load(METER_OBJECT, &wanted, typed) {
                let each = wanted
                    .iter()
                    .map(|wanted| (wanted.0, self.attach(&object, *wanted, typed)));
                outcomes.extend(each);
                return outcomes;
            }
        }
        outcomes.extend(
            wanted
                .into_iter()
                .map(|wanted| (wanted.0, self.start_alone(wanted))),
        );
        outcomes
    }

    fn start_alone(&self, wanted: Wanted) -> Outcome {
        let start = |typed| {
            let object = self.load(METER_OBJECT, &[wanted], typed)?;
            self.attach(&object, wanted, typed)
        };
        let mut outcome = Err("no program was tried".to_owned());
        for &typed in self.flavours {
            outcome = start(typed);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    /// The probes at the GPU scheduler: all or none, by the first set of names that is there.
    pub(super) fn start_gpu(&self) -> Vec<(Probe, Outcome)> {
        let mut reason = String::new();
        for &typed in self.flavours {
            for set in 0..GPU[0].events.len() {
                let wanted = GPU.map(|probe| (probe, probe.events[set]));
                match self.start_set(&wanted, typed) {
                    Ok(running) => {
                        return running
                            .into_iter()
                            .map(|one| (one.probe, Ok(one)))
                            .collect();
                    }
                    Err(why) => reason = why,
                }
            }
        }
        GPU.map(|probe| (probe, Err(reason.clone()))).into()
    }

    fn start_set(
        &self,
        wanted: &[Wanted],
        typed: bool,
    ) -> std::result::Result<Vec<Running>, String> {
        let object = self.load(GPU_OBJECT, wanted, typed)?;
        let each = wanted.iter().map(|one| self.attach(&object, *one, typed));
        let all: std::result::Result<Vec<Running>, String> = each.collect();
        if all.is_err() {
            for (probe, _) in wanted {
                pins::Pins::remove(&self.pins.link(probe.name))
                    .map_err(|error| error.to_string())?;
            }
        }
        all
    }

    fn load(
        &self,
        bytes: &[u8],
        wanted: &[Wanted],
        typed: bool,
    ) -> std::result::Result<Object, String> {
        let (result, said) = said::listen(|| self.try_load(bytes, wanted, typed));
        result.map_err(|error| match said::verifier(&said) {
            Some(line) => format!("the verifier refuses it: {line}"),
            None => with_cause(&error),
        })
    }

    fn try_load(&self, bytes: &[u8], wanted: &[Wanted], typed: bool) -> Result<Object> {
        let mut object = object::open(bytes)?;
        for mut program in object.progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let found = wanted
                .iter()
                .find(|(probe, _)| name == program_name(*probe, typed));
            program.set_autoload(found.is_some());
            if let Some((_, event)) = found.filter(|_| typed) {
                program
                    .set_attach_target(0, Some((*event).to_owned()))
                    .map_err(Error::libbpf("find tracepoint", *event))?;
            }
        }
        self.maps.prepare(&mut object, &self.settings)?;
        object
            .load()
            .map_err(Error::libbpf("load", "the meter's programs"))
    }

    fn attach(&self, object: &Object, (probe, event): Wanted, typed: bool) -> Outcome {
        self.try_attach(object, probe, event, typed)
            .map_err(|error| with_cause(&error))
    }

    fn try_attach(
        &self,
        object: &Object,
        probe: Probe,
        event: &str,
        typed: bool,
    ) -> Result<Running> {
        let name = program_name(probe, typed);
        let mut programs = object.progs_mut();
        let program = programs
            .find(|program| *program.name() == *name)
            .ok_or_else(|| Error::Unfit {
                subject: "the meter object".to_owned(),
                reason: format!("it has no program {name}"),
            })?;
        let (link, _said) = said::listen(|| {
            if typed {
                program.attach_trace()
            } else {
                program.attach_raw_tracepoint(event)
            }
        });
        let link = link.map_err(Error::libbpf("attach to", event))?;
        let link = link.as_fd().try_clone_to_owned();
        let link = link.map_err(Error::kernel("keep", "a link of the meter"))?;
        pins::replace(link.as_fd(), &self.pins.link(probe.name))?;
        let running = Running::of(probe, link, false)?;
        Ok(Running { typed, ..running })
    }
}

fn program_name(probe: Probe, typed: bool) -> String {
    format!("{}_{}", probe.name, if typed { "typed" } else { "raw" })
}

fn absent(probe: Probe, types: &KernelTypes) -> String {
    let event = probe.events[0];
    if !types.is_known() {
        "this kernel does not tell its types (CONFIG_DEBUG_INFO_BTF), so nothing can be fitted to it".to_owned()
    } else if types.arguments(event).is_some() {
        format!("this kernel's event {event} has arguments that are not known")
    } else {
        format!("this kernel has no event {event}")
    }
}

fn with_cause(error: &Error) -> String {
    let cause = std::error::Error::source(error);
    cause.map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// What a source's probes came to: it counts if all that are needed run.
pub(super) fn covered(source: Source, outcomes: &[(Probe, Outcome)]) -> Covered {
    // Waits are counted at the same event as time.
    let event = if source == Source::RunQueue {
        Source::Cpu
    } else {
        source
    };
    let (mut typed, mut adopted, mut note) = (true, true, None);
    for (probe, outcome) in outcomes.iter().filter(|(probe, _)| probe.source == event) {
        match outcome {
            Ok(running) => {
                typed &= running.typed;
                adopted &= running.adopted;
            }
            Err(reason) if probe.optional => note = Some(format!("{}: {reason}", probe.events[0])),
            Err(reason) => return Covered::Missing(reason.clone()),
        }
    }
    Covered::Counted {
        typed,
        adopted,
        note,
    }
}

/// Whether the kernel proper has the GPU scheduler.
pub(super) fn has_gpu_scheduler(types: &KernelTypes) -> bool {
    GPU[0]
        .events
        .iter()
        .any(|event| types.arguments(event).is_some())
}

/// What there is of the GPU scheduler's modules: their names, each with the mark of this loading of it.
pub(super) fn gpu_modules() -> String {
    let folders = GPU_MODULES.map(|name| (name, PathBuf::from("/sys/module").join(name)));
    let found = folders.iter().filter_map(|(name, folder)| {
        let inode = std::fs::metadata(folder).ok()?.ino();
        Some(format!("{name}:{inode} "))
    });
    found.collect()
}

pub(super) fn no_gpu_scheduler() -> Vec<(Probe, Outcome)> {
    GPU.map(|probe| {
        (
            probe,
            Err("the kernel's GPU scheduler (gpu_sched) is not loaded".to_owned()),
        )
    })
    .into()
}

/// Unpins the programs and waits until they run no more, so that nothing is counted twice by them and their successors.
pub(super) fn take_off(pins: &MeterPins) -> Result<()> {
    let programs = KERNEL.iter().chain(&GPU);
    let programs: Vec<u32> = programs
        .filter_map(|probe| {
            let link = sys::pinned(&pins.link(probe.name)).ok()?;
            Some(sys::link_facts(link.as_fd()).ok()?.program_id)
        })
        .collect();
    pins.remove_links()?;
    // The kernel frees them from a worker and tells nobody.
    for _ in 0..TAKE_OFF_LOOKS {
        if programs.iter().all(|id| sys::program_by_id(*id).is_err()) {
            return Ok(());
        }
        std::thread::sleep(TAKE_OFF_PAUSE);
    }
    Err(Error::Unfit {
        subject: "the meter's pinned programs".to_owned(),
        reason: "somebody else holds them, so that they count on beside their successors"
            .to_owned(),
    })
}
