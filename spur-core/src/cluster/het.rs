//! Heterogeneous jobs: components are submitted, started and put back together, and end together but for a component that is cancelled
//! alone while they run.

use super::end::Ending;
use super::place::{Start, take};
use super::submit::new_job;
use super::{Cluster, Taken};
use crate::effect::Effects;
use crate::id::{Generation, JobId, NodeId, StepKind, Uid};
use crate::job::Job;
use crate::job::het::{COMPONENTS_MAX, HetPart};
use crate::job::spec::{JobKind, JobSpec};
use crate::job::state::{Cause, JobState, Reason, next};
use crate::job::step::StepState;
use crate::node::Node;
use crate::resources::NodeShare;
use crate::time::Millis;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Cluster {
    /// What a job is of a heterogeneous job.
    pub(crate) fn het_part(&self, id: JobId) -> Option<HetPart> {
        self.jobs.get(&id)?.het
    }

    /// The components of the job that are not forgotten, in order, itself included; for another job only that.
    pub fn together(&self, id: JobId) -> Vec<JobId> {
        match self.het_part(id) {
            Some(part) => part
                .all()
                .filter(|other| {
                    self.het_part(*other)
                        .is_some_and(|other| other.leader == part.leader)
                })
                .collect(),
            None => vec![id],
        }
    }

    /// The other components of the job that are not forgotten.
    fn others(&self, id: JobId) -> Vec<JobId> {
        let mut all = self.together(id);
        all.retain(|other| *other != id);
        all
    }

    /// Components of the job that have not ended.
    pub(super) fn alive_together(&self, id: JobId) -> BTreeSet<JobId> {
        let mut all = self.together(id);
        let alive = |id: &JobId| {
            self.jobs
                .get(id)
                .is_some_and(|job| !job.state.is_terminal())
        };
        all.retain(alive);
        all.into_iter().collect()
    }

    /// Notes who cancelled those of the jobs that are cancelled now.
    pub(super) fn cancelled_by(&mut self, jobs: &BTreeSet<JobId>, by: Uid) {
        for id in jobs {
            let job = self.jobs.get_mut(id);
            if let Some(job) = job.filter(|job| job.state == JobState::Cancelled) {
                job.cancelled_by = Some(by);
            }
        }
    }

    pub(super) fn on_het_submitted(
        &mut self,
        at: Millis,
        leader: JobId,
        parts: &[(Arc<JobSpec>, u32)],
        fx: &mut Effects,
    ) -> Taken {
        if !(2..=COMPONENTS_MAX).contains(&parts.len()) {
            return Err("a heterogeneous job has from 2 to 128 components");
        }
        let size = u32::try_from(parts.len()).map_err(|_| "too many components")?;
        let last = leader
            .0
            .checked_add(size)
            .ok_or("every job number was used")?;
        if leader.0 < self.next_job.0.max(1) || self.jobs.range(leader..).next().is_some() {
            return Err("the job number was used before");
        }
        let mut depends = Vec::new();
        for (spec, _) in parts {
            if !spec.array.is_empty() {
                return Err("a component is no array");
            }
            if spec.kind != parts[0].0.kind {
                return Err("components are of one kind");
            }
            depends.push(self.new_dependency(spec)?);
        }
        self.next_job = JobId(last);
        for (offset, ((spec, priority), depends)) in (0u32..).zip(parts.iter().zip(depends)) {
            let id = JobId(leader.0 + offset);
            let mut job = new_job(at, id, spec, *priority);
            job.depends = depends;
            job.expected = self.history.expected(spec);
            job.het = Some(HetPart {
                leader,
                offset,
                size,
            });
            self.jobs.insert(id, job);
            self.mix.submitted(at, spec);
            fx.touched_jobs.insert(id);
        }
        fx.replan = parts.iter().all(|(_, priority)| *priority != 0);
        Ok(())
    }

    pub(super) fn on_het_placed(
        &mut self,
        at: Millis,
        parts: &[(JobId, Vec<NodeShare>)],
        generation: Generation,
        fx: &mut Effects,
    ) -> Taken {
        let (first, _) = parts.first().ok_or("nothing is placed")?;
        self.het_part(*first)
            .ok_or("no component of a heterogeneous job")?;
        let placed = parts.iter().map(|(id, _)| *id);
        if !placed.eq(self.together(*first)) {
            return Err("components of a heterogeneous job start together");
        }
        if generation <= self.generation {
            return Err("the generation is not new");
        }
        let jobs = parts.iter().filter_map(|(id, _)| self.jobs.get(id));
        self.licensed(jobs)?;
        let mut changed: BTreeMap<NodeId, Node> = BTreeMap::new();
        let mut states = Vec::new();
        for (id, shares) in parts {
            let job = self.jobs.get(id).ok_or("no such job")?;
            states.push(next(job.state, Cause::Placed).ok_or("the job does not wait")?);
            self.placeable(job, shares, &changed)?;
            for share in shares {
                let known = self.nodes.get(&share.node).ok_or("no such node")?;
                let node = changed.entry(share.node).or_insert_with(|| known.clone());
                take(node, *id, share, generation, at);
            }
        }
        for ((id, shares), (state, more)) in parts.iter().zip(states.into_iter().zip(0..)) {
            let own = Generation(generation.0.saturating_add(more));
            let start = Start {
                shares,
                generation: own,
                backfilled: false,
                time_limit: None,
            };
            self.start_job(at, *id, state, start, fx);
        }
        Ok(())
    }

    /// [`Self::end_job`] for a job with all its components that have not ended.
    pub(super) fn end_together(
        &mut self,
        at: Millis,
        id: JobId,
        ending: &Ending,
        gone: Option<NodeId>,
        fx: &mut Effects,
    ) -> Taken {
        self.end_job(at, id, ending.clone(), gone, fx)?;
        for other in self.others(id) {
            // One that has ended before stays as it is.
            self.end_job(at, other, ending.clone(), None, fx).ok();
        }
        Ok(())
    }

    /// Ends a job of `srun`'s that runs, if the step of every component has ended: each with the status of its own.
    pub(super) fn end_stepped(&mut self, at: Millis, id: JobId, fx: &mut Effects) {
        let ended = |id: &JobId| {
            let job = self.jobs.get(id)?;
            let step = job.steps.get(&StepKind::Numbered(0))?;
            let over = job.spec.kind == JobKind::Run && step.state == StepState::Ended;
            over.then(|| (*id, Ending::by_exit(step.exit(), step.oom)))
        };
        let alive = self.alive_together(id);
        let endings: Option<Vec<_>> = alive.iter().map(ended).collect();
        for (id, ending) in endings.into_iter().flatten() {
            self.end_job(at, id, ending, None, fx).ok();
        }
    }

    /// [`Self::requeue_job`] for a job with all its components.
    pub(super) fn requeue_together(
        &mut self,
        at: Millis,
        id: JobId,
        hold: Option<&(Reason, String)>,
        gone: Option<NodeId>,
        fx: &mut Effects,
    ) -> Taken {
        let all = self.together(id);
        let led = all.first().is_some_and(|first| {
            let part = self.het_part(*first);
            part.is_none_or(HetPart::leads)
        });
        if !led {
            return Err("the leader of the heterogeneous job is forgotten");
        }
        self.requeue_job(at, id, hold.cloned(), gone, fx)?;
        for other in self.others(id) {
            self.requeue_job(at, other, hold.cloned(), None, fx).ok();
        }
        Ok(())
    }

    /// Whether the end of a job is that of all its components: of those that wait, and with the leader.
    pub(super) fn ends_whole(&self, id: JobId) -> bool {
        let job = self.jobs.get(&id);
        let waits = job.is_some_and(|job| job.state == JobState::Pending);
        waits || self.het_part(id).is_some_and(HetPart::leads)
    }

    /// Does something to every component of a running job that runs.
    pub(super) fn each_running(
        &mut self,
        id: JobId,
        fx: &mut Effects,
        mut act: impl FnMut(&mut Job),
    ) {
        for id in self.together(id) {
            let job = self.jobs.get_mut(&id);
            if let Some(job) = job.filter(|job| job.state == JobState::Running) {
                act(job);
                fx.touched_jobs.insert(id);
            }
        }
    }

    /// Does the same to every component of a job that waits.
    pub(super) fn each_waiting(
        &mut self,
        id: JobId,
        fx: &mut Effects,
        mut act: impl FnMut(&mut Job),
    ) -> Taken {
        let job = self.jobs.get(&id).ok_or("no such job")?;
        if job.state != JobState::Pending {
            return Err("the job does not wait");
        }
        let all: BTreeSet<JobId> = self.together(id).into_iter().collect();
        for id in &all {
            if let Some(job) = self.jobs.get_mut(id) {
                act(job);
            }
        }
        fx.touched_jobs.extend(all);
        fx.replan = true;
        Ok(())
    }
}
