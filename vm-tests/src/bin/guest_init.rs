//! Process 1 of the virtual machine: mounts, modules, loopback, then the tests or one command, then the verdict.

use anyhow::{Context, Result};
use rustix::mount::{MountFlags, mount};
use rustix::process::{Pid, WaitOptions, wait};
use rustix::system::{RebootCommand, init_module, reboot};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use vm_tests::vm::{COMMAND_FILE, MODULE_DIR, UP, VERDICT};

/// File system type, where, options.
const MOUNTS: &[(&str, &str, &str)] = &[
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devtmpfs", "/dev", "mode=0755"),
    ("tmpfs", "/run", "mode=0755"),
    ("tmpfs", "/tmp", "mode=1777"),
    ("tmpfs", "/home", "mode=0755"),
    ("tmpfs", "/dev/shm", "mode=1777"),
    ("cgroup2", "/sys/fs/cgroup", ""),
    ("securityfs", "/sys/kernel/security", ""),
];

fn main() {
    let verdict = match run() {
        Ok(true) => "ok".to_owned(),
        Ok(false) => "FAILED".to_owned(),
        Err(error) => format!("FAILED {error:#}"),
    };
    println!("{VERDICT} {verdict}");
    // Nothing is left to do about it if the machine will not stop: the host's limit ends it.
    reboot(RebootCommand::PowerOff).ok();
}

fn run() -> Result<bool> {
    println!("{UP}");
    for (kind, target, options) in MOUNTS {
        fs::create_dir_all(target).with_context(|| format!("making {target}"))?;
        let options = std::ffi::CString::new(*options)?;
        mount(
            *kind,
            *target,
            *kind,
            MountFlags::empty(),
            options.as_c_str(),
        )
        .with_context(|| format!("mounting {kind} on {target}"))?;
    }
    cgroup_controllers()?;
    modules()?;
    homes()?;
    // Without a loopback nothing of ours fails; a test that needs it will say so.
    Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status()
        .context("starting ip")?;
    let command = fs::read_to_string(COMMAND_FILE).context("reading the command")?;
    let words: Vec<&str> = command.lines().collect();
    let (program, args) = words.split_first().unwrap_or((&"guest-tests", &[]));
    run_to_end(program, args)
}

/// All that the kernel has, for the agent to hand on.
fn cgroup_controllers() -> Result<()> {
    let root = Path::new("/sys/fs/cgroup");
    let list =
        fs::read_to_string(root.join("cgroup.controllers")).context("reading controllers")?;
    for controller in list.split_whitespace() {
        let wanted = format!("+{controller}");
        // One that cannot be enabled is reported by the agent that misses it.
        if let Err(error) = fs::write(root.join("cgroup.subtree_control"), wanted) {
            println!("guest-init: controller {controller}: {error}");
        }
    }
    Ok(())
}

fn modules() -> Result<()> {
    let mut paths: Vec<_> = fs::read_dir(MODULE_DIR)
        .context("listing modules")?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    for path in paths {
        let image = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        init_module(&image, c"").with_context(|| format!("loading {}", path.display()))?;
    }
    Ok(())
}

fn homes() -> Result<()> {
    for (name, id) in [("alice", 1000), ("bob", 1001)] {
        let home = Path::new("/home").join(name);
        fs::create_dir_all(&home).with_context(|| format!("making {}", home.display()))?;
        std::os::unix::fs::chown(&home, Some(id), Some(id))
            .with_context(|| format!("giving {name} a home"))?;
    }
    Ok(())
}

/// Runs the program and, as process 1 must, reaps every orphan until it has ended.
fn run_to_end(program: &str, args: &[&str]) -> Result<bool> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).current_dir("/root");
    command
        .env_clear()
        .env("PATH", "/usr/bin")
        .env("HOME", "/root")
        .env("RUST_BACKTRACE", "1");
    let child = command
        .spawn()
        .with_context(|| format!("starting {program}"))?;
    let child = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .context("a bad pid")?;
    loop {
        let ended = wait(WaitOptions::empty()).context("waiting for processes")?;
        if let Some((pid, status)) = ended
            && pid == child
        {
            return Ok(status.exit_status() == Some(0));
        }
    }
}
