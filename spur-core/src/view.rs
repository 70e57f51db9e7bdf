//! Rows for queries, made from the state: plain values that a shell publishes and readers share.

use crate::api::{IdleGpu, JobFilter, JobView, NodeView, StepView, Written};
use crate::cluster::Cluster;
use crate::denial::DenialCount;
use crate::id::{JobId, Uid};
use crate::job::Job;
use crate::job::array::JobTarget;
use crate::job::state::{ExitStatus, JobState, Reason};
use crate::job::step::{Step, StepState};
use crate::manage::NodeChange;
use crate::node::Node;
use crate::resources::NodeShare;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// A job as queries show it. Cheap for a pending job: it shares the request and copies a few numbers.
pub fn job_view(cluster: &Cluster, job: &Job) -> JobView {
    let held = if job.allocation.is_empty() {
        &job.last_nodes
    } else {
        &job.allocation
    };
    let shown: &[NodeShare] = if job.state == JobState::Pending {
        &[]
    } else {
        held
    };
    JobView {
        id: job.id,
        spec: Arc::clone(&job.spec),
        state: match job.suspended {
            Some(_) => JobState::Suspended,
            None => job.state,
        },
        completing: job.state.is_terminal() && !job.uncleaned.is_empty(),
        reason: job.reason,
        reason_text: job.reason_text.clone(),
        priority: job.priority,
        submitted: job.submitted,
        eligible: job.eligible,
        started: job.started,
        ended: job.ended,
        nodes: cluster.allocated(shown),
        gpu_models: shown
            .iter()
            .map(|share| granted_model(cluster, share))
            .collect(),
        steps: job
            .steps
            .values()
            .map(|step| step_view(job, step))
            .collect(),
        exit: job.exit,
        derived_exit: job.derived_exit,
        restarts: job.restarts,
        denials: total(job),
        generation: job.started.map(|_| job.generation).unwrap_or_default(),
        cancelled_by: job.cancelled_by,
        idle: idle(cluster, job),
        due: crate::plan::policy::due(job),
        avoid: job.avoid.iter().copied().collect(),
        uncleaned: job.uncleaned.iter().copied().collect(),
        unavailable: Vec::new(),
        expected: None,
        array: job.array.as_ref().map(|array| array.view.clone()),
        dependency: job.depends.to_string(),
        suspended: job.suspended,
        suspended_ms: job.suspended_ms,
        turned: job.turned,
        ran_before_ms: job.ran_before_ms,
        het: job.het,
        backfilled: job.backfilled,
        written: Written::kept(),
    }
}

fn idle(cluster: &Cluster, job: &Job) -> Vec<IdleGpu> {
    let named = job.idle.iter().filter_map(|(id, gpus)| {
        let name = &cluster.nodes.get(id)?.name;
        Some(gpus.iter().map(move |(gpu, idle)| IdleGpu {
            node: name.clone(),
            gpu: *gpu,
            idle: idle.clone(),
        }))
    });
    named.flatten().collect()
}

fn step_view(job: &Job, step: &Step) -> StepView {
    StepView {
        kind: step.kind,
        name: step.name.clone(),
        state: step.state,
        started: step.started,
        ended: step.ended,
        shares: step.shares.clone(),
        exit: step_exit(job, step),
        suspended_ms: step.suspended_ms,
    }
}

/// Of a step that was closed with its job before any node reported it, as when the node was lost or the step did not start, this
/// is not known: it did not end well.
fn step_exit(job: &Job, step: &Step) -> ExitStatus {
    if step.state == StepState::Running || !step.reported.is_empty() {
        return step.exit();
    }
    if job.reason == Reason::JobLaunchFailure {
        job.exit
    } else {
        ExitStatus { code: 0, signal: 9 }
    }
}

/// The model of the GPUs of a share; empty if there are none or they differ.
fn granted_model(cluster: &Cluster, share: &NodeShare) -> String {
    let gpus = cluster
        .nodes
        .get(&share.node)
        .map(|node| node.inventory.gpus.as_slice());
    let gpus = gpus.unwrap_or_default();
    let mut models = share
        .gpus
        .iter()
        .filter_map(|index| gpus.get(index as usize))
        .map(|gpu| &gpu.model);
    let first = models.next();
    first
        .filter(|first| models.all(|model| model == *first))
        .cloned()
        .unwrap_or_default()
}

fn total(job: &Job) -> DenialCount {
    job.denials
        .values()
        .fold(DenialCount::default(), |sum, count| DenialCount {
            total: sum.total.saturating_add(count.total),
            suppressed: sum.suppressed.saturating_add(count.suppressed),
        })
}

/// The reason of a node that was silent for too long: Slurm's words.
const NOT_RESPONDING: &str = "Not responding";

/// A node as queries show it.
pub fn node_view(cluster: &Cluster, node: &Node) -> NodeView {
    let member = |nodes: &Option<Vec<crate::id::NodeName>>| {
        nodes
            .as_ref()
            .is_none_or(|nodes| nodes.contains(&node.name))
    };
    let partitions = cluster
        .partitions
        .iter()
        .filter(|partition| member(&partition.nodes));
    let owes = |id| {
        cluster
            .jobs
            .get(id)
            .is_some_and(|job: &Job| job.leftovers.contains_key(&node.id))
    };
    let change = cluster.managed.nodes.get(&node.name);
    let changed =
        |what: fn(&NodeChange) -> Option<String>| change.and_then(what).unwrap_or_default();
    let mut shown = node.clone();
    if node.lost && node.reason.is_empty() {
        // As Slurm says it, and by whom; an operator's reason stays.
        NOT_RESPONDING.clone_into(&mut shown.reason);
        shown.reason_by = Some((Uid(0), node.last_seen));
    }
    NodeView {
        node: shown,
        partitions: partitions.map(|partition| partition.name.clone()).collect(),
        completing: node.jobs.iter().any(owes),
        planned: false,
        features: cluster.features(node).map(str::to_owned).collect(),
        weight: cluster.weight(node),
        comment: changed(|change| change.comment.clone()),
        extra: changed(|change| change.extra.clone()),
        reservations: Vec::new(),
        maintenance: false,
    }
}

impl JobFilter {
    /// Whether the job is one of those meant. Without states, ended jobs are left out unless they are completing, or named
    /// by number as Slurm has it.
    pub fn matches(&self, view: &JobView) -> bool {
        let spec = &view.spec;
        self.names(view)
            && one_of(&self.users, &spec.owner.uid)
            && one_of(&self.partitions, &spec.partition)
            && one_of(&self.names, &spec.name)
            && self.has_account(&spec.account)
            && (self.nodes.is_empty()
                || view
                    .nodes
                    .iter()
                    .any(|node| self.nodes.contains(&node.name)))
            && self.state_matches(view)
    }

    /// Accounts have no capitals, so that it is all the same how one is asked for.
    fn has_account(&self, account: &str) -> bool {
        let mut named = self.accounts.iter();
        self.accounts.is_empty() || named.any(|name| name.to_lowercase() == account.to_lowercase())
    }

    /// Whether the job is among those named by number, if any are.
    fn names(&self, view: &JobView) -> bool {
        let array = view.array.as_ref();
        let by_id = |id: &JobId| {
            *id == view.id
                || array.is_some_and(|array| array.job == *id)
                || view.het.is_some_and(|part| part.leader == *id)
        };
        let by_target = |target: &JobTarget| match &target.tasks {
            None => by_id(&target.job) && target.means(view),
            Some(tasks) => {
                array.is_some_and(|array| array.job == target.job && array.has_any(tasks))
            }
        };
        self.names_none() || self.ids.iter().any(by_id) || self.targets.iter().any(by_target)
    }

    /// Whether nothing is asked for but what lists show of themselves, as far as the caller sees it.
    #[must_use]
    pub fn asks_for_the_usual(&self) -> bool {
        let usual = Self {
            estimates: self.estimates,
            visible: self.visible,
            ..Self::default()
        };
        *self == usual
    }

    /// Whether no job is named by number.
    #[must_use]
    pub fn names_none(&self) -> bool {
        self.ids.is_empty() && self.targets.is_empty()
    }

    fn state_matches(&self, view: &JobView) -> bool {
        if self.all_states {
            return true;
        }
        if self.states.is_empty() {
            return !view.state.is_terminal() || view.completing || !self.names_none();
        }
        self.states.contains(&view.state)
    }
}

fn one_of<T: PartialEq>(list: &[T], value: &T) -> bool {
    list.is_empty() || list.contains(value)
}
