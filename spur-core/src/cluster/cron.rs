//! Jobs of crontabs: each entry is one job, which begins again at its next time whatever came of it.

use super::end::Ending;
use super::{Cluster, Taken};
use crate::effect::Effects;
use crate::id::{JobId, Uid};
use crate::job::Job;
use crate::job::extras::Cron;
use crate::job::spec::JobSpec;
use crate::job::state::{Cause, ExitStatus, JobState, Reason};
use crate::slurm::crontab;
use crate::time::Millis;
use std::sync::Arc;

/// What marks the lines of entries whose job somebody cancelled.
const DISABLED: &str = "#DISABLED: ";

/// The job of an entry of a crontab: its number, what is asked for, its priority.
type Entry = (JobId, Arc<JobSpec>, u32);

impl Job {
    /// The entry of a crontab that it stands for.
    #[must_use]
    pub fn cron(&self) -> Option<&Cron> {
        self.spec.extras().cron.as_ref()
    }
}

impl Cluster {
    /// As in Slurm, what runs of the old table runs on to its end, for the last time.
    pub(super) fn on_crontab_set(
        &mut self,
        at: Millis,
        uid: Uid,
        (table, jobs): (&Option<String>, &[Entry]),
        fx: &mut Effects,
    ) -> Taken {
        for ((id, spec, _), expected) in jobs.iter().zip(self.next_job.0.max(1)..) {
            if id.0 != expected || self.jobs.contains_key(id) {
                return Err("the job number was used before");
            }
            let sound = spec.owner.uid == uid && spec.array.is_empty();
            if !sound || spec.extras().cron.is_none() {
                return Err("the job is no entry of the user's crontab");
            }
            self.new_dependency(spec)?;
        }
        let own = |job: &&Job| job.spec.owner.uid == uid && job.cron().is_some();
        let old: Vec<JobId> = self.jobs.values().filter(own).map(|job| job.id).collect();
        for id in old {
            self.forget_cron(id, fx);
            let ending = Ending {
                cause: Cause::Cancelled,
                reason: Reason::None,
                text: "its crontab was changed".to_owned(),
                exit: ExitStatus::default(),
            };
            let waits = self
                .jobs
                .get(&id)
                .is_some_and(|job| job.state == JobState::Pending);
            if waits && self.end_job(at, id, ending, None, fx).is_ok() {
                self.cancelled_by(&[id].into(), uid);
            }
        }
        for (id, spec, priority) in jobs {
            self.on_submitted(at, *id, spec, *priority, fx)?;
        }
        match table {
            Some(table) => drop(self.crontabs.insert(uid, table.clone())),
            None => drop(self.crontabs.remove(&uid)),
        }
        Ok(())
    }

    /// A job that is over waits for its next time, under the same number and as if it had not run.
    pub(super) fn on_cron_again(
        &mut self,
        at: Millis,
        id: JobId,
        next: Option<Millis>,
        fx: &mut Effects,
    ) -> Taken {
        let job = self.jobs.get(&id).ok_or("no such job")?;
        let cron = job.cron().ok_or("the job is no entry of a crontab")?;
        if !job.state.is_terminal() {
            return Err("the job is not over");
        }
        let restarts = job.restarts;
        let Some(next) = next.or_else(|| cron.next(at)) else {
            self.forget_cron(id, fx);
            return Ok(());
        };
        self.requeue_job(at, id, None, None, fx)?;
        if let Some(job) = self.jobs.get_mut(&id) {
            (job.restarts, job.submitted, job.eligible) = (restarts, at, next);
            job.avoid.clear();
            Arc::make_mut(&mut job.spec).begin = Some(next);
        }
        Ok(())
    }

    /// A job is none of a crontab any more.
    fn forget_cron(&mut self, id: JobId, fx: &mut Effects) -> Option<Cron> {
        let job = self.jobs.get_mut(&id)?;
        job.cron()?;
        fx.touched_jobs.insert(id);
        Arc::make_mut(&mut job.spec).extras_mut().cron.take()
    }

    /// Somebody cancelled the job: its entry is made a comment.
    pub(super) fn disable_cron(&mut self, id: JobId, fx: &mut Effects) {
        let Some(owner) = self.jobs.get(&id).map(|job| job.spec.owner.uid) else {
            return;
        };
        if let Some(cron) = self.forget_cron(id, fx)
            && let Some(table) = self.crontabs.get_mut(&owner)
        {
            *table = crontab::disabled(table, cron.first_line, cron.last_line, DISABLED);
        }
    }
}
