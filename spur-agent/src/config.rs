//! `spurd.toml`: what a file may say ([`Raw`], exactly the keys below), checked into what the agent runs with ([`Config`]).
//!
//! The file is read once. Every error names the file, the key and what to do.

mod check;

use serde::Deserialize;
use spur_core::id::{NodeName, Uid};
use spur_core::usage::idle::IdlePolicy;
use std::path::{Path, PathBuf};

/// Where the file is when no `--config` names another.
pub const DEFAULT_PATH: &str = "/etc/spur/spurd.toml";

/// Most GPUs that a node may have, found or declared.
pub const GPUS_MAX: u32 = 256;

/// Most NUMA nodes or rails that may be declared.
pub const NUMA_MAX: u32 = 64;

/// Most CPUs that may be declared.
pub const CPUS_MAX: u32 = 8192;

/// The least secret that is accepted, in bytes.
pub const TOKEN_BYTES_MIN: usize = 32;

/// The least protection under which this node takes jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Require {
    /// The fence and the LSM guard.
    Guard,
    /// The fence.
    Fence,
    /// Nothing: jobs run unfenced where the fence cannot be proven. For machines whose users share every GPU anyway.
    None,
}

impl Require {
    /// As it is written in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Self::Guard => "guard",
            Self::Fence => "fence",
            Self::None => "none",
        }
    }
}

/// The file as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    cluster: String,
    node: String,
    #[serde(default = "default_state_dir")]
    state_dir: PathBuf,
    #[serde(default = "default_socket")]
    socket: PathBuf,
    #[serde(default = "default_controller")]
    controller: String,
    #[serde(default = "default_token_file")]
    token_file: PathBuf,
    #[serde(default = "default_folder")]
    cgroup: String,
    #[serde(default = "default_bpffs")]
    bpffs: PathBuf,
    #[serde(default = "default_folder")]
    pins: String,
    #[serde(default = "default_root")]
    root: PathBuf,
    #[serde(default = "default_require")]
    require: Require,
    #[serde(default = "default_kill_wait")]
    kill_wait: u64,
    #[serde(default)]
    fence_infiniband: bool,
    #[serde(default)]
    deny_signals: bool,
    fence_object: Option<PathBuf>,
    #[serde(default)]
    meter: Meter,
    #[serde(default)]
    features: Vec<String>,
    declare: Option<Declare>,
}

/// How use is metered: the table `[meter]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Meter {
    /// Meter at all.
    pub enabled: bool,
    /// Seconds without work after which a GPU counts as idle.
    pub idle_after: u64,
    /// Seconds at a job's start in which nothing counts as idle yet.
    pub idle_grace: u64,
    /// A busy share up to this is no work, in thousandths.
    pub idle_threshold: u16,
    /// Room for readings while the controller is away, MiB.
    pub spool_mib: u64,
}

impl Default for Meter {
    fn default() -> Self {
        let policy = IdlePolicy::default();
        Self {
            enabled: true,
            idle_after: policy.after / 1000,
            idle_grace: policy.grace / 1000,
            idle_threshold: policy.threshold,
            spool_mib: 256,
        }
    }
}

impl Meter {
    /// When a GPU counts as idle.
    pub fn policy(&self) -> IdlePolicy {
        IdlePolicy {
            after: self.idle_after.saturating_mul(1000),
            grace: self.idle_grace.saturating_mul(1000),
            threshold: self.idle_threshold,
        }
    }
}

/// Inventory that replaces what is found; what is absent here is discovered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declare {
    /// CPUs; at least 1.
    pub cpus: Option<u32>,
    /// Memory in MiB; at least 1.
    pub memory_mib: Option<u64>,
    /// NUMA nodes, each a socket: CPUs and GPUs are shared out evenly to them, in order.
    pub numa: Option<u32>,
    /// Sockets, where `numa` does not say: CPUs are shared out evenly to them, and no GPU is nearer to one than to another.
    pub sockets: Option<u32>,
    /// Network rails: the stand-ins are shared out evenly to them, in order.
    pub rails: Option<u32>,
    /// Stand-ins for GPUs. An empty list declares a node without GPUs.
    pub gpus: Option<Vec<DeclaredGpus>>,
}

/// What joins stand-ins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeclaredLinks {
    /// NVIDIA's.
    Nvlink,
    /// AMD's.
    Xgmi,
    /// The bus.
    Pcie,
}

/// A group of equal stand-ins: device nodes `gpuK` without a driver, which the fence treats as GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredGpus {
    /// GRES type, lower case.
    pub model: String,
    /// How many GPUs.
    pub count: u32,
    /// Memory in MiB of each GPU, or of each part where they have parts.
    #[serde(default)]
    pub memory_mib: u64,
    /// What joins all GPUs of an island with each other; absent: nothing.
    pub links: Option<DeclaredLinks>,
    /// GPUs of an island; absent: all of the group.
    pub island: Option<u32>,
    /// What each GPU is partitioned into: `1g.18gb`, `cpx`.
    pub profile: Option<String>,
    /// Parts of each GPU; each is a device of its own.
    #[serde(default = "one")]
    pub parts: u32,
    /// Folder where the agent makes `gpu0`, `gpu1`, …
    pub dev_dir: PathBuf,
    /// Device major, in the range for local use (120-127).
    pub major: u32,
    /// Minor of the group's first device; the next ones follow.
    #[serde(default)]
    pub minor: u32,
}

/// What the agent runs with.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file that it came from.
    pub file: PathBuf,
    /// Cluster name.
    pub cluster: String,
    /// This node's name.
    pub node: NodeName,
    /// Journal, step folders, the canary.
    pub state_dir: PathBuf,
    /// Where step clients connect.
    pub socket: PathBuf,
    /// The controller's agent socket.
    pub controller: PathBuf,
    /// File with the shared secret.
    pub token_file: PathBuf,
    /// Folder below the cgroup v2 mount that belongs to this agent.
    pub cgroup: PathBuf,
    /// Where the BPF file system is, or shall be mounted.
    pub bpffs: PathBuf,
    /// Folder below it that belongs to this agent.
    pub pins: String,
    /// Where discovery finds `/proc` and `/sys`.
    pub root: PathBuf,
    /// The least protection under which jobs are taken.
    pub require: Require,
    /// Seconds between TERM and KILL when a job is ended.
    pub kill_wait: u64,
    /// Fence InfiniBand devices as well.
    pub fence_infiniband: bool,
    /// Let the guard refuse signals to other jobs, not only note them.
    pub deny_signals: bool,
    /// For tests: another BPF object instead of the built-in fence, to see that a broken one is noticed.
    pub fence_object: Option<PathBuf>,
    /// How use is metered.
    pub meter: Meter,
    /// Features that the node tells of.
    pub features: Vec<String>,
    /// Declared inventory.
    pub declare: Declare,
}

fn one() -> u32 {
    1
}

impl DeclaredGpus {
    /// Devices of the group: GPUs, or their parts.
    pub fn devices(&self) -> u32 {
        self.count.saturating_mul(self.parts)
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error(
        "cannot read the configuration {file}: {source}; write it, or name another with --config"
    )]
    Read {
        /// Which file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not TOML, has an unknown key, or a value of the wrong type.
    #[error("{file}: {text}")]
    Syntax {
        /// Which file.
        file: PathBuf,
        /// The parser's message, with line and column.
        text: String,
    },
    /// A value makes no sense.
    #[error("{file}: {key} = {value:?}: {help}")]
    Value {
        /// Which file.
        file: PathBuf,
        /// Which key.
        key: String,
        /// What it says.
        value: String,
        /// What it should say.
        help: String,
    },
    /// The token file is missing, too open, or too short.
    #[error("token_file {file}: {why}")]
    Token {
        /// Which file.
        file: PathBuf,
        /// What is wrong and what to do.
        why: String,
    },
}

impl Config {
    /// Reads and checks a configuration file.
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(file).map_err(|source| ConfigError::Read {
            file: file.to_owned(),
            source,
        })?;
        Self::parse(file, &text)
    }

    /// Checks the text of a configuration; `file` is for messages.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        let raw: Raw = toml::from_str(text).map_err(|e| ConfigError::Syntax {
            file: file.to_owned(),
            text: e.to_string().trim_end().to_owned(),
        })?;
        check::check(file, raw).map_err(|(key, value, help)| ConfigError::Value {
            file: file.to_owned(),
            key,
            value,
            help,
        })
    }

    /// Where step clients reach this node, as the controller hands it out.
    pub fn address(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// Reads the shared secret: at least [`TOKEN_BYTES_MIN`] bytes without surrounding white space, in a file that only root (or the
    /// user that the agent runs as) may read or write.
    pub fn token(&self) -> Result<Vec<u8>, ConfigError> {
        let wrong = |why: String| ConfigError::Token {
            file: self.token_file.clone(),
            why,
        };
        let bytes = std::fs::read(&self.token_file).map_err(|e| {
            wrong(format!(
                "cannot read it: {e}; copy the controller's token file here"
            ))
        })?;
        let meta = std::fs::metadata(&self.token_file)
            .map_err(|e| wrong(format!("cannot look at it: {e}")))?;
        check_secret_mode(&meta).map_err(wrong)?;
        let token = bytes.trim_ascii();
        if token.len() < TOKEN_BYTES_MIN {
            return Err(wrong(format!(
                "it has {} bytes; at least {TOKEN_BYTES_MIN} are needed",
                token.len()
            )));
        }
        Ok(token.to_vec())
    }
}

/// A secret that others may read is none.
fn check_secret_mode(meta: &std::fs::Metadata) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let me = Uid(rustix::process::geteuid().as_raw());
    if meta.mode() & 0o077 != 0 {
        return Err(format!(
            "its mode is {:04o}: others can read or write it; run chmod 600",
            meta.mode() & 0o7777
        ));
    }
    if meta.uid() != 0 && Uid(meta.uid()) != me {
        return Err(format!(
            "it belongs to user {}; it must belong to root or to the agent's user",
            meta.uid()
        ));
    }
    Ok(())
}

fn default_state_dir() -> PathBuf {
    "/var/lib/spurd".into()
}
fn default_socket() -> PathBuf {
    "/run/spur/spurd.sock".into()
}
fn default_controller() -> String {
    "unix:/run/spur/agents.sock".into()
}
fn default_token_file() -> PathBuf {
    "/etc/spur/token".into()
}
fn default_folder() -> String {
    "spur".into()
}
fn default_bpffs() -> PathBuf {
    "/sys/fs/bpf".into()
}
fn default_root() -> PathBuf {
    "/".into()
}
fn default_require() -> Require {
    Require::Fence
}
fn default_kill_wait() -> u64 {
    30
}

#[cfg(test)]
mod tests;
