//! Partitions in structured output.

use super::{Document, Number};
use crate::cli::render::View;
use crate::cli::render::show_partition::{self, Members};
use spur_core::api::NodeView;
use spur_core::partition::Partition;
use spur_core::slurm::hostlist;
use spur_core::time::TimeLimit;
use std::sync::Arc;

/// `partitions`, `last_update`.
pub fn all(doc: &mut Document, view: &View, partitions: &[Partition], nodes: &[Arc<NodeView>]) {
    doc.list("partitions", partitions, |doc, partition| {
        let members = Members::of(partition, nodes);
        doc.item(|doc| one(doc, view, partition, &members));
    });
    doc.number("last_update", Number::Is(view.clock.now.secs()));
}

/// The fields of one partition.
pub fn one(doc: &mut Document, view: &View, partition: &Partition, members: &Members<'_>) {
    doc.map("nodes", |doc| {
        doc.text("allowed_allocation", &partition.alloc_nodes);
        doc.text("configured", &hostlist::compress(&members.names()));
        doc.count("total", members.count());
    });
    doc.map("accounts", |doc| {
        doc.text("allowed", &partition.allow_accounts.join(","));
        doc.text("deny", &partition.deny_accounts.join(","));
    });
    doc.map("groups", |doc| {
        doc.text("allowed", &partition.allow_groups.join(","))
    });
    doc.map("qos", |doc| {
        doc.text("allowed", &partition.allow_qos.join(","));
        doc.text("deny", &partition.deny_qos.join(","));
        doc.text("assigned", &partition.qos);
    });
    doc.text("alternate", &partition.alternate);
    doc.map("tres", |doc| {
        doc.text("billing_weights", &partition.billing_weights);
        doc.text("configured", &members.tres(view));
    });
    doc.text("cluster", "");
    doc.list("select_type", None::<u8>, |_, _| ());
    doc.map("cpus", |doc| {
        doc.int("task_binding", 0);
        doc.count("total", members.cpus());
    });
    doc.map("defaults", |doc| defaults(doc, partition));
    doc.int("grace_time", partition.grace_time);
    doc.map("maximums", |doc| maximums(doc, partition));
    doc.map("minimums", |doc| doc.int("nodes", partition.min_nodes));
    doc.text("name", &partition.name);
    doc.text("node_sets", "");
    doc.map("priority", |doc| {
        doc.int("job_factor", partition.priority_job_factor.unwrap_or(1));
        doc.int("tier", partition.priority_tier);
    });
    doc.map("timeouts", |doc| {
        doc.number("resume", Number::Unset);
        doc.number("suspend", Number::Unset);
    });
    doc.map("partition", |doc| {
        doc.texts("state", [show_partition::state(partition.state)]);
    });
    doc.number("suspend_time", Number::Unset);
}

/// A limit of which 0 is none.
fn limit(count: u32) -> Number {
    match count {
        0 => Number::Infinite,
        count => Number::Is(count.into()),
    }
}

fn minutes(time: TimeLimit) -> Number {
    match time {
        TimeLimit::Unlimited => Number::Infinite,
        TimeLimit::Secs(secs) => Number::Is(secs / 60),
    }
}

/// Memory for each CPU and on each node, of which one counts.
fn memory(doc: &mut Document, per_cpu: u64, per_node: u64) {
    let (cpu, node) = match per_cpu {
        0 => (Number::Unset, Number::Is(per_node)),
        mib => (Number::Is(mib), Number::Unset),
    };
    doc.number("partition_memory_per_cpu", cpu);
    doc.number("partition_memory_per_node", node);
}

fn defaults(doc: &mut Document, partition: &Partition) {
    doc.count("memory_per_cpu", partition.default_mem_per_cpu);
    memory(
        doc,
        partition.default_mem_per_cpu,
        partition.default_mem_per_node,
    );
    doc.number(
        "time",
        partition.default_time.map_or(Number::Unset, minutes),
    );
    doc.text("job", super::bare(&show_partition::job_defaults(partition)));
}

fn maximums(doc: &mut Document, partition: &Partition) {
    doc.number("cpus_per_node", limit(partition.max_cpus_per_node));
    doc.number("cpus_per_socket", limit(partition.max_cpus_per_socket));
    doc.count("memory_per_cpu", partition.max_mem_per_cpu);
    memory(doc, partition.max_mem_per_cpu, partition.max_mem_per_node);
    doc.number("nodes", limit(partition.max_nodes));
    doc.int("shares", 1);
    doc.map("oversubscribe", |doc| {
        let jobs = partition.over_subscribe.split_once(':');
        let count = jobs.and_then(|(_, count)| count.parse::<u32>().ok());
        doc.int("jobs", count.unwrap_or(1));
        let force = partition.over_subscribe.starts_with("FORCE");
        doc.texts("flags", force.then_some("force"));
    });
    doc.number("time", minutes(partition.max_time));
    doc.number(
        "over_time_limit",
        Number::maybe(partition.over_time_limit.parse().ok()),
    );
}
