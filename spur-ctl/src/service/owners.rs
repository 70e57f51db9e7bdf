//! Whose a job is, and so who may do something to it.

use super::refuse;
use crate::readers::View;
use spur_core::api::{Caller, JobFilter, Refusal, RefusalKind};
use spur_core::id::{JobId, Uid};

/// A job that the caller owns, or any job for an operator.
pub(super) fn owned(view: &View, caller: &Caller, job: JobId) -> Result<JobId, Refusal> {
    let row = view
        .records(job)
        .next()
        .ok_or_else(|| refuse(RefusalKind::InvalidJobId, job.to_string()))?;
    let allowed = caller.operator || row.spec.owner.uid == caller.uid;
    if allowed {
        Ok(job)
    } else {
        Err(refuse(RefusalKind::AccessDenied, job.to_string()))
    }
}

/// A job that the caller owns: nobody, not even an operator, starts steps as somebody else.
pub(super) fn mine(view: &View, caller: &Caller, job: JobId) -> Result<JobId, Refusal> {
    let row = view
        .job(job)
        .ok_or_else(|| refuse(RefusalKind::InvalidJobId, job.to_string()))?;
    let allowed = row.spec.owner.uid == caller.uid;
    if allowed {
        Ok(job)
    } else {
        Err(refuse(RefusalKind::AccessDenied, job.to_string()))
    }
}

/// A job whose steps the caller may join, and so type into: the owner's, and for root any.
pub(super) fn joined(view: &View, caller: &Caller, job: JobId) -> Result<JobId, Refusal> {
    if caller.uid == Uid(0) {
        return owned(view, caller, job);
    }
    mine(view, caller, job)
}

pub(super) fn each_owned(
    view: &View,
    caller: &Caller,
    jobs: Vec<JobId>,
) -> Vec<(JobId, Option<Refusal>)> {
    jobs.into_iter()
        .map(|job| (job, owned(view, caller, job).err()))
        .collect()
}

/// The jobs that a filter means: those named one by one are left to the writer; otherwise those that match and have not ended, with a
/// refusal for each that is not the caller's to end.
pub(super) fn targets(view: &View, caller: &Caller, filter: JobFilter) -> Result<Targets, Refusal> {
    if filter == JobFilter::default() {
        return Err(refuse(
            RefusalKind::Invalid,
            "no job identification provided",
        ));
    }
    if !filter.names_none() {
        return Ok((Vec::new(), Some(Box::new(filter))));
    }
    let matching = view
        .jobs
        .iter()
        .filter(|row| !row.state.is_terminal() && filter.matches(row));
    let each = matching.map(|row| {
        let own = caller.operator || row.spec.owner.uid == caller.uid;
        let denied = || refuse(RefusalKind::AccessDenied, row.id.to_string());
        (row.id, (!own).then(denied))
    });
    Ok((each.collect(), None))
}

/// Jobs that were looked up, and those that the writer is to look up.
pub(super) type Targets = (Vec<(JobId, Option<Refusal>)>, Option<Box<JobFilter>>);
