//! The watchdog: a thread that looks whether every fence is still up. The kernel tells nobody when root takes a program off, so
//! this is the one place that asks again and again. It puts back what is gone before it does anything else.

use crate::agent::Input;
use crate::fence::holders;
use crate::fence::node::NodeFence;
use crate::fence::watch::Faults;
use crate::node::{Condition, Node};
use spur_core::id::JobId;
use spur_core::node::FenceState;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Pause between two looks: a loss is noticed within a second, also on a busy machine.
const LOOK: Duration = Duration::from_millis(250);

/// Pause after a repair that did not succeed.
const RETRY: Duration = Duration::from_secs(5);

/// What came of putting a fence back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The fence's condition, proven anew.
    pub condition: Condition,
    /// What had been lost, in words.
    pub lost: String,
    /// Jobs that were killed, with the reason.
    pub killed: Vec<(JobId, String)>,
    /// Whether everything is back.
    pub complete: bool,
}

/// Watches on a thread of its own until the agent stops.
pub fn watch(node: Arc<Node>, inputs: mpsc::Sender<Input>) -> std::io::Result<()> {
    let body = move || {
        let mut pause = LOOK;
        loop {
            std::thread::sleep(pause);
            if inputs.is_closed() {
                return;
            }
            let Some(fence) = node.fence() else { continue };
            let faults = fence.faults();
            pause = LOOK;
            if faults.is_empty() {
                continue;
            }
            // No job is started from here on, and none was started since with a fence that is not its own: each proves its own.
            let lost = faults.describe();
            if inputs.blocking_send(Input::FenceLost(lost)).is_err() {
                return;
            }
            let repaired = repair(&node, fence, &faults);
            if !repaired.complete {
                pause = RETRY;
            }
            if inputs
                .blocking_send(Input::FenceBack(Box::new(repaired)))
                .is_err()
            {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("watchdog".into())
        .spawn(body)?;
    Ok(())
}

/// Puts back what is gone, ends jobs that used the gap or cannot be fenced again, and proves the fence.
fn repair(node: &Node, fence: &NodeFence, faults: &Faults) -> Repaired {
    let (unfenced, rest) = fence.repair(faults);
    let mut suspects: BTreeSet<JobId> = fence.jobs_of(faults);
    if faults.table {
        // Every fence asks the table.
        suspects.extend(fence.jobs());
    }
    let mut killed = Vec::new();
    for (job, why) in unfenced {
        suspects.remove(&job);
        killed.push(kill(
            node,
            job,
            format!("its fence cannot be put back: {why}"),
        ));
    }
    for job in suspects {
        if let Some(what) = used_the_gap(node, fence, job) {
            killed.push(kill(node, job, what));
        }
    }
    let mut condition = node.prove();
    if let Err(error) = &rest {
        condition = Condition {
            state: FenceState::Unfenced,
            note: format!(
                "the fence cannot be put back: {}",
                crate::fence::node::chain(error)
            ),
        };
    }
    Repaired {
        complete: rest.is_ok() && condition.state != FenceState::Unfenced,
        condition,
        lost: faults.describe(),
        killed,
    }
}

/// What a job has open or mapped of devices that it was not given.
fn used_the_gap(node: &Node, fence: &NodeFence, job: JobId) -> Option<String> {
    let cgroup = node.root.job(job).ok().flatten()?;
    let pids = cgroup.procs().ok()?;
    let foreign = fence.foreign(job)?;
    let pids = pids.into_iter().filter_map(|pid| u32::try_from(pid).ok());
    let found = holders::find(pids, &foreign);
    let holder = found.first()?;
    let (major, minor) = holder.device;
    let path = fence.path_of(major, minor);
    Some(format!(
        "process {} {} {} ({major}:{minor}), which the job was not given",
        holder.pid,
        if holder.mapped {
            "has mapped"
        } else {
            "has open"
        },
        if path.is_empty() {
            "a fenced device"
        } else {
            &path
        }
    ))
}

fn kill(node: &Node, job: JobId, why: String) -> (JobId, String) {
    let cgroup = node.root.job(job);
    let why = match cgroup.and_then(|cgroup| cgroup.map_or(Ok(()), |cgroup| cgroup.kill())) {
        Ok(()) => why,
        Err(error) => format!("{why}; and it cannot be killed: {error}"),
    };
    (job, why)
}
