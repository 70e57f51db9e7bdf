//! The controller's configuration: what is written (`Raw`), and what it means (`Config`).

use serde::Deserialize;
use spur_core::event::Event;
use spur_core::id::NodeName;
use spur_core::partition::{Partition, PartitionState};
use spur_core::slurm::{hostlist, timespec};
use spur_core::time::TimeLimit;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where the configuration lies if nobody says.
pub const DEFAULT_PATH: &str = "/etc/spur/spur.toml";

/// The shortest token that is taken, in bytes.
pub const TOKEN_MIN: usize = 32;

/// Longest time that jobs stay in the accounting record, in days: a hundred years.
const KEEP_DAYS_MAX: u64 = 36_500;

/// The file as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    cluster: String,
    #[serde(default = "default_state_dir")]
    state_dir: PathBuf,
    #[serde(default = "default_client_socket")]
    client_socket: PathBuf,
    #[serde(default = "default_agent_socket")]
    agent_socket: PathBuf,
    #[serde(default = "default_token_file")]
    token_file: PathBuf,
    #[serde(default)]
    operators: Vec<String>,
    #[serde(default = "default_min_job_age")]
    min_job_age: u64,
    #[serde(default = "default_node_timeout")]
    node_timeout: u64,
    #[serde(default)]
    accounting: RawAccounting,
    #[serde(default)]
    partition: Vec<RawPartition>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAccounting {
    #[serde(default = "default_keep_days")]
    keep_days: u64,
}

impl Default for RawAccounting {
    fn default() -> Self {
        Self {
            keep_days: default_keep_days(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPartition {
    name: String,
    #[serde(default)]
    default: bool,
    nodes: Option<String>,
    max_time: Option<String>,
    default_time: Option<String>,
    #[serde(default)]
    default_mem_per_cpu: u64,
    #[serde(default = "default_tier")]
    priority_tier: u32,
}

fn default_state_dir() -> PathBuf {
    "/var/lib/spur".into()
}
fn default_client_socket() -> PathBuf {
    "/run/spur/spurctld.sock".into()
}
fn default_agent_socket() -> PathBuf {
    "/run/spur/agents.sock".into()
}
fn default_token_file() -> PathBuf {
    "/etc/spur/token".into()
}
fn default_min_job_age() -> u64 {
    300
}
fn default_node_timeout() -> u64 {
    300
}
fn default_keep_days() -> u64 {
    crate::usage::KEEP_DAYS
}
fn default_tier() -> u32 {
    1
}

/// The configuration, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Cluster name.
    pub cluster: String,
    /// Folder of the database.
    pub state_dir: PathBuf,
    /// Where commands connect.
    pub client_socket: PathBuf,
    /// Where agents connect.
    pub agent_socket: PathBuf,
    /// The shared secret: agents show it, step tickets are signed with it.
    pub token_file: PathBuf,
    /// Names of operators besides root.
    pub operators: BTreeSet<String>,
    /// Seconds that an ended job stays visible.
    pub min_job_age: u64,
    /// Seconds of silence after which a node is lost; at least 1.
    pub node_timeout: u64,
    /// What is kept of jobs after their end.
    pub accounting: Accounting,
    /// Partitions in written order; exactly one is the default.
    pub partitions: Vec<Partition>,
}

/// The accounting record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accounting {
    /// Days after its end that a job stays in it; at least 1.
    pub keep_days: u64,
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// It is not TOML, or a field is missing or unknown.
    #[error("{path}: {cause}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and what.
        cause: Box<toml::de::Error>,
    },
    /// A value makes no sense.
    #[error("{path}: {what}")]
    Value {
        /// The file.
        path: PathBuf,
        /// Which, and what it must be.
        what: String,
    },
}

impl Config {
    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|cause| ConfigError::Read {
            path: path.to_owned(),
            cause,
        })?;
        let raw: Raw = toml::from_str(&text).map_err(|cause| ConfigError::Syntax {
            path: path.to_owned(),
            cause: Box::new(cause),
        })?;
        raw.check().map_err(|what| ConfigError::Value {
            path: path.to_owned(),
            what,
        })
    }

    /// The event by which the cluster learns of it.
    pub fn event(&self) -> Event {
        Event::Configured {
            cluster: self.cluster.clone(),
            partitions: self.partitions.clone(),
            min_job_age: self.min_job_age,
            node_timeout: self.node_timeout,
            node_config: Default::default(),
            topology: Default::default(),
        }
    }

    /// The cluster's token. It must be private, and long enough not to be guessed.
    pub fn token(&self) -> Result<Vec<u8>, ConfigError> {
        use std::os::unix::fs::MetadataExt;
        let path = &self.token_file;
        let read = |cause| ConfigError::Read {
            path: path.clone(),
            cause,
        };
        let value = |what| ConfigError::Value {
            path: path.clone(),
            what,
        };
        let mode = std::fs::metadata(path).map_err(read)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(value(format!(
                "the token has mode {mode:04o}: others may read it; use 0600"
            )));
        }
        let mut token = std::fs::read(path).map_err(read)?;
        token.truncate(token.trim_ascii_end().len());
        if token.len() < TOKEN_MIN {
            return Err(value(format!(
                "the token has {} bytes: use at least {TOKEN_MIN}",
                token.len()
            )));
        }
        Ok(token)
    }
}

impl Raw {
    fn check(self) -> Result<Config, String> {
        let Self {
            cluster,
            state_dir,
            client_socket,
            agent_socket,
            token_file,
            operators,
            min_job_age,
            node_timeout,
            accounting,
            partition,
        } = self;
        if cluster.is_empty()
            || !cluster
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        {
            return Err(format!(
                "cluster = {cluster:?}: use letters, digits, '-', '_' and '.'"
            ));
        }
        if node_timeout == 0 {
            return Err("node_timeout = 0: use at least 1 second".to_owned());
        }
        let keep_days = accounting.keep_days;
        if !(1..=KEEP_DAYS_MAX).contains(&keep_days) {
            return Err(format!(
                "accounting: keep_days = {keep_days}: use 1 to {KEEP_DAYS_MAX}"
            ));
        }
        for path in [&state_dir, &client_socket, &agent_socket, &token_file] {
            if !path.is_absolute() {
                return Err(format!("{}: use an absolute path", path.display()));
            }
        }
        let partitions = partitions(partition)?;
        let operators = operators.into_iter().collect();
        Ok(Config {
            cluster,
            state_dir,
            client_socket,
            agent_socket,
            token_file,
            operators,
            min_job_age,
            node_timeout,
            accounting: Accounting { keep_days },
            partitions,
        })
    }
}

/// Checks the partitions; a single one is the default even if it does not say so.
fn partitions(raw: Vec<RawPartition>) -> Result<Vec<Partition>, String> {
    let mut partitions = raw
        .into_iter()
        .map(RawPartition::check)
        .collect::<Result<Vec<_>, _>>()?;
    if let [only] = partitions.as_mut_slice() {
        only.default = true;
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = partitions.iter().find(|p| !names.insert(&p.name)) {
        return Err(format!("partition {:?} is there twice", twice.name));
    }
    match partitions.iter().filter(|p| p.default).count() {
        1 => Ok(partitions),
        0 if partitions.is_empty() => Err("no [[partition]]: jobs need at least one".to_owned()),
        0 => Err("no partition has default = true".to_owned()),
        _ => Err("more than one partition has default = true".to_owned()),
    }
}

impl RawPartition {
    fn check(self) -> Result<Partition, String> {
        let Self {
            name,
            default,
            nodes,
            max_time,
            default_time,
            default_mem_per_cpu,
            priority_tier,
        } = self;
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || !name.chars().all(legal) {
            return Err(format!(
                "partition name {name:?}: use letters, digits, '-', '_' and '.'"
            ));
        }
        let of = |what: &str, cause: &dyn std::fmt::Display| {
            format!("partition {name:?}: {what}: {cause}")
        };
        let limit = |what: &str, text: Option<String>| match text
            .map(|text| timespec::parse_limit(&text))
        {
            None => Ok(None),
            Some(Ok(limit)) => Ok(Some(limit)),
            Some(Err(e)) => Err(of(what, &e)),
        };
        let max_time = limit("max_time", max_time)?.unwrap_or(TimeLimit::Unlimited);
        let default_time = limit("default_time", default_time)?;
        if default_time.is_some_and(|default| default > max_time) {
            return Err(of("default_time", &"exceeds max_time"));
        }
        let nodes = match nodes.as_deref() {
            None | Some("ALL") => None,
            Some(list) => {
                let names = hostlist::parse(list).map_err(|e| of("nodes", &e))?;
                let names = names
                    .into_iter()
                    .map(NodeName::new)
                    .collect::<Result<Vec<_>, _>>();
                Some(names.map_err(|e| of("nodes", &e))?)
            }
        };
        Ok(Partition {
            name,
            default,
            nodes,
            max_time,
            default_time,
            default_mem_per_cpu,
            state: PartitionState::Up,
            priority_tier,
            min_nodes: 0,
            max_nodes: 0,
            max_cpus_per_node: 0,
            max_mem_per_node: 0,
            max_mem_per_cpu: 0,
            def_mem_per_gpu: 0,
            def_cpu_per_gpu: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(
        clippy::unwrap_in_result,
        reason = "a test fails when it cannot write its file"
    )]
    fn read(text: &str) -> Result<Config, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Config::read(file.path()).map_err(|e| {
            e.to_string()
                .replace(&file.path().display().to_string(), "FILE")
        })
    }

    #[test]
    fn the_contract_file_is_understood() {
        let config = read(
            r#"
            cluster = "dev"
            state_dir = "/var/lib/spur"
            client_socket = "/run/spur/spurctld.sock"
            agent_socket = "/run/spur/agents.sock"
            token_file = "/etc/spur/token"
            operators = ["alice"]
            min_job_age = 300
            node_timeout = 300
            [[partition]]
            name = "gpu"
            default = true
            nodes = "n[1-4]"
            max_time = "1-00:00:00"
            default_time = "01:00:00"
            default_mem_per_cpu = 1024
            "#,
        )
        .unwrap();
        let partition = &config.partitions[0];
        assert_eq!(partition.max_time, TimeLimit::Secs(86_400));
        assert_eq!(partition.default_time, Some(TimeLimit::Secs(3600)));
        assert_eq!(partition.nodes.as_ref().unwrap().len(), 4);
    }

    #[test]
    fn the_shortest_file_is_understood() {
        let config = read("cluster = \"c\"\n[[partition]]\nname = \"p\"").unwrap();
        assert!(config.partitions[0].default);
        assert_eq!(config.partitions[0].nodes, None);
        assert_eq!(config.accounting.keep_days, 365);
    }

    #[test]
    fn mistakes_are_named() {
        let partition = "[[partition]]\nname = \"p\"\n";
        for (text, says) in [
            ("cluster = \"c\"", "no [[partition]]"),
            (
                &format!("cluster = \"c d\"\n{partition}"),
                "cluster = \"c d\"",
            ),
            (&format!("cluster = \"c\"\nfoo = 1\n{partition}"), "foo"),
            (
                &format!("cluster = \"c\"\nstate_dir = \"x\"\n{partition}"),
                "use an absolute path",
            ),
            (
                &format!("cluster = \"c\"\n{partition}max_time = \"soon\""),
                "max_time: invalid time \"soon\"",
            ),
            (
                &format!("cluster = \"c\"\n{partition}nodes = \"n[1-\""),
                "partition \"p\": nodes",
            ),
            (&format!("cluster = \"c\"\n{partition}{partition}"), "twice"),
            (
                &format!("cluster = \"c\"\n[accounting]\nkeep_days = 0\n{partition}"),
                "accounting: keep_days = 0: use 1 to",
            ),
            (
                &format!("cluster = \"c\"\n[accounting]\nforever = true\n{partition}"),
                "forever",
            ),
            (
                &format!("cluster = \"c\"\n{partition}max_time = \"1\"\ndefault_time = \"2\""),
                "exceeds max_time",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(says), "{text}\n{error}");
        }
    }

    #[test]
    fn a_token_that_others_may_read_or_that_is_short_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let token_file = dir.path().join("token");
        let mut config = read("cluster = \"c\"\n[[partition]]\nname = \"p\"").unwrap();
        config.token_file.clone_from(&token_file);
        for (token, mode, good) in [
            ("x", 0o600, false),
            (&"x".repeat(32), 0o640, false),
            (&"x".repeat(32), 0o600, true),
        ] {
            std::fs::write(&token_file, format!("{token}\n")).unwrap();
            std::fs::set_permissions(&token_file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(config.token().is_ok(), good, "{token} {mode:o}");
        }
    }
}
