//! Jobs as commands name them.

use super::TaskSet;
use crate::api::JobView;
use crate::id::JobId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Jobs as commands name them: a number, which means all of an array or of a heterogeneous job, tasks of an array, or a component.
/// Displays as `9`, `9_3`, `9_[3-5]`, `9+1`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JobTarget {
    /// The number.
    pub job: JobId,
    /// These tasks of the array with that number.
    pub tasks: Option<TaskSet>,
    /// This component of the heterogeneous job with that leader.
    #[serde(default)]
    pub offset: Option<u32>,
}

impl JobTarget {
    /// Whether a job that is known by this number is meant, as far as tasks and components are told apart.
    #[must_use]
    pub fn means(&self, job: &JobView) -> bool {
        let tasks = |tasks: &TaskSet| job.array.as_ref().is_some_and(|own| own.has_any(tasks));
        let component = |offset: u32| {
            let own = job.het;
            own.is_some_and(|own| own.leader == self.job && own.offset == offset)
        };
        self.tasks.as_ref().is_none_or(tasks) && self.offset.is_none_or(component)
    }

    /// Just this record of an array, whose number may be the array's too; any other job by its number.
    #[must_use]
    pub fn of(job: &JobView) -> Self {
        let Some(array) = &job.array else {
            return job.id.into();
        };
        Self {
            job: array.job,
            tasks: Some(array.all()),
            offset: None,
        }
    }
}

impl From<JobId> for JobTarget {
    fn from(job: JobId) -> Self {
        Self {
            job,
            tasks: None,
            offset: None,
        }
    }
}

impl fmt::Display for JobTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tasks {
            None => match self.offset {
                None => self.job.fmt(f),
                Some(offset) => write!(f, "{}+{offset}", self.job),
            },
            Some(tasks) if tasks.len() == 1 => write!(f, "{}_{tasks}", self.job),
            Some(tasks) => write!(f, "{}_[{tasks}]", self.job),
        }
    }
}
