//! A second pair of eyes: reads back through `aya` and `/proc` what `libbpf` attached.

use crate::cgroup::Cgroup;
use crate::guard::Hook;
use crate::pins::Pins;
use crate::{CgroupId, Error, Result, sys};
use aya::maps::MapInfo;
use aya::programs::links;
use aya::programs::{ProgramInfo, loaded_links, loaded_programs};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// What the kernel says of one fence; every member was read, none remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Kernel id of the link.
    pub link_id: u32,
    /// Kernel id of the program.
    pub program_id: u32,
    /// Tag of the program.
    pub program_tag: u64,
    /// The fenced cgroup.
    pub cgroup: CgroupId,
    /// Ids of the device programs on the cgroup itself.
    pub own: Vec<u32>,
    /// Ids of all device programs that run for the cgroup, those of its ancestors included.
    pub effective: Vec<u32>,
}

/// A program that was proven to be in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Kernel id.
    pub id: u32,
    /// Tag.
    pub tag: u64,
}

/// Proves that the pin `links/<name>` below `root` is a living link of the pinned program on the cgroup, that the kernel runs
/// that program for it, and that the program uses the maps pinned here.
///
/// This shows what is attached, not that it refuses: only a canary open shows that.
pub fn verify(root: &Path, name: &str, cgroup: &Path) -> Result<Proof> {
    verify_link(root, name, cgroup, verify_program(root)?)
}

/// Proves that the program pinned below `root` is in the kernel and uses the maps pinned here. Which maps a loaded program uses never
/// changes, so who holds on to program and maps need not ask again for each link.
pub fn verify_program(root: &Path) -> Result<Program> {
    let pins = Pins::new(root);
    let program = pinned_program(&pins)?;
    let proven =
        check_program(program.id(), program.tag()).and_then(|()| check_maps(&pins, &program));
    proven.map_err(|reason| Error::Unfit {
        subject: pins.object("spur_fence").display().to_string(),
        reason,
    })?;
    Ok(Program {
        id: program.id(),
        tag: program.tag(),
    })
}

/// The part of [`verify`] that is to be proven of each link, of a program that [`verify_program`] has proven.
pub fn verify_link(root: &Path, name: &str, cgroup: &Path, program: Program) -> Result<Proof> {
    let pins = Pins::new(root);
    let cgroup = Cgroup::open(cgroup)?;
    let path = pins.link(name)?;
    let subject = path.display().to_string();
    let unfit = |reason: String| Error::Unfit {
        subject: subject.clone(),
        reason,
    };

    let pinned = links::PinnedLink::from_pin(&path)
        .map_err(|error| unfit(format!("aya cannot open it: {error}")))?;
    let pinned = links::FdLink::from(pinned);
    let link = pinned
        .info()
        .map_err(|error| unfit(format!("aya cannot inspect it: {error}")))?;
    if link.program_id() != program.id {
        return Err(unfit(format!(
            "its program is {}, the pinned program is {}",
            link.program_id(),
            program.id
        )));
    }
    check_link(link.id(), program.id).map_err(&unfit)?;
    check_fdinfo(&path, cgroup.id).map_err(&unfit)?;

    let query = |effective| {
        sys::cgroup_programs(cgroup.as_fd(), effective)
            .map_err(Error::kernel("query device programs of", &cgroup.path))
    };
    let (own, effective) = (query(false)?, query(true)?);
    if !own.contains(&program.id) || !effective.contains(&program.id) {
        return Err(unfit(format!(
            "program {} does not run for {}: {own:?}, {effective:?}",
            program.id, cgroup.path
        )));
    }
    Ok(Proof {
        link_id: link.id(),
        program_id: program.id,
        program_tag: program.tag,
        cgroup: cgroup.id,
        own,
        effective,
    })
}

/// How many links in the kernel run this program.
#[must_use]
pub fn links_of(program_id: u32) -> usize {
    loaded_links()
        .flatten()
        .filter(|link| link.program_id() == program_id)
        .count()
}

/// Proves for each pinned program of the guard that its link is in the kernel's list, that the program is the one of its hook, and that
/// it uses the maps pinned here. Returns the hooks whose programs run, with the programs' ids.
///
/// Whether the kernel asks them is shown by [`crate::Fence::guard`] alone.
pub fn verify_guard(root: &Path) -> Result<Vec<(Hook, u32)>> {
    let pins = Pins::new(root);
    let found = Hook::ALL.into_iter().filter_map(|hook| {
        let path = pins.guard().join(hook.name());
        path.exists().then(|| {
            let subject = path.display().to_string();
            verify_hook(&pins, hook, &path)
                .map(|program| (hook, program))
                .map_err(|reason| Error::Unfit { subject, reason })
        })
    });
    found.collect()
}

pub(crate) fn verify_hook(
    pins: &Pins,
    hook: Hook,
    path: &Path,
) -> std::result::Result<u32, String> {
    let link = links::PinnedLink::from_pin(path).map_err(|error| error.to_string())?;
    let link = links::FdLink::from(link)
        .info()
        .map_err(|error| error.to_string())?;
    let program = loaded_programs()
        .flatten()
        .find(|program| program.id() == link.program_id())
        .ok_or("its program is not in the kernel's list of programs")?;
    check_link(link.id(), program.id())?;
    check_program(program.id(), program.tag())?;
    // The kernel keeps 15 bytes of a program's name.
    let kept = &hook.name()[..hook.name().len().min(15)];
    if program.name_as_str() != Some(kept) {
        return Err(format!("its program is {:?}", program.name_as_str()));
    }
    check_used(pins, &program, &["guard_policies"]).map(|()| program.id())
}

fn pinned_program(pins: &Pins) -> Result<ProgramInfo> {
    let path = pins.object("spur_fence");
    ProgramInfo::from_pin(&path).map_err(|error| Error::Unfit {
        subject: path.display().to_string(),
        reason: format!("aya cannot read it: {error}"),
    })
}

/// The link is in the kernel's own list, which goes by id, with this program.
fn check_link(link_id: u32, program_id: u32) -> std::result::Result<(), String> {
    let listed = sys::link_by_id(link_id).and_then(|link| sys::link_facts(link.as_fd()));
    match listed {
        Ok(facts) if facts.id == link_id && facts.program_id == program_id => Ok(()),
        Ok(facts) => Err(format!(
            "link {link_id} is of program {} in the kernel's list of links, not of {program_id}",
            facts.program_id
        )),
        Err(error) => Err(format!(
            "link {link_id} of program {program_id} is not in the kernel's list of links: {error}"
        )),
    }
}

/// The program is in the kernel's own list, which goes by id, with this tag.
fn check_program(program_id: u32, tag: u64) -> std::result::Result<(), String> {
    let listed = sys::program_by_id(program_id).and_then(|fd| sys::program_facts(fd.as_fd()));
    match listed {
        Ok(facts) if facts.id == program_id && u64::from_be_bytes(facts.tag) == tag => Ok(()),
        Ok(_) => Err(format!(
            "program {program_id} has another tag in the kernel's list of programs"
        )),
        Err(error) => Err(format!(
            "program {program_id} is not in the kernel's list of programs: {error}"
        )),
    }
}

/// The program uses the maps of this folder: else policies would be written where nobody reads them.
fn check_maps(pins: &Pins, program: &ProgramInfo) -> std::result::Result<(), String> {
    check_used(pins, program, &["table", "devices", "policies", "counters"])
}

fn check_used(
    pins: &Pins,
    program: &ProgramInfo,
    names: &[&str],
) -> std::result::Result<(), String> {
    let used = program
        .map_ids()
        .map_err(|error| error.to_string())?
        .unwrap_or_default();
    for name in names {
        let map = MapInfo::from_pin(pins.object(name))
            .map_err(|error| format!("aya cannot read map {name}: {error}"))?;
        if !used.contains(&map.id()) {
            return Err(format!(
                "program {} does not use the pinned map {name} ({})",
                program.id(),
                map.id()
            ));
        }
    }
    Ok(())
}

/// The kernel's text about the link names the cgroup.
fn check_fdinfo(path: &Path, cgroup: CgroupId) -> std::result::Result<(), String> {
    let fd = sys::pinned(path).map_err(|error| error.to_string())?;
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd()))
        .map_err(|error| error.to_string())?;
    let named = text
        .lines()
        .find_map(|line| line.strip_prefix("cgroup_id:"))
        .map(str::trim);
    if named == Some(&cgroup.to_string()) {
        return Ok(());
    }
    Err(format!(
        "the kernel says that it is on cgroup {}, not {cgroup}",
        named.unwrap_or("unknown")
    ))
}
