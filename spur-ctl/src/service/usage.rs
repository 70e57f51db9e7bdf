//! What jobs used: who may see it, and the way to it. The record is on disk, so questions to it are asked on threads that may wait.

use super::queries::shown_to;
use super::{Service, owned, refuse};
use crate::readers::View;
use spur_core::api::{AccountFilter, Caller, JobView, Refusal, RefusalKind, Reply, RunKey};
use spur_core::id::JobId;
use std::sync::Arc;

/// The jobs that hold GPUs and do not use them, as far as the caller may know.
pub(super) fn idle_gpus(view: &View, caller: &Caller) -> Reply {
    let may = |row: &&Arc<JobView>| caller.operator || row.spec.owner.uid == caller.uid;
    let idle = view.jobs.iter().filter(|row| !row.idle.is_empty());
    Reply::Jobs(idle.filter(may).map(Arc::clone).collect())
}

fn unread(why: String) -> Refusal {
    refuse(RefusalKind::NotDurable, why)
}

/// Does work that may wait for a disk.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| {
        Err(unread(
            "the question to the accounting record failed".to_owned(),
        ))
    })
}

impl Service {
    /// A job; one that the cluster has forgotten is looked up in the record. What is seen of it in detail, or while it is watched, is
    /// for its owner and for operators.
    pub(super) async fn usage_of(
        &self,
        view: Arc<View>,
        caller: &Caller,
        job: JobId,
        how: (bool, bool),
    ) -> Result<Reply, Refusal> {
        let known = match view.job(job) {
            Some(row) => {
                if how != (false, false) {
                    owned(&view, caller, job)?;
                }
                Some(shown_to(caller, row))
            }
            None => None,
        };
        let (usage, caller) = (Arc::clone(&self.usage), caller.clone());
        apart(move || {
            let row = match known {
                Some(row) => row,
                None => recorded(usage.recorded(job).map_err(unread)?, &caller, job, how)?,
            };
            Ok(Reply::Usage(Box::new(usage.report(&view, row, how))))
        })
        .await
    }

    /// Jobs of the record: anybody's, as in Slurm unless data is private.
    pub(super) async fn accounting(
        &self,
        view: Arc<View>,
        caller: &Caller,
        filter: Box<AccountFilter>,
        after: Option<RunKey>,
        limit: u32,
    ) -> Result<Reply, Refusal> {
        let (usage, caller) = (Arc::clone(&self.usage), caller.clone());
        apart(move || {
            let runs = usage.accounting(&view, &filter, after, limit as usize);
            let mut runs = runs.map_err(unread)?;
            for run in &mut runs {
                run.job = shown_to(&caller, &run.job);
            }
            Ok(Reply::Accounting(runs))
        })
        .await
    }
}

/// What the record has of a job, for those who may know.
fn recorded(
    found: Option<Arc<JobView>>,
    caller: &Caller,
    job: JobId,
    how: (bool, bool),
) -> Result<Arc<JobView>, Refusal> {
    let row = found.ok_or_else(|| refuse(RefusalKind::InvalidJobId, job.to_string()))?;
    if how == (false, false) || caller.operator || row.spec.owner.uid == caller.uid {
        Ok(shown_to(caller, &row))
    } else {
        Err(refuse(RefusalKind::AccessDenied, job.to_string()))
    }
}
