//! `scontrol show partition`.

use super::View;
use super::record::Record;
use spur_core::api::NodeView;
use spur_core::partition::{Partition, PartitionState};
use spur_core::slurm::{hostlist, timespec};
use std::sync::Arc;

/// The record of one partition; `nodes` are all nodes of the cluster.
pub fn record(
    view: &View,
    partition: &Partition,
    nodes: &[Arc<NodeView>],
    one_line: bool,
) -> String {
    let members: Vec<&NodeView> = nodes
        .iter()
        .map(AsRef::as_ref)
        .filter(|node: &&NodeView| node.partitions.contains(&partition.name))
        .collect();
    let mut record = Record::new(format!("PartitionName={}", partition.name), one_line);
    record.line("AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL");
    let default = if partition.default { "YES" } else { "NO" };
    record.line(format!("AllocNodes=ALL Default={default} QoS=N/A"));
    let time = partition
        .default_time
        .map_or_else(|| "NONE".to_owned(), timespec::limit_long);
    record.line(format!(
        "DefaultTime={time} DisableRootJobs=NO ExclusiveUser=NO ExclusiveTopo=NO GraceTime=0 Hidden=NO"
    ));
    record.line(format!(
        "MaxNodes={} MaxTime={} MinNodes={} LLN=NO MaxCPUsPerNode={} MaxCPUsPerSocket=UNLIMITED",
        limited(partition.max_nodes),
        timespec::limit_long(partition.max_time),
        partition.min_nodes,
        limited(partition.max_cpus_per_node)
    ));
    let names: Vec<&str> = members.iter().map(|node| node.node.name.as_str()).collect();
    record.line(format!(
        "Nodes={}",
        super::or_null(&hostlist::compress(&names))
    ));
    record.line(format!(
        "PriorityJobFactor=1 PriorityTier={} RootOnly=NO ReqResv=NO OverSubscribe=NO",
        partition.priority_tier
    ));
    record.line("OverTimeLimit=NONE PreemptMode=OFF");
    let cpus: u64 = members
        .iter()
        .map(|node| u64::from(node.node.inventory.cpus))
        .sum();
    record.line(format!(
        "State={} TotalCPUs={cpus} TotalNodes={} SelectTypeParameters=NONE",
        state(partition.state),
        members.len()
    ));
    record.line(format!("JobDefaults={}", job_defaults(partition)));
    record.line(format!(
        "{} {}",
        default_memory(partition),
        most_memory(partition)
    ));
    record.line(format!("TRES={}", tres(view, cpus, &members)));
    record.end()
}

fn default_memory(partition: &Partition) -> String {
    match partition.default_mem_per_cpu {
        0 => "DefMemPerNode=UNLIMITED".to_owned(),
        mib => format!("DefMemPerCPU={mib}"),
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
fn job_defaults(partition: &Partition) -> String {
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

fn tres(view: &View, cpus: u64, members: &[&NodeView]) -> String {
    let memory = members
        .iter()
        .map(|node| node.node.inventory.memory_mib)
        .sum();
    let gpus = members
        .iter()
        .map(|node| node.node.inventory.gpus.len() as u64)
        .sum();
    super::job_text::tres(view, cpus, memory, members.len() as u64, gpus)
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
