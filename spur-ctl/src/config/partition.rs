//! `[[partition]]`.

use super::names;
use serde::Deserialize;
use spur_core::manage::{self, Setting};
use spur_core::partition::{Partition, PartitionState};
use spur_core::slurm::timespec;
use spur_core::time::TimeLimit;
use std::collections::{BTreeMap, BTreeSet};

/// A partition as written. Of every limit, 0 is none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPartition {
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
    #[serde(default)]
    min_nodes: u32,
    #[serde(default)]
    max_nodes: u32,
    #[serde(default)]
    max_cpus_per_node: u32,
    #[serde(default)]
    max_mem_per_node: u64,
    #[serde(default)]
    max_mem_per_cpu: u64,
    #[serde(default)]
    def_mem_per_gpu: u64,
    #[serde(default)]
    def_cpu_per_gpu: u32,
    #[serde(default)]
    default_mem_per_node: u64,
    #[serde(default)]
    state: RawState,
    #[serde(default)]
    allow_groups: Vec<String>,
    #[serde(default)]
    allow_accounts: Vec<String>,
    #[serde(default)]
    deny_accounts: Vec<String>,
    #[serde(default)]
    allow_qos: Vec<String>,
    #[serde(default)]
    deny_qos: Vec<String>,
    #[serde(default)]
    hidden: bool,
    #[serde(default)]
    root_only: bool,
    #[serde(default)]
    require_reservation: bool,
    #[serde(default)]
    disable_root_jobs: bool,
    /// What is only kept and shown, by Slurm's names: `{ OverSubscribe = "FORCE:4", GraceTime = "60" }`.
    #[serde(default)]
    shown: BTreeMap<String, String>,
}

/// `state`; what an operator set later outlives the file.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawState {
    #[default]
    Up,
    Down,
    Drain,
    Inactive,
}

impl From<RawState> for PartitionState {
    fn from(state: RawState) -> Self {
        match state {
            RawState::Up => Self::Up,
            RawState::Down => Self::Down,
            RawState::Drain => Self::Drain,
            RawState::Inactive => Self::Inactive,
        }
    }
}

fn default_tier() -> u32 {
    1
}

/// Checks the partitions; a single one is the default even if it does not say so.
pub(super) fn check(raw: Vec<RawPartition>) -> Result<Vec<Partition>, String> {
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

fn check_name(name: &str) -> Result<(), String> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(legal) {
        return Err(format!(
            "partition name {name:?}: use letters, digits, '-', '_' and '.'"
        ));
    }
    Ok(())
}

impl RawPartition {
    fn check(self) -> Result<Partition, String> {
        let name = self.name;
        check_name(&name)?;
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
        let max_time = limit("max_time", self.max_time)?.unwrap_or(TimeLimit::Unlimited);
        let default_time = limit("default_time", self.default_time)?;
        if default_time.is_some_and(|default| default > max_time) {
            return Err(of("default_time", &"exceeds max_time"));
        }
        if self.max_nodes > 0 && self.min_nodes > self.max_nodes {
            return Err(of("min_nodes", &"exceeds max_nodes"));
        }
        if self.max_mem_per_node > 0 && self.max_mem_per_cpu > 0 {
            return Err(of("max_mem_per_cpu", &"give this or max_mem_per_node"));
        }
        let nodes = match self.nodes.as_deref() {
            None | Some("ALL") => None,
            Some(list) => Some(names(list).map_err(|e| of("nodes", &e))?),
        };
        if self.default_mem_per_cpu > 0 && self.default_mem_per_node > 0 {
            return Err(of(
                "default_mem_per_node",
                &"give this or default_mem_per_cpu",
            ));
        }
        let partition = Partition {
            name: name.clone(),
            default: self.default,
            nodes,
            max_time,
            default_time,
            default_mem_per_cpu: self.default_mem_per_cpu,
            state: self.state.into(),
            priority_tier: self.priority_tier,
            min_nodes: self.min_nodes,
            max_nodes: self.max_nodes,
            max_cpus_per_node: self.max_cpus_per_node,
            max_mem_per_node: self.max_mem_per_node,
            max_mem_per_cpu: self.max_mem_per_cpu,
            def_mem_per_gpu: self.def_mem_per_gpu,
            def_cpu_per_gpu: self.def_cpu_per_gpu,
            default_mem_per_node: self.default_mem_per_node,
            allow_groups: self.allow_groups,
            allow_accounts: self.allow_accounts,
            deny_accounts: self.deny_accounts,
            allow_qos: self.allow_qos,
            deny_qos: self.deny_qos,
            hidden: self.hidden,
            root_only: self.root_only,
            require_reservation: self.require_reservation,
            disable_root_jobs: self.disable_root_jobs,
            ..Partition::default()
        };
        let shown = self.shown.into_iter();
        let shown: Vec<Setting> = shown.map(|(key, value)| Setting { key, value }).collect();
        manage::with_settings(&partition, &shown).map_err(|why| of("shown", &why.text))
    }
}
