//! What a command takes from the process that it is: the environment is an input, read once.

use spur_core::time::Millis;

/// The surroundings of a submission.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// `NAME=VALUE` entries; bytes that are no UTF-8 as `spur_core::slurm::raw` has them, here and in every other text.
    pub env: Vec<String>,
    /// Working directory, absolute.
    pub cwd: String,
    /// Name of this host.
    pub host: String,
    /// Session of this process.
    pub session: u32,
    /// This user.
    pub uid: u32,
    /// This user's group.
    pub gid: u32,
    /// The present.
    pub now: Millis,
    /// Seconds by which the local zone is ahead of UTC.
    pub utc_offset: i32,
    /// Scheduling priority of this process (`nice`).
    pub niceness: i32,
    /// File mode creation mask.
    pub umask: u32,
    /// The command with its arguments, as a line.
    pub submit_line: String,
    /// See [`spur_core::job::spec::JobSpec::request_id`].
    pub request_id: u64,
    /// Soft limits: (`RLIMIT_*` number, value; `u64::MAX` for none).
    pub rlimits: Vec<(u32, u64)>,
}

impl Surroundings {
    /// A variable's value.
    pub fn var(&self, name: &str) -> Option<&str> {
        let value = |entry: &str| entry.strip_prefix(name)?.strip_prefix('=').map(str::len);
        let (entry, len) = self
            .env
            .iter()
            .find_map(|entry| Some((entry, value(entry)?)))?;
        entry.get(entry.len() - len..)
    }

    /// A path made absolute.
    pub fn absolute(&self, path: &str) -> String {
        if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("{}/{path}", self.cwd)
        }
    }
}

/// The limits that may be propagated, by number (`asm-generic/resource.h`).
pub const LIMITS: [(&str, u32); 10] = [
    ("CPU", 0),
    ("FSIZE", 1),
    ("DATA", 2),
    ("STACK", 3),
    ("CORE", 4),
    ("RSS", 5),
    ("NPROC", 6),
    ("NOFILE", 7),
    ("MEMLOCK", 8),
    ("AS", 9),
];
