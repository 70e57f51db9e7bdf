//! Placement. Whatever proposed it, a placement that would grant something twice is ignored.

use super::array::Splits;
use super::{Cluster, Taken};
use crate::effect::{Effect, Effects};
use crate::event::Event;
use crate::id::{Generation, JobId, NodeId, StepKind};
use crate::job::Job;
use crate::job::het::HetPart;
use crate::job::licenses::Licenses;
use crate::job::spec::JobKind;
use crate::job::state::{Cause, JobState, Reason, next};
use crate::job::step::{Sharing, Step, StepShare, StepState};
use crate::node::{AdminState, Node};
use crate::plan::shape::mask_of;
use crate::plan::{Placement, Plan};
use crate::resources::NodeShare;
use crate::time::{Millis, TimeLimit};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a job starts with.
#[derive(Clone, Copy)]
pub(super) struct Start<'a> {
    pub(super) shares: &'a [NodeShare],
    pub(super) generation: Generation,
    pub(super) backfilled: bool,
    /// Its limit from now on, if that is not the one that it waited with.
    pub(super) time_limit: Option<TimeLimit>,
}

impl Cluster {
    /// A plan as events to log: its placements, each with a generation of its own, and the reasons that changed. Tasks that an array's
    /// record stands for are split off it, from the lowest index on; the last one that waits keeps the record.
    pub fn plan_events(&self, plan: Plan) -> Vec<Event> {
        let mut generation = self.generation;
        let mut splits = Splits::of(self);
        let mut events = Vec::with_capacity(plan.placements.len() + 1);
        let mut placements = plan.placements.into_iter().peekable();
        while let Some(placement) = placements.next() {
            generation = Generation(generation.0.saturating_add(1));
            if let Some(part) = self.het_part(placement.job) {
                let more = || {
                    let same = |next: &Placement| {
                        let next = self.het_part(next.job);
                        next.is_some_and(|next| next.leader == part.leader)
                    };
                    placements.next_if(same)
                };
                let parts = std::iter::once(placement).chain(std::iter::from_fn(more));
                let parts: Vec<_> = parts.map(|one| (one.job, one.shares)).collect();
                let last = generation.0.saturating_add(parts.len() as u64 - 1);
                events.push(Event::HetPlaced { parts, generation });
                generation = Generation(last);
                continue;
            }
            let Some((job, split)) = splits.next(placement.job) else {
                continue;
            };
            events.extend(split);
            events.push(Event::Placed {
                job,
                shares: placement.shares,
                generation,
                backfilled: placement.backfilled,
                time_limit: placement.time_limit,
            });
        }
        if !plan.reasons.is_empty() {
            events.push(Event::Explained {
                reasons: plan.reasons,
            });
        }
        events
    }

    pub(super) fn on_placed(
        &mut self,
        at: Millis,
        id: JobId,
        start: Start<'_>,
        fx: &mut Effects,
    ) -> Taken {
        let job = self.jobs.get(&id).ok_or("no such job")?;
        let state = next(job.state, Cause::Placed).ok_or("the job does not wait")?;
        if job.het.is_some() {
            return Err("components of a heterogeneous job start together");
        }
        if start.generation <= self.generation {
            return Err("the generation is not new");
        }
        self.placeable(job, start.shares, &BTreeMap::new())?;
        self.licensed(std::iter::once(job))?;
        self.start_job(at, id, state, start, fx);
        Ok(())
    }

    /// Gives a job its shares, which were found to be placeable.
    pub(super) fn start_job(
        &mut self,
        at: Millis,
        id: JobId,
        state: JobState,
        start: Start<'_>,
        fx: &mut Effects,
    ) {
        let (shares, generation) = (start.shares, start.generation);
        self.generation = generation;
        for share in shares {
            if let Some(node) = self.nodes.get_mut(&share.node) {
                take(node, id, share, generation, at);
            }
            fx.touched_nodes.insert(share.node);
            fx.effects.push(Effect::Assign {
                node: share.node,
                job: id,
            });
        }
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        job.state = state;
        job.reason = Reason::None;
        job.reason_text.clear();
        job.cancelled_by = None;
        job.started = Some(at);
        if let Some(limit) = start.time_limit {
            Arc::make_mut(&mut job.spec).time_limit = Some(limit);
        }
        job.ended = job.limit_end();
        if let Some(array) = &mut job.array {
            array.view.settle();
        }
        job.allocation = shares.to_vec();
        job.generation = generation;
        job.backfilled = start.backfilled;
        if job.spec.kind == JobKind::Batch && job.het.is_none_or(HetPart::leads) {
            grant_batch(job, at, fx);
        }
        self.hold_for_prolog(id, fx);
        fx.touched_jobs.insert(id);
        fx.effects.push(Effect::Notify { job: id });
        self.tell_begin(at, id, fx);
    }

    /// Whether there are licenses enough for these jobs together.
    pub(super) fn licensed<'a>(&self, jobs: impl Iterator<Item = &'a Job>) -> Taken {
        let mut wanted = Licenses::default();
        jobs.for_each(|job| wanted.add(&job.spec.licenses()));
        if wanted.is_empty() || self.licenses_free().lacks(&wanted).is_none() {
            Ok(())
        } else {
            Err("too few licenses are free")
        }
    }

    /// Whether the job can have these shares now. Nodes that are in `changed` count as they are there.
    pub(super) fn placeable(
        &self,
        job: &Job,
        shares: &[NodeShare],
        changed: &BTreeMap<NodeId, Node>,
    ) -> Taken {
        if job.kept().is_some() {
            return Err("the job is held, or waits for others");
        }
        if job.tasks() != 1 {
            return Err("several tasks of the array wait here");
        }
        if shares.is_empty() {
            return Err("the placement is empty");
        }
        let mut seen = BTreeMap::new();
        for share in shares {
            let node = changed.get(&share.node);
            let node = node.or_else(|| self.nodes.get(&share.node));
            let node = node.ok_or("no such node")?;
            if seen.insert(share.node, ()).is_some() {
                return Err("a node is named twice");
            }
            if node.jobs.contains(&job.id) {
                return Err("the job is not clean on that node");
            }
            if !takes_jobs(node) {
                return Err("the node takes no jobs");
            }
            fits(node, share)?;
            self.holds_no_part(node, share)?;
        }
        Ok(())
    }
}

impl Cluster {
    /// A GPU and its parts are not held by different jobs.
    fn holds_no_part(&self, node: &Node, share: &NodeShare) -> Taken {
        let shape = self.shape(node.id).ok_or("the node has no shape")?;
        let closed = shape.layout().closure(mask_of(&share.gpus));
        if closed & mask_of(&node.gpus_used) == 0 {
            Ok(())
        } else {
            Err("a part of a device, or what it is a part of, is not free")
        }
    }
}

/// Whether a node may be given new jobs at all.
pub(crate) fn takes_jobs(node: &Node) -> bool {
    node.connected
        && !node.lost
        && node.admin == AdminState::Up
        && node.has_required_fence()
        && node.next_inventory.is_none()
        && !node.is_resting()
}

fn fits(node: &Node, share: &NodeShare) -> Taken {
    let inventory = &node.inventory;
    let cpus_exist = share.cpus.iter().all(|cpu| cpu < inventory.cpus);
    let gpus = u32::try_from(inventory.gpus.len()).unwrap_or(u32::MAX);
    let gpus_exist = share.gpus.iter().all(|gpu| gpu < gpus);
    if !cpus_exist || !gpus_exist {
        return Err("the node has no such device");
    }
    if share.cpus.intersects(&node.cpus_used)
        || share.gpus.intersects(&node.gpus_used)
        || share.gpus.intersects(&node.gpus_sick)
    {
        return Err("a device is not free");
    }
    let wanted = node.memory_used.saturating_add(share.memory_mib);
    if wanted > inventory.memory_mib {
        Err("not enough memory is free")
    } else {
        Ok(())
    }
}

pub(super) fn take(
    node: &mut Node,
    job: JobId,
    share: &NodeShare,
    generation: Generation,
    at: Millis,
) {
    node.cpus_used.union_with(&share.cpus);
    node.gpus_used.union_with(&share.gpus);
    node.forget_use(&share.gpus);
    node.memory_used += share.memory_mib;
    node.jobs.insert(job);
    node.generation = generation;
    node.last_busy = at;
}

/// The batch step runs as one task on the first node and may use all that the job holds there.
fn grant_batch(job: &mut Job, at: Millis, fx: &mut Effects) {
    let Some(first) = job.allocation.first() else {
        return;
    };
    let (node, id) = (first.node, job.id);
    let share = NodeShare {
        tasks: 1,
        ..first.clone()
    };
    let step = Step {
        kind: StepKind::Batch,
        name: "batch".to_owned(),
        uid: job.spec.owner.uid,
        state: StepState::Running,
        started: at,
        ended: None,
        shares: vec![StepShare {
            share,
            task_ids: vec![0],
        }],
        reported: BTreeMap::new(),
        cpus_per_task: job.spec.cpus_per_task,
        oom: false,
        with: Vec::new(),
        request_id: 0,
        sharing: Sharing::default(),
        suspended_ms: 0,
    };
    job.steps.insert(StepKind::Batch, step);
    fx.effects.push(Effect::Launch {
        node,
        job: id,
        step: StepKind::Batch,
    });
}

/// Whether the job holds a placement of this generation.
pub(super) fn runs_with(job: &Job, generation: Generation) -> bool {
    job.state == JobState::Running && job.generation == generation
}
