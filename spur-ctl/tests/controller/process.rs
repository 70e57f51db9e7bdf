//! Starting, killing and asking a controller.

use spur_core::api::{JobFilter, JobView, Refusal, Reply, Request};
use spur_core::id::{Gid, JobId, Uid};
use spur_core::job::spec::{JobKind, JobSpec, Owner, Payload};
use spur_core::job::state::JobState;
use spur_core::job::step::StepSpec;
use spur_core::resources::{GpuCount, MemoryRequest};
use spur_core::time::TimeLimit;
use spur_proto::client::{CallError, Client};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a test waits for anything that must come: generous, since machines are slow; never a measure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The token of every test cluster.
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A folder with a configuration, and the controller that runs on it, if one does.
pub(crate) struct Controller {
    _folder: Option<tempfile::TempDir>,
    pub(crate) dir: PathBuf,
    child: Option<Child>,
}

impl Controller {
    /// A controller in a new folder.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut controller = Self::prepare(folder.path(), &folder.path().join("state"), "");
        controller._folder = Some(folder);
        controller.run();
        controller
    }

    /// Writes the configuration.
    pub(crate) fn prepare(dir: &Path, state: &Path, more: &str) -> Self {
        let token = dir.join("token");
        std::fs::write(&token, TOKEN).unwrap();
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        let config = format!(
            "cluster = \"test\"\nstate_dir = {:?}\nclient_socket = {:?}\nagent_socket = {:?}\ntoken_file = {:?}\n\
             operators = [\"daemon\"]\n{more}\n[[partition]]\nname = \"gpu\"\ndefault = true\n\
             [[partition]]\nname = \"other\"\nnodes = \"m[1-2]\"\n",
            state,
            dir.join("client.sock"),
            dir.join("agent.sock"),
            token
        );
        std::fs::write(dir.join("spur.toml"), config).unwrap();
        Self {
            _folder: None,
            dir: dir.to_owned(),
            child: None,
        }
    }

    /// The command line of a controller on this folder.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spurctld"));
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.dir.join("log"))
            .unwrap();
        command
            .arg("--config")
            .arg(self.dir.join("spur.toml"))
            .stderr(log);
        command
    }

    /// Starts it and waits until it takes calls.
    pub(crate) fn run(&mut self) {
        let command = self.command();
        self.spawn(command);
    }

    /// Starts this command and waits until it takes calls.
    pub(crate) fn spawn(&mut self, mut command: Command) {
        assert!(self.child.is_none(), "it runs already");
        let mut child = command.spawn().unwrap();
        let deadline = Instant::now() + PATIENCE;
        while std::os::unix::net::UnixStream::connect(self.dir.join("client.sock")).is_err() {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("the controller ended with {status}: {}", self.log());
            }
            assert!(
                Instant::now() < deadline,
                "the controller does not come up: {}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        self.child = Some(child);
    }

    /// What it wrote to its log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// SIGTERM, and its exit status.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        let mut child = self.child.take().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        child.wait().unwrap()
    }

    pub(crate) fn address(&self) -> String {
        format!("unix:{}", self.dir.join("client.sock").display())
    }

    /// A connection of the present user (root).
    pub(crate) async fn client(&self) -> Asker {
        Asker(Client::connect(&self.address()).await.unwrap())
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

/// A client with the calls that tests make.
#[derive(Clone)]
pub(crate) struct Asker(pub(crate) Client);

impl Asker {
    pub(crate) async fn ask(&self, request: &Request) -> Result<Reply, Refusal> {
        match self.0.call(request).await {
            Ok(reply) => Ok(reply),
            Err(CallError::Refused(refusal)) => Err(refusal),
            Err(broken) => panic!("{broken}"),
        }
    }

    pub(crate) async fn submit(&self, spec: JobSpec) -> Result<JobId, Refusal> {
        let payload = (spec.kind == JobKind::Batch).then(script);
        match self
            .ask(&Request::Submit {
                spec: Box::new(spec),
                payload,
            })
            .await?
        {
            Reply::Submitted { job, .. } => Ok(job),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn jobs(&self, filter: JobFilter) -> Vec<Arc<JobView>> {
        match self.ask(&Request::Jobs { filter }).await.unwrap() {
            Reply::Jobs(jobs) => jobs,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn all(&self) -> Vec<Arc<JobView>> {
        self.jobs(JobFilter {
            all_states: true,
            ..JobFilter::default()
        })
        .await
    }

    pub(crate) async fn job(&self, job: JobId) -> Arc<JobView> {
        let filter = JobFilter {
            ids: vec![job],
            all_states: true,
            ..JobFilter::default()
        };
        self.jobs(filter).await.remove(0)
    }

    /// Waits for a level, not an edge.
    pub(crate) async fn job_until(
        &self,
        job: JobId,
        what: &str,
        holds: impl Fn(&JobView) -> bool,
    ) -> Arc<JobView> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let view = self.job(job).await;
            if holds(&view) {
                return view;
            }
            assert!(
                Instant::now() < deadline,
                "job {job} never came to: {what}: {view:#?}"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn state_until(&self, job: JobId, state: JobState) -> Arc<JobView> {
        self.job_until(job, &format!("{state:?}"), |view| view.state == state)
            .await
    }

    pub(crate) async fn cancel(&self, job: JobId) -> Option<Refusal> {
        let filter = JobFilter {
            ids: vec![job],
            ..JobFilter::default()
        };
        let cancel = Request::Cancel {
            filter,
            signal: None,
            batch_only: false,
            step: None,
            children: false,
        };
        match self.ask(&cancel).await.unwrap() {
            Reply::PerJob(mut outcomes) => outcomes.remove(0).1,
            other => panic!("{other:?}"),
        }
    }
}

/// A small script.
pub(crate) fn script() -> Payload {
    Payload {
        script: b"#!/bin/sh\ntrue\n".to_vec(),
        args: vec!["a b".into()],
        env: vec!["HOME=/root".into()],
        umask: 0o22,
        rlimits: vec![(7, 1024)],
    }
}

/// A job of one task that asks for this many GPUs.
pub(crate) fn spec(kind: JobKind, gpus: u32) -> JobSpec {
    JobSpec {
        kind,
        owner: Owner {
            uid: Uid(12_345),
            gid: Gid(12_345),
            groups: vec![],
            user: "liar".into(),
            group: "liar".into(),
            home: "/".into(),
            shell: "/bin/sh".into(),
        },
        name: "test".into(),
        memory: MemoryRequest::PerNode(10),
        gpus_per_node: (gpus > 0).then(|| GpuCount {
            model: String::new(),
            count: gpus,
        }),
        time_limit: Some(TimeLimit::Secs(3600)),
        work_dir: "/tmp".into(),
        command: "/tmp/script".into(),
        submit_host: "here".into(),
        submit_sid: 1,
        ..JobSpec::default()
    }
}

/// A step of one task that takes what the job has.
pub(crate) fn step() -> StepSpec {
    StepSpec {
        name: "true".into(),
        tasks: 0,
        nodes: 0,
        cpus_per_task: 0,
        tasks_per_node: 0,
        gpus_per_node: None,
        gpus_per_task: None,
        nodelist: vec![],
        ..StepSpec::default()
    }
}
