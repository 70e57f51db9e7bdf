//! What agents report. A report about another placement than the present one is stale: it is ignored, and counted by the
//! shell.

use super::end::Ending;
use super::place::runs_with;
use super::{Cluster, Taken};
use crate::denial::DenialCount;
use crate::effect::{Effect, Effects};
use crate::id::{Generation, JobId, NodeId, StepKind, Uid};
use crate::job::Job;
use crate::job::spec::JobKind;
use crate::job::state::{Cause, ExitStatus, JobState, Reason};
use crate::job::step::StepState;
use crate::node::AdminState;
use crate::time::Millis;

/// Which placement a report is about.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    pub(super) job: JobId,
    pub(super) node: NodeId,
    pub(super) generation: Generation,
}

/// What Slurm records for a batch job whose input and output could not be set up.
const SETUP_FAILED: ExitStatus = ExitStatus {
    code: 0,
    signal: 53,
};

impl Cluster {
    pub(super) fn on_step_ended(
        &mut self,
        at: Millis,
        from: Origin,
        kind: StepKind,
        (exit, oom): (ExitStatus, bool),
        fx: &mut Effects,
    ) -> Taken {
        let job = self.jobs.get_mut(&from.job).ok_or("no such job")?;
        if job.generation != from.generation {
            return Err("stale generation");
        }
        let step = job.steps.get_mut(&kind).ok_or("no such step")?;
        if step.state == StepState::Ended || step.reported.contains_key(&from.node) {
            return Err("reported before");
        }
        if !step.shares.iter().any(|part| part.share.node == from.node) {
            return Err("the step has no part on that node");
        }
        step.reported.insert(from.node, exit);
        step.oom |= oom;
        let started = job.started;
        fx.touched_jobs.insert(from.job);
        self.launch_worked_on(from.node, started, fx);
        let job = self.jobs.get_mut(&from.job).ok_or("no such job")?;
        let stopped = job.suspended;
        let step = job.steps.get_mut(&kind).ok_or("no such step")?;
        if step.reported.len() < step.shares.len() {
            // What it had there is free for another step.
            fx.effects.push(Effect::Notify { job: from.job });
            return Ok(());
        }
        step.state = StepState::Ended;
        step.ended = Some(at);
        if let Some(since) = stopped {
            step.stopped_for(since, at);
        }
        let (status, oom) = (step.exit(), step.oom);
        if kind != StepKind::Batch {
            job.derived_exit = job.derived_exit.worse(status);
        }
        if job.state == JobState::Running && is_last(job.spec.kind, kind) {
            if job.spec.kind == JobKind::Run && job.het.is_some() {
                let waits = Effect::Notify { job: from.job };
                fx.effects.push(waits);
                self.end_stepped(at, from.job, fx);
                return Ok(());
            }
            let ending = Ending::by_exit(status, oom);
            return self.end_together(at, from.job, &ending, None, fx);
        }
        fx.effects.push(Effect::Notify { job: from.job });
        Ok(())
    }

    /// A batch job that a node could not start goes back to the queue, whatever `--no-requeue` says: nothing of it ran. It is tried on
    /// other nodes, and held when several failed or none is left. One that is itself at fault (an output file that its user may not open) fails with `0:53`, as in Slurm. Other jobs
    /// have a client that waits for an answer, so they fail.
    pub(super) fn on_launch_failed(
        &mut self,
        at: Millis,
        from: Origin,
        why: &str,
        (node_fault, rests): (bool, bool),
        fx: &mut Effects,
    ) -> Taken {
        let job = self.jobs.get_mut(&from.job).ok_or("no such job")?;
        if !runs_with(job, from.generation) {
            return Err("stale generation");
        }
        if !job.allocation.iter().any(|share| share.node == from.node) {
            return Err("the job has no part on that node");
        }
        let node = self.nodes.get_mut(&from.node).ok_or("no such node")?;
        let text = format!("{}: {why}", node.name);
        if node_fault {
            job.avoid.insert(from.node);
            if !rests && node.admin == AdminState::Up {
                node.admin = AdminState::Drain;
                node.reason = format!("job {} could not be started: {why}", from.job);
                node.reason_by = Some((Uid(0), at));
            }
            fx.touched_nodes.insert(from.node);
        }
        if node_fault && rests {
            self.launch_failed_on(at, from.node, from.job, why);
        }
        let job = self.jobs.get(&from.job).ok_or("no such job")?;
        let held = !(rests && self.may_try_elsewhere(job));
        self.not_launched(at, from.job, (node_fault.then_some(held), text), fx)
    }

    /// What becomes of a job that did not start: by the node's fault, a batch job goes back to the queue, held or not.
    fn not_launched(
        &mut self,
        at: Millis,
        id: JobId,
        (back, text): (Option<bool>, String),
        fx: &mut Effects,
    ) -> Taken {
        let kind = self.jobs.get(&id).ok_or("no such job")?.spec.kind;
        match (kind, back) {
            (JobKind::Batch, Some(held)) => {
                let hold = held.then_some((Reason::LaunchFailedHeld, text));
                self.requeue_together(at, id, hold.as_ref(), None, fx)
            }
            (JobKind::Batch | JobKind::Run | JobKind::Alloc, _) => {
                let exit = match kind {
                    JobKind::Batch => SETUP_FAILED,
                    JobKind::Run | JobKind::Alloc => ExitStatus { code: 1, signal: 0 },
                };
                let (cause, reason) = (Cause::LaunchFailed, Reason::JobLaunchFailure);
                let ending = Ending {
                    cause,
                    reason,
                    text,
                    exit,
                };
                self.end_together(at, id, &ending, None, fx)
            }
        }
    }

    /// A prolog or an epilog failed: as in Slurm the node is drained, and a batch job that could not begin is put back and held.
    pub(super) fn on_program_failed(
        &mut self,
        at: Millis,
        from: Origin,
        (epilog, why): (bool, &str),
        fx: &mut Effects,
    ) -> Taken {
        let node = self.nodes.get_mut(&from.node).ok_or("no such node")?;
        let text = format!("{}: {why}", node.name);
        let reason = if epilog {
            "Epilog error"
        } else {
            "Prolog error"
        };
        let drained = node.admin == AdminState::Up;
        if drained {
            node.admin = AdminState::Drain;
            reason.clone_into(&mut node.reason);
            node.reason_by = Some((Uid(0), at));
            fx.touched_nodes.insert(from.node);
        }
        let here = |job: &&Job| {
            runs_with(job, from.generation)
                && job.allocation.iter().any(|share| share.node == from.node)
        };
        let runs = self.jobs.get(&from.job).filter(here).is_some();
        match (runs && !epilog, drained) {
            (true, _) => self.not_launched(at, from.job, (Some(true), text), fx),
            (false, true) => Ok(()),
            (false, false) => Err("the node is drained, and the job does not run there"),
        }
    }

    pub(super) fn on_cleaned(&mut self, at: Millis, from: Origin, fx: &mut Effects) -> Taken {
        let job = self.jobs.get(&from.job).ok_or("no such job")?;
        let Some(leftover) = job.leftovers.get(&from.node) else {
            return self.on_vanished(at, from, fx);
        };
        if leftover.generation > from.generation {
            return Err("stale generation");
        }
        self.clean(at, from.job, from.node, fx);
        Ok(())
    }

    /// A node says that nothing is left of a job that should be running there: it is lost there, as by a reboot.
    fn on_vanished(&mut self, at: Millis, from: Origin, fx: &mut Effects) -> Taken {
        let job = self.jobs.get(&from.job).ok_or("no such job")?;
        let here = job.allocation.iter().any(|share| share.node == from.node);
        if !here || !runs_with(job, from.generation) {
            return Err("nothing is held there");
        }
        self.lose_job(at, from.job, from.node, Some(from.node), fx)
    }

    pub(super) fn on_denials(
        &mut self,
        id: JobId,
        node: NodeId,
        count: DenialCount,
        fx: &mut Effects,
    ) -> Taken {
        let job = self.jobs.get_mut(&id).ok_or("no such job")?;
        if !had_part(job, node) {
            return Err("the job has no part on that node");
        }
        job.denials.insert(node, count);
        fx.touched_jobs.insert(id);
        Ok(())
    }
}

/// Whether the end of this step is the end of the job.
fn is_last(job: JobKind, step: StepKind) -> bool {
    match job {
        JobKind::Batch => step == StepKind::Batch,
        JobKind::Run => step == StepKind::Numbered(0),
        JobKind::Alloc => false,
    }
}

fn had_part(job: &Job, node: NodeId) -> bool {
    job.allocation
        .iter()
        .chain(&job.last_nodes)
        .any(|share| share.node == node)
}
