//! What a job holds, down to the core.

use super::super::{Document, Number, Parser};
use super::Nodes;
use crate::cli::render::job_text as text;
use spur_core::agent::order::AllocatedNode;
use spur_core::api::JobView;
use spur_core::resources::{IdSet, Inventory};

/// Writes `job_resources`: nothing while the job holds nothing.
pub(super) fn write(doc: &mut Document, job: &JobView, nodes: &Nodes) {
    if job.nodes.is_empty() || job.state.is_terminal() && !job.completing {
        return match doc.parser() {
            Parser::V40 => doc.empty_map("job_resources"),
            Parser::V41 | Parser::V42 => doc.null("job_resources"),
        };
    }
    match doc.parser() {
        Parser::V40 => doc.map("job_resources", |doc| older(doc, job, nodes)),
        Parser::V41 | Parser::V42 => doc.map("job_resources", |doc| newer(doc, job, nodes)),
    }
}

fn newer(doc: &mut Document, job: &JobView, nodes: &Nodes) {
    doc.texts("select_type", ["CORE"]);
    doc.map("nodes", |doc| {
        doc.int("count", u32::try_from(job.nodes.len()).unwrap_or(u32::MAX));
        doc.texts("select_type", ["ONE_ROW"]);
        doc.text("list", &text::node_list(job));
        doc.bool("whole", job.spec.exclusive);
        doc.list(
            "allocation",
            job.nodes.iter().zip(0_u32..),
            |doc, (held, index)| {
                doc.item(|doc| node(doc, held, index, nodes));
            },
        );
    });
    doc.count("cpus", text::cpu_count(job));
    let threads = job.spec.extras().threads_per_core;
    doc.number(
        "threads_per_core",
        Number::maybe((threads > 0).then(|| threads.into())),
    );
}

fn node(doc: &mut Document, held: &AllocatedNode, index: u32, nodes: &Nodes) {
    doc.int("index", index);
    doc.text("name", held.name.as_str());
    doc.map("cpus", |doc| {
        doc.int("count", held.share.cpus.len());
        doc.int("used", 0);
    });
    doc.map("memory", |doc| {
        doc.int("used", 0);
        doc.count("allocated", held.share.memory_mib);
    });
    let layout = Layout::of(held, nodes);
    doc.list("sockets", 0..layout.sockets, |doc, socket| {
        doc.item(|doc| {
            doc.int("index", socket);
            doc.list("cores", 0..layout.cores, |doc, core| {
                doc.item(|doc| {
                    doc.int("index", core);
                    let taken = layout.holds(&held.share.cpus, socket, core);
                    doc.texts("status", [if taken { "ALLOCATED" } else { "UNALLOCATED" }]);
                });
            });
        });
    });
}

fn older(doc: &mut Document, job: &JobView, nodes: &Nodes) {
    doc.text("nodes", &text::node_list(job));
    doc.count("allocated_cores", text::cpu_count(job));
    doc.int("allocated_cpus", 0);
    doc.int(
        "allocated_hosts",
        u32::try_from(job.nodes.len()).unwrap_or(u32::MAX),
    );
    doc.list("allocated_nodes", &job.nodes, |doc, held| {
        let layout = Layout::of(held, nodes);
        doc.item(|doc| {
            doc.map("sockets", |doc| {
                for socket in 0..layout.sockets {
                    older_socket(doc, &layout, &held.share.cpus, socket);
                }
            });
            doc.text("nodename", held.name.as_str());
            doc.int("cpus_used", 0);
            doc.int("memory_used", 0);
            doc.count("memory_allocated", held.share.memory_mib);
        });
    });
}

fn older_socket(doc: &mut Document, layout: &Layout, cpus: &IdSet, socket: u32) {
    let taken: Vec<u32> = (0..layout.cores)
        .filter(|core| layout.holds(cpus, socket, *core))
        .collect();
    if taken.is_empty() {
        return;
    }
    doc.map(&socket.to_string(), |doc| {
        doc.map("cores", |doc| {
            for core in taken {
                doc.text(&core.to_string(), "allocated");
            }
        });
    });
}

/// How a node's CPUs are counted.
struct Layout {
    sockets: u32,
    /// Of each socket.
    cores: u32,
    /// Of each core.
    threads: u32,
}

impl Layout {
    fn of(held: &AllocatedNode, nodes: &Nodes) -> Self {
        let known = nodes.get(held.name.as_str());
        let known = known.map(|node| &node.node.inventory);
        // A node that is no more: as many cores as the job's last CPU needs.
        let last = held.share.cpus.iter().last().map_or(0, |cpu| cpu + 1);
        known.map_or(
            Self {
                sockets: 1,
                cores: last,
                threads: 1,
            },
            |inventory: &Inventory| Self {
                sockets: inventory.sockets.max(1),
                cores: inventory.cores_per_socket.max(1),
                threads: inventory.threads_per_core.max(1),
            },
        )
    }

    fn holds(&self, cpus: &IdSet, socket: u32, core: u32) -> bool {
        let first = (socket * self.cores + core) * self.threads;
        (first..first + self.threads).any(|cpu| cpus.contains(cpu))
    }
}
