//! `scontrol show reservation` and `sinfo -T`.

use super::record::Record;
use super::{View, or_null};
use spur_core::api::NodeView;
use spur_core::manage::reservation::Reservation;
use spur_core::slurm::{hostlist, timespec};
use std::sync::Arc;

/// Cores of its nodes.
pub fn cores(reservation: &Reservation, nodes: &[Arc<NodeView>]) -> u64 {
    let own = nodes
        .iter()
        .filter(|node| reservation.nodes.contains(&node.node.name));
    own.map(|node| {
        let inventory = &node.node.inventory;
        u64::from(inventory.cpus / inventory.threads_per_core.max(1))
    })
    .sum()
}

/// Names of its nodes, folded.
pub fn node_list(reservation: &Reservation) -> String {
    let names: Vec<&str> = reservation.nodes.iter().map(|node| node.as_str()).collect();
    hostlist::compress(&names)
}

/// `ACTIVE` in its window.
pub fn state(view: &View, reservation: &Reservation) -> &'static str {
    let now = view.clock.now;
    if reservation.start <= now && now <= reservation.end {
        "ACTIVE"
    } else {
        "INACTIVE"
    }
}

/// The record of one reservation; `nodes` are all nodes of the cluster.
pub fn record(
    view: &View,
    reservation: &Reservation,
    nodes: &[Arc<NodeView>],
    one_line: bool,
) -> String {
    let names = |list: &[String]| match list {
        [] => "(null)".to_owned(),
        list => list.join(","),
    };
    let duration = reservation.end.secs_since(reservation.start);
    let first = format!(
        "ReservationName={} StartTime={} EndTime={} Duration={}",
        reservation.name,
        view.clock.stamp(reservation.start),
        view.clock.stamp(reservation.end),
        timespec::elapsed_long(duration)
    );
    let mut record = Record::new(first, one_line);
    let cores = cores(reservation, nodes);
    record.line(format_args!(
        "Nodes={} NodeCnt={} CoreCnt={cores} Features={} PartitionName={} Flags={}",
        or_null(&node_list(reservation)),
        reservation.nodes.len(),
        or_null(&reservation.features),
        or_null(&reservation.partition),
        reservation.flags.join(",")
    ));
    record.line(format_args!("TRES=cpu={cores}"));
    record.line(format_args!(
        "Users={} Groups={} Accounts={} Licenses={} State={} BurstBuffer=(null)",
        names(&reservation.users),
        names(&reservation.groups),
        names(&reservation.accounts),
        or_null(&reservation.licenses),
        state(view, reservation)
    ));
    let delay = match reservation.max_start_delay {
        0 => "(null)".to_owned(),
        secs => timespec::elapsed_long(secs),
    };
    record.line(format_args!("MaxStartDelay={delay}"));
    if !reservation.comment.is_empty() {
        record.line(format_args!("Comment={}", reservation.comment));
    }
    record.end();
    record.into_text()
}
