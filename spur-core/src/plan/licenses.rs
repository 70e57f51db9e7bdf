//! Licenses in a pass: what is free of them shrinks as jobs start. What an old job waits for is set aside, or jobs that want less would
//! pass it for ever.

use super::policy;
use super::wait::Wait;
use crate::cluster::Cluster;
use crate::job::Job;
use crate::job::licenses::Licenses;
use crate::job::state::Reason;
use crate::time::Millis;

/// See the module.
pub(super) struct Free(Licenses);

impl Free {
    /// What is free now.
    pub(super) fn of(cluster: &Cluster) -> Self {
        Self(cluster.licenses_free())
    }

    /// Whether these are free, or why the job waits.
    pub(super) fn check(
        &mut self,
        wanted: &Licenses,
        job: Option<&Job>,
        at: Millis,
    ) -> Result<(), Wait> {
        let Some(name) = self.0.lacks(wanted) else {
            return Ok(());
        };
        let text = format!("waits for {} licenses of {name}", wanted.count(name));
        if policy::is_aged(job, at) {
            self.0.subtract(wanted);
        }
        Err(Wait {
            reason: Reason::Licenses,
            text: text.into(),
        })
    }

    /// Whether these are free beside what was taken.
    pub(super) fn has(&self, wanted: &Licenses) -> bool {
        self.0.lacks(wanted).is_none()
    }

    /// A job starts.
    pub(super) fn take(&mut self, wanted: &Licenses) {
        self.0.subtract(wanted);
    }

    /// It does not after all.
    pub(super) fn give_back(&mut self, wanted: &Licenses) {
        self.0.add(wanted);
    }
}
