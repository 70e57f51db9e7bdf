//! One job by name, which may be a task of an array or a component of a heterogeneous job, and one of its steps: `9`, `9_3`,
//! `9+1`, `9_3.0`, `9.batch`.

use super::link::{self, Trouble};
use spur_core::api::{
    AccountFilter, JobFilter, JobView, Refusal, RefusalKind, Reply, Request, RunKey,
};
use spur_core::id::{JobId, StepKind};
use spur_core::job::array::JobTarget;

/// Runs of the record that are asked for at once.
const PAGE: u32 = 2000;

/// What a name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The job.
    pub target: JobTarget,
    /// A step of it.
    pub step: Option<StepKind>,
}

/// Reads one name; `None` if it is none, or means several tasks.
pub fn read(text: &str) -> Option<Named> {
    let (head, step) = match text.split_once('.') {
        None => (text, None),
        Some((head, "batch")) => (head, Some(StepKind::Batch)),
        Some((head, step)) => {
            let plain = !step.is_empty() && step.bytes().all(|b| b.is_ascii_digit());
            let number = step.parse().ok().filter(|_| plain)?;
            (head, Some(StepKind::Numbered(number)))
        }
    };
    let target: JobTarget = head.parse().ok()?;
    let one = target.tasks.as_ref().is_none_or(|tasks| tasks.len() == 1);
    one.then_some(Named { target, step })
}

impl Named {
    /// The number of the job: what has one of its own is not asked for, what the controller has forgotten is looked up in the
    /// record.
    pub async fn job(&self) -> Result<JobId, Trouble> {
        let target = &self.target;
        if target.tasks.is_none() && target.offset.is_none() {
            return Ok(target.job);
        }
        let filter = JobFilter {
            targets: vec![target.clone()],
            ..JobFilter::default()
        };
        match link::ask(&Request::Jobs { filter }).await {
            Ok(Reply::Jobs(jobs)) => {
                if let Some(job) = jobs.iter().find(|job| target.means(job)) {
                    return Ok(job.id);
                }
            }
            Ok(_) => return Err(link::unexpected()),
            Err(Trouble::Refused(refusal)) if refusal.kind == RefusalKind::InvalidJobId => {}
            Err(trouble) => return Err(trouble),
        }
        self.recorded().await
    }

    /// The same, for a command that does nothing else meanwhile.
    pub fn job_of(&self) -> Result<JobId, Trouble> {
        link::run(self.job())
    }

    async fn recorded(&self) -> Result<JobId, Trouble> {
        let mut after = None;
        loop {
            let filter = AccountFilter {
                ids: vec![self.target.job],
                ..AccountFilter::default()
            };
            let request = Request::Accounting {
                filter: Box::new(filter),
                after,
                limit: PAGE,
            };
            let Reply::Accounting(runs) = link::ask(&request).await? else {
                return Err(link::unexpected());
            };
            let meant = |job: &&JobView| self.target.means(job);
            if let Some(job) = runs.iter().map(|run| &*run.job).find(meant) {
                return Ok(job.id);
            }
            let Some(last) = runs.last() else {
                return Err(Trouble::Refused(Refusal {
                    kind: RefusalKind::InvalidJobId,
                    text: self.target.to_string(),
                }));
            };
            after = Some(RunKey::of(&last.job));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_named_with_tasks_components_and_steps() {
        let shown = |text: &str| {
            let named = read(text)?;
            let step = named.step.map(|step| format!(".{step}"));
            Some(format!("{}{}", named.target, step.unwrap_or_default()))
        };
        for text in ["9", "9_3", "9+1", "9.0", "9.batch", "9_3.2", "9+1.batch"] {
            assert_eq!(shown(text).as_deref(), Some(text));
        }
        assert_eq!(shown("9_[3]").as_deref(), Some("9_3"));
        for text in [
            "", "x", "9_", "9_[1-3]", "9_1,2", "9.", "9.x", "9.0.0", "-1", "9_x",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }
}
