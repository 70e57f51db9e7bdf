//! A development cluster for the demo and the benchmarks: up, commands as a user, down.

use crate::sh;
use anyhow::{Context, Result, ensure};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// `nobody`: an ordinary user that every system has, so that none must be made.
const NOBODY: u32 = 65_534;

/// A cluster that runs until [`DevCluster::down`], or until it is dropped.
pub(crate) struct DevCluster {
    dir: TempDir,
    bins: PathBuf,
    uid: u32,
    up: bool,
}

impl DevCluster {
    /// `spur dev up` with the binaries in `bins` and these arguments.
    pub(crate) fn up(bins: &Path, args: &[&str]) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("spur-dev-")
            .tempdir()
            .context("making a folder")?;
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).context("letting users in")?;
        // Who called sudo, if that is how we came to be root.
        let caller = std::env::var("SUDO_UID")
            .ok()
            .and_then(|id| id.parse().ok());
        let uid = caller.filter(|uid| *uid != 0).unwrap_or(NOBODY);
        let mut cluster = Self {
            dir,
            bins: bins.to_owned(),
            uid,
            up: true,
        };
        if let Err(error) = sh::run(&mut cluster.dev("up", args)) {
            cluster.show_logs();
            return Err(error);
        }
        let home = cluster.home();
        std::fs::create_dir(&home).context("making a folder for the user")?;
        chown(&home, Some(uid), Some(uid)).context("giving the user a folder")?;
        cluster.up = true;
        Ok(cluster)
    }

    /// Its folder.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The user's folder.
    pub(crate) fn home(&self) -> PathBuf {
        self.dir().join("home")
    }

    /// Who runs the commands.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// A command with the cluster's environment, as the user, in the user's folder.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", r#". "$0" && exec "$@""#])
            .arg(self.dir().join("env"))
            .args(args);
        command
            .current_dir(self.home())
            .env("HOME", self.home())
            .stdin(Stdio::null());
        command.uid(self.uid).gid(self.uid);
        command
    }

    /// The same as root, who is an operator.
    pub(crate) fn as_root(&self, args: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", r#". "$0" && exec "$@""#])
            .arg(self.dir().join("env"))
            .args(args);
        command.stdin(Stdio::null());
        command
    }

    /// The environment that `DIR/env` makes, for commands that are timed: no shell stands between.
    pub(crate) fn direct(&self, args: &[&str]) -> Result<Command> {
        let (program, rest) = args.split_first().context("an empty command")?;
        let output = sh::output(&mut self.command(&["env", "-0"]))?;
        let pairs = output.split('\0').filter_map(|pair| pair.split_once('='));
        let mut command = Command::new(self.dir().join("bin").join(program));
        command
            .args(rest)
            .env_clear()
            .envs(pairs)
            .current_dir(self.home());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .uid(self.uid)
            .gid(self.uid);
        Ok(command)
    }

    /// Processes whose command line names the cluster's folder and this word: `(pid, command line)`.
    pub(crate) fn processes(&self, word: &str) -> Vec<(u32, String)> {
        let dir = self.dir().to_string_lossy().into_owned();
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let lines = entries.filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let bytes = std::fs::read(entry.path().join("cmdline")).ok()?;
            Some((pid, String::from_utf8_lossy(&bytes).replace('\0', " ")))
        });
        lines
            .filter(|(_, line)| line.contains(&dir) && line.contains(word))
            .collect()
    }

    /// `spur dev down`.
    pub(crate) fn down(mut self) -> Result<()> {
        self.up = false;
        let result = sh::run(&mut self.dev("down", &[]));
        ensure!(
            result.is_ok(),
            "dev down failed; the logs were in {}",
            self.dir().display()
        );
        Ok(())
    }

    fn dev(&self, verb: &str, args: &[&str]) -> Command {
        let mut command = Command::new(self.bins.join("spur"));
        command
            .args(["dev", verb, "--dir"])
            .arg(self.dir())
            .args(args);
        command
    }

    fn show_logs(&self) {
        for entry in std::fs::read_dir(self.dir().join("log"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            let tail: Vec<&str> = text.lines().rev().take(10).collect();
            println!("--- {}", entry.path().display());
            tail.into_iter().rev().for_each(|line| println!("{line}"));
        }
    }
}

impl Drop for DevCluster {
    fn drop(&mut self) {
        if self.up {
            // Already failing: the first error is the one to report.
            self.dev("down", &[]).status().ok();
        }
    }
}
