//! `scontrol show partition`.

use super::View;
use super::node_columns::by_node;
use super::record::Record;
use spur_core::api::NodeView;
use spur_core::partition::{Partition, PartitionState};
use spur_core::slurm::{hostlist, timespec};
use std::sync::Arc;

/// The nodes of a partition.
#[derive(Debug)]
pub struct Members<'a>(Vec<&'a NodeView>);

impl<'a> Members<'a> {
    /// Those of all nodes of the cluster that are in it.
    pub fn of(partition: &Partition, nodes: &'a [Arc<NodeView>]) -> Self {
        let all = nodes.iter().map(AsRef::as_ref);
        let inside = |node: &&NodeView| node.partitions.contains(&partition.name);
        let mut members: Vec<&NodeView> = all.filter(inside).collect();
        members.sort_by(|a, b| by_node(&a.node.name, &b.node.name));
        Self(members)
    }

    /// Their names.
    pub fn names(&self) -> Vec<&'a str> {
        self.0.iter().map(|node| node.node.name.as_str()).collect()
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Their CPUs.
    pub fn cpus(&self) -> u64 {
        let cpus = self
            .0
            .iter()
            .map(|node| u64::from(node.node.inventory.cpus));
        cpus.sum()
    }

    /// All that they have.
    pub fn tres(&self, view: &View) -> String {
        let inventories = || self.0.iter().map(|node| &node.node.inventory);
        let memory = inventories().map(|inventory| inventory.memory_mib).sum();
        let gpus = inventories()
            .map(|inventory| inventory.gpus.len() as u64)
            .sum();
        super::job_text::tres(view, self.cpus(), memory, self.count(), gpus)
    }
}

/// The record of one partition; `nodes` are all nodes of the cluster.
pub fn record(
    view: &View,
    partition: &Partition,
    nodes: &[Arc<NodeView>],
    one_line: bool,
) -> String {
    let members = Members::of(partition, nodes);
    let mut record = Record::new(format!("PartitionName={}", partition.name), one_line);
    access(&mut record, partition);
    limits(&mut record, partition);
    record.line(format_args!(
        "Nodes={}",
        super::or_null(&hostlist::compress(&members.names()))
    ));
    record.line(format_args!(
        "PriorityJobFactor={} PriorityTier={} RootOnly={} ReqResv={} OverSubscribe={}",
        partition.priority_job_factor.unwrap_or(1),
        partition.priority_tier,
        yes(partition.root_only),
        yes(partition.require_reservation),
        or(&partition.over_subscribe, "NO")
    ));
    record.line(format_args!(
        "OverTimeLimit={} PreemptMode={}",
        or(&partition.over_time_limit, "NONE"),
        or(&partition.preempt_mode, "OFF")
    ));
    record.line(format_args!(
        "State={} TotalCPUs={} TotalNodes={} SelectTypeParameters=NONE",
        state(partition.state),
        members.cpus(),
        members.count()
    ));
    record.line(format_args!("JobDefaults={}", job_defaults(partition)));
    record.line(format_args!(
        "{} {}",
        default_memory(partition),
        most_memory(partition)
    ));
    record.line(format_args!("TRES={}", members.tres(view)));
    if !partition.billing_weights.is_empty() {
        record.line(format_args!(
            "TRESBillingWeights={}",
            partition.billing_weights
        ));
    }
    record.end();
    record.into_text()
}

fn yes(value: bool) -> &'static str {
    if value { "YES" } else { "NO" }
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

/// `AllowAccounts=ALL`, `AllowAccounts=a,b`, `DenyAccounts=c`.
fn allowed(what: &str, allow: &[String], deny: &[String]) -> String {
    match (allow, deny) {
        ([], []) => format!("Allow{what}=ALL"),
        ([], deny) => format!("Deny{what}={}", deny.join(",")),
        (allow, _) => format!("Allow{what}={}", allow.join(",")),
    }
}

fn access(record: &mut Record, partition: &Partition) {
    record.line(format_args!(
        "{} {} {}",
        allowed("Groups", &partition.allow_groups, &[]),
        allowed(
            "Accounts",
            &partition.allow_accounts,
            &partition.deny_accounts
        ),
        allowed("Qos", &partition.allow_qos, &partition.deny_qos)
    ));
    let alternate = match partition.alternate.as_str() {
        "" => String::new(),
        name => format!(" Alternate={name}"),
    };
    record.line(format_args!(
        "AllocNodes={}{alternate} Default={} QoS={}",
        or(&partition.alloc_nodes, "ALL"),
        yes(partition.default),
        or(&partition.qos, "N/A")
    ));
}

fn limits(record: &mut Record, partition: &Partition) {
    let time = partition
        .default_time
        .map_or_else(|| "NONE".to_owned(), timespec::limit_long);
    record.line(format_args!(
        "DefaultTime={time} DisableRootJobs={} ExclusiveUser={} ExclusiveTopo=NO GraceTime={} Hidden={}",
        yes(partition.disable_root_jobs),
        yes(partition.exclusive_user),
        partition.grace_time,
        yes(partition.hidden)
    ));
    record.line(format_args!(
        "MaxNodes={} MaxTime={} MinNodes={} LLN={} MaxCPUsPerNode={} MaxCPUsPerSocket={}",
        limited(partition.max_nodes),
        timespec::limit_long(partition.max_time),
        partition.min_nodes,
        yes(partition.least_loaded),
        limited(partition.max_cpus_per_node),
        limited(partition.max_cpus_per_socket)
    ));
}

fn default_memory(partition: &Partition) -> String {
    match (
        partition.default_mem_per_cpu,
        partition.default_mem_per_node,
    ) {
        (0, 0) => "DefMemPerNode=UNLIMITED".to_owned(),
        (0, mib) => format!("DefMemPerNode={mib}"),
        (mib, _) => format!("DefMemPerCPU={mib}"),
    }
}

fn most_memory(partition: &Partition) -> String {
    match (partition.max_mem_per_cpu, partition.max_mem_per_node) {
        (0, 0) => "MaxMemPerNode=UNLIMITED".to_owned(),
        (0, mib) => format!("MaxMemPerNode={mib}"),
        (mib, _) => format!("MaxMemPerCPU={mib}"),
    }
}

/// `DefCpuPerGPU=4,DefMemPerGPU=2000`.
pub fn job_defaults(partition: &Partition) -> String {
    let set = |key: &str, value: u64| (value > 0).then(|| format!("{key}={value}"));
    let cpus = set("DefCpuPerGPU", partition.def_cpu_per_gpu.into());
    let memory = set("DefMemPerGPU", partition.def_mem_per_gpu);
    let set: Vec<String> = cpus.into_iter().chain(memory).collect();
    super::or_null(&set.join(",")).to_owned()
}

/// A limit of which 0 is none.
pub fn limited(limit: u32) -> String {
    match limit {
        0 => "UNLIMITED".to_owned(),
        limit => limit.to_string(),
    }
}

/// The state as records show it.
pub fn state(state: PartitionState) -> &'static str {
    match state {
        PartitionState::Up => "UP",
        PartitionState::Down => "DOWN",
        PartitionState::Drain => "DRAIN",
        PartitionState::Inactive => "INACTIVE",
    }
}
