//! Forgetting ended jobs.

use super::{Cluster, Taken};
use crate::effect::{Effect, Effects};
use crate::id::JobId;

impl Cluster {
    /// Forgets those of the jobs that have ended and hold nothing any more.
    pub(super) fn on_purged(&mut self, jobs: &[JobId], fx: &mut Effects) -> Taken {
        for id in jobs {
            let over = self
                .jobs
                .get(id)
                .is_some_and(|job| job.state.is_terminal() && job.leftovers.is_empty());
            if over {
                self.jobs.remove(id);
                fx.touched_jobs.insert(*id);
                fx.effects.push(Effect::DropPayload { job: *id });
            }
        }
        Ok(())
    }
}
