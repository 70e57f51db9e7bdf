//! What does not change while the agent runs: configuration, machine, and the facilities of the kernel that it uses.

use crate::cgroup::{Root, limits};
use crate::config::{Config, Require};
use crate::discover::{self, Machine, tree::Tree};
use crate::fence::guarding::GuardReport;
use crate::fence::node::{NodeFence, chain};
use crate::fence::{canary, node, probe, standin};
use crate::launch::Launcher;
use crate::meter;
use spur_core::node::FenceState;
use spur_core::time::Millis;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// This node.
#[derive(Debug)]
pub struct Node {
    /// Configuration.
    pub config: Config,
    /// What was found or declared.
    pub machine: Machine,
    /// The agent's part of the cgroup tree.
    pub root: Root,
    /// The fence, once it could be opened.
    fence: OnceLock<NodeFence>,
    /// The canary, once there is a fence and the canary could be made.
    canary: OnceLock<PathBuf>,
    /// The meter, once it runs.
    meter: OnceLock<meter::Handle>,
    /// One proof at a time: they share a cgroup.
    proving: Mutex<()>,
    /// How supervisors are started.
    pub launcher: Launcher,
    /// Boot id of the machine.
    pub boot_id: String,
    /// When it booted.
    pub boot_time: Millis,
    /// When this agent started.
    pub started: Millis,
}

/// The fence's condition and why it is not what it could be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Condition.
    pub state: FenceState,
    /// Why; empty if all is well.
    pub note: String,
}

/// Why the agent cannot run here.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// No cgroups.
    #[error(transparent)]
    Cgroup(#[from] crate::cgroup::CgroupError),
    /// The stand-ins cannot be made.
    #[error(transparent)]
    StandIn(#[from] standin::StandInError),
    /// The state folder cannot be used.
    #[error("cannot use state_dir {dir}: {source}")]
    StateDir {
        /// Which folder.
        dir: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Another agent has it.
    #[error("another spurd uses state_dir {dir}: stop it, or give this one a state_dir of its own")]
    Taken {
        /// Which folder.
        dir: PathBuf,
    },
}

impl Node {
    /// Makes and opens everything. A fence that cannot be opened is no error: the node then says so and takes no job.
    pub fn open(config: Config) -> Result<(Self, Condition), NodeError> {
        let folder = config.cgroup.to_string_lossy().into_owned();
        let root = Root::open(&folder)?;
        standin::make_all(config.declare.gpus.as_deref().unwrap_or_default())?;
        let machine = discover::discover(&config);
        if let Err(error) = discover::known::keep(&config.state_dir, &machine) {
            tracing::error!(%error, "GPUs that go missing will not keep their places over a restart");
        }
        for (_, why) in &machine.absent {
            tracing::error!("{why}");
        }
        let tree = Tree::new(&config.root);
        let node = Self {
            boot_id: tree
                .line("proc/sys/kernel/random/boot_id")
                .unwrap_or_default(),
            boot_time: boot_time(&tree),
            started: now(),
            launcher: Launcher::default(),
            config,
            machine,
            root,
            fence: OnceLock::new(),
            canary: OnceLock::new(),
            meter: OnceLock::new(),
            proving: Mutex::new(()),
        };
        let condition = node.prove();
        Ok((node, condition))
    }

    /// The fence, if it could be opened.
    pub fn fence(&self) -> Option<&NodeFence> {
        self.fence.get()
    }

    /// The meter, if there is one.
    pub fn meter(&self) -> Option<&meter::Handle> {
        self.meter.get()
    }

    /// Starts the meter, if the configuration wants one. A node whose meter does not start goes on without it.
    pub fn start_meter(&self, token: &[u8]) {
        if !self.config.meter.enabled {
            return;
        }
        match meter::start(self, token) {
            Ok(handle) => drop(self.meter.set(handle)),
            Err(error) => tracing::error!(error = chain(&error), "nothing is metered on this node"),
        }
    }

    /// Whether jobs may be started under this condition.
    pub fn accepts(&self, state: FenceState) -> bool {
        accepts(self.config.require, state)
    }

    /// The canary that a step must be refused; `None` where jobs run without a fence because the operator wants it so.
    pub fn canary_for(&self, state: FenceState) -> Option<PathBuf> {
        let waived = self.config.require == Require::None && state == FenceState::Unfenced;
        if waived {
            None
        } else {
            self.canary.get().cloned()
        }
    }

    /// Opens the fence and the guard as far as that was not possible before, and proves the fence.
    pub fn prove(&self) -> Condition {
        let _turn = self.proving.lock().unwrap_or_else(PoisonError::into_inner);
        match self.raise() {
            Ok((fence, canary)) => match probe::run(&self.root, fence, canary) {
                Ok(()) => judge(self.config.require, Ok(fence.raise_guard())),
                Err(error) => judge(self.config.require, Err(chain(&error))),
            },
            Err(why) => judge(self.config.require, Err(why)),
        }
    }

    fn raise(&self) -> Result<(&NodeFence, &Path), String> {
        let fence = match self.fence.get() {
            Some(fence) => fence,
            None => {
                let fence = node::open(&self.config, &self.machine)
                    .map_err(|error| format!("no fence: {}", chain(&error)))?;
                self.fence.get_or_init(|| fence)
            }
        };
        let canary = match self.canary.get() {
            Some(canary) => canary,
            None => {
                let canary = canary::make(&Tree::new(&self.config.root), &self.config.state_dir)
                    .map_err(|error| format!("the fence cannot be proven: {}", chain(&error)))?;
                self.canary.get_or_init(|| canary)
            }
        };
        Ok((fence, canary))
    }

    /// Limits that this host cannot enforce, in one sentence; empty if it can enforce all.
    pub fn unenforced(&self) -> String {
        let missing: Vec<&str> = limits::unenforced(self.root.path())
            .iter()
            .map(|one| one.limit)
            .collect();
        if missing.is_empty() {
            return String::new();
        }
        format!(
            "limits not enforced: {} (no such controller in the cgroup v2 tree)",
            missing.join(", ")
        )
    }
}

/// Whether what a node has is at least what its configuration requires.
pub fn accepts(require: Require, state: FenceState) -> bool {
    match require {
        Require::Guard => state == FenceState::Guarded,
        Require::Fence => state != FenceState::Unfenced,
        Require::None => true,
    }
}

/// From the fence's proof, and what came of the guard, to the node's condition in words.
pub fn judge(require: Require, proof: Result<GuardReport, String>) -> Condition {
    let state = match &proof {
        Ok(guard) if guard.complete => FenceState::Guarded,
        Ok(_) => FenceState::Fenced,
        Err(_) => FenceState::Unfenced,
    };
    let why = match proof {
        Ok(guard) if guard.complete => String::new(),
        Ok(guard) => format!("no guard: {}", guard.summary),
        Err(why) => why,
    };
    let note = match (accepts(require, state), require, state) {
        (true, Require::None, FenceState::Unfenced) => {
            format!("JOBS RUN UNFENCED, as require = \"none\" allows: {why}")
        }
        (true, _, _) => why,
        (false, Require::Guard, FenceState::Fenced) => format!(
            "no jobs, since require = \"guard\" (set \"fence\" to accept the fence alone): {why}"
        ),
        (false, _, _) => why,
    };
    Condition { state, note }
}

/// Makes the state folder: closed to others but passable, since users reach their script through it.
pub fn make_state_dir(config: &Config) -> Result<(), NodeError> {
    use std::os::unix::fs::DirBuilderExt;
    let dir = &config.state_dir;
    let failed = |source| NodeError::StateDir {
        dir: dir.clone(),
        source,
    };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o711)
        .create(dir)
        .map_err(failed)?;
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o711)).map_err(failed)
}

/// How long a lock may be held by an agent that was killed: the last of its threads may be writing to the disk.
const LOCK_WITHIN: Duration = Duration::from_secs(3);
/// Between two tries.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The file that an agent with this configuration holds locked while it lives.
pub fn lock_file(config: &Config) -> PathBuf {
    config.state_dir.join("lock")
}

/// Makes the state folder and takes the lock that keeps a second agent out. Keep the file: the lock goes with it.
pub fn claim(config: &Config) -> Result<std::fs::File, NodeError> {
    let dir = &config.state_dir;
    let failed = |source| NodeError::StateDir {
        dir: dir.clone(),
        source,
    };
    make_state_dir(config)?;
    let mut options = std::fs::OpenOptions::new();
    let lock = options
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(lock_file(config))
        .map_err(failed)?;
    // A reader's lock would keep the agent from starting: nobody may have one, also on a file of an older agent.
    lock.set_permissions(std::fs::Permissions::from_mode(0o600))
        .map_err(failed)?;
    let end = Instant::now() + LOCK_WITHIN;
    while !crate::sys::lock::try_lock(&lock).map_err(failed)? {
        if Instant::now() > end {
            return Err(NodeError::Taken { dir: dir.clone() });
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    Ok(lock)
}

/// The process id of the agent that runs with this state folder, if another process does.
pub fn agent_here(config: &Config) -> Option<i32> {
    let lock = std::fs::File::open(lock_file(config)).ok()?;
    crate::sys::lock::holder(&lock).ok()?
}

/// The process id of the agent that runs with this state folder, if its program is not the one that asks.
pub fn agent_of_another_build(config: &Config) -> Option<i32> {
    let pid = agent_here(config)?;
    let program = |process: &str| std::fs::read(format!("/proc/{process}/exe")).ok();
    (program(&pid.to_string()) != program("self")).then_some(pid)
}

/// The present moment.
pub fn now() -> Millis {
    millis(SystemTime::now())
}

/// A moment as the core counts.
pub fn millis(at: SystemTime) -> Millis {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn boot_time(tree: &Tree) -> Millis {
    let text = tree.read("proc/stat").unwrap_or_default();
    let secs = text
        .lines()
        .find_map(|line| line.strip_prefix("btime ")?.trim().parse::<u64>().ok());
    Millis(secs.unwrap_or(0) * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_says_what_it_has_and_whether_that_is_enough() {
        let guard = |complete| {
            Ok(GuardReport {
                complete,
                summary: "bpf: refused".into(),
                programs: Vec::new(),
            })
        };
        let open = || Err("the canary was not refused".to_owned());
        for (require, proof, state, takes, note) in [
            (Require::Guard, guard(true), FenceState::Guarded, true, ""),
            (Require::Fence, guard(true), FenceState::Guarded, true, ""),
            (Require::None, guard(true), FenceState::Guarded, true, ""),
            (
                Require::Guard,
                guard(false),
                FenceState::Fenced,
                false,
                "no jobs, since require = \"guard\" (set \"fence\" to accept the fence alone): no guard: bpf: refused",
            ),
            (
                Require::Fence,
                guard(false),
                FenceState::Fenced,
                true,
                "no guard: bpf: refused",
            ),
            (
                Require::None,
                guard(false),
                FenceState::Fenced,
                true,
                "no guard: bpf: refused",
            ),
            (
                Require::Guard,
                open(),
                FenceState::Unfenced,
                false,
                "the canary was not refused",
            ),
            (
                Require::Fence,
                open(),
                FenceState::Unfenced,
                false,
                "the canary was not refused",
            ),
            (
                Require::None,
                open(),
                FenceState::Unfenced,
                true,
                "JOBS RUN UNFENCED, as require = \"none\" allows: the canary was not refused",
            ),
        ] {
            let condition = judge(require, proof);
            let shown = (
                condition.state,
                accepts(require, condition.state),
                condition.note.as_str(),
            );
            assert_eq!(shown, (state, takes, note), "{require:?}");
        }
    }
}
