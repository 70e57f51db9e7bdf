//! Ends that somebody or time decided.

use super::end::Ending;
use super::report::Origin;
use super::{Cluster, Taken};
use crate::effect::{Effect, Effects};
use crate::id::{JobId, NodeId, StepKind, Uid};
use crate::job::Job;
use crate::job::spec::JobKind;
use crate::job::state::{Cause, ExitStatus, JobState, Reason};
use crate::job::step::{Step, StepShare, StepState};
use crate::slurm::mail::Occasion;
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
        let before = self.alive_together(id);
        if self.ends_whole(id) {
            self.end_together(at, id, &ending, None, fx)?;
        } else {
            self.end_job(at, id, ending, None, fx)?;
            self.end_stepped(at, id, fx);
        }
        self.cancelled_by(&before, by);
        self.disable_cron(id, fx);
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
                self.end_together(at, id, &Ending::by_exit(exit, false), None, fx)
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
        let job = self.jobs.get(&id).ok_or("no such job")?;
        if job.state == JobState::Running {
            self.tell(at, id, Occasion::TimeLimit(100), fx);
        }
        self.end_together(at, id, &ending, None, fx)
    }

    /// A waiting job can no longer end by its deadline. Its status is the one that Slurm gives it, signal 1.
    pub(super) fn on_deadline_missed(&mut self, at: Millis, id: JobId, fx: &mut Effects) -> Taken {
        let job = self.jobs.get(&id).ok_or("no such job")?;
        if job.too_late_from().is_none_or(|from| at < from) {
            return Err("the job has no deadline, or can still keep to it");
        }
        let ending = Ending {
            cause: Cause::TooLate,
            reason: Reason::DeadLine,
            text: String::new(),
            exit: ExitStatus { code: 0, signal: 1 },
        };
        self.end_together(at, id, &ending, None, fx)
    }

    /// A job's limit nears: its steps get the signal of its `--signal`, or only its batch shell does.
    pub(super) fn on_warned(&mut self, id: JobId, fx: &mut Effects) -> Taken {
        let job = self.jobs.get_mut(&id).ok_or("no such job")?;
        let warning = job.spec.extras().signal.ok_or("no signal is asked for")?;
        if job.state != JobState::Running || job.warned == job.generation {
            return Err("the job does not run, or was warned");
        }
        job.warned = job.generation;
        let step = warning.batch.then_some(StepKind::Batch);
        let nodes: Vec<NodeId> = match step.and_then(|step| job.steps.get(&step)) {
            Some(step) => step.shares.iter().map(|share| share.share.node).collect(),
            None => job.allocation.iter().map(|share| share.node).collect(),
        };
        let signal = warning.signal;
        fx.effects
            .extend(nodes.into_iter().map(|node| Effect::Signal {
                node,
                job: id,
                step,
                signal,
            }));
        fx.touched_jobs.insert(id);
        Ok(())
    }

    pub(super) fn on_requeued(&mut self, at: Millis, id: JobId, fx: &mut Effects) -> Taken {
        let job = self.jobs.get(&id).ok_or("no such job")?;
        match job.spec.kind {
            JobKind::Batch => self.requeue_together(at, id, None, None, fx),
            JobKind::Run | JobKind::Alloc => Err("only batch jobs can be requeued"),
        }
    }

    /// A job lost a node: with `--no-kill` it goes on without it; else back to the queue if its owner allowed that, else it failed. On
    /// `gone` nothing is left of it.
    pub(super) fn lose_job(
        &mut self,
        at: Millis,
        id: JobId,
        node: NodeId,
        gone: Option<NodeId>,
        fx: &mut Effects,
    ) -> Taken {
        let job = self.jobs.get(&id).ok_or("no such job")?;
        if goes_on_without(job, node) {
            return self.lose_part(at, id, node, gone, fx);
        }
        if job.spec.kind == JobKind::Batch && job.spec.requeue {
            return self.requeue_together(at, id, None, gone, fx);
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
        self.end_together(at, id, &ending, gone, fx)
    }

    /// A job goes on without one of its nodes. What a step had there counts as killed; the rest of such a step is killed too, unless it
    /// is all that the job is: its owner wanted it so.
    fn lose_part(
        &mut self,
        at: Millis,
        id: JobId,
        node: NodeId,
        gone: Option<NodeId>,
        fx: &mut Effects,
    ) -> Taken {
        let job = self.jobs.get_mut(&id).ok_or("no such job")?;
        let here = job.allocation.iter().position(|share| share.node == node);
        let share = job
            .allocation
            .remove(here.ok_or("the job has no part on that node")?);
        job.idle.remove(&node);
        let (generation, alone) = (job.generation, job.spec.kind == JobKind::Run);
        let hit = |(kind, step): (&StepKind, &Step)| {
            let waits = |part: &&StepShare| !step.reported.contains_key(&part.share.node);
            let parts: Vec<NodeId> = step
                .shares
                .iter()
                .filter(waits)
                .map(|part| part.share.node)
                .collect();
            (step.state == StepState::Running && parts.contains(&node)).then_some((*kind, parts))
        };
        let hit: Vec<_> = job.steps.iter().filter_map(hit).collect();
        self.leave_node(at, id, (share, generation), gone, fx);
        for (step, parts) in hit {
            let origin = Origin {
                job: id,
                node,
                generation,
            };
            let killed = ExitStatus { code: 0, signal: 9 };
            self.on_step_ended(at, origin, step, (killed, false), fx)?;
            for node in parts.into_iter().filter(|part| *part != node && !alone) {
                let step = Some(step);
                fx.effects.push(Effect::Signal {
                    node,
                    job: id,
                    step,
                    signal: 9,
                });
            }
        }
        fx.touched_jobs.insert(id);
        fx.effects.push(Effect::Notify { job: id });
        Ok(())
    }
}

/// Whether a job stays when it loses that node: its owner wants it, it has others, and its script does not run there.
fn goes_on_without(job: &Job, node: NodeId) -> bool {
    let script = job.steps.get(&StepKind::Batch);
    let script = script.is_some_and(|step| step.shares.iter().any(|part| part.share.node == node));
    job.spec.extras().no_kill && job.allocation.len() > 1 && !script && !job.is_preparing()
}
