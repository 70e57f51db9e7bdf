//! Running programs as somebody, with a limit on their time.

use std::ffi::OsStr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};

/// Seconds that a command of a test may take before it is stopped (and the test fails on its status).
pub const LIMIT: u64 = 240;

/// Who runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// User and group 0.
    Root,
    /// This user and the group of the same number.
    Id(u32),
}

/// An ordinary user on any machine.
pub const NOBODY: User = User::Id(65_534);

/// A user that no database knows.
pub const UNKNOWN: User = User::Id(61_234);

impl User {
    /// The number.
    pub fn id(self) -> u32 {
        match self {
            Self::Root => 0,
            Self::Id(id) => id,
        }
    }
}

/// How a program ended, and what it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Exit code; 128 + N for signal N.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Output {
    /// Its output, after making sure that it went well.
    pub fn good(self) -> String {
        assert_eq!(self.code, 0, "out: {}\nerr: {}", self.out, self.err);
        self.out
    }

    /// Waits for a child with piped output.
    pub fn of(child: Child) -> Self {
        let output = child.wait_with_output().expect("a child can be waited for");
        let status = output.status;
        let code = status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code,
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }
}

/// `timeout LIMIT args…` as `user`, with nothing in its environment and its output piped.
pub fn command(user: User, args: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", &LIMIT.to_string()])
        .args(args);
    command
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // As root the standard library drops our other groups too.
    command.uid(user.id()).gid(user.id());
    command
}
