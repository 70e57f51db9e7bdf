//! What shells send to agents, built from the state: nothing is kept twice.

use super::Cluster;
use crate::agent::order::{AllocatedNode, HetOrder, JobOrder, StepOrder};
use crate::agent::roll::Roll;
use crate::id::{JobId, NodeId, NodeName, StepKind};
use crate::job::state::JobState;
use crate::job::step::{Step, StepShare, StepState};
use crate::resources::{MemoryRequest, NodeShare};
use crate::time::TimeLimit;
use crate::view::job_view;
use std::collections::BTreeMap;

/// What the orders of one state share: the lists of the jobs' and of the steps' nodes. Not to be kept when the state changes.
#[derive(Debug, Default)]
pub struct Rolls {
    jobs: BTreeMap<JobId, Roll<AllocatedNode>>,
    steps: BTreeMap<(JobId, StepKind), Roll<(NodeName, u32)>>,
    /// By leader.
    hets: BTreeMap<JobId, HetOrder>,
}

impl Cluster {
    /// The order by which a node holds its part of a running job; `None` if it should not.
    pub fn job_order(&self, id: JobId, node: NodeId, rolls: &mut Rolls) -> Option<JobOrder> {
        let job = self
            .jobs
            .get(&id)
            .filter(|job| job.state == JobState::Running && !job.is_preparing())?;
        let index = job.allocation.iter().position(|share| share.node == node)?;
        let fresh = || self.allocated(&job.allocation).into();
        let all = rolls.jobs.entry(id).or_insert_with(fresh);
        let spec = &job.spec;
        let (mem_per_cpu, mem_per_node) = match spec.memory {
            MemoryRequest::PerCpu(mib) => (Some(mib), None),
            MemoryRequest::PerNode(mib) => (None, Some(mib)),
            MemoryRequest::PerGpu(_) | MemoryRequest::Default => (None, None),
        };
        Some(JobOrder {
            job: id,
            generation: job.generation,
            cluster: self.name.clone(),
            owner: spec.owner.clone(),
            name: spec.name.clone(),
            account: spec.account.clone(),
            partition: spec.partition.clone(),
            qos: spec.qos.clone(),
            nodes: Roll::clone(all),
            index: u32::try_from(index).ok()?,
            tasks: match job.spec.overcommits() {
                true => job.spec.tasks,
                false => job.allocation.iter().map(|share| share.tasks).sum(),
            },
            cpus_per_task: spec.cpus_per_task,
            cpus_per_task_set: spec.cpus_per_task_set,
            tasks_set: spec.tasks_set,
            tasks_per_node: spec.tasks_per_node,
            mem_per_cpu,
            mem_per_node,
            work_dir: spec.work_dir.clone(),
            submit_host: spec.submit_host.clone(),
            started: job.started?,
            time_limit: spec.time_limit.unwrap_or(TimeLimit::Unlimited),
            restarts: job.restarts,
            licenses: spec.extras().licenses.clone(),
            array: self.array_task(id),
            het: self.het_order(id, rolls),
            node_timeout: self.node_timeout,
        })
    }

    /// The order by which a node runs its part of a step that it has not reported yet; the shell adds a batch step's
    /// payload. `None` if it should not run it.
    pub fn step_order(
        &self,
        (id, kind): (JobId, StepKind),
        node: NodeId,
        rolls: &mut Rolls,
    ) -> Option<StepOrder> {
        let job = self
            .jobs
            .get(&id)
            .filter(|job| job.state == JobState::Running && !job.is_preparing())?;
        let step = job
            .steps
            .get(&kind)
            .filter(|step| step.state == StepState::Running)?;
        let index = step
            .shares
            .iter()
            .position(|part| part.share.node == node)?;
        if step.reported.contains_key(&node) {
            return None;
        }
        let part = step.shares.get(index)?;
        let tasks_on =
            |part: &StepShare| Some((self.node_name(part.share.node)?, part.share.tasks));
        // A step over several components is one to its tasks: they see the nodes of all.
        let parts = self.step_parts(id, step);
        let before = parts.iter().take_while(|(job, _)| *job != id);
        let before: usize = before.map(|(_, part)| part.shares.len()).sum();
        let shares = || parts.iter().flat_map(|(_, part)| &part.shares);
        let first = parts.first().map_or(id, |(job, _)| *job);
        let fresh = || shares().filter_map(tasks_on).collect();
        let all = rolls.steps.entry((first, kind)).or_insert_with(fresh);
        Some(StepOrder {
            job: id,
            step: kind,
            generation: job.generation,
            nodes: Roll::clone(all),
            index: u32::try_from(before + index).ok()?,
            share: part.share.clone(),
            task_ids: part.task_ids.clone(),
            tasks: shares().map(|part| part.share.tasks).sum(),
            cpus_per_task: step.cpus_per_task,
            batch: None,
        })
    }

    /// The parts of a step, in order, by component: the step itself, unless it is one with others.
    fn step_parts<'a>(&'a self, id: JobId, step: &'a Step) -> Vec<(JobId, &'a Step)> {
        if step.with.is_empty() {
            return vec![(id, step)];
        }
        let part = |id: &JobId| Some((*id, self.jobs.get(id)?.steps.get(&step.kind)?));
        step.with.iter().filter_map(part).collect()
    }

    /// What a component tells its tasks of all that run.
    fn het_order(&self, id: JobId, rolls: &mut Rolls) -> Option<HetOrder> {
        let leader = self.het_part(id)?.leader;
        let fresh = || {
            let jobs = self.together(id).into_iter();
            let views = jobs.filter_map(|id| self.jobs.get(&id));
            let views: Vec<_> = views.map(|job| job_view(self, job)).collect();
            let variables = crate::slurm::environ::components(&views, &self.name);
            HetOrder { leader, variables }
        };
        Some(rolls.hets.entry(leader).or_insert_with(fresh).clone())
    }

    /// Everything that a node should hold and run now, for [`crate::agent::order::ToAgent::Welcome`].
    pub fn welcome(&self, node: NodeId, rolls: &mut Rolls) -> (Vec<JobOrder>, Vec<StepOrder>) {
        let Some(there) = self.nodes.get(&node) else {
            return (Vec::new(), Vec::new());
        };
        let (mut orders, mut steps) = (Vec::new(), Vec::new());
        for job in there.jobs.iter().filter_map(|id| self.jobs.get(id)) {
            orders.extend(self.job_order(job.id, node, rolls));
            let kinds = job.steps.keys();
            steps.extend(kinds.filter_map(|kind| self.step_order((job.id, *kind), node, rolls)));
        }
        (orders, steps)
    }

    /// Shares with the names of their nodes.
    pub fn allocated(&self, shares: &[NodeShare]) -> Vec<AllocatedNode> {
        let named = |share: &NodeShare| {
            Some(AllocatedNode {
                name: self.node_name(share.node)?,
                share: share.clone(),
            })
        };
        shares.iter().filter_map(named).collect()
    }

    fn node_name(&self, node: NodeId) -> Option<NodeName> {
        self.nodes.get(&node).map(|node| node.name.clone())
    }
}
