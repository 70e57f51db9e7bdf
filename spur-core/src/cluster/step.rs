//! Steps that `srun` starts within a running job.

use super::{Cluster, Taken};
use crate::effect::{Effect, Effects};
use crate::id::{JobId, StepKind, Uid};
use crate::job::Job;
use crate::job::state::JobState;
use crate::job::step::{Sharing, Step, StepShare, StepState};
use crate::time::Millis;
use std::collections::{BTreeMap, BTreeSet};

/// What a [`crate::event::Event::StepGranted`] says of the step.
pub(super) struct Granted<'a> {
    pub(super) name: &'a str,
    pub(super) uid: Uid,
    pub(super) shares: &'a [StepShare],
    pub(super) cpus_per_task: u32,
    pub(super) with: &'a [JobId],
    pub(super) request_id: u64,
    pub(super) sharing: Sharing,
}

impl Cluster {
    pub(super) fn on_step_granted(
        &mut self,
        at: Millis,
        id: JobId,
        kind: StepKind,
        asked: Granted<'_>,
        fx: &mut Effects,
    ) -> Taken {
        let job = self.jobs.get_mut(&id).ok_or("no such job")?;
        if job.state != JobState::Running {
            return Err("the job does not run");
        }
        let StepKind::Numbered(number) = kind else {
            return Err("the batch step comes with the placement");
        };
        if number < job.next_step || job.steps.contains_key(&kind) {
            return Err("the step number was used before");
        }
        within(job, asked.shares)?;
        job.next_step = number.saturating_add(1);
        let cpus_per_task = match asked.cpus_per_task {
            0 => job.spec.cpus_per_task,
            given => given,
        };
        let step = Step {
            kind,
            name: asked.name.to_owned(),
            uid: asked.uid,
            state: StepState::Running,
            started: at,
            ended: None,
            shares: asked.shares.to_vec(),
            reported: BTreeMap::new(),
            cpus_per_task,
            oom: false,
            with: asked.with.to_vec(),
            request_id: asked.request_id,
            sharing: asked.sharing,
            suspended_ms: 0,
        };
        for part in &step.shares {
            fx.effects.push(Effect::Launch {
                node: part.share.node,
                job: id,
                step: kind,
            });
        }
        job.steps.insert(kind, step);
        fx.touched_jobs.insert(id);
        fx.effects.push(Effect::Notify { job: id });
        Ok(())
    }
}

/// Whether a step's shares lie within the job's allocation, one to a node.
fn within(job: &Job, shares: &[StepShare]) -> Taken {
    if shares.is_empty() {
        return Err("the step has no node");
    }
    let mut seen = BTreeSet::new();
    for part in shares {
        let whole = job
            .allocation
            .iter()
            .find(|share| share.node == part.share.node);
        let whole = whole.ok_or("the step leaves its job's nodes")?;
        let inside = part.share.cpus.is_subset(&whole.cpus)
            && part.share.gpus.is_subset(&whole.gpus)
            && part.share.memory_mib <= whole.memory_mib;
        if !inside || !seen.insert(part.share.node) {
            return Err("the step exceeds its job's share");
        }
    }
    Ok(())
}
