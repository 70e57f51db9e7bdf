//! How a job leaves its allocation: the one place where shares become leftovers, and leftovers become free.

use super::{Cluster, Taken};
use crate::effect::{Effect, Effects};
use crate::id::{Generation, JobId, NodeId};
use crate::job::state::{Cause, ExitStatus, JobState, Reason, next};
use crate::job::step::StepState;
use crate::job::{Job, Leftover};
use crate::node::Node;
use crate::resources::NodeShare;
use crate::time::Millis;

/// How a job ends.
#[derive(Clone)]
pub(super) struct Ending {
    pub(super) cause: Cause,
    pub(super) reason: Reason,
    pub(super) text: String,
    pub(super) exit: ExitStatus,
}

impl Ending {
    /// A job that ended by itself with this status.
    pub(super) fn by_exit(exit: ExitStatus, oom: bool) -> Self {
        let cause = exit.cause(oom);
        let reason = match cause {
            Cause::OutOfMemory => Reason::OutOfMemory,
            Cause::Failed if exit.signal != 0 => Reason::RaisedSignal,
            Cause::Failed => Reason::NonZeroExitCode,
            Cause::Placed
            | Cause::Succeeded
            | Cause::Cancelled
            | Cause::TimedOut
            | Cause::NodeLost
            | Cause::LaunchFailed
            | Cause::Requeued
            | Cause::TooLate => Reason::None,
        };
        Self {
            cause,
            reason,
            text: String::new(),
            exit,
        }
    }
}

impl Cluster {
    /// Moves a job to a terminal state. What it holds becomes leftovers, to be revoked; on `gone` nothing is left of it.
    pub(super) fn end_job(
        &mut self,
        at: Millis,
        id: JobId,
        ending: Ending,
        gone: Option<NodeId>,
        fx: &mut Effects,
    ) -> Taken {
        let job = self.jobs.get_mut(&id).ok_or("no such job")?;
        let state = next(job.state, ending.cause).ok_or("the job is not in a state for this")?;
        if job.state == JobState::Pending {
            fx.replan = true;
        }
        if let Some(started) = job.started
            && tells_run_time(ending.cause)
        {
            let stopped = job.stopped_ms(at) / 1000;
            let ran = at.secs_since(started).saturating_sub(stopped);
            self.history.record(&job.spec, ran);
        }
        let waited = job.state == JobState::Pending;
        job.state = state;
        // A job that is taken out of the queue keeps what it waited for.
        if !waited || ending.reason != Reason::None {
            job.reason = ending.reason;
        }
        job.reason_text = ending.text;
        job.exit = ending.exit;
        job.ended = Some(at);
        job.stop_clock(at);
        fx.touched_jobs.insert(id);
        fx.effects.push(Effect::Notify { job: id });
        self.tell_end(at, id, fx);
        self.leave(at, id, gone, fx);
        self.close_steps(at, id);
        Ok(())
    }

    /// Puts a job back into the queue, held if `hold` says why. What it holds becomes leftovers, to be revoked.
    pub(super) fn requeue_job(
        &mut self,
        at: Millis,
        id: JobId,
        hold: Option<(Reason, String)>,
        gone: Option<NodeId>,
        fx: &mut Effects,
    ) -> Taken {
        let job = self.jobs.get(&id).ok_or("no such job")?;
        let state = next(job.state, Cause::Requeued).ok_or("the job waits already")?;
        self.tell_requeue(at, id, fx);
        let job = self.jobs.get_mut(&id).ok_or("no such job")?;
        job.state = state;
        job.told_percent = 0;
        job.restarts = job.restarts.saturating_add(1);
        job.steps.clear();
        job.next_step = 0;
        job.denials.clear();
        job.exit = ExitStatus::default();
        job.derived_exit = ExitStatus::default();
        job.started = None;
        job.ended = None;
        job.cancelled_by = None;
        (job.suspended, job.suspended_ms) = (None, 0);
        (job.turned, job.ran_before_ms) = (None, 0);
        job.eligible = job.eligible.max(at);
        (job.reason, job.reason_text) = match hold {
            Some((reason, text)) => {
                job.priority = 0;
                (reason, text)
            }
            None => (Reason::None, String::new()),
        };
        if let Some(array) = job.array.as_mut().filter(|array| array.view.throttle > 0) {
            // All that wait are looked at as soon as this is no longer so.
            array.full = true;
        }
        fx.touched_jobs.insert(id);
        fx.replan = true;
        fx.effects.push(Effect::Notify { job: id });
        self.leave(at, id, gone, fx);
        Ok(())
    }

    /// Turns an allocation into leftovers.
    fn leave(&mut self, at: Millis, id: JobId, gone: Option<NodeId>, fx: &mut Effects) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let shares = std::mem::take(&mut job.allocation);
        job.idle.clear();
        if shares.is_empty() {
            return;
        }
        let generation = job.generation;
        job.last_nodes.clone_from(&shares);
        self.follow_with_epilog(id, fx);
        for share in shares {
            self.leave_node(at, id, (share, generation), gone, fx);
        }
    }

    /// Turns what a job had on one node into leftovers.
    pub(super) fn leave_node(
        &mut self,
        at: Millis,
        id: JobId,
        (share, generation): (NodeShare, Generation),
        gone: Option<NodeId>,
        fx: &mut Effects,
    ) {
        let node = share.node;
        fx.touched_nodes.insert(node);
        if gone == Some(node) {
            self.free(at, id, &share, fx);
        } else {
            job_leftover(self.jobs.get_mut(&id), share, generation);
            fx.effects.push(Effect::Revoke {
                node,
                job: id,
                generation,
            });
        }
    }

    /// Nothing of the job is left on the node: what it held there is free.
    pub(super) fn clean(&mut self, at: Millis, id: JobId, node: NodeId, fx: &mut Effects) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let Some(leftover) = job.leftovers.remove(&node) else {
            return;
        };
        job.uncleaned.remove(&node);
        self.free(at, id, &leftover.share, fx);
        self.close_steps(at, id);
        fx.touched_jobs.insert(id);
        if self
            .jobs
            .get(&id)
            .is_some_and(|job| job.leftovers.is_empty())
        {
            fx.effects.push(Effect::Notify { job: id });
        }
    }

    fn free(&mut self, at: Millis, id: JobId, share: &NodeShare, fx: &mut Effects) {
        if let Some(node) = self.nodes.get_mut(&share.node) {
            give_back(node, id, share, at);
            fx.touched_nodes.insert(share.node);
            fx.replan = true;
        }
    }

    /// Ends the steps of an ended job that nobody will report any more.
    fn close_steps(&mut self, at: Millis, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        if !job.state.is_terminal() || !job.leftovers.is_empty() {
            return;
        }
        for step in job
            .steps
            .values_mut()
            .filter(|step| step.state == StepState::Running)
        {
            step.state = StepState::Ended;
            step.ended = Some(at);
        }
    }
}

/// Whether a job that ended so ran as long as such jobs run: it was not the cluster that ended it.
fn tells_run_time(cause: Cause) -> bool {
    match cause {
        Cause::Succeeded
        | Cause::Failed
        | Cause::OutOfMemory
        | Cause::TimedOut
        | Cause::Cancelled => true,
        Cause::Placed
        | Cause::NodeLost
        | Cause::LaunchFailed
        | Cause::Requeued
        | Cause::TooLate => false,
    }
}

fn job_leftover(job: Option<&mut Job>, share: NodeShare, generation: Generation) {
    if let Some(job) = job {
        job.uncleaned.insert(share.node);
        job.leftovers
            .insert(share.node, Leftover { generation, share });
    }
}

fn give_back(node: &mut Node, job: JobId, share: &NodeShare, at: Millis) {
    node.cpus_used.subtract(&share.cpus);
    node.gpus_used.subtract(&share.gpus);
    node.forget_use(&share.gpus);
    node.memory_used = node.memory_used.saturating_sub(share.memory_mib);
    node.jobs.remove(&job);
    node.last_busy = at;
    if node.jobs.is_empty()
        && let Some(inventory) = node.next_inventory.take()
    {
        node.inventory = inventory;
        node.utilization.clear();
    }
}
