//! What waiting jobs say of why they wait, where that changed.

use super::{Pass, Spoken};
use crate::id::JobId;
use crate::job::state::Reason;
use crate::plan::order::Line;
use crate::plan::policy::Key;
use crate::plan::wait::Wait;

impl<'a> Pass<'a> {
    /// A job's own reason, if it does not say that already.
    pub(super) fn tell_one(&mut self, id: JobId, wait: &Wait) {
        let job = self.cluster.jobs.get(&id);
        let job = job.filter(|job| job.kept().is_none());
        if job.is_some_and(|job| job.reason != wait.reason || job.reason_text != wait.text) {
            self.push_reason(id, wait);
        }
    }

    /// Why the jobs of a bucket wait, of which the pass will see no more.
    pub(super) fn tell(&mut self, line: &Line<'a>, spoken: &Spoken, wait: &Wait) {
        let Some(from) = spoken.from else {
            return;
        };
        let ready = line.bucket.saying_else(wait.said(), from);
        let due = line.due.iter().copied().filter(|key| *key >= from);
        for key in ready.chain(due).filter(|key| Some(key.job) != spoken.apart) {
            if !self.push_reason(key.job, wait) {
                break;
            }
        }
    }

    /// Jobs whose begin time has not come.
    pub(super) fn tell_dated(&mut self, lines: &[Line<'a>]) {
        let wait = Wait::bare(Reason::BeginTime);
        let mut silent: Vec<Key> = Vec::new();
        for line in lines {
            let most = self.budget.reasons as usize + 1;
            silent.extend(line.bucket.silent_until_begin(self.at).take(most));
        }
        silent.sort_unstable();
        for key in silent {
            if !self.push_reason(key.job, &wait) {
                break;
            }
            self.tell_others(key.job, &wait);
        }
    }

    /// The same reason for the other components of a job, if they do not say that already.
    pub(super) fn tell_others(&mut self, id: JobId, wait: &Wait) {
        for other in self.cluster.together(id) {
            if other != id {
                self.tell_one(other, wait);
            }
        }
    }

    /// Whether there was room for it.
    fn push_reason(&mut self, job: JobId, wait: &Wait) -> bool {
        if self.plan.reasons.len() >= self.budget.reasons as usize {
            self.plan.more_reasons = true;
            return false;
        }
        let text = wait.text.clone().into_owned();
        self.plan.reasons.push((job, wait.reason, text));
        true
    }
}
