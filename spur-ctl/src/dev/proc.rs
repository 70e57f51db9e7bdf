//! The cluster's processes: started, recorded, found again, ended. A process is known by its number and its start time
//! together, or by its own command line; a number alone proves nothing.

use super::layout::Layout;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Programs of ours, by the last part of their name.
const PROGRAMS: [&str; 3] = ["spurctld", "spurd", "spur"];
/// How long a killed process may take to go.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// Starts a daemon with its output in a log of its own, and records it.
pub(super) fn start(
    layout: &Layout,
    log: &str,
    program: &Path,
    args: &[&OsStr],
) -> std::io::Result<Child> {
    let out = File::options()
        .create(true)
        .append(true)
        .open(layout.log(log))?;
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out);
    // A group of its own: Ctrl-C in the terminal is not for it.
    let child = command.current_dir("/").process_group(0).spawn()?;
    let started = start_time(child.id()).unwrap_or(0);
    let mut record = File::options()
        .create(true)
        .append(true)
        .open(layout.path("pids"))?;
    writeln!(record, "{log} {} {started}", child.id())?;
    Ok(child)
}

/// Ticks after boot at which a process started: field 22 of `/proc/PID/stat` (proc(5)).
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; what follows its last parenthesis is numbers.
    stat.rsplit_once(')')?
        .1
        .split_ascii_whitespace()
        .nth(19)?
        .parse()
        .ok()
}

/// Kills every process of the cluster and waits until they are gone; names those that are not.
pub(super) fn kill_all(layout: &Layout) -> Vec<u32> {
    let mut left: Vec<(u32, OwnedFd)> = Vec::new();
    for (pid, started) in recorded(layout) {
        left.extend(held(pid, |pid| start_time(pid) == Some(started)));
    }
    for pid in all() {
        left.extend(held(pid, |pid| is_ours(layout, pid)));
    }
    for (_, handle) in &left {
        // One that is gone already is what is wanted.
        pidfd_send_signal(handle, Signal::KILL).ok();
    }
    left.retain(|(_, handle)| !ended(handle));
    left.into_iter().map(|(pid, _)| pid).collect()
}

/// A handle to a process that is what we think: looked at after the handle is held, so that the number cannot be another's.
fn held(pid: u32, is_it: impl Fn(u32) -> bool) -> Option<(u32, OwnedFd)> {
    let raw = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let handle = pidfd_open(raw, PidfdFlags::empty()).ok()?;
    is_it(pid).then_some((pid, handle))
}

/// Waits for a process to end; `false` if it takes too long.
fn ended(handle: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(handle, PollFlags::IN)];
    let limit = Timespec::try_from(GONE_WITHIN).ok();
    poll(&mut fds, limit.as_ref()).is_ok_and(|count| count > 0)
}

fn recorded(layout: &Layout) -> Vec<(u32, u64)> {
    let text = std::fs::read_to_string(layout.path("pids")).unwrap_or_default();
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(1);
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    text.lines()
        .filter_map(line)
        .filter(|(_, started)| *started > 0)
        .collect()
}

fn all() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether a process is a daemon or a supervisor of this cluster: one of our programs, told to use something in its folder.
fn is_ours(layout: &Layout, pid: u32) -> bool {
    if pid == std::process::id() {
        return false;
    }
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = line
        .split(|byte| *byte == 0)
        .map(|word| Path::new(OsStr::from_bytes(word)));
    let program = words
        .next()
        .and_then(Path::file_name)
        .and_then(OsStr::to_str);
    program.is_some_and(|name| PROGRAMS.contains(&name)) && words.any(|word| within(layout, word))
}

fn within(layout: &Layout, word: &Path) -> bool {
    let bytes = word.as_os_str().as_bytes();
    let value = bytes
        .iter()
        .position(|byte| *byte == b'=')
        .map_or(bytes, |at| &bytes[at + 1..]);
    layout.owns(Path::new(OsStr::from_bytes(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start_time_or_its_words() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path()).unwrap();
        std::fs::create_dir(layout.path("log")).unwrap();
        let mut child = start(&layout, "x", Path::new("/bin/sleep"), &[OsStr::new("60")]).unwrap();
        let pid = child.id();
        assert_eq!(recorded(&layout), [(pid, start_time(pid).unwrap())]);
        assert!(!is_ours(&layout, pid), "sleep is no program of ours");
        assert!(
            held(pid, |pid| start_time(pid) == Some(1)).is_none(),
            "a recycled number"
        );
        assert_eq!(kill_all(&layout), [] as [u32; 0]);
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn words_may_be_paths_or_settings() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path()).unwrap();
        let inside = layout.path("spur.toml");
        assert!(within(&layout, &inside));
        assert!(within(
            &layout,
            Path::new(&format!("--config={}", inside.display()))
        ));
        assert!(
            !within(&layout, layout.dir()),
            "the folder alone names it from outside"
        );
        assert!(!within(&layout, Path::new("/etc/spur/spur.toml")));
        assert!(
            !within(&layout, &layout.path("other/spur.toml")),
            "another cluster, in a folder below"
        );
    }
}
