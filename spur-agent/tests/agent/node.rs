//! A node for tests: its folder, its agent, and the end of both.

use super::controller::{Controller, SOON};
use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The secret of test clusters.
pub const TOKEN: &[u8] = b"0123456789abcdef0123456789abcdef";

/// Stand-ins of each node.
pub const GPUS: u32 = 8;

/// The program under test.
pub const SPURD: &str = env!("CARGO_BIN_EXE_spurd");

/// Whether these tests can run here; says so when not.
pub fn possible() -> bool {
    let root = rustix::process::geteuid().is_root();
    let cgroup2 = spur_agent::cgroup::Root::mount().is_ok();
    if !root || !cgroup2 {
        eprintln!(
            "skipped: needs root (have it: {root}) and a cgroup v2 tree (have it: {cgroup2})"
        );
    }
    root && cgroup2
}

/// A node with an agent and a controller.
pub struct Node {
    pub dir: tempfile::TempDir,
    pub controller: Controller,
    bpffs: PathBuf,
    /// The agent that is started.
    pub program: PathBuf,
    agent: Option<Child>,
    name: String,
    welcomes: usize,
}

impl Node {
    /// Starts both and welcomes the agent. `more` is added to the configuration.
    pub fn start(more: &str) -> Self {
        Self::start_at(more, None)
    }

    /// The same, with the BPF file system in another place.
    pub fn start_at(more: &str, bpffs: Option<&Path>) -> Self {
        Self::start_program(more, bpffs, SPURD.as_ref())
    }

    /// The same, with another build of the agent.
    pub fn start_program(more: &str, bpffs: Option<&Path>, program: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let dir = tempfile::Builder::new()
            .prefix("spurd-test-")
            .tempdir()
            .unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let name = format!(
            "spurd-test-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let out = dir.path().join("out");
        std::fs::create_dir(&out).unwrap();
        std::fs::set_permissions(&out, std::fs::Permissions::from_mode(0o777)).unwrap();
        std::fs::write(dir.path().join("token"), TOKEN).unwrap();
        std::fs::set_permissions(
            dir.path().join("token"),
            std::fs::Permissions::from_mode(0o600),
        )
        .unwrap();
        let controller = Controller::new(&dir.path().join("agents.sock"));
        let bpffs = bpffs.map_or_else(|| dir.path().join("bpf"), Path::to_owned);
        let mut node = Self {
            dir,
            controller,
            bpffs,
            program: program.to_owned(),
            agent: None,
            name,
            welcomes: 0,
        };
        node.configure(more);
        node.start_agent();
        node.controller.welcome();
        node
    }

    /// Writes the configuration anew, for the next agent.
    pub fn configure(&self, more: &str) {
        let at = self.dir.path().display();
        // Device numbers of its own, so that tests can run beside each other.
        let minor = (std::process::id() % 60_000) * 16;
        let mut text = String::new();
        write!(
            text,
            "cluster = \"test\"\nnode = \"n1\"\nstate_dir = \"{at}/state\"\nsocket = \"{at}/spurd.sock\"\n\
             controller = \"unix:{at}/agents.sock\"\ntoken_file = \"{at}/token\"\ncgroup = \"{name}\"\n\
             bpffs = \"{bpffs}\"\npins = \"{name}\"\nkill_wait = 1\n{more}\n\
             [declare]\ncpus = 8\nmemory_mib = 8192\n[[declare.gpus]]\nmodel = \"h200\"\ncount = {GPUS}\n\
             dev_dir = \"{at}/dev\"\nmajor = 121\nminor = {minor}\n",
            name = self.name,
            bpffs = self.bpffs.display()
        )
        .unwrap();
        std::fs::write(self.dir.path().join("spurd.toml"), text).unwrap();
    }

    /// Starts the agent and waits for its Hello.
    pub fn start_agent(&mut self) {
        let log = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.dir.path().join("log"))
            .unwrap();
        let mut command = Command::new(&self.program);
        command
            .arg("--config")
            .arg(self.dir.path().join("spurd.toml"))
            .env("RUST_LOG", "debug,h2=info");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.agent = Some(command.spawn().unwrap());
        self.welcomes += 1;
        self.controller.hello(self.welcomes);
    }

    /// The agent's process id.
    pub fn agent_pid(&self) -> u32 {
        self.agent.as_ref().unwrap().id()
    }

    /// `kill -9` of the agent.
    pub fn kill_agent(&mut self) {
        let mut agent = self.agent.take().unwrap();
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    /// Asks the agent to stop, and waits for that.
    pub fn stop_agent(&mut self) {
        let mut agent = self.agent.take().unwrap();
        let pid = rustix::process::Pid::from_child(&agent);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(agent.wait().unwrap().success());
    }

    /// A file that jobs may write.
    pub fn out(&self, name: &str) -> PathBuf {
        self.dir.path().join("out").join(name)
    }

    /// Waits until a job's file holds a whole line, and gives its text.
    pub fn text(&self, name: &str) -> String {
        wait(&format!("{name} is written\n{}", self.log()), || {
            let text = std::fs::read_to_string(self.out(name)).unwrap_or_default();
            text.ends_with('\n').then_some(text)
        })
    }

    /// Path of a stand-in.
    pub fn device(&self, number: u32) -> String {
        self.dir
            .path()
            .join(format!("dev/gpu{number}"))
            .display()
            .to_string()
    }

    /// Shell code that says on one line which stand-ins can be opened, such as `0 1`.
    pub fn try_all(&self, file: &str) -> String {
        let file = self.out(file);
        let dev = self.dir.path().join("dev");
        format!(
            "ok=; for n in 0 1 2 3 4 5 6 7; do case $( {{ : < {dev}/gpu$n; }} 2>&1 ) in *'not permitted'*) ;; *) ok=\"$ok $n\";; esac; done\n\
             echo $ok > {file}.new; mv {file}.new {file}\n",
            dev = dev.display(),
            file = file.display()
        )
    }

    /// The agent's folder of pins.
    pub fn pins(&self) -> PathBuf {
        self.bpffs.join(&self.name)
    }

    /// The cgroup of a job.
    pub fn job_cgroup(&self, job: u32) -> PathBuf {
        spur_agent::cgroup::Root::mount()
            .unwrap()
            .join(&self.name)
            .join(format!("job_{job}"))
    }

    /// The folder of a step's supervisor.
    pub fn step_dir(&self, step: &str) -> PathBuf {
        self.dir.path().join("state/steps").join(step)
    }

    /// Whether anything of a job is left: cgroup, pins, step folders.
    pub fn traces(&self, job: u32) -> Vec<PathBuf> {
        let pins = spur_ebpf::links_folder(&self.pins());
        let steps = self.dir.path().join("state/steps");
        let mut found: Vec<PathBuf> = [self.job_cgroup(job)]
            .into_iter()
            .filter(|path| path.exists())
            .collect();
        for (folder, prefix) in [(pins, format!("job_{job}")), (steps, format!("{job}."))] {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            found.extend(
                entries
                    .filter(|e| e.file_name().to_string_lossy().starts_with(&prefix))
                    .map(|e| e.path()),
            );
        }
        found
    }

    /// Processes of a job.
    pub fn procs(&self, job: u32) -> Vec<i32> {
        let root = spur_agent::cgroup::Cgroup::open(self.job_cgroup(job)).unwrap();
        root.map(|cgroup| cgroup.procs().unwrap())
            .unwrap_or_default()
    }

    /// What the agent logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Runs `spurd COMMAND` with this node's configuration.
    pub fn spurd(&self, command: &str) -> std::process::Output {
        Command::new(SPURD)
            .arg(command)
            .arg("--config")
            .arg(self.dir.path().join("spurd.toml"))
            .output()
            .unwrap()
    }

    /// Ends everything and checks that nothing is left.
    pub fn finish(mut self) {
        if self.agent.is_some() {
            self.kill_agent();
        }
        let output = self.spurd("leftovers");
        assert!(output.status.success(), "{output:?}");
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(
            !mounts.contains(&*self.dir.path().to_string_lossy()),
            "a mount is left: {mounts}"
        );
        assert!(
            !self.job_cgroup(1).parent().unwrap().exists(),
            "a cgroup is left"
        );
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
        if let Some(agent) = &mut self.agent {
            agent.kill().ok();
            agent.wait().ok();
        }
        self.spurd("leftovers");
    }
}

/// Waits until `look` finds something.
pub fn wait<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let end = Instant::now() + SOON;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
