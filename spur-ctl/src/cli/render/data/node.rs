//! Nodes in structured output.

use super::{Document, Number};
use crate::cli::render::View;
use crate::cli::render::{node_text, show_node};
use spur_core::api::NodeView;
use spur_core::slurm::codes::node_state;
use spur_core::slurm::gres;
use std::sync::Arc;

/// `nodes`, `last_update`.
pub fn all(doc: &mut Document, view: &View, nodes: &[Arc<NodeView>]) {
    doc.list("nodes", nodes, |doc, node| {
        doc.item(|doc| one(doc, view, node))
    });
    doc.number("last_update", Number::Is(view.clock.now.secs()));
}

fn one(doc: &mut Document, view: &View, shown: &NodeView) {
    let (node, inventory) = (&shown.node, &shown.node.inventory);
    doc.text("architecture", std::env::consts::ARCH);
    doc.text("burstbuffer_network_address", "");
    doc.int("boards", 1);
    doc.number("boot_time", Number::Is(node.boot_time.secs()));
    doc.text("cluster_name", "");
    doc.int("cores", inventory.cores_per_socket);
    doc.int("specialized_cores", 0);
    doc.int("cpu_binding", 0);
    doc.int("cpu_load", node.load_x100);
    doc.number("free_mem", Number::Is(node.free_mib));
    doc.int("cpus", inventory.cpus);
    doc.int("effective_cpus", inventory.cpus);
    doc.text("specialized_cpus", "");
    energy(doc);
    doc.empty_map("external_sensors");
    doc.text("extra", &shown.extra);
    doc.empty_map("power");
    for key in ["features", "active_features"] {
        doc.texts(key, shown.features.iter().map(String::as_str));
    }
    doc.text("gpu_spec", "");
    devices(doc, shown);
    doc.text("instance_id", "");
    doc.text("instance_type", "");
    doc.number("last_busy", Number::Is(node_text::last_busy(node).secs()));
    doc.text("mcs_label", "");
    doc.int("specialized_memory", 0);
    doc.text("name", node.name.as_str());
    doc.texts("next_state_after_reboot", ["INVALID"]);
    doc.text("address", &node.hostname);
    doc.text("hostname", &node.hostname);
    states(doc, shown);
    doc.text("operating_system", &node.os);
    doc.text("owner", "");
    doc.texts("partitions", shown.partitions.iter().map(String::as_str));
    doc.int("port", 0);
    doc.count("real_memory", inventory.memory_mib);
    doc.int("res_cores_per_gpu", 0);
    remarks(doc, view, shown);
    doc.text("reservation", &shown.reservations.join(","));
    usage(doc, view, shown);
}

fn energy(doc: &mut Document) {
    doc.map("energy", |doc| {
        doc.int("average_watts", 0);
        doc.int("base_consumed_energy", 0);
        doc.int("consumed_energy", 0);
        doc.number("current_watts", Number::Is(0));
        doc.int("previous_consumed_energy", 0);
        doc.int("last_collected", 0);
    });
}

fn devices(doc: &mut Document, shown: &NodeView) {
    let node = &shown.node;
    let gpus = &node.inventory.gpus;
    doc.text("gres", super::bare(&gres::of_node(&node.inventory)));
    let sick = if node.gpus_sick.is_empty() {
        "N/A".to_owned()
    } else {
        gres::with_index(gpus, &node.gpus_sick)
    };
    doc.text("gres_drained", &sick);
    doc.text(
        "gres_used",
        super::bare(&gres::with_index(gpus, &node.gpus_used)),
    );
}

/// The state and its flags, each an element.
pub fn states(doc: &mut Document, shown: &NodeView) {
    doc.texts("state", node_state::with_flags(shown).split('+'));
}

fn remarks(doc: &mut Document, view: &View, shown: &NodeView) {
    doc.text("comment", node_text::comment(shown).unwrap_or_default());
    doc.text("reason", &node_state::reason(shown));
    let by = shown.node.reason_by;
    let at = by.map_or(0, |(_, at)| at.secs());
    doc.number("reason_changed_at", Number::Is(at));
    let who = by.map(|(uid, _)| view.user(uid));
    doc.text("reason_set_by_user", who.as_deref().unwrap_or_default());
    doc.number("resume_after", Number::Is(0));
}

fn usage(doc: &mut Document, view: &View, shown: &NodeView) {
    let (node, inventory) = (&shown.node, &shown.node.inventory);
    let used = node.cpus_used.len();
    doc.count("alloc_memory", node.memory_used);
    doc.int("alloc_cpus", used);
    doc.int("alloc_idle_cpus", inventory.cpus.saturating_sub(used));
    doc.text("tres_used", &show_node::tres_used(view, node));
    doc.float("tres_weighted", f64::from(used));
    doc.number("slurmd_start_time", Number::Is(node.agent_start.secs()));
    doc.int("sockets", inventory.sockets);
    doc.int("threads", inventory.threads_per_core);
    doc.int("temporary_disk", 0);
    doc.int("weight", shown.weight.max(1));
    doc.text("tres", &show_node::tres_all(view, node));
    doc.text("version", crate::cli::render::SLURM_LEVEL);
}
