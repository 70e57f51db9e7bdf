//! A job's cgroup, a state folder, and ways to run a step in them.

use rustix::event::{PollFd, PollFlags, Timespec};
use spur_agent::cgroup::{Cgroup, Root};
use spur_agent::launch::{
    EndReason, ExitRecord, Input, Launcher, Output, StdinTo, Stdio, StepLaunch, Supervisor,
    TaskLaunch, exit_record, step_dir,
};
use spur_core::id::{Gid, JobId, StepId, StepKind, Uid};
use spur_core::job::spec::Owner;
use spur_proto::frame::{read_frame, write_frame};
use spur_proto::wire::{FromStep, TaskExit, ToStep, from_step, to_step};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// An ordinary user that no user database needs to know.
pub const UID: u32 = 54_321;
pub const GID: u32 = 54_322;
pub const GROUP: u32 = 54_323;

/// A deadline that only a hang can miss.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Bench {
    root: Root,
    pub job: Cgroup,
    pub state: tempfile::TempDir,
    next: AtomicU32,
}

impl Bench {
    pub fn new() -> Self {
        let name = std::thread::current()
            .name()
            .unwrap_or_default()
            .replace("::", "-");
        let root = Root::open(&format!("spur-test-{}-{name}", std::process::id())).unwrap();
        let job = root.create_job(JobId(7)).unwrap();
        let state = tempfile::tempdir().unwrap();
        std::fs::set_permissions(state.path(), PermissionsExt::from_mode(0o711)).unwrap();
        Self {
            root,
            job,
            state,
            next: AtomicU32::new(0),
        }
    }

    pub fn launcher(&self) -> Launcher {
        Launcher {
            program: env!("CARGO_BIN_EXE_spurd").into(),
            // As the agent has it; every other one without, so that both ways are gone.
            starter: self
                .next
                .load(Ordering::Relaxed)
                .is_multiple_of(2)
                .then(Default::default),
        }
    }

    /// A step of one task that runs a shell command as the test's user, streams on.
    pub fn sh(&self, command: &str) -> StepLaunch {
        let step = StepId {
            job: JobId(7),
            step: StepKind::Numbered(self.next.fetch_add(1, Ordering::Relaxed)),
        };
        StepLaunch {
            step,
            node: "n1".into(),
            node_index: 0,
            job_name: "test".into(),
            cgroup: self.job.step(step.step).unwrap().path().into(),
            canary: None,
            owner: owner(UID, GID, &[GID, GROUP]),
            umask: 0o027,
            rlimits: Vec::new(),
            work_dir: "/tmp".into(),
            stdio: Stdio {
                stdin: Input::Null,
                stdout: Output::Stream,
                stderr: Output::Stream,
            },
            script: None,
            env: vec![bytes("PATH=/usr/bin:/bin"), bytes("SHARED=step")],
            tasks: vec![task(0, &["sh", "-c", command])],
            kill_on_bad_exit: false,
            time_limit: 0,
            kill_wait: 30,
            client_early: serde_bytes::ByteBuf::new(),
            fenced: Vec::new(),
            terminal: None,
            hooks: spur_agent::launch::Hooks::default(),
            agent: None,
            array: None,
            mpi: None,
        }
    }

    /// A folder that the test's user may write to.
    pub fn user_dir(&self) -> PathBuf {
        let dir = self.state.path().join("user");
        std::fs::create_dir_all(&dir).unwrap();
        std::os::unix::fs::chown(&dir, Some(UID), Some(GID)).unwrap();
        dir
    }

    pub fn dir(&self, spec: &StepLaunch) -> PathBuf {
        step_dir(self.state.path(), spec.step)
    }

    pub fn start(&self, spec: &StepLaunch, client: Option<OwnedFd>) -> Supervisor {
        self.launcher()
            .start(spec, &self.dir(spec), client)
            .unwrap()
    }

    /// Starts a step with a client.
    pub fn connect(&self, spec: &StepLaunch) -> Client {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let supervisor = self.start(spec, Some(theirs.into()));
        Client {
            socket: Some(ours),
            supervisor,
            dir: self.dir(spec),
        }
    }

    /// Runs a step with a client to its end.
    pub fn run(&self, spec: &StepLaunch) -> Heard {
        let heard = self.connect(spec).finish();
        println!("{:?}", heard.record);
        heard
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if let Some(job) = self.root.job(JobId(7)).unwrap() {
            job.kill().unwrap();
            assert!(job.wait_empty(PATIENCE).unwrap());
            job.remove().unwrap();
        }
        self.root.remove().unwrap();
    }
}

pub fn owner(uid: u32, gid: u32, groups: &[u32]) -> Owner {
    Owner {
        uid: Uid(uid),
        gid: Gid(gid),
        groups: groups.iter().map(|g| Gid(*g)).collect(),
        user: "tester".into(),
        group: "testers".into(),
        home: "/".into(),
        shell: "/bin/sh".into(),
    }
}

pub fn bytes(text: &str) -> serde_bytes::ByteBuf {
    serde_bytes::ByteBuf::from(text.as_bytes())
}

pub fn task(id: u32, argv: &[&str]) -> TaskLaunch {
    let argv = argv.iter().map(|arg| bytes(arg)).collect();
    TaskLaunch {
        id,
        argv,
        env: vec![bytes(&format!("SLURM_PROCID={id}"))],
        cpus: Vec::new(),
        told: Default::default(),
    }
}

/// `n` tasks that run the same command.
pub fn tasks(n: u32, command: &str) -> Vec<TaskLaunch> {
    (0..n).map(|id| task(id, &["sh", "-c", command])).collect()
}

pub fn stdin_all(spec: &mut StepLaunch) {
    spec.stdio.stdin = Input::Stream(StdinTo::All);
}

/// What a client heard until the connection closed, and the exit record.
#[derive(Debug, Default)]
pub struct Heard {
    pub started: usize,
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub exits: Vec<TaskExit>,
    pub errors: Vec<spur_proto::wire::StepError>,
    pub ended: Option<spur_proto::wire::Ended>,
    pub record: ExitRecord,
    /// Bytes that passed by.
    pub skipped: u64,
}

impl Heard {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    pub fn take(&mut self, kind: from_step::Kind) {
        assert!(self.ended.is_none(), "{kind:?} came after the end");
        match kind {
            from_step::Kind::Started(started) => self.started = started.pids.len(),
            from_step::Kind::Output(out) => {
                let told = self.exits.iter().any(|exit| exit.task == out.task);
                assert!(
                    !told,
                    "output of task {} came after its exit: {out:?}",
                    out.task
                );
                if out.stderr {
                    self.stderr
                        .push_str(std::str::from_utf8(&out.data).unwrap());
                } else {
                    self.stdout.extend(out.data);
                }
            }
            from_step::Kind::Exit(exit) => self.exits.push(exit),
            from_step::Kind::Error(error) => self.errors.push(error),
            from_step::Kind::Skipped(skipped) => self.skipped += skipped.bytes,
            from_step::Kind::Ended(ended) => self.ended = Some(ended),
            from_step::Kind::Exchange(_)
            | from_step::Kind::Abort(_)
            | from_step::Kind::Name(_)
            | from_step::Kind::Taken(_)
            | from_step::Kind::Pmix(_) => panic!("nobody asked for MPI"),
        }
    }
}

pub struct Client {
    pub socket: Option<UnixStream>,
    pub supervisor: Supervisor,
    pub dir: PathBuf,
}

impl Client {
    pub fn send(&self, kind: to_step::Kind) {
        let mut socket = self.socket.as_ref().unwrap();
        write_frame(&mut socket, &ToStep { kind: Some(kind) }).unwrap();
    }

    pub fn receive(&self) -> Option<from_step::Kind> {
        let mut socket = self.socket.as_ref().unwrap();
        read_frame::<FromStep>(&mut socket)
            .unwrap()
            .map(|message| message.kind.unwrap())
    }

    /// Reads until standard output has this text.
    pub fn read_until(&self, text: &str) -> Heard {
        let mut heard = Heard::default();
        while !String::from_utf8_lossy(&heard.stdout).contains(text) {
            heard.take(self.receive().expect("the stream ended early"));
        }
        heard
    }

    pub fn finish(self) -> Heard {
        let mut heard = Heard::default();
        while let Some(kind) = self.receive() {
            heard.take(kind);
        }
        heard.record = wait(&self.supervisor);
        heard
    }
}

/// Waits until the supervisor is gone and gives its record.
pub fn wait(supervisor: &Supervisor) -> ExitRecord {
    wait_gone(supervisor);
    let record = exit_record(supervisor.dir()).unwrap();
    record.unwrap_or_else(|| panic!("no record; log: {}", log(supervisor)))
}

pub fn log(supervisor: &Supervisor) -> String {
    std::fs::read_to_string(supervisor.dir().join("log")).unwrap()
}

pub fn wait_gone(supervisor: &Supervisor) {
    let deadline = Instant::now() + PATIENCE;
    while !supervisor.reap().unwrap() {
        let left = deadline.saturating_duration_since(Instant::now());
        assert!(
            !left.is_zero(),
            "the supervisor does not end; log: {}",
            log(supervisor)
        );
        let pidfd = supervisor.pidfd();
        let mut fds = [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&Timespec::try_from(left).unwrap())).unwrap();
    }
}

pub fn cancel(supervisor: &Supervisor, grace: Duration) {
    supervisor.end(grace, EndReason::Cancelled).unwrap();
}

/// Waits until `done` says so; for what the kernel tells by no event.
pub fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
