//! A cluster on this machine, by `spur dev up`, used through the commands as its users would.

use crate::leftovers::Leftovers;
use crate::procs::{self, Process};
use crate::user::{self, Output, User};
use crate::{host, probe, wait};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// How long a level of a cluster may take to come about on a busy machine.
pub const SOON: Duration = Duration::from_secs(180);

/// A cluster; gone when dropped.
pub struct Cluster {
    dir: TempDir,
    env: BTreeMap<String, String>,
    leftovers: Leftovers,
    restarted: Vec<Child>,
    down: bool,
    /// One cluster of these tests at a time, whichever runner starts them: they share the kernel.
    _turn: File,
}

impl Cluster {
    /// Starts `spur dev up` with these nodes and GPUs per node, and 64 CPUs per node.
    pub fn up(nodes: u32, gpus: u32) -> Self {
        let (nodes, gpus) = (nodes.to_string(), gpus.to_string());
        Self::up_with(&[
            "--nodes", &nodes, "--gpus", &gpus, "--cpus", "64", "--memory", "256G",
        ])
    }

    /// Starts `spur dev up` with these arguments after `--dir`.
    pub fn up_with(args: &[&str]) -> Self {
        assert!(
            host::is_root(),
            "a cluster that fences needs root; cargo xtask test says so and skips"
        );
        let dir = tempfile::Builder::new()
            .prefix("spur-test-")
            .tempdir()
            .expect("a folder");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))
            .expect("users may enter");
        let turn = take_turn();
        let leftovers = Leftovers::before(dir.path());
        let output = dev("up", dir.path(), args);
        let mut cluster = Self {
            env: BTreeMap::new(),
            dir,
            leftovers,
            restarted: Vec::new(),
            down: false,
            _turn: turn,
        };
        assert_eq!(
            output.code,
            0,
            "dev up: {}{}\n{}",
            output.out,
            output.err,
            cluster.logs()
        );
        cluster.env = read_env(cluster.dir());
        cluster
    }

    /// The cluster's folder.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A folder of the user's own, to work in.
    pub fn home(&self, user: User) -> PathBuf {
        let home = self.dir().join(format!("home-{}", user.id()));
        fs::create_dir_all(&home).expect("a folder");
        chown(&home, Some(user.id()), Some(user.id())).expect("root may give it away");
        home
    }

    /// The hostile program, where every user can run it.
    pub fn probe(&self) -> String {
        let path = self.dir().join("probe");
        let path = if path.exists() {
            path
        } else {
            probe::install(self.dir())
        };
        path.to_str().expect("a plain name").to_owned()
    }

    /// The stand-in devices of a node, by number.
    pub fn devices(&self, node: &str) -> Vec<String> {
        let dev = self.dir().join("nodes").join(node).join("dev");
        let path = |number: u32| dev.join(format!("gpu{number}"));
        let names = (0..).map(path).take_while(|path| path.exists());
        names
            .map(|path| path.to_str().expect("a plain name").to_owned())
            .collect()
    }

    /// A command as this user, in this user's folder, with the cluster's environment.
    pub fn command(&self, user: User, args: &[impl AsRef<OsStr>]) -> Command {
        let mut command = user::command(user, args);
        command.envs(&self.env).current_dir(self.home(user));
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, user: User, args: &[impl AsRef<OsStr>]) -> Output {
        Output::of(self.spawn(user, args))
    }

    /// Starts a command.
    pub fn spawn(&self, user: User, args: &[impl AsRef<OsStr>]) -> Child {
        self.command(user, args)
            .spawn()
            .expect("timeout(1) is installed")
    }

    /// Submits a script (its first line is added) and returns the job's number.
    pub fn sbatch(&self, user: User, options: &[&str], script: &str) -> String {
        let home = self.home(user);
        let file = tempfile::Builder::new()
            .prefix("job-")
            .suffix(".sh")
            .tempfile_in(&home)
            .expect("a file");
        fs::write(file.path(), format!("#!/bin/sh\n{script}\n")).expect("a script can be written");
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).expect("readable");
        let path = file.path().to_str().expect("a plain name").to_owned();
        let mut args = vec!["sbatch", "--parsable"];
        args.extend(options);
        args.push(&path);
        self.run(user, &args).good().trim().to_owned()
    }

    /// A field of `scontrol show job`, as root; `None` when it has none or the job is unknown.
    pub fn job_field(&self, job: &str, field: &str) -> Option<String> {
        let shown = self.run(User::Root, &["scontrol", "show", "job", job]).out;
        let prefix = format!("{field}=");
        shown
            .split_whitespace()
            .find_map(|word| word.strip_prefix(&prefix))
            .map(str::to_owned)
    }

    /// Starts the controller anew with this line first in its configuration, in place of one that sets the same.
    pub fn configure(&mut self, line: &str) {
        let controller = self.kill("spurctld");
        let file = self.dir().join("spur.toml");
        let (key, _) = line.split_once(" = ").expect("key = value");
        let text = fs::read_to_string(&file).expect("the configuration is there");
        let others = text.lines().filter(|line| !line.starts_with(key));
        let text: Vec<&str> = std::iter::once(line).chain(others).collect();
        fs::write(&file, text.join("\n")).expect("root may");
        self.restart(&controller);
    }

    /// Waits until the job is in one of these states, and returns which.
    pub fn await_state(&self, job: &str, states: &[&str]) -> String {
        let mut last = None;
        let end = std::time::Instant::now() + SOON;
        loop {
            let state = self.job_field(job, "JobState");
            if let Some(state) = state
                .as_ref()
                .filter(|state| states.contains(&state.as_str()))
            {
                return state.clone();
            }
            last = state.or(last);
            assert!(
                std::time::Instant::now() < end,
                "job {job} is {last:?}, not {states:?}\n{}",
                self.logs()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The agent of a node, or the controller (`spurctld`).
    pub fn daemon(&self, name: &str) -> Process {
        let dir = self.dir().to_str().expect("a plain name");
        let is_it = |process: &Process| {
            let args = &process.args;
            let supervisor = args.iter().any(|arg| arg == "supervise");
            let of_node = |node: &str| {
                args.iter().any(|arg| {
                    arg.contains(&format!("/{node}/")) || arg.contains(&format!("/{node}."))
                })
            };
            match name {
                "spurctld" => process.is("spurctld"),
                node => process.is("spurd") && !supervisor && of_node(node),
            }
        };
        let found = procs::mentioning(dir)
            .into_iter()
            .filter(is_it)
            .min_by_key(|process| process.pid);
        found.unwrap_or_else(|| panic!("no {name} runs for {dir}: {:?}", procs::mentioning(dir)))
    }

    /// `kill -9` of a daemon; returns what is needed to start it again.
    pub fn kill(&self, name: &str) -> Process {
        let process = self.daemon(name);
        process.kill();
        wait::until_true(&format!("{name} dies"), SOON, || !procs::alive(process.pid));
        process
    }

    /// Starts a killed daemon as it was started before.
    pub fn restart(&mut self, process: &Process) {
        let (program, args) = process.args.split_first().expect("a process has a name");
        let program = if program.contains('/') {
            PathBuf::from(program)
        } else {
            self.dir().join("bin").join(program)
        };
        let pairs = process.env.iter().filter_map(|pair| pair.split_once('='));
        let log = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.dir().join("log/restarted.log"));
        let log = log.expect("the log folder is there");
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .envs(pairs)
            .current_dir(&process.cwd);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        self.restarted
            .push(command.spawn().expect("a daemon starts as it did before"));
    }

    /// Waits until every node is idle.
    pub fn await_idle(&self) {
        wait::until_true("every node is idle", SOON, || {
            let shown = self.run(User::Root, &["sinfo", "-h", "-o", "%T"]);
            shown.code == 0
                && !shown.out.is_empty()
                && shown.out.lines().all(|line| line.trim() == "idle")
        });
    }

    /// The ends of the daemons' logs, for a failed test.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for entry in fs::read_dir(self.dir().join("log"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let log = fs::read_to_string(entry.path()).unwrap_or_default();
            let lines: Vec<&str> = log.lines().rev().take(15).collect();
            let tail: Vec<&str> = lines.into_iter().rev().collect();
            text += &format!("--- {}\n{}\n", entry.path().display(), tail.join("\n"));
        }
        text
    }

    /// `kill -9` of every process of the cluster, daemons, supervisors and jobs.
    pub fn kill_everything(&self) {
        for process in procs::mentioning(self.dir().to_str().expect("a plain name")) {
            process.kill();
        }
    }

    /// `spur dev down`; panics when it fails or anything is left.
    pub fn down(mut self) {
        self.leftovers.note();
        assert!(
            self.leftovers.folders() > 0,
            "no configuration of an agent was found: nothing would be checked"
        );
        let output = dev("down", self.dir(), &[]);
        self.reap();
        assert_eq!(output.code, 0, "dev down: {}{}", output.out, output.err);
        self.down = true;
        let found = self.leftovers.found();
        assert!(found.is_empty(), "dev down left:\n{}", found.join("\n"));
    }

    fn reap(&mut self) {
        for child in &mut self.restarted {
            // dev down must have ended it; if not, the check for leftovers will say so.
            child.try_wait().expect("a child can be asked");
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.down {
            // The test has failed or does not care: only clean up.
            dev("down", self.dir(), &[]);
            for child in &mut self.restarted {
                child.kill().ok();
                child.wait().ok();
            }
        }
    }
}

/// Waits until no other cluster of these tests lives; the kernel gives the turn back with the file.
fn take_turn() -> File {
    let path = std::env::temp_dir().join("spur-cluster-tests.lock");
    let file = File::create(&path).expect("a lock file can be made");
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)
        .expect("a file can be locked");
    file
}

fn dev(verb: &str, dir: &Path, args: &[&str]) -> Output {
    let spur = host::bins().join("spur");
    let mut words = vec![
        spur.as_os_str(),
        OsStr::new("dev"),
        OsStr::new(verb),
        OsStr::new("--dir"),
        dir.as_os_str(),
    ];
    words.extend(args.iter().map(OsStr::new));
    let mut command = user::command(User::Root, &words);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    Output::of(command.spawn().expect("timeout(1) is installed"))
}

/// What sourcing `DIR/env` sets.
fn read_env(dir: &Path) -> BTreeMap<String, String> {
    let script = r#"PATH=/usr/local/bin:/usr/bin:/bin; . "$1" && env -0"#;
    let output = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(dir.join("env"))
        .env_clear()
        .output();
    let output = output.expect("sh starts");
    assert!(
        output.status.success(),
        "DIR/env cannot be sourced: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let pairs = text.split('\0').filter_map(|pair| pair.split_once('='));
    let shell = ["PWD", "OLDPWD", "SHLVL", "_"];
    let kept = pairs.filter(|(name, _)| !shell.contains(name));
    kept.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
