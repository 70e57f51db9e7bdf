//! The cluster that most tests of the guest share: one node with two real render nodes and, by CUSE, two NVIDIA GPUs that really
//! open; and what a test needs of two jobs of which one attacks the other.

use crate::cluster::SOON;
use crate::daemons::Daemons;
use crate::user::{self, Output, User};
use crate::{host, wait};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Stdio};

/// `vgem`'s render node: no PCI device behind it.
pub(super) const VGEM: &str = "/dev/dri/renderD128";
/// The render node of QEMU's virtio GPU, a PCI device that makes buffers for users.
pub(super) const VIRTIO: &str = "/dev/dri/renderD129";
/// Two GPUs under NVIDIA's major, and what reaches all of them.
pub(super) const NVIDIA: [&str; 2] = ["/dev/nvidia0", "/dev/nvidia1"];
/// NVIDIA's control node.
pub(super) const NVIDIA_CONTROL: &str = "/dev/nvidiactl";

/// Nodes made by CUSE: name and minor under NVIDIA's major.
const CUSE: [(&str, u32); 3] = [("nvidia0", 0), ("nvidia1", 1), ("nvidiactl", 255)];
const NVIDIA_MAJOR: &str = "195";

/// What NVIDIA's driver would say: PCI address, minor, UUID. The minors are the other way round than the addresses.
const GPUS: [(&str, u32, &str); 2] = [
    (
        "0000:c1:00.0",
        1,
        "GPU-11111111-1111-1111-1111-111111111111",
    ),
    (
        "0000:c2:00.0",
        0,
        "GPU-22222222-2222-2222-2222-222222222222",
    ),
];

/// Ordinary users of the guest.
pub(super) const ALICE: User = User::Id(1000);
/// Another.
pub(super) const BOB: User = User::Id(1001);

/// The cluster, and the servers of its devices.
pub(super) struct Lab {
    /// Controller and agent.
    pub(super) daemons: Daemons,
    /// Whether the node says that the guard stands beside its fence.
    pub(super) guarded: bool,
    cuse: Vec<Child>,
}

impl Lab {
    /// Starts everything.
    pub(super) fn start() -> Self {
        Self::start_in("")
    }

    /// As [`Self::start`], with the agent's groups in this one.
    pub(super) fn start_in(group: &str) -> Self {
        let cuse = serve_nvidia();
        let daemons = Daemons::start_prepared("", |dir| {
            fixture(&dir.join("root"));
            // Nor for each other's memory: without a default a job gets all there is.
            let config = dir.join("spur.toml");
            let text = host::read(&config);
            fs::write(&config, format!("{text}default_mem_per_cpu = 100\n"))
                .expect("a configuration can be changed");
            let config = dir.join("spurd.toml");
            let text = host::read(&config);
            let root = dir.join("root");
            let own = text
                .lines()
                .find(|line| line.starts_with("cgroup = "))
                .unwrap_or_default()
                .to_owned();
            let text = match group {
                "" => text,
                group => text.replace(&own, &format!("cgroup = \"{group}\"")),
            };
            // More CPUs than there are: jobs of one test must never wait for each other.
            let text = format!(
                "root = \"{}\"\n{text}\n[declare]\ncpus = 16\n",
                root.display()
            );
            fs::write(&config, text).expect("a configuration can be changed");
        });
        for node in [VGEM, VIRTIO, "/dev/dri/card0", "/dev/dri/card1"] {
            // The fence alone decides.
            fs::set_permissions(node, PermissionsExt::from_mode(0o666))
                .unwrap_or_else(|error| panic!("{node}: {error}"));
        }
        let guarded = says_guarded(&daemons);
        Self {
            daemons,
            guarded,
            cuse,
        }
    }

    /// Waits until the node says that the guard is up (again).
    pub(super) fn await_guard(&self) {
        wait::until_true("the guard is up", SOON, || says_guarded(&self.daemons));
    }

    /// `srun OPTIONS probe WORDS` as a user: what it printed, whatever became of it.
    pub(super) fn probe(&self, user: User, options: &[&str], words: &[&str]) -> Said {
        let mut args = vec!["srun".to_owned()];
        args.extend(options.iter().map(|option| (*option).to_owned()));
        args.push(self.daemons.probe());
        args.extend(words.iter().map(|word| (*word).to_owned()));
        Said::of(&self.daemons.run(user, &args))
    }

    /// The probe outside every job.
    pub(super) fn outside(&self, user: User, words: &[&str]) -> Said {
        let mut args = vec![self.daemons.probe()];
        args.extend(words.iter().map(|word| (*word).to_owned()));
        Said::of(&Output::of(
            user::command(user, &args)
                .spawn()
                .expect("timeout(1) is installed"),
        ))
    }

    /// A job that opens these (`probe hold`) and offers them by this name; ready when this returns.
    pub(super) fn hold(
        &self,
        user: User,
        options: &[&str],
        name: &str,
        paths: &[&str],
    ) -> Holder<'_> {
        let file = self.daemons.home(user).join(format!("held-{name}"));
        let line = format!(
            "exec {} hold {name} {} > {}",
            self.daemons.probe(),
            paths.join(" "),
            file.display()
        );
        let job = self.daemons.wrap(user, options, &line);
        let mut last = String::new();
        let end = std::time::Instant::now() + SOON;
        loop {
            let text = fs::read_to_string(&file).unwrap_or_default();
            if let Some(pid) = text
                .lines()
                .find_map(|line| line.strip_prefix("pid ")?.parse().ok())
            {
                let held = text.lines().filter_map(|line| {
                    let mut words = line.strip_prefix("held ")?.split(' ');
                    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
                });
                return Holder {
                    lab: self,
                    name: name.to_owned(),
                    job,
                    pid,
                    fds: held.collect(),
                };
            }
            if text != last {
                last = text;
            }
            assert!(
                std::time::Instant::now() < end,
                "job {job} does not hold {paths:?}: {last:?}"
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// Gives each NVIDIA GPU the other's minor, as a driver may after a hotplug.
    pub(super) fn swap_minors(&self) {
        let dir = self.daemons.dir().join("root/proc/driver/nvidia/gpus");
        let minor = |number: u32| format!("Device Minor: \t {number}");
        for (pci, ..) in GPUS {
            let file = dir.join(pci).join("information");
            let text = host::read(&file);
            let text = if text.contains(&minor(0)) {
                text.replace(&minor(0), &minor(1))
            } else {
                text.replace(&minor(1), &minor(0))
            };
            // Whole or not at all: the agent may look at any time.
            let new = self.daemons.dir().join("new-information");
            fs::write(&new, text).expect("a file can be written");
            fs::rename(&new, &file).expect("and renamed");
        }
    }

    /// Waits until a job is over.
    pub(super) fn await_end(&self, job: &str) {
        wait::until_true(&format!("job {job} ends"), SOON, || {
            self.daemons
                .run(User::Root, &["squeue", "-h", "-j", job])
                .out
                .trim()
                .is_empty()
        });
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for child in &mut self.cuse {
            // Its device goes with it.
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// A job that holds devices open.
pub(super) struct Holder<'a> {
    lab: &'a Lab,
    /// What it is reached by.
    pub(super) name: String,
    /// Its job.
    pub(super) job: String,
    /// Its process.
    pub(super) pid: i32,
    /// What it holds, by what it was asked for.
    pub(super) fds: BTreeMap<String, i32>,
}

impl Holder<'_> {
    /// The process, as the probe wants it.
    pub(super) fn pid(&self) -> String {
        self.pid.to_string()
    }
}

impl Drop for Holder<'_> {
    fn drop(&mut self) {
        let daemons = &self.lab.daemons;
        daemons.run(User::Root, &["scancel", &self.job]);
        if !std::thread::panicking() {
            self.lab.await_end(&self.job);
        }
    }
}

/// The lines of a probe: what, way, outcome.
pub(super) struct Said {
    lines: Vec<[String; 3]>,
    /// All of it.
    pub(super) text: String,
}

impl Said {
    /// Reads what a probe printed.
    pub(super) fn of(output: &Output) -> Self {
        let words = |line: &str| {
            let mut words = line.splitn(3, ' ').map(str::to_owned);
            Some([words.next()?, words.next()?, words.next()?])
        };
        let text = format!("{}{}(exit {})", output.out, output.err, output.code);
        Self {
            lines: output.out.lines().filter_map(words).collect(),
            text,
        }
    }

    /// The outcomes of one way to one thing.
    pub(super) fn outcomes(&self, what: &str, way: &str) -> Vec<&str> {
        let mine = self.lines.iter().filter(|[a, b, _]| a == what && b == way);
        mine.map(|[_, _, outcome]| outcome.as_str()).collect()
    }

    /// Panics unless that way was tried and always ended so.
    pub(super) fn expect(&self, what: &str, way: &str, wanted: &[&str]) {
        let found = self.outcomes(what, way);
        assert!(
            !found.is_empty() && found.iter().all(|outcome| wanted.contains(outcome)),
            "{what} {way} should be {wanted:?}, is {found:?}: {}",
            self.text.replace('\n', "; ")
        );
    }

    /// Panics if that way was ever seen to end so.
    pub(super) fn never(&self, outcome: &str) {
        let found = self.lines.iter().find(|[_, _, ended]| ended == outcome);
        assert!(
            found.is_none(),
            "{found:?} in {}",
            self.text.replace('\n', "; ")
        );
    }
}

/// Whether the node says that the guard stands beside its fence.
fn says_guarded(daemons: &Daemons) -> bool {
    let shown = daemons.run(User::Root, &["scontrol", "-dd", "show", "node", "n1"]);
    shown
        .out
        .split_whitespace()
        .any(|word| word == "Fence=guarded")
}

/// Serves NVIDIA's nodes; ready when devtmpfs shows them.
fn serve_nvidia() -> Vec<Child> {
    let dir = std::env::temp_dir().join("spur-cuse");
    fs::create_dir_all(&dir).expect("a folder");
    let probe = crate::probe::install(&dir);
    let mut servers = Vec::new();
    for (name, minor) in CUSE {
        let mut command = std::process::Command::new(&probe);
        command
            .args(["cuse", name, NVIDIA_MAJOR, &minor.to_string()])
            .stdin(Stdio::null());
        servers.push(command.spawn().expect("the probe starts"));
        let node = format!("/dev/{name}");
        wait::until_true(&format!("{node} appears"), SOON, || {
            Path::new(&node).exists()
        });
        fs::set_permissions(&node, PermissionsExt::from_mode(0o666)).expect("root may");
    }
    servers
}

/// A root for discovery: the machine's own `/sys`, and a `/proc` with NVIDIA's files in it.
fn fixture(root: &Path) {
    let proc = root.join("proc");
    fs::create_dir_all(root.join("sys")).expect("a folder");
    fs::create_dir_all(&proc).expect("a folder");
    let flags = rustix::mount::MountFlags::BIND | rustix::mount::MountFlags::REC;
    rustix::mount::mount("/sys", root.join("sys"), "", flags, None).expect("root may mount");
    for name in [
        "devices", "meminfo", "stat", "loadavg", "mounts", "self", "sys", "cpuinfo",
    ] {
        symlink(format!("/proc/{name}"), proc.join(name)).expect("a link can be made");
    }
    for (pci, minor, uuid) in GPUS {
        let dir = proc.join("driver/nvidia/gpus").join(pci);
        fs::create_dir_all(&dir).expect("a folder");
        let text = format!(
            "Model: \t\t NVIDIA H200\nIRQ:   \t\t 16\nGPU UUID: \t {uuid}\nBus Type: \t PCIe\nBus Location: \t {pci}\n\
             Device Minor: \t {minor}\nGPU Excluded:\t No\n"
        );
        fs::write(dir.join("information"), text).expect("a file can be written");
    }
}
