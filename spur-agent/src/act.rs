//! Carrying out actions: the slow half, on threads of its own. Each function may be repeated after a crash.

use crate::audit::report::Extra;
use crate::cgroup::limits::Limits;
use crate::cgroup::{Cgroup, CgroupError, Root};
use crate::compose::{self, Place, Source};
use crate::fence::holders;
use crate::fence::node::{Holder, NodeFence, chain};
use crate::fence::revoke::HoldOn;
use crate::launch::{self, LaunchError, Supervisor, step_dir, steps_dir};
use crate::node::{Node, lock_file};
use crate::stuck;
use spur_core::agent::order::{JobOrder, StepOrder};
use spur_core::denial::DenialCount;
use spur_core::id::{JobId, StepId, StepKind};
use spur_core::node::FenceState;
use spur_core::resources::IdSet;
use spur_ebpf::JobFence;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// Why a job or step could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For people.
    pub why: String,
    /// The node's fault rather than the job's.
    pub node_fault: bool,
}

impl Failure {
    /// Of the agent itself: a panic, which the log has. Not the node's fault: whatever a job brought it about with would bring it about
    /// on the next node too.
    pub(crate) fn defect(error: &dyn std::error::Error) -> Self {
        Self {
            why: format!("the agent has a defect, see its log: {error}"),
            node_fault: false,
        }
    }

    fn node(error: &dyn std::error::Error) -> Self {
        Self {
            why: chain(error),
            node_fault: true,
        }
    }
}

/// Half of the process numbers that the kernel gives out: whatever a job forks, the agent and other jobs still can.
fn pids_max() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/sys/kernel/pid_max").ok()?;
    Some(text.trim().parse::<u64>().ok()? / 2)
}

/// Sets a job up: cgroup, limits, fence, policy. When this returns, a process may be put below its cgroup; nothing is left behind
/// when it fails.
pub fn prepare(
    node: &Node,
    order: &JobOrder,
    state: FenceState,
) -> Result<Option<JobFence>, Failure> {
    let here = order.here().ok_or_else(|| Failure {
        why: "the order does not name this node".into(),
        node_fault: true,
    })?;
    if !node.accepts(state) {
        return Err(Failure {
            why: "this node does not have the fence that its configuration requires".into(),
            node_fault: true,
        });
    }
    let cgroup = node
        .root
        .create_job(order.job)
        .map_err(|e| Failure::node(&e))?;
    let host = compose::host_cpus(&here.share.cpus, &node.machine.host_cpus);
    let limits = Limits {
        memory: (here.share.memory_mib > 0).then(|| here.share.memory_mib.saturating_mul(1 << 20)),
        pids: pids_max(),
        cpus: host.iter().copied().collect::<IdSet>().to_string(),
        cpu_count: here.share.cpus.len(),
    };
    for missing in limits.apply(&cgroup) {
        tracing::debug!(job = %order.job, limit = missing.limit, why = missing.why, "limit not enforced");
    }
    let fence = match (node.fence(), node.canary_for(state)) {
        (Some(fence), Some(_)) => {
            let holder = holder(order, None, here.share.gpus.clone());
            let attached = fence.attach(cgroup.path(), &holder);
            Some(attached.map_err(|error| {
                undo(node, order.job, cgroup);
                Failure::node(&error)
            })?)
        }
        (_, _) => None,
    };
    if let Some(meter) = node.meter() {
        meter.job_begins(order, false);
    }
    Ok(fence)
}

/// Takes away what a failed set-up left.
fn undo(node: &Node, job: JobId, cgroup: Cgroup) {
    if let Err(error) = cgroup.remove() {
        tracing::warn!(%job, %error, "cannot remove the cgroup of a failed set-up");
    }
    let detached = node
        .fence()
        .map(|fence| fence.detach(job, &fence.stop_watching(job)));
    if let Some(Err(error)) = detached {
        tracing::warn!(%job, error = chain(&error), "cannot unpin the fence of a failed set-up");
    }
}

/// Who holds a fence.
pub fn holder(order: &JobOrder, step: Option<StepKind>, gpus: IdSet) -> Holder {
    Holder {
        job: order.job,
        step,
        generation: order.generation,
        gpus,
    }
}

/// Whether a step gets a narrower fence than its job.
pub fn is_narrow(order: &JobOrder, step: &StepOrder) -> bool {
    order
        .here()
        .is_some_and(|here| step.share.gpus != here.share.gpus)
}

/// Starts a step's supervisor in the job's fenced cgroup. `client` comes with [`Source::Client`].
pub fn start(
    node: &Node,
    (order, step): (&JobOrder, &StepOrder),
    source: Source<'_>,
    client: Option<OwnedFd>,
    state: FenceState,
) -> Result<Supervisor, Failure> {
    let job = node.root.job(order.job).map_err(|e| Failure::node(&e))?;
    let job = job.ok_or_else(|| Failure {
        why: format!("the cgroup of job {} is gone", order.job),
        node_fault: true,
    })?;
    let cgroup = job.step(step.step).map_err(|e| Failure::node(&e))?;
    let canary = node.canary_for(state);
    if let (true, Some(fence), Some(_)) = (is_narrow(order, step), node.fence(), &canary) {
        let narrow = step.share.gpus.iter().filter(|gpu| {
            order
                .here()
                .is_some_and(|here| here.share.gpus.contains(*gpu))
        });
        let holder = holder(order, Some(step.step), narrow.collect());
        fence
            .attach(cgroup.path(), &holder)
            .map_err(|e| Failure::node(&e))?;
    }
    if let Some(meter) = node.meter() {
        meter.step_begins(order.job, step.step, &cgroup);
    }
    let place = Place {
        node: node.config.node.as_str(),
        cgroup: cgroup.path().to_owned(),
        canary,
        gpus: &node.machine.inventory.gpus,
        host_cpus: &node.machine.host_cpus,
        kill_wait: node.config.kill_wait,
        agent_lock: lock_file(&node.config),
        fenced: node.fence().map(NodeFence::classes).unwrap_or_default(),
        conf: node.config.file.to_str().unwrap_or_default(),
    };
    let spec = compose::step(order, step, source, &place);
    let dir = step_dir(
        &node.config.state_dir,
        StepId {
            job: order.job,
            step: step.step,
        },
    );
    node.launcher
        .start(&spec, &dir, client)
        .map_err(|error| match error {
            LaunchError::Invalid { .. } => Failure {
                why: error.to_string(),
                node_fault: false,
            },
            LaunchError::Io { .. } | LaunchError::Damaged { .. } => Failure::node(&error),
        })
}

/// How long one round of ending waits for the last process before it looks for what holds on.
const ROUND: Duration = Duration::from_secs(2);

/// What is left of a job that is being ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing: no process, no open device.
    Nothing,
    /// Something that does not die, in words.
    Something(String),
}

/// One round of ending a job: kills everything in its cgroup, waits a little for the kernel to say that it is empty, and looks for
/// open descriptors of its real devices anywhere on the host.
pub fn end(node: &Node, job: JobId, gpus: &IdSet) -> Result<Left, CgroupError> {
    if let Some(cgroup) = node.root.job(job)? {
        cgroup.kill()?;
        if !cgroup.wait_empty(ROUND)? {
            let pids = cgroup.procs()?;
            let pids = pids.into_iter().filter_map(|pid| u32::try_from(pid).ok());
            return Ok(Left::Something(format!(
                "processes of job {job} do not die: {}",
                stuck::describe(Path::new("/proc"), pids)
            )));
        }
    }
    let nodes = node
        .fence()
        .map(|fence| fence.real_nodes(gpus))
        .unwrap_or_default();
    if nodes.is_empty() {
        return Ok(Left::Nothing);
    }
    let found = holders::find(holders::everybody(), &|major, minor| {
        nodes.contains(&(major, minor))
    });
    if found.is_empty() {
        return Ok(Left::Nothing);
    }
    let holders: BTreeSet<u32> = found.iter().map(|holder| holder.pid).collect();
    Ok(Left::Something(format!(
        "its devices are held open by processes outside job {job}: {}",
        stuck::describe(Path::new("/proc"), holders)
    )))
}

/// Removes all that is left of an ended job: cgroup, fence, step folders. Gives its refusals. The cgroup goes first, so that it is
/// fenced for as long as it exists.
pub fn clean(
    node: &Node,
    job: JobId,
    fence: Option<&JobFence>,
) -> Result<spur_ebpf::Counters, Failure> {
    let counters = fence.map(crate::fence::node::counters).unwrap_or_default();
    if let Some(meter) = node.meter() {
        meter.job_ends(job);
    }
    // What goes with its cgroup was not taken off.
    let watched = node.fence().map(|fence| fence.stop_watching(job));
    if let Some(cgroup) = node.root.job(job).map_err(|e| Failure::node(&e))? {
        cgroup.remove().map_err(|e| Failure::node(&e))?;
    }
    if let Some(fence) = node.fence() {
        fence
            .detach(job, &watched.unwrap_or_default())
            .map_err(|e| Failure::node(&e))?;
    }
    for dir in step_dirs(node, job) {
        launch::remove_dir(&dir).map_err(|e| Failure::node(&e))?;
    }
    Ok(counters)
}

/// The folders of a job's steps.
fn step_dirs(node: &Node, job: JobId) -> Vec<std::path::PathBuf> {
    let prefix = format!("{job}.");
    let entries = std::fs::read_dir(steps_dir(&node.config.state_dir))
        .into_iter()
        .flatten();
    let entries = entries.filter_map(Result::ok);
    entries
        .filter(|entry| {
            entry
                .file_name()
                .to_str()
                .is_some_and(|name| name.starts_with(&prefix))
        })
        .map(|entry| entry.path())
        .collect()
}

/// A job's refusals as users count them: the opens of the canary, one for each task, are ours.
pub fn denials(counters: spur_ebpf::Counters, canaries: u64, extra: Extra) -> DenialCount {
    let total = counters.denied.saturating_sub(canaries) + extra.narrower;
    DenialCount {
        total,
        suppressed: (counters.suppressed + counters.lost + extra.cut).min(total),
    }
}

/// After GPUs were taken from a job: ends it if one of its processes could go on with them, and says why. `nodes` are the numbers
/// that the GPUs had.
pub fn cut_off(
    root: &Root,
    job: JobId,
    nodes: &BTreeSet<(u32, u32)>,
    hold_on: HoldOn,
) -> Result<Option<String>, CgroupError> {
    let Some(cgroup) = root.job(job)? else {
        return Ok(None);
    };
    let wanted = hold_on.numbers(nodes);
    let pids = cgroup.procs()?;
    let pids = pids.into_iter().filter_map(|pid| u32::try_from(pid).ok());
    let found = holders::find(pids, &|major, minor| wanted.contains(&(major, minor)));
    let why = found.iter().find_map(|holder| hold_on.verdict(holder));
    if why.is_some() {
        cgroup.kill()?;
    }
    Ok(why)
}

/// Why a job could not be narrowed.
#[derive(Debug, thiserror::Error)]
pub enum NarrowError {
    /// Its policy cannot be written.
    #[error(transparent)]
    Fence(#[from] crate::fence::node::FenceError),
    /// Its processes cannot be looked at or killed.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
}

/// Leaves a running job only these of its GPUs: first its policy, then whatever could go on with the others. Says why the job had to
/// be ended, if so.
pub fn narrow(
    root: &Root,
    fence: &NodeFence,
    job: JobId,
    gpus: &IdSet,
) -> Result<Option<String>, NarrowError> {
    let taken = fence.narrow(job, gpus)?;
    if taken.is_empty() {
        return Ok(None);
    }
    let nodes = fence.nodes_without(&taken, gpus);
    let hold_on = fence.hold_on(taken.iter());
    Ok(cut_off(root, job, &nodes, hold_on)?)
}
