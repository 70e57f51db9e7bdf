//! `sinfo --json` and `--yaml`: one record for each group of nodes of a partition.

use crate::cli::failure::Failure;
use crate::cli::link;
use crate::cli::render::View;
use crate::cli::render::data::{Asked, Document, Meta, Number, bare, node, partition};
use crate::cli::render::node_groups::{Group, cpu_counts, node_counts};
use crate::cli::render::node_text;
use crate::cli::render::show_partition::Members;
use spur_core::api::NodeView;
use spur_core::node::Node;
use spur_core::slurm::codes::node_state;
use spur_core::slurm::gres;
use std::sync::Arc;

/// The columns in which nodes of a record must be alike.
pub const COLUMNS: &str = "partition,available,time,nodes,statecompact,nodelist,gresused";

/// Prints the groups; `nodes` are all nodes of the cluster.
pub fn show(
    asked: Asked,
    view: &View,
    groups: &[Group],
    nodes: &[Arc<NodeView>],
) -> Result<(), Failure> {
    let failed = |trouble: link::Trouble| super::load_error(&trouble);
    let cluster = link::cluster_name().map_err(failed)?;
    let mut doc = Document::begin(asked);
    doc.list("sinfo", groups, |doc, group| {
        doc.item(|doc| one(doc, view, group, nodes));
    });
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let mut words: Vec<String> = words.collect();
    if let Some(own) = words.first_mut() {
        *own = "sinfo".to_owned();
    }
    doc.finish(&Meta::of_process(&cluster, words), &[], &[]);
    Ok(())
}

fn one(doc: &mut Document, view: &View, group: &Group, nodes: &[Arc<NodeView>]) {
    let first = group.nodes.first().map(AsRef::as_ref);
    doc.int("port", 0);
    doc.map("node", |doc| match first {
        Some(shown) => node::states(doc, shown),
        None => doc.list("state", None::<u8>, |_, _| ()),
    });
    counts(doc, group);
    sizes(doc, group);
    said(doc, view, first);
    let partition = &group.partition.1;
    doc.map("partition", |doc| {
        partition::one(doc, view, partition, &Members::of(partition, nodes));
    });
}

fn counts(doc: &mut Document, group: &Group) {
    let [allocated, idle, other, total] = node_counts(&group.nodes).map(|count| count as u64);
    doc.map("nodes", |doc| {
        doc.count("allocated", allocated);
        doc.count("idle", idle);
        doc.count("other", other);
        doc.count("total", total);
        doc.list("hostnames", None::<u8>, |_, _| ());
        doc.list("addresses", None::<u8>, |_, _| ());
        doc.texts(
            "nodes",
            group.nodes.iter().map(|node| node.node.name.as_str()),
        );
    });
    let [allocated, idle, other, total] = cpu_counts(&group.nodes);
    doc.map("cpus", |doc| {
        doc.count("allocated", allocated);
        doc.count("idle", idle);
        doc.count("other", other);
        doc.count("total", total);
        range(doc, group, |node| node.inventory.cpus.into());
        doc.map("load", |doc| {
            range(doc, group, |node| node.load_x100.into())
        });
        doc.map("per_node", |doc| {
            let most = group.partition.1.max_cpus_per_node;
            let most = match most {
                0 => Number::Infinite,
                most => Number::Is(most.into()),
            };
            doc.number("max", most);
        });
    });
}

/// The least and the greatest of something.
fn span(group: &Group, read: impl Fn(&Node) -> u64) -> (u64, u64) {
    let all = || group.nodes.iter().map(|node| read(&node.node));
    (all().min().unwrap_or(0), all().max().unwrap_or(0))
}

fn range(doc: &mut Document, group: &Group, read: impl Fn(&Node) -> u64) {
    let (least, most) = span(group, read);
    doc.count("minimum", least);
    doc.count("maximum", most);
}

fn sizes(doc: &mut Document, group: &Group) {
    doc.map("sockets", |doc| {
        range(doc, group, |node| node.inventory.sockets.into())
    });
    doc.map("cores", |doc| {
        range(doc, group, |node| node.inventory.cores_per_socket.into())
    });
    doc.map("threads", |doc| {
        range(doc, group, |node| node.inventory.threads_per_core.into())
    });
    doc.map("disk", |doc| range(doc, group, |_| 0));
    doc.map("memory", |doc| {
        range(doc, group, |node| node.inventory.memory_mib);
        let (least, most) = span(group, |node| node.free_mib);
        doc.map("free", |doc| {
            doc.number("minimum", Number::Is(least));
            doc.number("maximum", Number::Is(most));
        });
        let last = group.nodes.last().map(|node| node.node.memory_used);
        doc.count("allocated", last.unwrap_or(0));
    });
    let weights = || group.nodes.iter().map(|node| u64::from(node.weight.max(1)));
    doc.map("weight", |doc| {
        doc.count("minimum", weights().min().unwrap_or(0));
        doc.count("maximum", weights().max().unwrap_or(0));
    });
}

fn said(doc: &mut Document, view: &View, first: Option<&NodeView>) {
    let features = first
        .map(|shown| shown.features.join(","))
        .unwrap_or_default();
    doc.map("features", |doc| {
        doc.text("total", &features);
        doc.text("active", &features);
    });
    doc.map("gres", |doc| {
        let node = first.map(|shown| &shown.node);
        let total = node
            .map(|node| gres::of_node(&node.inventory))
            .unwrap_or_default();
        doc.text("total", bare(&total));
        let used = node.map(|node| gres::with_index(&node.inventory.gpus, &node.gpus_used));
        doc.text("used", bare(&used.unwrap_or_default()));
    });
    doc.text("cluster", "");
    doc.text(
        "comment",
        first.and_then(node_text::comment).unwrap_or_default(),
    );
    doc.text("extra", first.map_or("", |shown| &shown.extra));
    let by = first.and_then(|shown| shown.node.reason_by);
    doc.map("reason", |doc| {
        let why = first.map(node_state::reason).unwrap_or_default();
        doc.text("description", &why);
        doc.count("time", by.map_or(0, |(_, at)| at.secs()));
        let who = by.map(|(uid, _)| view.user(uid));
        doc.text("user", who.as_deref().unwrap_or_default());
    });
    let reservations = first.map(|shown| shown.reservations.join(","));
    doc.text("reservation", &reservations.unwrap_or_default());
    doc.map("resource_spec", |doc| {
        doc.text("cpus", "");
        doc.int("memory", 0);
    });
}
