//! What lies where in a cluster's folder, and what is named after it elsewhere.

use std::path::{Path, PathBuf};

/// Everything that `up` makes in the folder; `down` removes these and nothing else.
pub(super) const OWN: [&str; 13] = [
    "spur.toml",
    "token",
    "env",
    "bin",
    "man",
    "log",
    "run",
    "nodes",
    "state",
    "bpf",
    "pids",
    super::default::NOTE,
    MARK,
];
/// The file that says that a folder holds a cluster of `up`; it is made first and removed last.
pub(super) const MARK: &str = "made";
/// What the mark says where the folder itself is of `up`'s making too.
pub(super) const MARK_NEW: &str = "this folder was made by spur dev up\n";
/// What it says where the folder was there before.
pub(super) const MARK_IN_OLD: &str = "a cluster was put into this folder by spur dev up\n";
/// Longest path of a Unix socket in bytes (`sun_path` less its NUL, unix(7)).
const SOCKET_MAX: usize = 107;
/// First of the eight majors for local use (Documentation/admin-guide/devices.txt).
const MAJOR_LOCAL: u32 = 120;
/// Minors that one cluster's nodes start from are multiples of this.
const MINOR_STEP: u32 = 256;

/// A cluster's folder, absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    dir: PathBuf,
}

impl Layout {
    /// The folder, which exists.
    pub(super) fn new(dir: &Path) -> std::io::Result<Self> {
        Ok(Self {
            dir: dir.canonicalize()?,
        })
    }

    /// The folder.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Something in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Whether a path is, or lies below, something that `up` makes here. What else is below the folder is somebody else's,
    /// another cluster perhaps.
    pub(super) fn owns(&self, path: &Path) -> bool {
        let below = path.strip_prefix(&self.dir).ok();
        let first = below.and_then(|below| below.components().next());
        first.is_some_and(|first| OWN.iter().any(|name| first.as_os_str() == *name))
    }

    /// The controller's configuration.
    pub(super) fn controller_config(&self) -> PathBuf {
        self.path("spur.toml")
    }

    /// A node's folder.
    pub(super) fn node(&self, name: &str) -> PathBuf {
        self.path("nodes").join(name)
    }

    /// A node's configuration.
    pub(super) fn node_config(&self, name: &str) -> PathBuf {
        self.node(name).join("spurd.toml")
    }

    /// Where commands connect.
    pub(super) fn client_socket(&self) -> PathBuf {
        self.path("run/spurctld.sock")
    }

    /// Where agents connect.
    pub(super) fn agent_socket(&self) -> PathBuf {
        self.path("run/agents.sock")
    }

    /// Where a node's step clients connect.
    pub(super) fn node_socket(&self, name: &str) -> PathBuf {
        self.path("run").join(format!("{name}.sock"))
    }

    /// A log.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.path("log").join(format!("{name}.log"))
    }

    /// Whether every socket's path is short enough; the names of nodes are at most five letters.
    pub(super) fn fits_sockets(&self) -> bool {
        let longest = self.client_socket().max(self.agent_socket());
        longest.as_os_str().len() <= SOCKET_MAX
    }

    /// A number of the folder's own, to tell its cgroups, pins and devices from another cluster's.
    fn tag(&self) -> u32 {
        use std::os::unix::ffi::OsStrExt as _;
        // FNV-1a, 32 bits: the same on every run, so that `down` needs no record of it.
        let mix = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        self.dir
            .as_os_str()
            .as_bytes()
            .iter()
            .fold(0x811c_9dc5, mix)
    }

    /// Name of a node's cgroup folder and of its folder of pins.
    pub(super) fn kernel_name(&self, node: &str) -> String {
        format!("spur-dev-{:08x}-{node}", self.tag())
    }

    /// Device numbers of a node's first stand-in: (major, minor).
    pub(super) fn device(&self, index: u32, gpus: u32) -> (u32, u32) {
        let tag = self.tag();
        let first = (tag >> 3) % 2048 * MINOR_STEP;
        (MAJOR_LOCAL + tag % 8, first + index * gpus)
    }
}

/// Names of the nodes.
pub(super) fn names(nodes: u32) -> Vec<String> {
    (1..=nodes).map(|number| format!("n{number}")).collect()
}
