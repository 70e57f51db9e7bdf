//! `scontrol ping`.

use super::super::failure::Failure;
use super::super::flags::getopt::Options;
use super::super::render::data::{self, Document, Meta};
use super::super::{link, output, process};
use spur_core::api::{Reply, Request};
use std::time::Instant;

/// Runs it.
pub(super) fn main(options: &Options) -> Result<u8, Failure> {
    let asked = data::asked(options)?;
    let begun = Instant::now();
    let answer = link::question_once(&Request::Ping);
    let latency = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    let (host, cluster, up) = match answer {
        Ok(Reply::Pong { host, cluster, .. }) => (host, cluster, true),
        Ok(_) | Err(_) => (process::host(), String::new(), false),
    };
    let state = if up { "UP" } else { "DOWN" };
    match asked {
        None => output::print(&format!("Slurmctld(primary) at {host} is {state}\n")),
        Some(asked) => {
            let mut doc = Document::begin(asked);
            doc.list("pings", [()], |doc, ()| {
                doc.item(|doc| {
                    doc.text("hostname", &host);
                    doc.text("pinged", state);
                    doc.bool("responding", up);
                    doc.count("latency", latency);
                    doc.text("mode", "primary");
                    doc.bool("primary", true);
                });
            });
            doc.finish(
                &Meta::of_process(&cluster, vec!["ping".to_owned()]),
                &[],
                &[],
            );
        }
    }
    Ok(u8::from(!up))
}
