//! Heterogeneous jobs: components that are jobs of their own, start together and share their fate.
//!
//! The numbers of the components follow one another from the leader's on, so that all are known from one of them.

use crate::id::JobId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most components of one job.
pub const COMPONENTS_MAX: usize = 128;

/// What a job is of a heterogeneous job. Displays as Slurm does: `100+1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HetPart {
    /// The number of the first component, which stands for the whole (`HetJobId`).
    pub leader: JobId,
    /// Which component it is, from 0 (`HetJobOffset`).
    pub offset: u32,
    /// How many were submitted together; at least 2.
    pub size: u32,
}

impl HetPart {
    /// Numbers of all components, those that are forgotten included.
    pub fn all(self) -> impl Iterator<Item = JobId> {
        let first = self.leader.0;
        (first..first.saturating_add(self.size)).map(JobId)
    }

    /// Whether it is the first component.
    #[must_use]
    pub fn leads(self) -> bool {
        self.offset == 0
    }

    /// `HetJobIdSet`: `100-102`.
    #[must_use]
    pub fn id_set(self) -> String {
        let last = self.leader.0.saturating_add(self.size.saturating_sub(1));
        format!("{}-{last}", self.leader)
    }
}

impl fmt::Display for HetPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.leader, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_follow_one_another() {
        let part = HetPart {
            leader: JobId(100),
            offset: 1,
            size: 3,
        };
        assert_eq!(part.to_string(), "100+1");
        assert_eq!(part.id_set(), "100-102");
        assert_eq!(
            part.all().collect::<Vec<_>>(),
            [JobId(100), JobId(101), JobId(102)]
        );
        assert!(!part.leads() && HetPart { offset: 0, ..part }.leads());
    }
}
