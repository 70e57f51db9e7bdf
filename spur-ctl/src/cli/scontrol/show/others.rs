//! What else `scontrol show` shows: reservations, licences, topology, daemons.

use super::super::{ask, worded};
use super::{cluster, finish, loaded, nodes, view};
use crate::cli::failure::Failure;
use crate::cli::flags::getopt::Options;
use crate::cli::render::data::{self, Document, Number, reservation as structured};
use crate::cli::render::{show_reservation, show_topology};
use crate::cli::{link, output, process};
use spur_core::api::{LicenseView, Reply, Request};

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
    loaded(options, &view, found.len());
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

/// `scontrol show licenses [NAME]`.
pub fn licenses(options: &Options, which: Option<&str>) -> Result<u8, Failure> {
    let asked = data::asked(options)?;
    let prefix = "slurm_load_licenses error";
    let Reply::Licenses(mut found) = ask(&Request::Licenses, prefix)? else {
        return Err(worded(prefix, &link::unexpected()));
    };
    let none = found.is_empty();
    found.retain(|one| which.is_none_or(|name| name == one.name));
    if let Some(asked) = asked {
        let cluster = cluster()?;
        let mut doc = Document::begin(asked);
        doc.list("licenses", &found, license);
        doc.number("last_update", Number::Is(process::now().secs()));
        finish(options, doc, &cluster, None);
        return Ok(0);
    }
    if none {
        output::print("No licenses configured in Slurm.\n");
        return Ok(0);
    }
    if let Some(name) = which.filter(|_| found.is_empty()) {
        output::print(&format!("License {name} not found\n"));
        return Ok(1);
    }
    let gap = if options.on("oneliner") {
        " "
    } else {
        "\n    "
    };
    let record = |one: &LicenseView| {
        let (name, total, used) = (&one.name, one.total, one.used);
        let free = total.saturating_sub(used);
        format!(
            "LicenseName={name}{gap}Total={total} Used={used} Free={free} Reserved=0 Remote=no\n"
        )
    };
    output::print(&found.iter().map(record).collect::<String>());
    Ok(0)
}

/// A license in structured output.
fn license(doc: &mut Document, one: &LicenseView) {
    doc.text("LicenseName", &one.name);
    doc.int("Total", one.total);
    doc.int("Used", one.used);
    doc.int("Free", one.total.saturating_sub(one.used));
    doc.bool("Remote", false);
    doc.int("Reserved", 0);
    doc.int("LastConsumed", 0);
    doc.int("LastDeficit", 0);
    doc.int("LastUpdate", 0);
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
