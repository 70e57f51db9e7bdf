//! Reservations in structured output.

use super::{Document, Number};
use crate::cli::render::View;
use crate::cli::render::show_reservation as show;
use spur_core::api::NodeView;
use spur_core::manage::reservation::Reservation;
use spur_core::slurm::hostlist;
use std::sync::Arc;

/// `reservations`, `last_update`.
pub fn all(doc: &mut Document, view: &View, reservations: &[Reservation], nodes: &[Arc<NodeView>]) {
    doc.list("reservations", reservations, |doc, reservation| {
        doc.item(|doc| one(doc, reservation, nodes));
    });
    doc.number("last_update", Number::Is(view.clock.now.secs()));
}

fn one(doc: &mut Document, reservation: &Reservation, nodes: &[Arc<NodeView>]) {
    let cores = show::cores(reservation, nodes);
    doc.text("accounts", &reservation.accounts.join(","));
    doc.text("burst_buffer", "");
    doc.count("core_count", cores);
    doc.list("core_specializations", None::<u8>, |_, _| ());
    doc.number("end_time", Number::Is(reservation.end.secs()));
    doc.text("features", &reservation.features);
    doc.texts("flags", reservation.flags.iter().map(String::as_str));
    doc.text("groups", &reservation.groups.join(","));
    doc.text("licenses", &reservation.licenses);
    doc.count("max_start_delay", reservation.max_start_delay);
    doc.text("name", &reservation.name);
    doc.count("node_count", reservation.nodes.len() as u64);
    let names: Vec<&str> = reservation.nodes.iter().map(|node| node.as_str()).collect();
    doc.text("node_list", &hostlist::compress(&names));
    doc.text("partition", &reservation.partition);
    doc.map("purge_completed", |doc| doc.number("time", Number::Unset));
    doc.number("start_time", Number::Is(reservation.start.secs()));
    doc.number("watts", Number::Unset);
    doc.text("tres", &format!("cpu={cores}"));
    doc.text("users", &reservation.users.join(","));
}
