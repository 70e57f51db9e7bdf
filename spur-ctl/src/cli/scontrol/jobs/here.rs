//! What `scontrol` says of jobs on this machine, and of those that are not clean yet.

use super::super::super::failure::Failure;
use super::super::super::{link, output, process};
use super::super::{ask, worded};
use super::id;
use spur_core::api::{JobFilter, JobView, NodeView, Reply, Request};
use spur_core::id::NodeName;
use spur_core::job::step::StepState;
use spur_core::slurm::hostlist;
use std::sync::Arc;

fn load(filter: JobFilter) -> Result<Vec<Arc<JobView>>, Failure> {
    let prefix = "slurm_load_jobs error";
    let Reply::Jobs(jobs) = ask(&Request::Jobs { filter }, prefix)? else {
        return Err(worded(prefix, &link::unexpected()));
    };
    Ok(jobs)
}

/// Nodes of this machine, by the host name that their agents tell.
fn own_nodes() -> Result<Vec<NodeName>, Failure> {
    let prefix = "slurm_load_node error";
    let Reply::Nodes(nodes) = ask(&Request::Nodes, prefix)? else {
        return Err(worded(prefix, &link::unexpected()));
    };
    let host = process::host();
    let own = |view: &&Arc<NodeView>| view.node.hostname == host || view.node.name.as_str() == host;
    Ok(nodes
        .iter()
        .filter(own)
        .map(|view| view.node.name.clone())
        .collect())
}

fn running_here() -> Result<Vec<Arc<JobView>>, Failure> {
    let nodes = own_nodes()?;
    if nodes.is_empty() {
        return Ok(Vec::new());
    }
    load(JobFilter {
        nodes,
        ..JobFilter::default()
    })
}

/// `listjobs`.
pub(super) fn jobs() -> Result<u8, Failure> {
    let mut text = "JOBID   \n".to_owned();
    for job in running_here()? {
        text.push_str(&format!("{:<8}\n", job.id));
    }
    output::print(&text);
    Ok(0)
}

/// `liststeps`.
pub(super) fn steps() -> Result<u8, Failure> {
    let mut text = format!("{:<8} {:<8}\n", "JOBID", "STEPID");
    let jobs = running_here()?;
    let steps = jobs.iter().flat_map(|job| {
        let live = job
            .steps
            .iter()
            .filter(|step| step.state == StepState::Running);
        live.map(|step| (job.id, step.kind.to_string()))
    });
    let before = text.len();
    for (job, step) in steps {
        text.push_str(&format!("{job:<8} {step:<8}\n"));
    }
    if text.len() == before {
        output::complain(&["No slurmstepd's found on this node".to_owned()]);
        return Ok(1);
    }
    output::print(&text);
    Ok(0)
}

/// `completing`.
pub(super) fn completing() -> Result<u8, Failure> {
    let clock = process::clock();
    let jobs = load(JobFilter::default())?;
    let mut text = String::new();
    for job in jobs.iter().filter(|job| job.completing) {
        let Some(ended) = job.ended else { continue };
        let secs = clock.now.secs_since(ended);
        let (hours, minutes, secs) = (secs / 3600, secs / 60 % 60, secs % 60);
        let names: Vec<&str> = job.nodes.iter().map(|node| node.name.as_str()).collect();
        text.push_str(&format!(
            "JobId={} EndTime={} CompletingTime={hours:02}:{minutes:02}:{secs:02} Nodes(COMPLETING)={} Nodes(DOWN)=\n",
            job.id,
            clock.stamp(ended),
            hostlist::compress(&names),
        ));
    }
    output::print(&text);
    Ok(0)
}

/// `wait_job`: until the job has its nodes, which are ready then.
pub(super) fn wait(text: &str) -> Result<u8, Failure> {
    let job = id(text)?;
    let waited = link::run(link::wait_for(&Request::AwaitAllocation { job }));
    match waited {
        Ok(Reply::Allocated { job: row }) if !row.state.is_terminal() => {
            output::print(&format!("Nodes are ready for job {job}\n"));
            Ok(0)
        }
        Ok(_) => Err(Failure::plain(format!("Job {job} no longer running"), 1)),
        Err(trouble) => Err(worded(&format!("Problem running job {job}"), &trouble)),
    }
}
