//! Programs that operators configure: run beside the controller, each in a process group of its own and for so long at most.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

/// Where programs look for others: the controller's own environment is nothing to them.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Most bytes of its output that are kept, to be told of when it fails.
const OUTPUT_MAX: usize = 4096;

/// How a program ended.
#[derive(Debug)]
pub enum Outcome {
    /// By itself; with the first bytes of its output.
    Ended(ExitStatus, String),
    /// It was killed, with all that it had started in its group, because it took too long.
    TooLong,
    /// It could not be started.
    NotStarted(io::Error),
}

impl Outcome {
    /// What went wrong, if something did.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        match self {
            Self::Ended(status, _) if status.success() => None,
            Self::Ended(status, output) if output.trim().is_empty() => Some(status.to_string()),
            Self::Ended(status, output) => Some(format!("{status}: {}", output.trim())),
            Self::TooLong => Some("it took too long and was killed".to_owned()),
            Self::NotStarted(why) => Some(format!("it cannot be started: {why}")),
        }
    }
}

/// Runs a program with these arguments and this environment, for so long at most.
pub async fn run(
    path: &Path,
    args: impl IntoIterator<Item = OsString>,
    env: impl IntoIterator<Item = (&str, String)>,
    within: Duration,
) -> Outcome {
    let mut command = Command::new(path);
    command
        .args(args)
        .env_clear()
        .env("PATH", PATH)
        .envs(env)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(why) => return Outcome::NotStarted(why),
    };
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    let mut group = Group(group.and_then(rustix::process::Pid::from_raw));
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let ended = tokio::time::timeout(within, async {
        let (out, err) = tokio::join!(first_bytes(out), first_bytes(err));
        (child.wait().await, out + &err)
    });
    match ended.await {
        Ok((Ok(status), output)) => {
            // What it leaves behind on purpose is its own.
            group.0 = None;
            Outcome::Ended(status, output)
        }
        Ok((Err(why), _)) => Outcome::NotStarted(why),
        Err(_) => {
            drop(group);
            child.wait().await.ok();
            Outcome::TooLong
        }
    }
}

/// A program's process group, which is killed with whoever wanted it to run.
struct Group(Option<rustix::process::Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended just now.
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
        }
    }
}

/// Reads to the end, and keeps the beginning.
async fn first_bytes(stream: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut stream) = stream else {
        return String::new();
    };
    let (mut kept, mut piece) = (Vec::new(), [0; 1024]);
    while let Ok(read @ 1..) = stream.read(&mut piece).await {
        let room = OUTPUT_MAX.saturating_sub(kept.len()).min(read);
        kept.extend_from_slice(&piece[..room]);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn shell(script: &str, within: Duration) -> Outcome {
        let args = ["-c".into(), script.into()];
        run(
            Path::new("/bin/sh"),
            args,
            [("SLURM_JOB_ID", "7".to_owned())],
            within,
        )
        .await
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn a_program_gets_its_environment_and_nothing_else() {
        let ended = shell("env | sort", LONG).await;
        let Outcome::Ended(status, output) = ended else {
            panic!("{ended:?}");
        };
        assert!(status.success());
        let names: Vec<&str> = output
            .lines()
            .filter_map(|line| line.split('=').next())
            .collect();
        assert!(
            names
                .iter()
                .all(|name| ["PATH", "PWD", "SLURM_JOB_ID", "SHLVL", "_", "OLDPWD"].contains(name)),
            "{output}"
        );
        assert!(output.contains("SLURM_JOB_ID=7\n"));
    }

    #[tokio::test]
    async fn what_goes_wrong_is_told() {
        assert_eq!(shell("exit 0", LONG).await.trouble(), None);
        let told = shell("echo no disk >&2; exit 3", LONG).await.trouble();
        assert_eq!(told.as_deref(), Some("exit status: 3: no disk"));
        let missing = run(Path::new("/no/such"), [], [], LONG).await;
        assert!(
            missing
                .trouble()
                .is_some_and(|why| why.starts_with("it cannot be started"))
        );
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_killed_with_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", file.display());
        let hung = shell(&script, Duration::from_secs(2)).await;
        assert!(matches!(hung, Outcome::TooLong), "{hung:?}");
        let pid = std::fs::read_to_string(&file).unwrap();
        let path = format!("/proc/{}/stat", pid.trim());
        let gone = || std::fs::read_to_string(&path).map_or(true, |stat| stat.contains(") Z"));
        for _ in 0..500 {
            if gone() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("process {pid} lives on");
    }

    #[tokio::test]
    async fn much_output_is_read_and_little_is_kept() {
        let ended = shell("head -c 1000000 /dev/zero | tr '\\0' x; exit 1", LONG).await;
        let Outcome::Ended(status, output) = ended else {
            panic!("{ended:?}");
        };
        assert_eq!((status.code(), output.len()), (Some(1), OUTPUT_MAX));
    }
}
