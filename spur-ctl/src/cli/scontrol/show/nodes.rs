//! `scontrol show node` and `scontrol show partition`.

use super::super::{ask, worded};
use super::{cluster, finish, loaded, view};
use crate::cli::failure::Failure;
use crate::cli::flags::getopt::Options;
use crate::cli::render::data::{self, Document, node, partition};
use crate::cli::render::node_columns::by_node;
use crate::cli::render::{View, show_node, show_partition};
use crate::cli::{link, output};
use spur_core::api::{NodeView, Reply, Request};
use spur_core::partition::Partition;
use spur_core::slurm::hostlist;
use std::sync::Arc;

/// All nodes in order of name.
pub fn load() -> Result<Vec<Arc<NodeView>>, Failure> {
    let prefix = "slurm_load_node error";
    let Reply::Nodes(mut nodes) = ask(&Request::Nodes, prefix)? else {
        return Err(worded(prefix, &link::unexpected()));
    };
    nodes.sort_by(|a, b| by_node(&a.node.name, &b.node.name));
    Ok(nodes)
}

fn named_by(nodes: &[Arc<NodeView>]) -> View {
    let givers = nodes.iter().filter_map(|node| node.node.reason_by);
    view(givers.map(|(uid, _)| uid))
}

/// All nodes, or those named.
pub fn show(options: &Options, which: Option<&str>) -> Result<u8, Failure> {
    let asked = data::asked(options)?;
    let nodes = load()?;
    let view = named_by(&nodes);
    let names = which.map(names).transpose()?;
    let find = |name: &String| nodes.iter().find(|node| node.node.name.as_str() == name);
    if let Some(asked) = asked {
        let cluster = cluster()?;
        let found = match &names {
            None => nodes.clone(),
            Some(names) => names.iter().filter_map(find).cloned().collect(),
        };
        let mut doc = Document::begin(asked);
        node::all(&mut doc, &view, &found);
        finish(options, doc, &cluster, None);
        return Ok(0);
    }
    loaded(options, &view, nodes.len());
    let details = show_node::Details::of(options.count("details"));
    let one_line = options.on("oneliner");
    let record = |node: &NodeView| show_node::record(&view, node, details, one_line);
    let Some(names) = names else {
        match nodes.is_empty() {
            true => output::print("No nodes in the system\n"),
            false => output::print(&nodes.iter().map(|node| record(node)).collect::<String>()),
        }
        return Ok(0);
    };
    let mut code = 0;
    for name in &names {
        match find(name) {
            Some(node) => output::print(&record(node)),
            None => {
                output::print(&format!("Node {name} not found\n"));
                code = 1;
            }
        }
    }
    Ok(code)
}

fn names(list: &str) -> Result<Vec<String>, Failure> {
    hostlist::parse(list)
        .map_err(|_| Failure::plain(format!("unable to parse node list {list}"), 1))
}

/// All partitions that are not hidden, or the one named.
pub fn partitions(options: &Options, which: Option<&str>) -> Result<u8, Failure> {
    let asked = data::asked(options)?;
    let prefix = "slurm_load_partitions error";
    let Reply::Partitions(mut partitions) = ask(&Request::Partitions, prefix)? else {
        return Err(worded(prefix, &link::unexpected()));
    };
    let shown = |partition: &Partition| match which {
        Some(name) => name == partition.name,
        None => !partition.hidden || options.on("all"),
    };
    partitions.retain(shown);
    let nodes = load()?;
    let view = view([]);
    if let Some(asked) = asked {
        let cluster = cluster()?;
        let mut doc = Document::begin(asked);
        partition::all(&mut doc, &view, &partitions, &nodes);
        finish(options, doc, &cluster, None);
        return Ok(0);
    }
    loaded(options, &view, partitions.len());
    if partitions.is_empty() {
        let text = which.map(|name| format!("Partition {name} not found\n"));
        output::print(text.as_deref().unwrap_or("No partitions in the system\n"));
        return Ok(u8::from(which.is_some()));
    }
    let one_line = options.on("oneliner");
    let record = |partition| show_partition::record(&view, partition, &nodes, one_line);
    output::print(&partitions.iter().map(record).collect::<String>());
    Ok(0)
}
