//! Submission, and why jobs wait.

use super::{Cluster, Taken};
use crate::effect::Effects;
use crate::id::{Generation, JobId};
use crate::job::Job;
use crate::job::spec::JobSpec;
use crate::job::state::{ExitStatus, JobState, Reason};
use crate::slurm::dependency::Dependency;
use crate::time::Millis;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Cluster {
    /// The number for the next job; `None` once all 32 bits are used up.
    pub fn next_job_id(&self) -> Option<JobId> {
        let next = self.next_job.0.max(1);
        (next < u32::MAX).then_some(JobId(next))
    }

    pub(super) fn on_submitted(
        &mut self,
        at: Millis,
        id: JobId,
        spec: &Arc<JobSpec>,
        priority: u32,
        fx: &mut Effects,
    ) -> Taken {
        if id.0 < self.next_job.0.max(1) || self.jobs.contains_key(&id) {
            return Err("the job number was used before");
        }
        let array = self.new_array(id, spec)?;
        let depends = self.new_dependency(spec)?;
        self.next_job = JobId(id.0.saturating_add(1));
        let mut job = new_job(at, id, spec, priority);
        (job.array, job.depends) = (array, depends);
        job.expected = self.history.expected(spec);
        self.jobs.insert(id, job);
        self.mix.submitted(at, spec);
        fx.touched_jobs.insert(id);
        fx.replan = priority != 0;
        Ok(())
    }

    pub(super) fn on_explained(
        &mut self,
        reasons: &[(JobId, Reason, String)],
        fx: &mut Effects,
    ) -> Taken {
        for (id, reason, text) in reasons {
            let job = self.jobs.get_mut(id);
            let told = |job: &&mut Job| job.state == JobState::Pending && job.kept().is_none();
            if let Some(job) = job.filter(told) {
                job.reason = *reason;
                job.reason_text.clone_from(text);
                self.index.queue.explain(job);
                fx.touched_jobs.insert(*id);
            }
        }
        Ok(())
    }
}

pub(super) fn new_job(at: Millis, id: JobId, spec: &Arc<JobSpec>, priority: u32) -> Job {
    let reason = if priority == 0 {
        Reason::JobHeldUser
    } else {
        Reason::None
    };
    Job {
        id,
        spec: Arc::clone(spec),
        state: JobState::Pending,
        reason,
        reason_text: String::new(),
        priority,
        submitted: at,
        eligible: spec.begin.map_or(at, |begin| begin.max(at)),
        started: None,
        ended: None,
        allocation: Vec::new(),
        idle: BTreeMap::new(),
        cancelled_by: None,
        last_nodes: Vec::new(),
        uncleaned: BTreeSet::new(),
        generation: Generation::default(),
        steps: BTreeMap::new(),
        next_step: 0,
        exit: ExitStatus::default(),
        derived_exit: ExitStatus::default(),
        restarts: 0,
        denials: BTreeMap::new(),
        avoid: BTreeSet::new(),
        leftovers: BTreeMap::new(),
        expected: None,
        array: None,
        depends: Dependency::default(),
        suspended: None,
        suspended_ms: 0,
        turned: None,
        ran_before_ms: 0,
        warned: Generation::default(),
        het: None,
        backfilled: false,
        told_percent: 0,
    }
}
