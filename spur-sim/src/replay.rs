//! Replays of recorded jobs, and questions about the future, on the real state machine and the real planner.
//!
//! Offered load is what the jobs want over what there is: GPU-seconds that they run, over all GPUs times the time between the
//! first submission and the last. To get a wanted load, those distances in time are stretched or squeezed, all alike.

mod columns;
mod drive;
mod faults;
mod log;
mod measure;
mod plot;
mod report;
mod sacct;
mod setup;
mod trace;
mod whatif;

#[cfg(test)]
mod tests;

pub use columns::BadTrace;
pub use faults::{BadFault, Fault, What, read as read_faults};
pub use measure::Sample;
pub use report::{Report, Waits, decimal};
pub use setup::{Limits, Setup};
pub use trace::{MOST_JOBS, Trace, TraceJob};
pub use whatif::{Answer, MOST_ADDED, NoAnswer, Question, Start, Wanted, ask};

use drive::{Arrival, Drive};
use log::Log;
use spur_core::cluster::Cluster;
use spur_core::event::Event;
use spur_core::id::JobId;
use spur_core::job::admit::admit;
use spur_core::time::Millis;
use std::collections::BTreeMap;
use std::io::Write;

/// Why a replay did not come about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadReplay {
    /// Nothing to run on.
    #[error("a cluster needs at least one node and one GPU a node")]
    NoCluster,
    /// A fault names a node that is not there.
    #[error("the fault script names node {node:?}; nodes are n1 to n{nodes}")]
    NoNode {
        /// The name.
        node: String,
        /// How many there are.
        nodes: u32,
    },
    /// All jobs ask for more than there is.
    #[error("none of the jobs fits on the cluster")]
    NothingFits,
    /// Jobs that all come at once offer no load.
    #[error("the jobs all come at one moment, so there is no load to set")]
    NoSpan,
    /// The log could not be written.
    #[error("cannot write the log: {0}")]
    Log(#[source] std::io::Error),
}

/// Replays a trace. The same trace, setup and faults give the same log, byte for byte; it goes to `log` if there is one.
pub fn replay(
    mut trace: Trace,
    setup: &Setup,
    faults: Vec<Fault>,
    log: Option<&mut dyn Write>,
) -> Result<Report, BadReplay> {
    if setup.nodes == 0 || setup.gpus_per_node == 0 {
        return Err(BadReplay::NoCluster);
    }
    setup::set_limits(&mut trace, setup);
    let start = trace.jobs.first().map_or(Millis(0), |job| job.submitted);
    let mut drive = Drive::new(Cluster::default(), start, Log::new(start, log));
    for event in setup::events(setup, &trace) {
        if let Event::NodeConnected(hello) = event {
            drive.connect(hello);
        } else {
            drive.decide(event);
        }
    }
    check_faults(&faults, setup)?;
    leave_out_what_never_fits(&mut trace, setup, &drive.cluster);
    if trace.jobs.is_empty() {
        return Err(BadReplay::NothingFits);
    }
    if setup.load_permille.is_some() && setup::span_secs(&trace) == 0 {
        return Err(BadReplay::NoSpan);
    }
    setup::scale(&mut trace, setup);
    let load_permille = setup::offered_permille(&trace, setup.gpus()).unwrap_or(0);
    let end = trace.jobs.last().map_or(start, |job| job.submitted);
    drive.measure.window(end);
    faults.into_iter().for_each(|fault| drive.fault(fault));
    let mut left_out = std::mem::take(&mut trace.left_out);
    drive.run(&mut arrivals(trace, setup), |_| false);
    if drive.refused > 0 {
        left_out.insert("were refused at submission", drive.refused);
    }
    let counts = (drive.placed, drive.passes);
    let (measure, hash, failed) = drive.finish();
    if let Some(error) = failed {
        return Err(BadReplay::Log(error));
    }
    let around = report::Around {
        nodes: setup.nodes,
        gpus: setup.gpus(),
        left_out,
        load_permille,
        makespan: measure.last_end.secs_since(start),
        counts,
        hash,
    };
    Ok(Report::new(around, measure))
}

fn check_faults(faults: &[Fault], setup: &Setup) -> Result<(), BadReplay> {
    let known = |name: &str| {
        let number = name
            .strip_prefix('n')
            .and_then(|number| number.parse().ok());
        number.is_some_and(|number: u32| (1..=setup.nodes).contains(&number))
    };
    match faults.iter().find(|fault| !known(&fault.node)) {
        None => Ok(()),
        Some(fault) => Err(BadReplay::NoNode {
            node: fault.node.clone(),
            nodes: setup.nodes,
        }),
    }
}

/// Jobs that admission refuses on this cluster would never have been queued.
fn leave_out_what_never_fits(trace: &mut Trace, setup: &Setup, cluster: &Cluster) {
    let jobs = std::mem::take(&mut trace.jobs);
    for job in jobs {
        let mut spec = setup::spec(&job, setup, 0);
        if admit(cluster, &mut spec, job.submitted).is_ok() {
            trace.jobs.push(job);
        } else {
            trace.leave_out("ask for more than this cluster has");
        }
    }
}

fn arrivals(trace: Trace, setup: &Setup) -> impl Iterator<Item = Arrival> {
    let mut users: BTreeMap<String, u32> = BTreeMap::new();
    trace.jobs.into_iter().map(move |job| {
        let fresh = u32::try_from(users.len()).unwrap_or(u32::MAX);
        let user = *users.entry(job.user.clone()).or_insert(fresh);
        Arrival {
            at: job.submitted,
            spec: setup::spec(&job, setup, user),
            run_secs: job.run_secs,
        }
    })
}

/// Job numbers are used up by no replay: a trace is bounded well below them.
const _: () = assert!(MOST_JOBS < JobId(u32::MAX).0 as usize);
