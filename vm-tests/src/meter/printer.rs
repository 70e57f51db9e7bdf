//! The program that prints what the meter counts (an example of `spur-ebpf`), run beside a test.

use crate::host;
use crate::meter::groups::JOB_LEVEL;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use tempfile::TempDir;

/// Where the guest has it.
const IN_GUEST: &str = "/usr/bin/meter-print";

/// A meter of our own, pinned in a BPF file system of our own. Taken off the kernel when dropped.
pub struct Printer {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    pins: TempDir,
}

/// What the meter had counted at one time.
#[derive(Debug)]
pub struct Reading {
    lines: Vec<String>,
}

/// The program, if it is here.
pub fn program() -> Option<PathBuf> {
    let built = || host::bins().join("examples/meter_print");
    let guest = PathBuf::from(IN_GUEST);
    let found = if guest.is_file() { guest } else { built() };
    found.is_file().then_some(found)
}

impl Printer {
    /// Starts the program and has it load the meter.
    pub fn start(program: &Path) -> Self {
        let pins = tempfile::tempdir().expect("a folder");
        mount("bpf", pins.path(), "bpf", MountFlags::empty(), None).expect("root may mount");
        let mut child = Command::new(program)
            .arg(pins.path().join("meter"))
            .arg(JOB_LEVEL.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let input = child.stdin.take();
        let output = child.stdout.take().expect("it was asked for");
        Self {
            child,
            input,
            output: BufReader::new(output),
            pins,
        }
    }

    /// Says something and returns what was answered.
    fn ask(&mut self, words: &str) -> Vec<String> {
        let input = self.input.as_mut().expect("it is taken only at the end");
        writeln!(input, "{words}").expect("the meter listens");
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let size = self.output.read_line(&mut line).expect("it can be read");
            assert!(size > 0, "the meter ended at {words:?} after {lines:?}");
            let line = line.trim_end();
            match line.split_once(' ').unwrap_or((line, "")) {
                ("ok", "") => return lines,
                ("failed", why) => panic!("{words:?}: {why}"),
                _ => lines.push(line.to_owned()),
            }
        }
    }

    /// Begins to count for a group.
    pub fn add(&mut self, group: &Path) {
        self.ask(&format!("add {}", group.display()));
    }

    /// Attaches to modules that were loaded since.
    pub fn attach_late(&mut self) {
        self.ask("late");
    }

    /// What is counted, and what is not and why.
    pub fn coverage(&mut self) -> Vec<String> {
        self.ask("coverage")
    }

    /// What was counted so far.
    pub fn read(&mut self) -> Reading {
        Reading {
            lines: self.ask("read"),
        }
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        // The end of its input is the end of the program.
        drop(self.input.take());
        self.child.wait().ok();
        unmount(self.pins.path(), UnmountFlags::DETACH).ok();
    }
}

impl Reading {
    /// A counter of a group; `None` if it is not counted here.
    pub fn counter(&self, group: &Path, name: &str) -> Option<u64> {
        let prefix = format!("cgroup {} {name} ", group.display());
        let value = self
            .lines
            .iter()
            .find_map(|line| line.strip_prefix(&prefix));
        value.map(|value| value.parse().expect("a number"))
    }

    /// Nanoseconds that a ring of a device was busy for a group.
    pub fn busy_ns(&self, group: &Path, device: &str, ring: &str) -> u64 {
        let prefix = format!("gpu {} {device} {ring} busy_ns ", group.display());
        let rest = self
            .lines
            .iter()
            .find_map(|line| line.strip_prefix(&prefix));
        let word = rest.and_then(|rest| rest.split(' ').next());
        word.map_or(0, |word| word.parse().expect("a number"))
    }

    /// Nanoseconds that all rings of all devices were busy for a group.
    pub fn busy_in_all_ns(&self, group: &Path) -> u64 {
        let prefix = format!("gpu {} ", group.display());
        let mine = self.lines.iter().filter(|line| line.starts_with(&prefix));
        mine.filter_map(|line| {
            let mut words = line.split(' ').skip_while(|word| *word != "busy_ns");
            words.nth(1)?.parse::<u64>().ok()
        })
        .sum()
    }

    /// Jobs of GPUs that could be charged to nobody.
    pub fn lost(&self) -> u64 {
        let word = self
            .lines
            .iter()
            .find_map(|line| line.strip_prefix("lost "));
        word.map_or(0, |word| word.parse().expect("a number"))
    }
}
