//! `scontrol show` and `scontrol write`.

use super::super::failure::Failure;
use super::super::flags::getopt::Options;
use super::super::link;
use super::super::render::node_columns::by_node;
use super::super::render::show_job::{self, Details};
use super::super::render::{View, show_node, show_partition, show_topology};
use super::super::{output, process, users};
use super::{abbreviates, ask, invalid, later, worded};
use spur_core::api::{JobFilter, JobView, NodeView, RefusalKind, Reply, Request};
use spur_core::denial::Denial;
use spur_core::id::{JobId, Uid};
use spur_core::slurm::{codes, hostlist};
use std::sync::Arc;

/// The most refusals that `-d` shows for a job.
const DENIALS_SHOWN: u32 = 20;

/// What Slurm shows and nothing here stands behind, with what to do instead.
const LATER: [(&str, &str); 11] = [
    ("aliases", ""),
    ("assoc_mgr", "there is no accounting"),
    ("bbstat", ""),
    ("burstbuffer", ""),
    ("config", "see spur.toml on the controller's machine"),
    ("daemons", ""),
    ("dwstat", ""),
    ("federation", ""),
    ("frontend", ""),
    ("slurmd", "run `spurd doctor` on the node"),
    ("step", "see `squeue -s`"),
];

/// `scontrol show WHAT [WHICH]`.
pub fn main(options: &Options, what: &str, rest: &[String]) -> Result<u8, Failure> {
    let (word, attached) = what
        .split_once('=')
        .map_or((what, None), |(w, v)| (w, Some(v.to_owned())));
    let which = attached.or_else(|| rest.first().cloned());
    let is = |full: &str, least: usize| abbreviates(word, full, least);
    if is("jobs", 1) {
        return jobs(options, which.as_deref());
    }
    if is("nodes", 1) {
        return nodes(options, which.as_deref());
    }
    if is("partitions", 1) {
        return partitions(options, which.as_deref());
    }
    if is("topology", 1) {
        return topology(which.as_deref());
    }
    if is("hostnames", 5) {
        return hostnames(which);
    }
    if is("hostlistsorted", 9) {
        return fold(which, true);
    }
    if is("hostlist", 5) {
        return fold(which, false);
    }
    let text = match () {
        () if is("licenses", 2) => "No licenses configured in Slurm.\n",
        () if is("reservations", 1) => "No reservations in the system\n",
        () => {
            let nobodys = || Failure::plain(format!("invalid entity:{word} for keyword:show"), 1);
            return Err(later(&LATER, word).unwrap_or_else(nobodys));
        }
    };
    output::print(text);
    Ok(0)
}

fn view(users: impl IntoIterator<Item = Uid>) -> View {
    View {
        clock: process::clock(),
        users: users::names(users),
        raw_sizes: false,
    }
}

fn jobs(options: &Options, which: Option<&str>) -> Result<u8, Failure> {
    let unknown = || {
        let text = codes::message(RefusalKind::InvalidJobId);
        Failure::plain(format!("slurm_load_jobs error: {text}"), 1)
    };
    let ids = match which {
        None => Vec::new(),
        Some(text) => vec![JobId(text.parse().map_err(|_| unknown())?)],
    };
    let one = !ids.is_empty();
    let filter = JobFilter {
        ids,
        all_states: true,
        estimates: true,
        ..JobFilter::default()
    };
    let prefix = "slurm_load_jobs error";
    let Reply::Jobs(found) = ask(&Request::Jobs { filter }, prefix)? else {
        return Err(worded(prefix, &link::unexpected()));
    };
    if found.is_empty() {
        if one {
            return Err(unknown());
        }
        output::print("No jobs in the system\n");
        return Ok(0);
    }
    let (details, one_line) = (options.on("details"), options.on("oneliner"));
    let mut text = String::new();
    for job in &found {
        text.push_str(&job_record(job, details, one_line));
    }
    output::print(&text);
    Ok(0)
}

fn job_record(job: &JobView, details: bool, one_line: bool) -> String {
    if !details {
        return show_job::record(&view([]), job, None, one_line);
    }
    let denials = if job.denials.total > 0 {
        denials(job.id)
    } else {
        Vec::new()
    };
    let view = view(denials.iter().map(|denial| denial.uid));
    show_job::record(&view, job, Some(&Details { denials: &denials }), one_line)
}

/// Refusals are an addition: if they cannot be had, the record is shown without them.
fn denials(job: JobId) -> Vec<Denial> {
    match ask(
        &Request::Denials {
            job: Some(job),
            limit: DENIALS_SHOWN,
            after: 0,
            alarms: false,
            wait: false,
        },
        "",
    ) {
        Ok(Reply::Denials(denials)) => denials,
        Ok(_) | Err(_) => Vec::new(),
    }
}

fn load_nodes() -> Result<Vec<Arc<NodeView>>, Failure> {
    let prefix = "slurm_load_node error";
    let Reply::Nodes(mut nodes) = ask(&Request::Nodes, prefix)? else {
        return Err(worded(prefix, &link::unexpected()));
    };
    nodes.sort_by(|a, b| by_node(&a.node.name, &b.node.name));
    Ok(nodes)
}

fn nodes(options: &Options, which: Option<&str>) -> Result<u8, Failure> {
    let nodes = load_nodes()?;
    if nodes.is_empty() && which.is_none() {
        output::print("No nodes in the system\n");
        return Ok(0);
    }
    let givers = nodes
        .iter()
        .filter_map(|node| node.node.reason_by)
        .map(|(uid, _)| uid);
    let view = view(givers);
    let record = |node: &NodeView| {
        show_node::record(&view, node, options.on("details"), options.on("oneliner"))
    };
    let Some(list) = which else {
        output::print(&nodes.iter().map(|node| record(node)).collect::<String>());
        return Ok(0);
    };
    let names = hostlist::parse(list).map_err(|why| Failure::plain(why, 1))?;
    let mut code = 0;
    for name in names {
        match nodes.iter().find(|node| node.node.name.as_str() == name) {
            Some(node) => output::print(&record(node)),
            None => {
                output::print(&format!("Node {name} not found\n"));
                code = 1;
            }
        }
    }
    Ok(code)
}

fn partitions(options: &Options, which: Option<&str>) -> Result<u8, Failure> {
    let prefix = "slurm_load_partitions error";
    let Reply::Partitions(mut partitions) = ask(&Request::Partitions, prefix)? else {
        return Err(worded(prefix, &link::unexpected()));
    };
    partitions.retain(|partition| which.is_none_or(|name| name == partition.name));
    if partitions.is_empty() {
        let text = which.map(|name| format!("Partition {name} not found\n"));
        output::print(text.as_deref().unwrap_or("No partitions in the system\n"));
        return Ok(u8::from(which.is_some()));
    }
    let (view, nodes) = (view([]), load_nodes()?);
    let one_line = options.on("oneliner");
    let record = |partition| show_partition::record(&view, partition, &nodes, one_line);
    output::print(&partitions.iter().map(record).collect::<String>());
    Ok(0)
}

/// `scontrol show topology [NAME]`: nothing at all where none is configured, as Slurm.
fn topology(which: Option<&str>) -> Result<u8, Failure> {
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

/// The list given, or the job's own.
fn list_or_own(which: Option<String>) -> Result<Vec<String>, Failure> {
    let own = || process::var("SLURM_JOB_NODELIST").or_else(|| process::var("SLURM_NODELIST"));
    let Some(list) = which.or_else(own) else {
        return Err(Failure::plain(
            "error: no hostlist: name one, or run this within a job",
            1,
        ));
    };
    hostlist::parse(&list).map_err(|why| Failure::plain(format!("error: {why}"), 1))
}

fn hostnames(which: Option<String>) -> Result<u8, Failure> {
    let names = list_or_own(which)?;
    output::print(
        &names
            .into_iter()
            .map(|name| name + "\n")
            .collect::<String>(),
    );
    Ok(0)
}

fn fold(which: Option<String>, sorted: bool) -> Result<u8, Failure> {
    let mut names = list_or_own(which)?;
    if sorted {
        names.sort();
        names.dedup();
    }
    output::print(&format!("{}\n", hostlist::compress(&names)));
    Ok(0)
}

/// `scontrol write batch_script JOB [FILE]`.
pub fn write_script(rest: &[String]) -> Result<u8, Failure> {
    let [what, job, more @ ..] = rest else {
        return Err(invalid("write"));
    };
    if !abbreviates(what, "batch_script", 1) {
        return Err(Failure::plain(
            format!("invalid entity:{what} for keyword:write"),
            1,
        ));
    }
    let prefix = "job script retrieval failed";
    let id = job.parse().map(JobId).map_err(|_| {
        Failure::plain(
            format!("{prefix}: {}", codes::message(RefusalKind::InvalidJobId)),
            1,
        )
    })?;
    let Reply::Script(script) = ask(&Request::Script { job: id }, prefix)? else {
        return Err(worded(prefix, &link::unexpected()));
    };
    let path = more
        .first()
        .cloned()
        .unwrap_or_else(|| format!("slurm-{id}.sh"));
    if path == "-" {
        output::write(&script);
        return Ok(0);
    }
    let failed = |why| Failure::plain(format!("failed to open file `{path}`: {why}"), 1);
    std::fs::write(&path, script).map_err(failed)?;
    output::print(&format!("batch script for job {id} written to {path}\n"));
    Ok(0)
}
