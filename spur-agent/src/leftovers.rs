//! Removing everything that an agent has on a machine: after a `kill -9` of everything, or at the end of a test cluster.

use anyhow::Context;
use rustix::mount::{UnmountFlags, unmount};
use spur_agent::cgroup::{Cgroup, Root};
use spur_agent::config::Config;
use spur_agent::fence::node::{MOUNTED_BY_AGENT, pins_of};
use spur_agent::launch::{Supervisor, remove_dir, shelf, steps_dir};
use std::path::Path;
use std::time::Duration;

/// What a BPF file system has that nobody pinned: the kernel's two files, and our mark.
const FROM_THE_START: [&str; 3] = ["maps.debug", "progs.debug", MOUNTED_BY_AGENT];

/// How long killed processes may take to die.
const PATIENCE: Duration = Duration::from_secs(30);

/// Kills what runs below the agent's cgroup, removes cgroups, pins, a BPF file system that the agent mounted, and step folders.
/// Refuses while an agent of this configuration lives. What is gone already is fine. Gives what was done, for people.
pub(crate) fn clean(config: &Config) -> anyhow::Result<Vec<String>> {
    let mut done = Vec::new();
    let lock = match config.state_dir.exists() {
        true => Some(spur_agent::node::claim(config)?),
        false => None,
    };
    if let Some(group) = Cgroup::open(Root::mount()?.join(&config.cgroup))? {
        group.kill()?;
        anyhow::ensure!(
            group.wait_empty(PATIENCE)?,
            "processes {:?} below {} do not die",
            group.procs()?,
            group.path().display()
        );
        done.push(format!("removed cgroup {}", group.path().display()));
        group.remove()?;
    }
    end_supervisors(config, &mut done);
    remove_pins(&pins_of(config), &mut done)?;
    unmount_own(config, &mut done)?;
    let steps = steps_dir(&config.state_dir);
    if steps.exists() {
        for step in std::fs::read_dir(&steps).into_iter().flatten().flatten() {
            // By itself: the files of its user are a file system of their own.
            remove_dir(&step.path())?;
        }
        shelf::remove(&steps)?;
        remove_dir(&steps)?;
        done.push(format!("removed {}", steps.display()));
    }
    drop(lock);
    Ok(done)
}

/// Supervisors end by themselves once their cgroup is empty; those that hang on a client are told to.
fn end_supervisors(config: &Config, done: &mut Vec<String>) {
    for entry in std::fs::read_dir(steps_dir(&config.state_dir))
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
    {
        let Ok(Some(supervisor)) = Supervisor::adopt(&entry.path()) else {
            continue;
        };
        if let Some(pid) = rustix::process::Pid::from_raw(supervisor.pid())
            && rustix::process::pidfd_send_signal(supervisor.pidfd(), rustix::process::Signal::KILL)
                .is_ok()
        {
            done.push(format!("killed supervisor {}", pid.as_raw_nonzero()));
        }
    }
}

/// Removes the agent's folder of pins: files first, then folders.
fn remove_pins(pins: &Path, done: &mut Vec<String>) -> anyhow::Result<()> {
    if !pins.exists() {
        return Ok(());
    }
    std::fs::remove_dir_all(pins)
        .with_context(|| format!("removing the pins in {}", pins.display()))?;
    done.push(format!("removed pins {}", pins.display()));
    Ok(())
}

/// Unmounts the BPF file system if an agent mounted it and nobody has pinned anything there any more.
pub(crate) fn unmount_own(config: &Config, done: &mut Vec<String>) -> anyhow::Result<()> {
    let mark = config.bpffs.join(MOUNTED_BY_AGENT);
    let mut entries = std::fs::read_dir(&config.bpffs)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    if !mark.exists()
        || entries.any(|entry| !FROM_THE_START.iter().any(|name| entry.file_name() == *name))
    {
        return Ok(());
    }
    std::fs::remove_dir(&mark).with_context(|| format!("removing {}", mark.display()))?;
    unmount(&config.bpffs, UnmountFlags::NOFOLLOW)
        .with_context(|| format!("unmounting {}", config.bpffs.display()))?;
    done.push(format!("unmounted {}", config.bpffs.display()));
    Ok(())
}
