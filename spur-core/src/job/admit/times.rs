//! Limits and deadlines of a request.

use super::refuse;
use crate::api::{Refusal, RefusalKind};
use crate::job::change::JobChange;
use crate::job::spec::JobSpec;
use crate::time::{Millis, TimeLimit};

/// A job with a deadline that says nothing of its limit may be as short as a minute, as Slurm has it.
pub(super) fn fill(spec: &mut JobSpec) {
    let extras = spec.extras();
    if extras.deadline.is_some() && spec.time_limit.is_none() && extras.time_min.is_none() {
        spec.extras_mut().time_min = Some(TimeLimit::Secs(60));
    }
}

/// Refuses what could not end by its deadline if it started at once, and a least limit above the limit.
pub(super) fn check(spec: &JobSpec, at: Millis) -> Result<(), Refusal> {
    let extras = spec.extras();
    let min = extras.time_min;
    if let (Some(min), Some(limit)) = (min, spec.time_limit)
        && min > limit
    {
        return Err(refuse(RefusalKind::InvalidTimeMin, ""));
    }
    let Some(deadline) = extras.deadline else {
        return Ok(());
    };
    let earliest = spec.begin.map_or(at, |begin| begin.max(at));
    let (kind, least) = match min {
        Some(min) => (RefusalKind::InvalidTimeMin, Some(min)),
        None => (RefusalKind::InvalidTimeLimit, spec.time_limit),
    };
    if deadline < earliest {
        return Err(refuse(RefusalKind::InvalidTimeLimit, ""));
    }
    match least {
        Some(TimeLimit::Secs(secs)) if earliest.plus_secs(secs) <= deadline => Ok(()),
        Some(TimeLimit::Secs(_) | TimeLimit::Unlimited) => Err(refuse(kind, "")),
        None => Ok(()),
    }
}

/// What a change says of both.
pub(super) fn changed(spec: &JobSpec, change: &JobChange, at: Millis) -> Result<(), Refusal> {
    if change.deadline.is_some_and(|deadline| deadline < at) {
        return Err(refuse(RefusalKind::InvalidTime, ""));
    }
    match (change.time_min, spec.time_limit) {
        (Some(min), Some(limit)) if min > limit => Err(refuse(RefusalKind::InvalidTimeLimit, "")),
        _ => Ok(()),
    }
}
