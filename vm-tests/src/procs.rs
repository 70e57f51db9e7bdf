//! Processes of this machine, as `/proc` shows them.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::PathBuf;

/// A process at the time of looking.
#[derive(Clone, Debug)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its command line.
    pub args: Vec<String>,
    /// Its environment as it was started.
    pub env: Vec<String>,
    /// Its working directory.
    pub cwd: PathBuf,
}

impl Process {
    /// Whether its arguments or its environment speak of `text`.
    pub fn mentions(&self, text: &str) -> bool {
        self.args
            .iter()
            .chain(&self.env)
            .any(|word| word.contains(text))
    }

    /// Whether it is this program (the last part of its first word).
    pub fn is(&self, program: &str) -> bool {
        self.args
            .first()
            .is_some_and(|word| word.rsplit('/').next() == Some(program))
    }

    /// Ends it as nothing can refuse.
    pub fn kill(&self) {
        kill(self.pid);
    }
}

/// `kill -9`; a process that is gone already is fine.
pub fn kill(pid: i32) {
    let Some(pid) = Pid::from_raw(pid) else {
        return;
    };
    match kill_process(pid, Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => panic!("cannot kill {pid:?}: {error}"),
    }
}

/// Whether the process is there and not a zombie.
pub fn alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Resident memory in KiB; 0 when it is gone.
pub fn resident_kib(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// Every living process that mentions `text`, without ourselves.
pub fn mentioning(text: &str) -> Vec<Process> {
    let me = i32::try_from(std::process::id()).expect("pids fit");
    let found = all().into_iter();
    found
        .filter(|process| process.pid != me && process.mentions(text))
        .collect()
}

fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| alive(*pid)).filter_map(look).collect()
}

/// A process may end between two looks.
fn look(pid: i32) -> Option<Process> {
    let words = |name: &str| -> Option<Vec<String>> {
        let bytes = fs::read(format!("/proc/{pid}/{name}")).ok()?;
        let words = bytes
            .split(|byte| *byte == 0)
            .filter(|word| !word.is_empty());
        Some(
            words
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect(),
        )
    };
    let cwd = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    Some(Process {
        pid,
        args: words("cmdline")?,
        env: words("environ")?,
        cwd,
    })
}
