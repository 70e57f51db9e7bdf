//! A controller and one agent, configured by hand as an administrator would, with whatever hardware the machine has.

use crate::cluster::SOON;
use crate::user::{self, Output, User};
use crate::{host, probe, procs, wait};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The two daemons; killed when dropped.
pub struct Daemons {
    dir: TempDir,
    controller: Child,
    agent: Child,
}

impl Daemons {
    /// Starts both and waits until the node is idle. `declare` is the agent's `[declare]` table, or empty.
    pub fn start(declare: &str) -> Self {
        Self::start_prepared(declare, |_| {})
    }

    /// As [`Self::start`], after `prepare` has been given the folder; the controller keeps its log below `ctl`.
    pub fn start_prepared(declare: &str, prepare: impl FnOnce(&Path)) -> Self {
        let daemons = Self::launch(declare, prepare);
        daemons.await_idle();
        daemons
    }

    /// As [`Self::start`], for a node that may never be idle: does not wait.
    pub fn start_unready() -> Self {
        Self::launch("", |_| {})
    }

    fn launch(declare: &str, prepare: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("spur-hand-")
            .tempdir()
            .expect("a folder");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))
            .expect("users may enter");
        configure(dir.path(), declare);
        link_commands(dir.path());
        prepare(dir.path());
        let controller = spawn(dir.path(), "spurctld");
        let agent = spawn(dir.path(), "spurd");
        Self {
            dir,
            controller,
            agent,
        }
    }

    /// Their folder.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The agent's process.
    pub fn agent_pid(&self) -> i32 {
        i32::try_from(self.agent.id()).expect("pids fit")
    }

    /// `kill -9` of the agent.
    pub fn kill_agent(&mut self) {
        self.agent.kill().expect("the agent can be killed");
        self.agent.wait().expect("and waited for");
    }

    /// Starts the agent again.
    pub fn start_agent(&mut self) {
        self.agent = spawn(self.dir.path(), "spurd");
    }

    /// `kill -9` of the controller, and a new one.
    pub fn replace_controller(&mut self) {
        self.controller
            .kill()
            .expect("the controller can be killed");
        self.controller.wait().expect("and waited for");
        self.controller = spawn(self.dir.path(), "spurctld");
    }

    /// Waits until the node takes jobs and runs none.
    pub fn await_idle(&self) {
        // The logs are shown by whoever drops us, if it is in vain.
        wait::until_true("the node is idle", SOON, || {
            let shown = self.run(User::Root, &["sinfo", "-h", "-o", "%T"]);
            shown.code == 0 && shown.out.trim() == "idle"
        });
    }

    /// A command as this user, in a folder of this user's.
    pub fn spawn(&self, user: User, args: &[impl AsRef<OsStr>]) -> Child {
        let mut command = user::command(user, args);
        let socket = self.dir().join("ctl.sock");
        command.env("SPUR_CONTROLLER", format!("unix:{}", socket.display()));
        command
            .env("PATH", path(self.dir()))
            .current_dir(self.home(user));
        command.spawn().expect("timeout(1) is installed")
    }

    /// Runs a command to its end.
    pub fn run(&self, user: User, args: &[impl AsRef<OsStr>]) -> Output {
        Output::of(self.spawn(user, args))
    }

    /// A folder of the user's own.
    pub fn home(&self, user: User) -> PathBuf {
        let home = self.dir().join(format!("home-{}", user.id()));
        fs::create_dir_all(&home).expect("a folder");
        chown(&home, Some(user.id()), Some(user.id())).expect("root may give it away");
        home
    }

    /// The hostile program.
    pub fn probe(&self) -> String {
        let path = self.dir().join("probe");
        let path = if path.exists() {
            path
        } else {
            probe::install(self.dir())
        };
        path.to_str().expect("a plain name").to_owned()
    }

    /// Submits a command line and returns the job's number.
    pub fn wrap(&self, user: User, options: &[&str], line: &str) -> String {
        let mut args = vec!["sbatch", "--parsable"];
        args.extend(options);
        args.extend(["--wrap", line]);
        self.run(user, &args).good().trim().to_owned()
    }

    /// A field of `scontrol show job`.
    pub fn job_field(&self, job: &str, field: &str) -> Option<String> {
        let shown = self.run(User::Root, &["scontrol", "show", "job", job]).out;
        let prefix = format!("{field}=");
        shown
            .split_whitespace()
            .find_map(|word| word.strip_prefix(&prefix))
            .map(str::to_owned)
    }

    /// Waits until the job's state is this one.
    pub fn await_state(&self, job: &str, state: &str) {
        let what = format!("job {job} becomes {state}");
        wait::until_true(&what, SOON, || {
            self.job_field(job, "JobState").as_deref() == Some(state)
        });
    }

    /// What both daemons wrote.
    pub fn logs(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.dir().join(name)).unwrap_or_default();
        format!(
            "--- spurctld\n{}--- spurd\n{}",
            read("spurctld.log"),
            read("spurd.log")
        )
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        for child in [&mut self.agent, &mut self.controller] {
            // Dead already is as good.
            child.kill().ok();
            child.wait().ok();
        }
        let dir = self.dir.path().to_string_lossy().into_owned();
        for process in procs::mentioning(&dir) {
            process.kill();
        }
        for mount in host::mounts()
            .iter()
            .rev()
            .filter(|mount| mount.at.starts_with(&dir))
        {
            rustix::mount::unmount(mount.at.as_str(), rustix::mount::UnmountFlags::DETACH).ok();
        }
        if let Some(root) = host::cgroup2() {
            let config = fs::read_to_string(self.dir.path().join("spurd.toml")).unwrap_or_default();
            let folder = config
                .lines()
                .find_map(|line| line.strip_prefix("cgroup = "));
            if let Some(folder) = folder
                .map(|folder| folder.trim_matches('"'))
                .filter(|folder| !folder.is_empty())
            {
                remove_cgroups(&root.join(folder));
            }
        }
    }
}

/// The agent's folder in the tree of control groups.
fn cgroup() -> String {
    format!("spur-hand-{}", std::process::id())
}

/// Ends whatever is left in a cgroup and those below, and removes them.
fn remove_cgroups(dir: &Path) {
    // Kernels before 5.14 have no such file; what is left there mentions the folder and was killed above.
    fs::write(dir.join("cgroup.kill"), "1").ok();
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    for below in entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
    {
        remove_cgroups(&below);
    }
    let gone = || fs::remove_dir(dir).is_ok() || !dir.exists();
    wait::until_true(&format!("{} can be removed", dir.display()), SOON, gone);
}

/// Where the commands are, and a shell's tools.
fn path(dir: &Path) -> String {
    format!("{}:/usr/bin:/bin", dir.join("bin").display())
}

/// The names that `spur` goes by.
const COMMANDS: [&str; 11] = [
    "spur", "srun", "sbatch", "salloc", "squeue", "sinfo", "scancel", "scontrol", "sacct", "sstat",
    "seff",
];

fn link_commands(dir: &Path) {
    let bin = dir.join("bin");
    fs::create_dir(&bin).expect("a folder");
    for name in COMMANDS {
        symlink(host::bins().join("spur"), bin.join(name)).expect("a link can be made");
    }
}

fn configure(dir: &Path, declare: &str) {
    let (at, cgroup) = (dir.display(), cgroup());
    let controller = format!(
        "cluster = \"hand\"\nstate_dir = \"{at}/ctl\"\nclient_socket = \"{at}/ctl.sock\"\n\
         agent_socket = \"{at}/agents.sock\"\ntoken_file = \"{at}/token\"\noperators = []\n\
         [[partition]]\nname = \"gpu\"\ndefault = true\n"
    );
    let agent = format!(
        "cluster = \"hand\"\nnode = \"n1\"\nstate_dir = \"{at}/agent\"\nsocket = \"{at}/agent.sock\"\n\
         controller = \"unix:{at}/agents.sock\"\ntoken_file = \"{at}/token\"\ncgroup = \"{cgroup}\"\nbpffs = \"{at}/bpf\"\n\
         pins = \"spur-hand\"\nkill_wait = 2\nrequire = \"fence\"\n{declare}"
    );
    for folder in ["ctl", "agent"] {
        fs::create_dir(dir.join(folder)).expect("a folder");
    }
    for (name, text) in [("spur.toml", controller), ("spurd.toml", agent)] {
        fs::write(dir.join(name), text).expect("a configuration can be written");
    }
    let token = dir.join("token");
    fs::write(&token, "0123456789abcdef0123456789abcdef").expect("a token can be written");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("and kept secret");
}

fn spawn(dir: &Path, daemon: &str) -> Child {
    let log = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(dir.join(format!("{daemon}.log")));
    let log = log.expect("a log can be written");
    let config = if daemon == "spurd" {
        "spurd.toml"
    } else {
        "spur.toml"
    };
    let mut command = Command::new(host::bins().join(daemon));
    command
        .arg("--config")
        .arg(dir.join(config))
        .env("RUST_LOG", "info")
        .env("PATH", path(dir));
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a file can be shared"))
        .stderr(log);
    command
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {daemon}: {error}"))
}
