//! `spurd.toml`: what a file may say ([`Raw`], exactly the keys below), checked into what the agent runs with ([`Config`]).
//!
//! The file is read once. Every error names the file, the key and what to do.

use serde::Deserialize;
use spur_core::id::{NodeName, Uid};
use std::path::{Path, PathBuf};

/// Where the file is when no `--config` names another.
pub const DEFAULT_PATH: &str = "/etc/spur/spurd.toml";

/// Most GPUs that a node may have, found or declared.
pub const GPUS_MAX: u32 = 256;

/// Most CPUs that may be declared.
pub const CPUS_MAX: u32 = 8192;

/// Longest path of a Unix socket in bytes (`sun_path` less its NUL, unix(7)).
const SOCKET_PATH_MAX: usize = 107;

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
    fence_object: Option<PathBuf>,
    declare: Option<Declare>,
}

/// Inventory that replaces what is found; what is absent here is discovered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declare {
    /// CPUs; at least 1.
    pub cpus: Option<u32>,
    /// Memory in MiB; at least 1.
    pub memory_mib: Option<u64>,
    /// Stand-ins for GPUs. An empty list declares a node without GPUs.
    pub gpus: Option<Vec<DeclaredGpus>>,
}

/// A group of equal stand-ins: device nodes `gpuK` without a driver, which the fence treats as GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredGpus {
    /// GRES type, lower case.
    pub model: String,
    /// How many.
    pub count: u32,
    /// Memory of each in MiB.
    #[serde(default)]
    pub memory_mib: u64,
    /// Folder where the agent makes `gpu0`, `gpu1`, …
    pub dev_dir: PathBuf,
    /// Device major, in the range for local use (120-127).
    pub major: u32,
    /// Minor of the group's first; the next ones follow.
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
    /// For tests: another BPF object instead of the built-in fence, to see that a broken one is noticed.
    pub fence_object: Option<PathBuf>,
    /// Declared inventory.
    pub declare: Declare,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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
    pub fn load(file: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(file).map_err(|source| Error::Read {
            file: file.to_owned(),
            source,
        })?;
        Self::parse(file, &text)
    }

    /// Checks the text of a configuration; `file` is for messages.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Error> {
        let raw: Raw = toml::from_str(text).map_err(|e| Error::Syntax {
            file: file.to_owned(),
            text: e.to_string().trim_end().to_owned(),
        })?;
        check(file, raw)
    }

    /// Where step clients reach this node, as the controller hands it out.
    pub fn address(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// Reads the shared secret: at least [`TOKEN_BYTES_MIN`] bytes without surrounding white space, in a file that only root (or the
    /// user that the agent runs as) may read or write.
    pub fn token(&self) -> Result<Vec<u8>, Error> {
        let wrong = |why: String| Error::Token {
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

/// Turns what is written into what is meant, or says which key is wrong.
fn check(file: &Path, raw: Raw) -> Result<Config, Error> {
    let bad = |key: &str, value: &str, help: &str| Error::Value {
        file: file.to_owned(),
        key: key.to_owned(),
        value: value.to_owned(),
        help: help.to_owned(),
    };
    let node =
        NodeName::new(raw.node.clone()).map_err(|e| bad("node", &raw.node, &e.to_string()))?;
    if !is_word(&raw.cluster) {
        return Err(bad(
            "cluster",
            &raw.cluster,
            "use letters, digits, '-' and '_' (at most 64)",
        ));
    }
    let controller = raw
        .controller
        .strip_prefix("unix:")
        .map(PathBuf::from)
        .ok_or_else(|| {
            bad(
                "controller",
                &raw.controller,
                "write unix:/path, the controller's agent_socket on this machine",
            )
        })?;
    for (key, path) in [("socket", &raw.socket), ("controller", &controller)] {
        if path.as_os_str().len() > SOCKET_PATH_MAX {
            return Err(bad(
                key,
                &path.to_string_lossy(),
                "the path of a Unix socket has at most 107 bytes; use a shorter one",
            ));
        }
    }
    let absolute = [
        ("state_dir", &raw.state_dir),
        ("socket", &raw.socket),
        ("controller", &controller),
        ("token_file", &raw.token_file),
        ("bpffs", &raw.bpffs),
        ("root", &raw.root),
    ];
    for (key, path) in absolute
        .into_iter()
        .chain(raw.fence_object.as_ref().map(|path| ("fence_object", path)))
    {
        if !path.is_absolute() {
            return Err(bad(key, &path.to_string_lossy(), "write an absolute path"));
        }
    }
    let below = |name: &str| !name.is_empty() && name.split('/').all(is_word);
    if !below(&raw.cgroup) {
        return Err(bad(
            "cgroup",
            &raw.cgroup,
            "write a folder below the cgroup v2 mount, such as spur",
        ));
    }
    if !is_word(&raw.pins) {
        return Err(bad(
            "pins",
            &raw.pins,
            "write the name of a folder below bpffs, such as spur",
        ));
    }
    let declare = raw.declare.unwrap_or_default();
    check_declared(&declare).map_err(|(key, value, help)| bad(&key, &value, &help))?;
    Ok(Config {
        file: file.to_owned(),
        cluster: raw.cluster,
        node,
        state_dir: raw.state_dir,
        socket: raw.socket,
        controller,
        token_file: raw.token_file,
        cgroup: PathBuf::from(raw.cgroup),
        bpffs: raw.bpffs,
        pins: raw.pins,
        root: raw.root,
        require: raw.require,
        kill_wait: raw.kill_wait,
        fence_infiniband: raw.fence_infiniband,
        fence_object: raw.fence_object,
        declare,
    })
}

/// Key, value and advice of a declaration that makes no sense.
type Wrong = (String, String, String);

/// Checks the `[declare]` table.
fn check_declared(declare: &Declare) -> Result<(), Wrong> {
    let wrong =
        |key: &str, value: String, help: &str| Err((key.to_owned(), value, help.to_owned()));
    match declare.cpus {
        Some(cpus) if cpus == 0 || cpus > CPUS_MAX => {
            return wrong(
                "declare.cpus",
                cpus.to_string(),
                "write a number from 1 to 8192, or leave it out",
            );
        }
        Some(_) | None => {}
    }
    if declare.memory_mib == Some(0) {
        return wrong(
            "declare.memory_mib",
            "0".into(),
            "write a number of MiB above 0, or leave it out",
        );
    }
    let groups = declare.gpus.as_deref().unwrap_or_default();
    let total: u64 = groups.iter().map(|group| u64::from(group.count)).sum();
    if total > u64::from(GPUS_MAX) {
        return wrong(
            "declare.gpus.count",
            total.to_string(),
            "a node has at most 256 GPUs in all",
        );
    }
    for (at, group) in groups.iter().enumerate() {
        check_group(at, group)?;
        for other in &groups[..at] {
            let numbers = |g: &DeclaredGpus| g.minor..g.minor + g.count;
            let (a, b) = (numbers(group), numbers(other));
            if group.major == other.major && a.start < b.end && b.start < a.end {
                let value = group.minor.to_string();
                return wrong(
                    &format!("declare.gpus[{at}].minor"),
                    value,
                    "another group has these numbers; choose others",
                );
            }
            if group.dev_dir == other.dev_dir {
                let value = group.dev_dir.display().to_string();
                return wrong(
                    &format!("declare.gpus[{at}].dev_dir"),
                    value,
                    "another group has this folder; choose another",
                );
            }
        }
    }
    Ok(())
}

/// Checks one group of stand-ins.
fn check_group(at: usize, group: &DeclaredGpus) -> Result<(), Wrong> {
    let wrong = |key: &str, value: String, help: &str| {
        Err((format!("declare.gpus[{at}].{key}"), value, help.to_owned()))
    };
    let word = is_word(&group.model) && !group.model.bytes().any(|b| b.is_ascii_uppercase());
    if !word {
        return wrong(
            "model",
            group.model.clone(),
            "use lower case letters, digits, '-' and '_', such as h200",
        );
    }
    if group.count == 0 {
        return wrong(
            "count",
            "0".into(),
            "write a number above 0, or leave the group out",
        );
    }
    if !(120..=127).contains(&group.major) {
        return wrong(
            "major",
            group.major.to_string(),
            "use 120 to 127, which no driver takes",
        );
    }
    if group.minor >= 1 << 20 || group.minor + group.count > 1 << 20 {
        return wrong(
            "minor",
            group.minor.to_string(),
            "device minors end at 1048575",
        );
    }
    if !group.dev_dir.is_absolute() {
        return wrong(
            "dev_dir",
            group.dev_dir.display().to_string(),
            "write an absolute path",
        );
    }
    Ok(())
}

/// 1 to 64 letters, digits, `-`, `_`.
fn is_word(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
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
