//! The controller's configuration: what is written (`Raw`), and what it means (`Config`).

mod node;
mod partition;
mod programs;
mod topology;

use crate::hooks::ControllerPrograms;
use crate::mail::Mailer;
use crate::usage::Place;
use serde::Deserialize;
use spur_core::agent::programs::NodePrograms;
use spur_core::event::Event;
use spur_core::id::NodeName;
use spur_core::job::licenses::{self, Licenses};
use spur_core::node::NodeConfig;
use spur_core::partition::Partition;
use spur_core::resources::MemoryRequest;
use spur_core::slurm::hostlist;
use spur_core::topology::Topology;
use std::collections::{BTreeMap, BTreeSet};
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
    door_socket: Option<PathBuf>,
    #[serde(default = "default_token_file")]
    token_file: PathBuf,
    #[serde(default)]
    operators: Vec<String>,
    #[serde(default = "default_min_job_age")]
    min_job_age: u64,
    #[serde(default = "default_max_array_size")]
    max_array_size: u32,
    #[serde(default = "default_node_timeout")]
    node_timeout: u64,
    #[serde(default)]
    default_mem_per_cpu: u64,
    #[serde(default)]
    default_mem_per_node: u64,
    #[serde(default)]
    accounting: RawAccounting,
    #[serde(default)]
    partition: Vec<partition::RawPartition>,
    #[serde(default)]
    node: Vec<node::RawNode>,
    #[serde(default)]
    topology: topology::RawTopology,
    #[serde(default)]
    accounting_enforce: Vec<Enforce>,
    mail_prog: Option<PathBuf>,
    mail_domain: Option<String>,
    #[serde(default)]
    programs: programs::RawPrograms,
    #[serde(default)]
    licenses: BTreeMap<String, u32>,
}

/// What of accounts is enforced (Slurm's `AccountingStorageEnforce`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Enforce {
    /// Jobs need an association of their user with their account.
    Associations,
    /// Jobs need a quality of service that exists.
    Qos,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAccounting {
    #[serde(default = "default_keep_days")]
    keep_days: u64,
    postgres: Option<String>,
}

impl Default for RawAccounting {
    fn default() -> Self {
        Self {
            keep_days: default_keep_days(),
            postgres: None,
        }
    }
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
fn default_max_array_size() -> u32 {
    spur_core::job::array::MAX_ARRAY_SIZE
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
    /// Where the agent of this host passes on what comes through the mesh; `None`: nothing does.
    pub door_socket: Option<PathBuf>,
    /// The shared secret: agents show it, step tickets are signed with it.
    pub token_file: PathBuf,
    /// Names of operators besides root.
    pub operators: BTreeSet<String>,
    /// Seconds that an ended job stays visible.
    pub min_job_age: u64,
    /// One more than the greatest index of an array's task; at least 1.
    pub max_array_size: u32,
    /// Seconds of silence after which a node is lost; at least 1.
    pub node_timeout: u64,
    /// Memory of jobs that ask for none, in partitions that say nothing of it.
    pub default_memory: MemoryRequest,
    /// What is kept of jobs after their end.
    pub accounting: Accounting,
    /// Partitions in written order; exactly one is the default.
    pub partitions: Vec<Partition>,
    /// What is said of nodes, by name.
    pub nodes: BTreeMap<NodeName, NodeConfig>,
    /// Which nodes are near one another.
    pub topology: Topology,
    /// How mails are sent.
    pub mailer: Mailer,
    /// What agents run around jobs.
    pub programs: NodePrograms,
    /// What the controller runs around allocations.
    pub controller_programs: ControllerPrograms,
    /// How many licenses there are.
    pub licenses: Licenses,
}

/// The accounting record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accounting {
    /// Days after its end that a job stays in it; at least 1.
    pub keep_days: u64,
    /// What of accounts is enforced.
    pub enforce: Vec<Enforce>,
    /// The server that has the record, if it is not in a file beside the log.
    pub server: Option<Place>,
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
            node_config: self.nodes.clone(),
            topology: self.topology.clone(),
            max_array_size: self.max_array_size,
            default_memory: self.default_memory,
            licenses: self.licenses.clone(),
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

/// The cluster's name: it becomes part of files' names and of messages.
fn check_name(cluster: &str) -> Result<(), String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if cluster.is_empty() || !cluster.chars().all(legal) {
        return Err(format!(
            "cluster = {cluster:?}: use letters, digits, '-', '_' and '.'"
        ));
    }
    Ok(())
}

fn absolute(path: &Path) -> Result<(), String> {
    if path.is_absolute() {
        return Ok(());
    }
    Err(format!("{}: use an absolute path", path.display()))
}

fn check_numbers(max_array_size: u32, node_timeout: u64) -> Result<(), String> {
    let most = spur_core::job::array::MAX_ARRAY_SIZE_MAX;
    if !(1..=most).contains(&max_array_size) {
        return Err(format!(
            "max_array_size = {max_array_size}: use 1 to {most}"
        ));
    }
    if node_timeout == 0 {
        return Err("node_timeout = 0: use at least 1 second".to_owned());
    }
    Ok(())
}

/// Licenses by name, none of them 0.
fn check_licenses(all: BTreeMap<String, u32>) -> Result<Licenses, String> {
    for (name, count) in &all {
        if !licenses::is_name(name) {
            return Err(format!(
                "licenses: {name:?}: use a name without blanks, and without any of ,;:=|&*()"
            ));
        }
        if *count == 0 {
            return Err(format!(
                "licenses: {name} = 0: use at least 1, or leave it out"
            ));
        }
    }
    Ok(all.into_iter().collect())
}

impl Raw {
    fn check(self) -> Result<Config, String> {
        let Self {
            cluster,
            state_dir,
            client_socket,
            agent_socket,
            door_socket,
            token_file,
            operators,
            min_job_age,
            max_array_size,
            node_timeout,
            default_mem_per_cpu,
            default_mem_per_node,
            accounting,
            partition,
            node,
            topology,
            accounting_enforce,
            mail_prog,
            mail_domain,
            programs,
            licenses,
        } = self;
        let (programs, controller_programs) = programs::check(programs)?;
        check_name(&cluster)?;
        check_numbers(max_array_size, node_timeout)?;
        let default_memory = default_memory(default_mem_per_cpu, default_mem_per_node)?;
        let keep_days = check_keep_days(accounting.keep_days)?;
        let server = accounting.postgres.as_deref();
        let server = server.map(|text| Place::server(text, &cluster)).transpose();
        let server = server.map_err(|why| format!("accounting: postgres: {why}"))?;
        let paths = [&state_dir, &client_socket, &agent_socket, &token_file];
        for path in paths.into_iter().chain(&door_socket).chain(&mail_prog) {
            absolute(path)?;
        }
        let partitions = partition::check(partition)?;
        let nodes = node::check(node)?;
        let topology = topology::check(topology, &partitions, &nodes)?;
        let operators = operators.into_iter().collect();
        Ok(Config {
            cluster,
            state_dir,
            client_socket,
            agent_socket,
            door_socket,
            token_file,
            operators,
            min_job_age,
            max_array_size,
            node_timeout,
            default_memory,
            accounting: Accounting {
                keep_days,
                enforce: accounting_enforce,
                server,
            },
            partitions,
            nodes,
            topology,
            mailer: Mailer {
                prog: mail_prog,
                domain: mail_domain,
            },
            programs,
            controller_programs,
            licenses: check_licenses(licenses)?,
        })
    }
}

fn check_keep_days(days: u64) -> Result<u64, String> {
    if (1..=KEEP_DAYS_MAX).contains(&days) {
        Ok(days)
    } else {
        Err(format!(
            "accounting: keep_days = {days}: use 1 to {KEEP_DAYS_MAX}"
        ))
    }
}

/// Memory of jobs that ask for none, of which at most one may be said.
fn default_memory(per_cpu: u64, per_node: u64) -> Result<MemoryRequest, String> {
    match (per_cpu, per_node) {
        (0, 0) => Ok(MemoryRequest::Default),
        (0, mib) => Ok(MemoryRequest::PerNode(mib)),
        (mib, 0) => Ok(MemoryRequest::PerCpu(mib)),
        (_, _) => Err("default_mem_per_node: give this or default_mem_per_cpu".to_owned()),
    }
}

/// The nodes of a host list.
fn names(list: &str) -> Result<Vec<NodeName>, String> {
    let names = hostlist::parse(list).map_err(|e| e.to_string())?;
    let names = names.into_iter().map(NodeName::new);
    names
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests;
