//! Programs of the operator: before and after jobs, and to see whether the node is well. They run as root, outside of every job, each
//! in a process group of its own and for so long at most.

pub mod left;

use crate::stuck;
use rustix::event::{PollFd, PollFlags, Timespec};
use spur_core::agent::order::JobOrder;
use spur_core::slurm::hostlist;
use spur_core::time::TimeLimit;
use std::io::{self, PipeReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Where programs look for others, as the agent's own environment says nothing of use to them.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables of the agent's that programs keep: by them commands find the controller.
const KEPT: [&str; 1] = ["SPUR_CONTROLLER"];

/// Most bytes of a program's output that are kept for whoever asks why it failed.
const OUTPUT_MAX: usize = 1024;

/// How long a program may take to be gone once it has ended or was killed. One that hangs in the kernel takes as long as it likes:
/// nobody waits for that.
const DEATH_WITHIN: Duration = Duration::from_secs(10);

/// Pause between two looks whether it is gone.
const REAP_PAUSE: Duration = Duration::from_millis(10);

/// Most programs that were killed and are still there. With so many, no other is begun.
const UNDYING_MAX: usize = 16;

/// Those programs, to be reaped when they end.
static UNDYING: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// A pipe never holds more (an unprivileged user's limit, `/proc/sys/fs/pipe-max-size`).
const PIPE_MAX: usize = 1 << 20;

/// Why a program did not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The folder of programs cannot be read.
    #[error("cannot list the programs in {folder}: {cause}")]
    List {
        /// The folder.
        folder: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// It cannot be started, or not be waited for.
    #[error("cannot run {path}: {cause}")]
    Run {
        /// The program.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// It says that something is wrong.
    #[error("{path}: {status}{output}")]
    Failed {
        /// The program.
        path: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// The beginning of what it wrote, behind a colon.
        output: String,
    },
    /// It was killed, with what it had started in its group.
    #[error("{path}: it took longer than {secs} seconds{left}")]
    TooLong {
        /// The program.
        path: PathBuf,
        /// How long it may take.
        secs: u64,
        /// That it does not even end by that, and what it hangs on, behind a comma; mostly nothing.
        left: String,
    },
    /// Too many that were killed are still there.
    #[error(
        "{path} is not begun: programs that were killed before do not end; free what they wait for, or restart the machine: {what}"
    )]
    Undying {
        /// The program.
        path: PathBuf,
        /// Which they are, and what they hang on.
        what: String,
    },
}

/// Runs programs one after the other, up to the first that fails. Each may take so many seconds; 0: as long as it likes.
pub fn run_all(programs: &[String], env: &[(&str, String)], secs: u64) -> Result<(), ProgramError> {
    for program in programs {
        for path in paths(program)? {
            run(&path, env, secs)?;
        }
    }
    Ok(())
}

/// The programs that a path means: all in a folder, in order of name, if it ends in `/*`.
fn paths(program: &str) -> Result<Vec<PathBuf>, ProgramError> {
    let Some(folder) = program.strip_suffix("/*") else {
        return Ok(vec![program.into()]);
    };
    let failed = |cause| ProgramError::List {
        folder: folder.into(),
        cause,
    };
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let paths: Result<Vec<PathBuf>, _> = paths.collect();
    let runs = |path: &PathBuf| {
        std::fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let mut paths: Vec<PathBuf> = paths.map_err(failed)?.into_iter().filter(runs).collect();
    paths.sort();
    Ok(paths)
}

/// Runs one program.
fn run(path: &Path, env: &[(&str, String)], secs: u64) -> Result<(), ProgramError> {
    let mut undying = UNDYING.lock().unwrap_or_else(PoisonError::into_inner);
    sweep(path, &mut undying)?;
    drop(undying);
    let begun = begin(path, env).map_err(|cause| ProgramError::Run {
        path: path.into(),
        cause,
    });
    let (child, mut output) = begun?;
    let within = (secs > 0).then(|| Duration::from_secs(secs));
    let ended = wait(&child, &mut output, within);
    conclude(path, (child, output), ended, secs)
}

/// Starts it.
fn begin(path: &Path, env: &[(&str, String)]) -> io::Result<(Child, Output)> {
    let (reader, writer) = io::pipe()?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    let own = KEPT
        .iter()
        .filter_map(|name| Some((*name, std::env::var_os(name)?)));
    let mut command = Command::new(path);
    command
        .env_clear()
        .env("PATH", PATH)
        .envs(own)
        .envs(env.iter().map(|(name, value)| (*name, value)))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .process_group(0);
    // The command holds the pipe's other end: it goes here, before the end of the output is waited for.
    let child = command.spawn()?;
    Ok((child, Output::of(reader, OUTPUT_MAX)))
}

/// What came of it, once it has ended (`true`) or its time is over, or it cannot be waited for. In no case does it run on.
fn conclude(
    path: &Path,
    (mut child, mut output): (Child, Output),
    ended: io::Result<bool>,
    secs: u64,
) -> Result<(), ProgramError> {
    let status = ended.and_then(|ended| match ended {
        true => reap(&mut child, DEATH_WITHIN),
        false => Ok(None),
    });
    let path = path.to_path_buf();
    let status = match status {
        Ok(Some(status)) => status,
        Ok(None) => {
            let left = end(child);
            return Err(ProgramError::TooLong { path, secs, left });
        }
        Err(cause) => {
            let left = end(child);
            tracing::error!(path = %path.display(), %cause, "a program that cannot be waited for was killed{left}");
            return Err(ProgramError::Run { path, cause });
        }
    };
    output.read();
    if status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.kept).trim().to_owned();
    Err(ProgramError::Failed {
        path,
        status,
        output: if text.is_empty() {
            text
        } else {
            format!(": {text}")
        },
    })
}

/// Kills a program with what it started in its group. Says what it hangs on if it does not end.
fn end(mut child: Child) -> String {
    kill_group(&child);
    // An error means that it is no child of ours any more.
    if !matches!(reap(&mut child, DEATH_WITHIN), Ok(None)) {
        return String::new();
    }
    let what = stuck::describe(Path::new("/proc"), [child.id()]);
    let mut undying = UNDYING.lock().unwrap_or_else(PoisonError::into_inner);
    undying.push(child);
    format!(", and it does not end now that it was killed: {what}")
}

/// How it ended, if it does so in time.
fn reap(child: &mut Child, within: Duration) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + within;
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= deadline {
            return Ok(status);
        }
        std::thread::sleep(REAP_PAUSE);
    }
}

/// Reaps what has ended after all, and refuses to begin one more program while too many have not.
fn sweep(path: &Path, undying: &mut Vec<Child>) -> Result<(), ProgramError> {
    undying.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    if undying.len() < UNDYING_MAX {
        return Ok(());
    }
    let pids = undying.iter().map(Child::id);
    Err(ProgramError::Undying {
        path: path.into(),
        what: stuck::describe(Path::new("/proc"), pids),
    })
}

/// What a program writes. Whatever else it started may hold the pipe open for ever: nobody waits for its end.
pub(crate) struct Output {
    pipe: Option<PipeReader>,
    kept: Vec<u8>,
    kept_max: usize,
}

impl Output {
    /// Of a pipe that gives what is there and does not wait: its beginning is kept, the rest is thrown away.
    pub(crate) fn of(pipe: PipeReader, kept_max: usize) -> Self {
        Self {
            pipe: Some(pipe),
            kept: Vec::new(),
            kept_max,
        }
    }

    /// What was kept.
    pub(crate) fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// Reads what is there, but no more than a pipe can hold: somebody may go on writing.
    pub(crate) fn read(&mut self) {
        let (mut piece, mut left) = ([0; 4096], PIPE_MAX);
        while let Some(pipe) = self.pipe.as_mut().filter(|_| left > 0) {
            match pipe.read(&mut piece) {
                Ok(0) => self.pipe = None,
                Ok(read) => {
                    left = left.saturating_sub(read);
                    let room = self.kept_max.saturating_sub(self.kept.len()).min(read);
                    self.kept.extend(piece.iter().take(room));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.pipe = None,
            }
        }
    }
}

/// Waits until the program has ended; whether it did in time.
pub(crate) fn wait(
    child: &Child,
    output: &mut Output,
    within: Option<Duration>,
) -> io::Result<bool> {
    let pid = rustix::process::Pid::from_child(child);
    let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    let deadline = within.map(|within| Instant::now() + within);
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Ok(false);
        }
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = vec![PollFd::new(&pidfd, PollFlags::IN)];
        fds.extend(
            output
                .pipe
                .as_ref()
                .map(|pipe| PollFd::new(pipe, PollFlags::IN)),
        );
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ended = fds.first().is_some_and(|fd| !fd.revents().is_empty());
        drop(fds);
        output.read();
        if ended {
            return Ok(true);
        }
    }
}

fn kill_group(child: &Child) {
    let group = rustix::process::Pid::from_child(child);
    // All of it may have ended just now.
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
}

/// What a program is told of a job by its environment. `context` is Slurm's word for the occasion.
pub fn env(order: &JobOrder, context: &str) -> Vec<(&'static str, String)> {
    let hosts: Vec<&str> = order.nodes.iter().map(|node| node.name.as_str()).collect();
    let end = match order.time_limit {
        TimeLimit::Secs(secs) => (order.started.0 / 1000).saturating_add(secs).to_string(),
        TimeLimit::Unlimited => String::new(),
    };
    let owner = &order.owner;
    let mut env = vec![
        ("SLURM_SCRIPT_CONTEXT", context.to_owned()),
        ("SLURM_CLUSTER_NAME", order.cluster.clone()),
        ("SLURM_JOB_ID", order.job.to_string()),
        ("SLURM_JOBID", order.job.to_string()),
        ("SLURM_JOB_NAME", order.name.clone()),
        ("SLURM_JOB_UID", owner.uid.to_string()),
        ("SLURM_JOB_USER", owner.user.clone()),
        ("SLURM_JOB_GID", owner.gid.to_string()),
        ("SLURM_JOB_GROUP", owner.group.clone()),
        ("SLURM_JOB_ACCOUNT", order.account.clone()),
        ("SLURM_JOB_QOS", order.qos.clone()),
        ("SLURM_JOB_PARTITION", order.partition.clone()),
        ("SLURM_JOB_NODELIST", hostlist::compress(&hosts)),
        ("SLURM_NODELIST", hostlist::compress(&hosts)),
        ("SLURM_JOB_NUM_NODES", hosts.len().to_string()),
        ("SLURM_JOB_WORK_DIR", order.work_dir.clone()),
        ("SLURM_JOB_START_TIME", (order.started.0 / 1000).to_string()),
        ("SLURM_JOB_END_TIME", end),
        ("SLURM_JOB_RESTART_COUNT", order.restarts.to_string()),
        ("SLURM_JOB_LICENSES", order.licenses.clone()),
    ];
    if let Some(here) = order.here() {
        env.push(("SLURMD_NODENAME", here.name.to_string()));
        env.push(("SLURM_NODEID", order.index.to_string()));
        env.push(("SLURM_CPUS_ON_NODE", here.share.cpus.len().to_string()));
        let gpus: Vec<String> = here.share.gpus.iter().map(|gpu| gpu.to_string()).collect();
        if !gpus.is_empty() {
            env.push(("SLURM_JOB_GPUS", gpus.join(",")));
            env.push(("CUDA_VISIBLE_DEVICES", gpus.join(",")));
        }
    }
    if let Some(array) = &order.array {
        env.push(("SLURM_ARRAY_JOB_ID", array.job.to_string()));
        env.push(("SLURM_ARRAY_TASK_ID", array.task.to_string()));
    }
    env.retain(|(_, value)| !value.is_empty());
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(folder: &Path, name: &str, script: &str) -> String {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// What is told of a program with this script; nothing if all is well.
    fn told(script: &str, secs: u64) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = program(folder.path(), "p", script);
        let env = [("SLURM_JOB_ID", "7".to_owned())];
        let said = run_all(std::slice::from_ref(&path), &env, secs);
        said.err()
            .map(|error| error.to_string().replace(&path, "P"))
    }

    #[test]
    fn what_a_program_says_counts() {
        assert_eq!(told("exit 0", 0), None);
        assert_eq!(told("test $SLURM_JOB_ID = 7 && test $(pwd) = /", 60), None);
        assert_eq!(
            told("echo no disk; exit 3", 60),
            Some("P: exit status: 3: no disk".to_owned())
        );
        assert_eq!(
            told("kill -9 $$", 60),
            Some("P: signal: 9 (SIGKILL)".to_owned())
        );
        let missing = run_all(&["/no/such".to_owned()], &[], 0).unwrap_err();
        assert!(
            missing.to_string().starts_with("cannot run /no/such"),
            "{missing}"
        );
    }

    #[test]
    fn much_output_and_what_is_left_behind_hold_nothing_up() {
        let much = told("head -c 1000000 /dev/zero | tr '\\0' x; exit 1", 0).unwrap();
        assert!(much.len() < OUTPUT_MAX + 100, "{}", much.len());
        assert_eq!(told("sleep 30 & exit 0", 0), None);
        // Nobody reads what it writes once its parent has ended, which ends it.
        assert_eq!(told("yes & exit 0", 0), None);
    }

    #[test]
    fn a_program_that_takes_too_long_is_killed_with_its_group() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", pid.display());
        let said = told(&script, 1);
        assert_eq!(said, Some("P: it took longer than 1 seconds".to_owned()));
        await_death(&std::fs::read_to_string(&pid).unwrap());
    }

    fn await_death(pid: &str) {
        let stat = format!("/proc/{}/stat", pid.trim());
        let dead = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z"));
        until(&format!("{pid} is dead"), dead);
    }

    fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_so() {
            assert!(Instant::now() < end, "waited in vain until {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_program_that_cannot_be_waited_for_is_killed_with_its_group_and_reaped() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", pid.display());
        let path = PathBuf::from(program(folder.path(), "p", &script));
        let begun = begin(&path, &[]).unwrap();
        let own = begun.0.id();
        let text = || std::fs::read_to_string(&pid).unwrap_or_default();
        until("it runs", || text().ends_with('\n'));
        let error = Err(io::Error::from(rustix::io::Errno::MFILE));
        let said = conclude(&path, begun, error, 0).unwrap_err().to_string();
        assert!(said.ends_with("(os error 24)"), "{said}");
        await_death(&text());
        assert!(!Path::new(&format!("/proc/{own}")).exists(), "not reaped");
    }

    #[test]
    fn what_does_not_die_is_not_waited_for_and_at_last_nothing_more_is_begun() {
        let sleep = || Command::new("sleep").arg("600").spawn().unwrap();
        let mut undying: Vec<Child> = (0..UNDYING_MAX).map(|_| sleep()).collect();
        let waited = reap(&mut undying[0], Duration::from_millis(30)).unwrap();
        assert_eq!(waited, None);
        let path = Path::new("/p");
        let said = sweep(path, &mut undying).unwrap_err().to_string();
        assert!(said.contains("/p is not begun") && said.contains("(sleep 600)"));
        undying[3].kill().unwrap();
        until("one is gone", || sweep(path, &mut undying).is_ok());
        assert_eq!(undying.len(), UNDYING_MAX - 1);
        for child in &mut undying {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_folder_means_its_programs_in_order_up_to_one_that_fails() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let says = |word: &str, code: u8| format!("echo {word} >> {}; exit {code}", out.display());
        let programs = folder.path().join("d");
        std::fs::create_dir(&programs).unwrap();
        for (name, code) in [("20-b", 0), ("10-a", 0), ("30-c", 1), ("40-d", 0)] {
            program(&programs, name, &says(name, code));
        }
        std::fs::write(programs.join("README"), "no program").unwrap();
        let all = format!("{}/*", programs.display());
        let failed = run_all(&[all], &[], 60).unwrap_err();
        assert!(failed.to_string().contains("30-c"), "{failed}");
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "10-a\n20-b\n30-c\n");
        let none = run_all(&["/no/such/*".to_owned()], &[], 60);
        assert!(none.is_err());
    }
}
