//! The cluster of the recordings: four nodes of 64 CPUs, 1 TB and eight `h200`, partition `gpu`, user `slurmtest`, host `vm`.
//!
//! It lives in mount and UTS name spaces of its own, so that the user, the folders and the host's name can be those of the
//! recording without changing this machine. Its folder is laid out as `spur dev up` does it, and `spur dev down` removes it.

use crate::cluster::SOON;
use crate::host;
use crate::user::{self, Output, User};
use anyhow::{Context, Result, bail, ensure};
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The user of the recordings.
pub const USER: User = User::Id(1001);
/// Where the user works.
pub const WORK: &str = "/home/slurmtest/jobs";
/// The user's home.
const HOME: &str = "/opt/slurm/home";
/// The host of the recordings.
const HOST: &str = "vm";
/// The nodes.
const NODES: [&str; 4] = ["n0001", "n0002", "n0003", "n0004"];
/// A major for local use, and a first minor that no other cluster of the tests uses.
const DEVICES: (u32, u32) = (127, 900_000);

/// The cluster; gone when dropped.
pub struct Site {
    dir: TempDir,
    daemons: Vec<Child>,
    _turn: File,
}

/// Runs this program again with these words, in name spaces of its own. Returns its exit code.
pub fn enter(words: &[String]) -> Result<i32> {
    let me = std::env::current_exe().context("finding this program")?;
    let status = Command::new("unshare")
        .args(["--mount", "--uts", "--propagation", "private"])
        .arg(me)
        .args(words)
        .env("SPUR_BINS", host::bins())
        .status()
        .context("starting unshare(1) of util-linux")?;
    Ok(status.code().unwrap_or(1))
}

impl Site {
    /// Makes the place look as it did, and starts the daemons.
    pub fn up() -> Result<Self> {
        ensure!(host::is_root(), "the cluster fences its jobs: run as root");
        let turn = File::create(std::env::temp_dir().join("spur-golden.lock"))?;
        rustix::fs::flock(&turn, rustix::fs::FlockOperation::LockExclusive)?;
        let dir = tempfile::Builder::new().prefix("spur-golden-").tempdir()?;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
        place(dir.path())?;
        configure(dir.path())?;
        let mut site = Self {
            dir,
            daemons: Vec::new(),
            _turn: turn,
        };
        site.start("spurctld", &site.path("spur.toml"))?;
        for node in NODES {
            site.start("spurd", &site.path(&format!("nodes/{node}/spurd.toml")))?;
        }
        site.level("sinfo -h -o '%D %T'", "4 idle", SOON.as_secs());
        ensure!(
            site.shell(User::Root, "sinfo -h -o '%D %T'").out.trim() == "4 idle",
            "the nodes are not idle:\n{}",
            site.logs()
        );
        site.accounts();
        Ok(site)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The recorded user belongs to an account, where the commands know accounts.
    fn accounts(&self) {
        for line in [
            "sacctmgr -i add account research",
            "sacctmgr -i add user slurmtest account=research",
        ] {
            self.shell(User::Root, line);
        }
    }

    fn start(&mut self, program: &str, config: &Path) -> Result<()> {
        let log = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.path("log/daemons.log"))?;
        let child = Command::new(self.path("bin").join(program))
            .arg("--config")
            .arg(config)
            .env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/sbin")
            .env("RUST_LOG", "info")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {program}"))?;
        self.daemons.push(child);
        Ok(())
    }

    /// Starts a line of shell, as this user with the environment of the recordings.
    pub fn spawn(&self, user: User, line: &str) -> Child {
        let mut command = user::command(user, &["sh", "-c", line]);
        let path = format!("{}:/usr/bin:/bin:/usr/sbin", self.path("bin").display());
        let socket = self.path("run/spurctld.sock");
        command
            .env("PATH", path)
            .env("HOME", HOME)
            .env("LANG", "C.UTF-8")
            .env("SPUR_CONTROLLER", format!("unix:{}", socket.display()))
            // The recordings were made with it set; jobs inherit it.
            .env("SLURM_CONF", "/opt/slurm/etc/slurm.conf")
            .current_dir(WORK);
        let name = if user == User::Root {
            "root"
        } else {
            "slurmtest"
        };
        command.env("USER", name).env("LOGNAME", name);
        command.spawn().expect("timeout(1) is installed")
    }

    /// Runs a line of shell to its end.
    pub fn shell(&self, user: User, line: &str) -> Output {
        Output::of(self.spawn(user, line))
    }

    /// Waits until a line of shell prints this; whether it did within these seconds.
    pub fn level(&self, line: &str, wanted: &str, seconds: u64) -> bool {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
        loop {
            if self.shell(User::Root, line).out.trim() == wanted {
                return true;
            }
            if std::time::Instant::now() > end {
                return false;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    /// Writes a script of the user's.
    pub fn script(&self, name: &str, text: &str) -> Result<()> {
        let path = Path::new(WORK).join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        chown(&path, Some(USER.id()), Some(USER.id()))?;
        Ok(())
    }

    /// Job numbers of a cluster that has not refused the same things as the recorded one run ahead or behind: takes numbers away, as
    /// root, until `next` is the next. Numbers cannot be given back: says so if they are ahead.
    pub fn burn(&self, next: u32) -> Result<()> {
        let newest = "squeue -a -r -t all -h -o %A | sort -n | tail -n 1";
        let text = self.shell(User::Root, newest).out;
        let mut newest: u32 = text.trim().parse().unwrap_or(0);
        while newest + 1 < next {
            let line = "sbatch --parsable -H -J burnt --wrap true";
            let output = self.shell(User::Root, line);
            let Ok(id) = output.out.trim().parse() else {
                bail!("no number was given: {}", output.err);
            };
            self.shell(User::Root, &format!("scancel {id}"));
            newest = id;
        }
        if newest + 1 > next {
            println!("note: the next job is {}, not {next}", newest + 1);
        }
        Ok(())
    }

    /// The ends of the daemons' logs.
    pub fn logs(&self) -> String {
        let text = fs::read_to_string(self.path("log/daemons.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(40).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let down = Command::new(host::bins().join("spur"))
            .args(["dev", "down", "--dir"])
            .arg(self.dir.path())
            .env("PATH", "/usr/bin:/bin:/usr/sbin")
            .status();
        for child in &mut self.daemons {
            // dev down has ended them; this only takes note of it.
            child.kill().ok();
            child.wait().ok();
        }
        if !down.is_ok_and(|status| status.success()) {
            eprintln!("golden: dev down failed for {}", self.dir.path().display());
        }
    }
}

/// The user, the folders and the host's name, in our own name spaces.
fn place(dir: &Path) -> Result<()> {
    let mounted = |args: &[&str]| -> Result<()> {
        let status = Command::new("mount").args(args).status()?;
        ensure!(status.success(), "mount {} failed", args.join(" "));
        Ok(())
    };
    for folder in ["/home", "/opt"] {
        mounted(&["-t", "tmpfs", "-o", "mode=0755", "tmpfs", folder])?;
    }
    for folder in [HOME, WORK] {
        fs::create_dir_all(folder)?;
        chown(folder, Some(USER.id()), Some(USER.id()))?;
    }
    let id = USER.id();
    for (file, line) in [
        (
            "passwd",
            format!("slurmtest:x:{id}:{id}::{HOME}:/bin/bash\n"),
        ),
        ("group", format!("slurmtest:x:{id}:\n")),
    ] {
        let (real, ours) = (Path::new("/etc").join(file), dir.join(file));
        let mut text = fs::read_to_string(&real)?;
        text.retain(|c| c != '\r');
        ensure!(
            !text.contains(&format!(":x:{id}:")),
            "{file} has a number {id}"
        );
        fs::write(&ours, text + &line)?;
        fs::set_permissions(&ours, fs::Permissions::from_mode(0o644))?;
        let words = [ours.to_string_lossy(), real.to_string_lossy()];
        mounted(&["--bind", &words[0], &words[1]])?;
    }
    rustix::system::sethostname(HOST.as_bytes()).context("setting the host's name")?;
    Ok(())
}

/// Every file of the cluster, where `spur dev up` would have them.
fn configure(dir: &Path) -> Result<()> {
    for folder in ["bin", "log", "run", "state", "nodes"] {
        fs::create_dir(dir.join(folder))?;
    }
    fs::write(
        dir.join("made"),
        "a cluster was put into this folder by spur dev up\n",
    )?;
    let token = dir.join("token");
    fs::write(&token, "0123456789abcdef0123456789abcdef")?;
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600))?;
    let at = dir.display();
    let controller = format!(
        "cluster = \"base\"\nstate_dir = \"{at}/state\"\nclient_socket = \"{at}/run/spurctld.sock\"\n\
         agent_socket = \"{at}/run/agents.sock\"\ntoken_file = \"{at}/token\"\n\
         default_mem_per_cpu = 1024\nmax_array_size = 20001\n\
         [[partition]]\nname = \"gpu\"\ndefault = true\nnodes = \"n[0001-0004]\"\n\
         default_time = \"01:00:00\"\nmax_time = \"1-00:00:00\"\n"
    );
    fs::write(dir.join("spur.toml"), controller)?;
    for (node, index) in NODES.into_iter().zip(0..) {
        let folder = dir.join("nodes").join(node);
        fs::create_dir(&folder)?;
        fs::write(folder.join("spurd.toml"), agent(dir, node, index))?;
    }
    link_commands(&dir.join("bin"))
}

fn agent(dir: &Path, node: &str, index: u32) -> String {
    let at = dir.display();
    let name = format!("spur-golden-{}-{node}", std::process::id());
    let usual = host::mounts();
    let usual = usual
        .iter()
        .any(|mount| mount.kind == "bpf" && mount.at == "/sys/fs/bpf");
    let bpffs = if usual {
        "/sys/fs/bpf".to_owned()
    } else {
        format!("{at}/bpf")
    };
    let (major, minor) = DEVICES;
    let minor = minor + index * 8;
    format!(
        "cluster = \"base\"\nnode = \"{node}\"\nstate_dir = \"{at}/nodes/{node}/state\"\n\
         socket = \"{at}/run/{node}.sock\"\ncontroller = \"unix:{at}/run/agents.sock\"\n\
         token_file = \"{at}/token\"\ncgroup = \"{name}\"\nbpffs = \"{bpffs}\"\npins = \"{name}\"\n\
         require = \"fence\"\nkill_wait = 5\n\n[declare]\ncpus = 64\nmemory_mib = 1000000\nsockets = 2\n\n\
         [[declare.gpus]]\nmodel = \"h200\"\ncount = 8\nmemory_mib = 144384\n\
         dev_dir = \"{at}/nodes/{node}/dev\"\nmajor = {major}\nminor = {minor}\n"
    )
}

/// The names that `spur` goes by, as it says itself, and the daemons.
fn link_commands(bin: &Path) -> Result<()> {
    let commands = [
        "srun", "sbatch", "salloc", "squeue", "sinfo", "scancel", "scontrol", "sacct", "sattach",
        "sbcast", "sstat", "sdiag", "sprio", "sshare", "sreport", "sacctmgr", "scrontab",
        "strigger", "seff", "spur",
    ];
    for name in commands {
        symlink(host::bins().join("spur"), bin.join(name))?;
    }
    for daemon in ["spurctld", "spurd"] {
        symlink(host::bins().join(daemon), bin.join(daemon))?;
    }
    Ok(())
}
