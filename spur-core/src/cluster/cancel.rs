//! Ends that somebody or time decided.

use super::end::Ending;
use super::{Cluster, Taken};
use crate::effect::Effects;
use crate::id::{JobId, NodeId, Uid};
use crate::job::spec::JobKind;
use crate::job::state::{Cause, ExitStatus, JobState, Reason};
use crate::time::Millis;

/// `SIGTERM`, which a cancelled job's status shows.
const SIGTERM: u8 = 15;

impl Cluster {
    pub(super) fn on_cancelled(
        &mut self,
        at: Millis,
        id: JobId,
        by: Uid,
        fx: &mut Effects,
    ) -> Taken {
        let job = self.jobs.get(&id).ok_or("no such job")?;
        let signal = if job.state == JobState::Running {
            SIGTERM
        } else {
            0
        };
        let ending = Ending {
            cause: Cause::Cancelled,
            reason: Reason::None,
            text: format!("cancelled by user {by}"),
            exit: ExitStatus { code: 0, signal },
        };
        self.end_job(at, id, ending, None, fx)?;
        if let Some(job) = self.jobs.get_mut(&id) {
            job.cancelled_by = Some(by);
        }
        Ok(())
    }

    /// The client of an `srun` or `salloc` job gave it back.
    pub(super) fn on_finished(
        &mut self,
        at: Millis,
        id: JobId,
        exit: ExitStatus,
        fx: &mut Effects,
    ) -> Taken {
        let job = self.jobs.get(&id).ok_or("no such job")?;
        match job.spec.kind {
            JobKind::Batch => Err("a batch job ends with its script"),
            JobKind::Run | JobKind::Alloc => {
                self.end_job(at, id, Ending::by_exit(exit, false), None, fx)
            }
        }
    }

    pub(super) fn on_timed_out(&mut self, at: Millis, id: JobId, fx: &mut Effects) -> Taken {
        let ending = Ending {
            cause: Cause::TimedOut,
            reason: Reason::TimeLimit,
            text: String::new(),
            exit: ExitStatus::default(),
        };
        self.end_job(at, id, ending, None, fx)
    }

    pub(super) fn on_requeued(&mut self, at: Millis, id: JobId, fx: &mut Effects) -> Taken {
        let job = self.jobs.get(&id).ok_or("no such job")?;
        match job.spec.kind {
            JobKind::Batch => self.requeue_job(at, id, None, None, fx),
            JobKind::Run | JobKind::Alloc => Err("only batch jobs can be requeued"),
        }
    }

    /// A job lost a node: back to the queue if its owner allowed that, else it failed. On `gone` nothing is left of it.
    pub(super) fn lose_job(
        &mut self,
        at: Millis,
        id: JobId,
        node: NodeId,
        gone: Option<NodeId>,
        fx: &mut Effects,
    ) -> Taken {
        let job = self.jobs.get(&id).ok_or("no such job")?;
        if job.spec.kind == JobKind::Batch && job.spec.requeue {
            return self.requeue_job(at, id, None, gone, fx);
        }
        let name = self
            .nodes
            .get(&node)
            .map_or_else(|| node.to_string(), |n| n.name.to_string());
        let ending = Ending {
            cause: Cause::NodeLost,
            reason: Reason::NodeDown,
            text: format!("node {name} was lost"),
            exit: ExitStatus { code: 1, signal: 0 },
        };
        self.end_job(at, id, ending, gone, fx)
    }
}
