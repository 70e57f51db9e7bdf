//! Jobs that are to be as if something else had been asked for.

use super::{Cluster, Taken};
use crate::effect::Effects;
use crate::id::JobId;
use crate::job::Job;
use crate::job::admit::starting_priority;
use crate::job::spec::JobSpec;
use crate::job::state::{JobState, Reason};
use crate::time::Millis;
use std::sync::Arc;

impl Cluster {
    /// The new request is whole and was checked; owner, kind and array stay.
    pub(super) fn on_job_changed(
        &mut self,
        at: Millis,
        id: JobId,
        spec: &Arc<JobSpec>,
        (priority, throttle): (Option<u32>, Option<u32>),
        fx: &mut Effects,
    ) -> Taken {
        let job = self.jobs.get(&id).ok_or("no such job")?;
        if job.state.is_terminal() {
            return Err("the job has ended");
        }
        let same = spec.owner == job.spec.owner
            && spec.kind == job.spec.kind
            && spec.array == job.spec.array;
        if !same {
            return Err("a job's owner, kind and array cannot be changed");
        }
        let known = |name: &String| self.partitions.iter().any(|known| known.name == *name);
        if spec.partition != job.spec.partition
            && (job.state != JobState::Pending || !known(&spec.partition))
        {
            return Err("the job waits no more, or there is no such partition");
        }
        let depends = self.new_dependency(spec)?;
        let renamed = spec.name != job.spec.name;
        let job = self.jobs.get_mut(&id).ok_or("no such job")?;
        let old = std::mem::replace(&mut job.spec, Arc::clone(spec));
        if old.dependency != spec.dependency {
            job.depends = depends;
            job.array.iter_mut().for_each(|array| array.ready = None);
        }
        if old.begin != spec.begin && job.state == JobState::Pending {
            job.eligible = spec.begin.map_or(at, |begin| begin.max(at));
        }
        if job.state == JobState::Running {
            job.ended = job.limit_end();
        }
        reprioritize(job, &old, priority);
        fx.touched_jobs.insert(id);
        fx.replan = true;
        if let Some(throttle) = throttle {
            self.throttle(id, throttle, fx);
        }
        if renamed {
            fx.touched_jobs.extend(self.index.ties.singles());
        }
        Ok(())
    }

    /// All records of the job's array.
    fn throttle(&mut self, id: JobId, throttle: u32, fx: &mut Effects) {
        let part = self.jobs.get(&id).and_then(|job| job.array.as_ref());
        let Some(array) = part.map(|part| part.view.job) else {
            return;
        };
        let members: Vec<JobId> = self.members(array).collect();
        for member in members {
            if let Some(part) = self
                .jobs
                .get_mut(&member)
                .and_then(|job| job.array.as_mut())
            {
                part.view.throttle = throttle;
                fx.touched_jobs.insert(member);
            }
        }
    }
}

/// A priority that is given counts; otherwise one that follows from the request follows the new one. A priority of 0 holds, any other
/// lets go.
fn reprioritize(job: &mut Job, old: &JobSpec, given: Option<u32>) {
    let follows = job.priority == starting_priority(old) && job.priority > 0;
    match given {
        Some(priority) => job.priority = priority,
        None if follows => job.priority = starting_priority(&job.spec).max(1),
        None => return,
    }
    if job.state != JobState::Pending || given.is_none() {
        return;
    }
    let held = matches!(
        job.reason,
        Reason::JobHeldUser | Reason::JobHeldAdmin | Reason::LaunchFailedHeld
    );
    if job.priority == 0 && !held {
        job.reason = Reason::JobHeldAdmin;
        job.reason_text.clear();
    } else if job.priority > 0 {
        job.reason = Reason::None;
        job.reason_text.clear();
    }
}
