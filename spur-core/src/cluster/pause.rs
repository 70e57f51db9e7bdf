//! Jobs whose processes are stopped for a while. They keep what they hold, and their limit waits.

use super::{Cluster, Taken};
use crate::effect::{Effect, Effects};
use crate::id::JobId;
use crate::job::state::JobState;
use crate::time::Millis;

impl Cluster {
    pub(super) fn on_suspended(&mut self, at: Millis, id: JobId, fx: &mut Effects) -> Taken {
        let job = self.jobs.get(&id).ok_or("no such job")?;
        if job.state != JobState::Running {
            return Err("the job does not run");
        }
        if job.suspended.is_some() {
            return Err("the job is suspended already");
        }
        if self.is_preparing(id) {
            return Err("the controller's prolog for the job still runs");
        }
        self.each_running(id, fx, |job| {
            job.stop(at);
            job.ended = None;
        });
        Ok(())
    }

    pub(super) fn on_resumed(&mut self, at: Millis, id: JobId, fx: &mut Effects) -> Taken {
        let job = self.jobs.get(&id).ok_or("no such job")?;
        if job.suspended.is_none() {
            return Err("the job is not suspended");
        }
        self.each_running(id, fx, |job| {
            job.stop_clock(at);
            job.turned = Some(at);
            job.ended = job.limit_end();
        });
        // Steps may wait for it.
        fx.effects.push(Effect::Notify { job: id });
        Ok(())
    }
}
