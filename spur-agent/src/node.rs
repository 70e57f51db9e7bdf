//! What does not change while the agent runs: configuration, machine, and the facilities of the kernel that it uses.

use crate::cgroup::{Root, limits};
use crate::config::{Config, Require};
use crate::discover::{self, Machine, tree::Tree};
use crate::fence::node::{NodeFence, chain};
use crate::fence::{canary, node, probe, standin};
use crate::launch::Launcher;
use spur_core::node::FenceState;
use spur_core::time::Millis;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// This node.
#[derive(Debug)]
pub struct Node {
    /// Configuration.
    pub config: Config,
    /// What was found or declared.
    pub machine: Machine,
    /// The agent's part of the cgroup tree.
    pub root: Root,
    /// The fence, if it could be opened.
    pub fence: Option<NodeFence>,
    /// The canary, if there is a fence.
    pub canary: Option<PathBuf>,
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
        let (fence, canary, condition) = raise(&config, &machine, &root);
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
            fence,
            canary,
        };
        Ok((node, condition))
    }

    /// Whether jobs may be started under this condition.
    pub fn accepts(&self, state: FenceState) -> bool {
        match self.config.require {
            Require::Guard => state == FenceState::Guarded,
            Require::Fence => state != FenceState::Unfenced,
            Require::None => true,
        }
    }

    /// The canary that a step must be refused; `None` where jobs run without a fence because the operator wants it so.
    pub fn canary_for(&self, state: FenceState) -> Option<PathBuf> {
        let waived = self.config.require == Require::None && state == FenceState::Unfenced;
        if waived { None } else { self.canary.clone() }
    }

    /// Proves the fence once more.
    pub fn prove(&self) -> Condition {
        match (&self.fence, &self.canary) {
            (Some(fence), Some(canary)) => {
                judge(&self.config, probe::run(&self.root, fence, canary))
            }
            (_, _) => unfenced("no fence could be opened when spurd started".into()),
        }
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

/// Opens the fence and proves it.
fn raise(
    config: &Config,
    machine: &Machine,
    root: &Root,
) -> (Option<NodeFence>, Option<PathBuf>, Condition) {
    let fence = match node::open(config, machine) {
        Ok(fence) => fence,
        Err(error) => return (None, None, unfenced(format!("no fence: {}", chain(&error)))),
    };
    let canary = match canary::make(&Tree::new(&config.root), &config.state_dir) {
        Ok(canary) => canary,
        Err(error) => {
            return (
                Some(fence),
                None,
                unfenced(format!("the fence cannot be proven: {}", chain(&error))),
            );
        }
    };
    let condition = judge(config, probe::run(root, &fence, &canary));
    (Some(fence), Some(canary), condition)
}

fn judge(config: &Config, proof: Result<(), probe::ProbeError>) -> Condition {
    match proof {
        Ok(()) if config.require == Require::Guard => unfenced(
            "require = \"guard\", but this version has no LSM guard: set require = \"fence\" to accept the fence alone".into(),
        ),
        Ok(()) => Condition { state: FenceState::Fenced, note: String::new() },
        Err(error) => unfenced(chain(&error)),
    }
}

fn unfenced(note: String) -> Condition {
    Condition {
        state: FenceState::Unfenced,
        note,
    }
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
        .open(dir.join("lock"))
        .map_err(failed)?;
    // A reader's lock would keep the agent from starting: nobody may have one, also on a file of an older agent.
    lock.set_permissions(std::fs::Permissions::from_mode(0o600))
        .map_err(failed)?;
    if !crate::sys::lock::try_lock(&lock).map_err(failed)? {
        return Err(NodeError::Taken { dir: dir.clone() });
    }
    Ok(lock)
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
