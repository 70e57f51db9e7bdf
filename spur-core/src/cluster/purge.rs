//! Forgetting ended jobs.

use super::{Cluster, Taken};
use crate::effect::{Effect, Effects};
use crate::id::JobId;
use std::collections::BTreeSet;

impl Cluster {
    /// Forgets those of the jobs that have ended and hold nothing any more.
    pub(super) fn on_purged(&mut self, jobs: &[JobId], fx: &mut Effects) -> Taken {
        let mut arrays = BTreeSet::new();
        for id in jobs {
            let over = self
                .jobs
                .get(id)
                .is_some_and(|job| job.state.is_terminal() && job.leftovers.is_empty());
            if !over {
                continue;
            }
            fx.touched_jobs.insert(*id);
            match self.jobs.remove(id).and_then(|job| job.array) {
                Some(array) => drop(arrays.insert(array.view.job)),
                None => fx.effects.push(Effect::DropPayload { job: *id }),
            }
        }
        for array in arrays {
            let mut left = self.members(array);
            if !left.any(|id| self.jobs.contains_key(&id)) {
                drop(left);
                self.arrays.remove(&array);
                fx.effects.push(Effect::DropPayload { job: array });
            }
        }
        Ok(())
    }
}
