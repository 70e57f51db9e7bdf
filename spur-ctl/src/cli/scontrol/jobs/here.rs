//! What `scontrol` says of jobs on this machine, and of those that are not clean yet.

use super::super::super::failure::Failure;
use super::super::super::{link, output, process};
use super::super::{ask, worded};
use super::id;
use spur_core::api::{JobFilter, JobView, Reply, Request};
use spur_core::slurm::hostlist;
use std::sync::Arc;

fn load(filter: JobFilter) -> Result<Vec<Arc<JobView>>, Failure> {
    let prefix = "slurm_load_jobs error";
    let Reply::Jobs(jobs) = ask(&Request::Jobs { filter }, prefix)? else {
        return Err(worded(prefix, &link::unexpected()));
    };
    Ok(jobs)
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
