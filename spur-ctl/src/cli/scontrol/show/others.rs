//! What else `scontrol show` shows: reservations, licences, topology, daemons.

use super::super::{ask, worded};
use super::{cluster, finish, nodes, view};
use crate::cli::failure::Failure;
use crate::cli::flags::getopt::Options;
use crate::cli::render::data::{self, Document, Number, reservation as structured};
use crate::cli::render::{show_reservation, show_topology};
use crate::cli::{link, output, process};
use spur_core::api::{Reply, Request};

/// `scontrol show reservation [NAME]`.
pub fn reservations(options: &Options, which: Option<&str>) -> Result<u8, Failure> {
    let asked = data::asked(options)?;
    let prefix = "slurm_load_reservations error";
    let Reply::Reservations(mut found) = ask(&Request::Reservations, prefix)? else {
        return Err(worded(prefix, &link::unexpected()));
    };
    found.retain(|one| which.is_none_or(|name| name == one.name));
    let nodes = nodes::load()?;
    let view = view([]);
    if let Some(asked) = asked {
        let cluster = cluster()?;
        let mut doc = Document::begin(asked);
        structured::all(&mut doc, &view, &found, &nodes);
        finish(options, doc, &cluster, None);
        return Ok(0);
    }
    if found.is_empty() {
        let text = which.map(|name| format!("Reservation {name} not found\n"));
        output::print(text.as_deref().unwrap_or("No reservations in the system\n"));
        return Ok(u8::from(which.is_some()));
    }
    let one_line = options.on("oneliner");
    let record = |one| show_reservation::record(&view, one, &nodes, one_line);
    output::print(&found.iter().map(record).collect::<String>());
    Ok(0)
}

/// `scontrol show licenses`: none are counted.
pub fn licenses(options: &Options) -> Result<u8, Failure> {
    let Some(asked) = data::asked(options)? else {
        output::print("No licenses configured in Slurm.\n");
        return Ok(0);
    };
    let cluster = cluster()?;
    let mut doc = Document::begin(asked);
    doc.list("licenses", None::<u8>, |_, _| ());
    doc.number("last_update", Number::Is(process::now().secs()));
    finish(options, doc, &cluster, None);
    Ok(0)
}

/// `scontrol show topology [NAME]`: nothing at all where none is configured, as Slurm.
pub fn topology(which: Option<&str>) -> Result<u8, Failure> {
    let prefix = "slurm_load_topo error";
    let Reply::Topology(topology) = ask(&Request::Topology, prefix)? else {
        return Err(worded(prefix, &link::unexpected()));
    };
    match show_topology::records(&topology, which) {
        Ok(text) => output::print(&text),
        Err(why) => output::complain(&[format!("scontrol: error: {why}")]),
    }
    Ok(0)
}

/// `scontrol show daemons`: those that belong on this host.
pub fn daemons() -> Result<u8, Failure> {
    let prefix = "slurm_load_ctl_conf error";
    let Reply::Pong { host, .. } = ask(&Request::Ping, prefix)? else {
        return Err(worded(prefix, &link::unexpected()));
    };
    let own = process::host();
    let is_node = nodes::load()?.iter().any(|node| node.node.hostname == own);
    let controller = (host == own).then_some("slurmctld");
    let agent = is_node.then_some("slurmd");
    let all: Vec<&str> = controller.into_iter().chain(agent).collect();
    output::print(&format!("{} \n", all.join(" ")));
    Ok(0)
}
