//! Loading, attaching, pinning and adopting the guard's programs.

use super::{Guard, GuardOptions, Hook, HookState, level, proof, said};
use crate::abi::{Plain, RawGuardSettings};
use crate::fence::{Maps, object, older};
use crate::pins::{self, Pins};
use crate::{Error, Result, doctor, sys};
use libbpf_rs::btf::{Btf, types};
use libbpf_rs::{ErrorKind, Object, ObjectBuilder};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

/// The guard programs of this build.
const GUARD_OBJECT: &[u8] = include_bytes!(env!("SPUR_GUARD_OBJECT"));
/// The variable in the object that holds the settings.
const SETTINGS: &str = ".rodata.guard";

/// Why a program is taken away again.
const UNASKED: &str =
    "the kernel attached it and never asks it: its list of LSMs lacks bpf (boot with lsm=...,bpf)";

/// What came of a program, and its link if it runs.
type Outcome = (HookState, Option<OwnedFd>);

/// Attaches every program of the guard that this kernel takes, and pins it. Programs of the same build with the same settings
/// are adopted; others go after ours have come.
pub(crate) fn guard(pins: &Pins, maps: &Maps, options: &GuardOptions) -> Result<Guard> {
    let folder = pins.guard();
    pins::prepare_folder(&folder)?;
    let settings = RawGuardSettings {
        object_hash: object::hash(GUARD_OBJECT),
        job_level: level::of_children(&options.cgroup)?,
        deny_signals: u32::from(options.deny_signals),
    };
    let mut guard = Guard {
        folder,
        hooks: BTreeMap::new(),
        links: BTreeMap::new(),
    };
    let mut wanted = Hook::ALL.to_vec();
    if read_settings(maps)? == settings {
        wanted.retain(|&hook| !adopt(&mut guard, pins, hook));
    } else {
        // Until all are replaced, nobody may take what is pinned for one build's.
        write_settings(maps, RawGuardSettings::default())?;
    }
    for (hook, (state, link)) in start(&guard, maps, &settings, &wanted) {
        if let Some(link) = &link {
            pins::replace(link.as_fd(), &guard.pin(hook))?;
        } else {
            Pins::remove(&guard.pin(hook))?;
        }
        guard.hooks.insert(hook, state);
        guard.links.extend(link.map(|link| (hook, link)));
    }
    prove(&mut guard, maps, options)?;
    write_settings(maps, settings)?;
    older::remove_guards(pins)?;
    Ok(guard)
}

/// Takes programs away that the kernel attached and does not ask.
fn prove(guard: &mut Guard, maps: &Maps, options: &GuardOptions) -> Result<()> {
    let can_be_proven = guard.links.contains_key(&Hook::Bpf);
    if !can_be_proven || proof::is_asked(maps, &options.cgroup)? {
        return Ok(());
    }
    for hook in Hook::ALL
        .into_iter()
        .filter(|hook| guard.links.contains_key(hook))
    {
        Pins::remove(&guard.pin(hook))?;
        guard
            .hooks
            .insert(hook, HookState::Refused(UNASKED.to_owned()));
    }
    guard.links.clear();
    Ok(())
}

fn read_settings(maps: &Maps) -> Result<RawGuardSettings> {
    let bytes = crate::fence::lookup(&maps.guard_settings, &0u32.to_ne_bytes())?;
    Ok(bytes
        .as_deref()
        .and_then(RawGuardSettings::from_bytes)
        .unwrap_or_default())
}

fn write_settings(maps: &Maps, settings: RawGuardSettings) -> Result<()> {
    crate::fence::update(&maps.guard_settings, &0u32.to_ne_bytes(), settings.bytes())
}

/// Takes over a pinned program; says whether there was one, proven by other code to be ours.
fn adopt(guard: &mut Guard, pins: &Pins, hook: Hook) -> bool {
    let path = guard.pin(hook);
    let Ok(link) = sys::pinned(&path) else {
        return false;
    };
    if doctor::verify_hook(pins, hook, &path).is_err() {
        return false;
    }
    let Ok(facts) = sys::link_facts(link.as_fd()) else {
        return false;
    };
    let state = HookState::Attached {
        program_id: facts.program_id,
        link_id: facts.id,
        adopted: true,
    };
    guard.hooks.insert(hook, state);
    guard.links.insert(hook, link);
    true
}

/// Loads and attaches programs: all at once, or each alone where the kernel does not take all.
fn start(
    guard: &Guard,
    maps: &Maps,
    settings: &RawGuardSettings,
    wanted: &[Hook],
) -> BTreeMap<Hook, Outcome> {
    let kernel = Btf::from_vmlinux().ok();
    let (present, absent): (Vec<Hook>, Vec<Hook>) = wanted
        .iter()
        .partition(|hook| kernel.as_ref().is_none_or(|btf| has(btf, **hook)));
    let mut outcomes: BTreeMap<Hook, Outcome> = absent
        .into_iter()
        .map(|hook| (hook, (HookState::Absent, None)))
        .collect();
    let mut loader = Loader {
        maps,
        settings,
        forbidden: BTreeMap::new(),
    };
    if let Ok(object) = loader.load(&present) {
        outcomes.extend(present.iter().map(|&hook| (hook, attach(&object, hook))));
        return outcomes;
    }
    for hook in present {
        let runs = |hook: Hook| {
            let state = outcomes.get(&hook).map(|(state, _)| state);
            let state = state.or_else(|| guard.hooks.get(&hook));
            matches!(state, Some(HookState::Attached { .. }))
        };
        let outcome = match hook.needs().filter(|needed| !runs(*needed)) {
            Some(needed) => (
                HookState::Refused(format!("it is of no use without {needed}")),
                None,
            ),
            None => loader.start_alone(hook),
        };
        outcomes.insert(hook, outcome);
    }
    outcomes
}

struct Loader<'a> {
    maps: &'a Maps,
    settings: &'a RawGuardSettings,
    /// Kinds of programs (LSM or not) of which the kernel let one not even come to the verifier: it is not asked for the others.
    forbidden: BTreeMap<bool, String>,
}

impl Loader<'_> {
    fn start_alone(&mut self, hook: Hook) -> Outcome {
        if let Some(reason) = self.forbidden.get(&hook.is_lsm()) {
            return (HookState::Refused(reason.clone()), None);
        }
        match self.load(&[hook]) {
            Ok(object) => attach(&object, hook),
            Err(Refusal { reason, forbidden }) => {
                if forbidden {
                    self.forbidden.insert(hook.is_lsm(), reason.clone());
                }
                (HookState::Refused(reason), None)
            }
        }
    }

    fn load(&self, wanted: &[Hook]) -> std::result::Result<Object, Refusal> {
        let (result, said) = said::listen(|| load(self.maps, self.settings, wanted));
        result.map_err(|(error, step)| {
            let kind = error.kind();
            let verifier = said::verifier(&said);
            let forbidden = kind == ErrorKind::PermissionDenied && verifier.is_none();
            let reason = match verifier {
                Some(line) if line.starts_with("unknown func") => {
                    format!("this kernel is too old, Linux 6.1 is needed (the verifier: {line})")
                }
                Some(line) => format!("the verifier refuses it: {line}"),
                None if forbidden => {
                    format!("this kernel does not let such programs be loaded ({error})")
                }
                None => format!("cannot {step} it: {error}"),
            };
            Refusal { reason, forbidden }
        })
    }
}

/// Why a program was not loaded.
struct Refusal {
    reason: String,
    /// Not for a fault of the program.
    forbidden: bool,
}

/// Whether the kernel has the function that a program of the guard is attached to.
fn has(kernel: &Btf<'_>, hook: Hook) -> bool {
    let function = hook.function();
    kernel.type_by_name::<types::Func<'_>>(&function).is_some()
}

/// Loads some of the programs onto the fence's maps; an error comes with the step that failed.
fn load(
    maps: &Maps,
    settings: &RawGuardSettings,
    wanted: &[Hook],
) -> std::result::Result<Object, (libbpf_rs::Error, &'static str)> {
    let mut object = ObjectBuilder::default()
        .name("spur_guard")
        .and_then(|builder| builder.open_memory(GUARD_OBJECT))
        .map_err(|error| (error, "open"))?;
    for mut program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        program.set_autoload(wanted.iter().any(|hook| hook.name() == name));
    }
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name == SETTINGS {
            map.set_initial_value(settings.bytes())
                .map_err(|error| (error, "set up"))?;
        } else if let Some(pinned) = maps.by_name(&name) {
            map.reuse_fd(pinned.as_fd())
                .map_err(|error| (error, "give the fence's maps to"))?;
        }
    }
    object.load().map_err(|error| (error, "load"))
}

fn attach(object: &Object, hook: Hook) -> Outcome {
    let Some(program) = object
        .progs_mut()
        .find(|program| program.name() == hook.name())
    else {
        return (
            HookState::Refused("the object lacks the program".to_owned()),
            None,
        );
    };
    let link = program
        .attach()
        .map_err(Error::libbpf("attach", "the guard"))
        .and_then(|link| {
            let fd = link.as_fd().try_clone_to_owned();
            fd.map_err(Error::kernel("keep", "a link of the guard"))
        });
    let facts = link.and_then(|link| {
        let facts = sys::link_facts(link.as_fd())
            .map_err(Error::kernel("inspect", "a link of the guard"))?;
        Ok((link, facts))
    });
    match facts {
        Ok((link, facts)) => (
            HookState::Attached {
                program_id: facts.program_id,
                link_id: facts.id,
                adopted: false,
            },
            Some(link),
        ),
        Err(error) => refused(&error),
    }
}

fn refused(error: &Error) -> Outcome {
    let cause =
        std::error::Error::source(error).map_or_else(String::new, |cause| format!(": {cause}"));
    (HookState::Refused(format!("{error}{cause}")), None)
}
