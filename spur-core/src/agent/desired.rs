//! What the controller wants of this node, and how its messages are folded into that.
//!
//! The generation rule lives here: an order older than what was seen or ended for its job is refused, whatever brings it.

use super::order::{JobOrder, StepOrder, ToAgent};
use crate::id::{Generation, JobId, StepKind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many ended jobs are remembered one by one. Beyond that the older half is summed up in [`Desired::floor`], which is
/// sound because the controller's generations rise.
pub const RECALL: usize = 65_536;

/// What the controller wants of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Desired {
    /// Whether a controller has spoken since this agent started. Until then nothing is ended or forgotten.
    pub synced: bool,
    /// Jobs to hold.
    pub jobs: BTreeMap<JobId, Arc<JobOrder>>,
    /// Steps to run.
    pub steps: BTreeMap<(JobId, StepKind), Arc<StepOrder>>,
    /// Jobs to end, with the highest generation meant; each owes a `Cleaned`.
    pub revoked: BTreeMap<JobId, Generation>,
    /// Generations that must not run, or run again: up to this one, per job. At most [`RECALL`] entries.
    pub ended: BTreeMap<JobId, Generation>,
    /// Of jobs that are neither held nor in `ended`, generations up to this one must not run.
    pub floor: Generation,
}

/// What became of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Absorbed {
    /// Something is wanted that was not before, or no longer: reconcile now.
    pub changed: bool,
    /// Orders that were not followed.
    pub refused: Vec<Refused>,
}

/// An order that was not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Its job.
    pub job: JobId,
    /// Its generation.
    pub generation: Generation,
    /// Why.
    pub why: WhyRefused,
}

/// Why an order was not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhyRefused {
    /// The job was seen, or ended, with this generation.
    #[error("generation {0} of this job was seen or ended here already")]
    Stale(Generation),
    /// A step without its job.
    #[error("no job of this generation is held here")]
    NoJob,
    /// The order does not name this node's part.
    #[error("the order's index is outside its list of nodes")]
    Malformed,
    /// An order before the first `Welcome`.
    #[error("the controller has not said yet what this node should hold")]
    NotWelcomed,
}

impl Desired {
    /// Folds a message in. `Signal` and `Ack` change nothing here: they are for the shell.
    pub fn absorb(&mut self, message: &ToAgent) -> Absorbed {
        match message {
            ToAgent::Welcome {
                node: _,
                generation: _,
                jobs,
                steps,
                programs: _,
                ticket_key: _,
            } => self.welcome(jobs, steps),
            ToAgent::Assign(order) => self.one(order.job, order.generation, |me| me.assign(order)),
            ToAgent::Launch(order) => self.one(order.job, order.generation, |me| me.launch(order)),
            ToAgent::Revoke { job, generation } => {
                self.one(*job, *generation, |me| me.revoke(*job, *generation))
            }
            ToAgent::Signal { .. } | ToAgent::Ack { .. } | ToAgent::Freeze { .. } => {
                Absorbed::default()
            }
        }
    }

    /// Takes back a job found in the journal after a restart: older generations of it are refused from now on.
    pub fn remember(&mut self, job: JobId, generation: Generation) {
        self.end(job, Generation(generation.0.saturating_sub(1)));
    }

    /// A `Cleaned` for this job, up to this generation, is in the journal: none of it is wanted any more.
    pub fn cleaned(&mut self, job: JobId, generation: Generation) {
        self.drop_up_to(job, generation);
        if self.revoked.get(&job).is_some_and(|g| *g <= generation) {
            self.revoked.remove(&job);
        }
    }

    /// The end of this step is in the journal: its order is done with.
    pub fn step_ended(&mut self, job: JobId, step: StepKind) {
        self.steps.remove(&(job, step));
    }

    /// The highest generation of the job that must not run here.
    pub fn ended_up_to(&self, job: JobId) -> Generation {
        let known = self.ended.get(&job).copied();
        known.unwrap_or(if self.jobs.contains_key(&job) {
            Generation(0)
        } else {
            self.floor
        })
    }

    fn one(
        &mut self,
        job: JobId,
        generation: Generation,
        fold: impl FnOnce(&mut Self) -> Result<bool, WhyRefused>,
    ) -> Absorbed {
        let outcome = if self.synced {
            fold(self)
        } else {
            Err(WhyRefused::NotWelcomed)
        };
        match outcome {
            Ok(changed) => Absorbed {
                changed,
                refused: Vec::new(),
            },
            Err(why) => Absorbed {
                changed: false,
                refused: vec![Refused {
                    job,
                    generation,
                    why,
                }],
            },
        }
    }

    fn welcome(&mut self, jobs: &[JobOrder], steps: &[StepOrder]) -> Absorbed {
        let before = self.clone();
        let kept: BTreeMap<JobId, Generation> =
            jobs.iter().map(|o| (o.job, o.generation)).collect();
        for (job, order) in &before.jobs {
            if kept
                .get(job)
                .is_none_or(|generation| *generation < order.generation)
            {
                self.drop_up_to(*job, order.generation);
            }
        }
        self.synced = true;
        self.steps.clear();
        let mut refused = Vec::new();
        for order in jobs {
            if let Err(why) = self.assign(order) {
                refused.push(Refused {
                    job: order.job,
                    generation: order.generation,
                    why,
                });
            }
        }
        for order in steps {
            if let Err(why) = self.launch(order) {
                refused.push(Refused {
                    job: order.job,
                    generation: order.generation,
                    why,
                });
            }
        }
        Absorbed {
            changed: *self != before,
            refused,
        }
    }

    fn assign(&mut self, order: &JobOrder) -> Result<bool, WhyRefused> {
        order.here().ok_or(WhyRefused::Malformed)?;
        self.not_stale(order.job, order.generation)?;
        if let Some(held) = self.jobs.get(&order.job).cloned() {
            if *held == *order {
                return Ok(false);
            }
            if held.generation < order.generation {
                self.drop_up_to(order.job, held.generation);
            }
        }
        self.jobs.insert(order.job, Arc::new(order.clone()));
        Ok(true)
    }

    fn not_stale(&self, job: JobId, generation: Generation) -> Result<(), WhyRefused> {
        let held = self.jobs.get(&job).map(|order| order.generation);
        let ended = self.ended_up_to(job);
        match held
            .filter(|held| *held > generation)
            .or(Some(ended).filter(|ended| *ended >= generation))
        {
            Some(last) => Err(WhyRefused::Stale(last)),
            None => Ok(()),
        }
    }

    fn launch(&mut self, order: &StepOrder) -> Result<bool, WhyRefused> {
        self.not_stale(order.job, order.generation)?;
        let job = self.jobs.get(&order.job).ok_or(WhyRefused::NoJob)?;
        if job.generation < order.generation {
            return Err(WhyRefused::NoJob);
        }
        let key = (order.job, order.step);
        if self.steps.get(&key).is_some_and(|held| **held == *order) {
            return Ok(false);
        }
        self.steps.insert(key, Arc::new(order.clone()));
        Ok(true)
    }

    fn revoke(&mut self, job: JobId, generation: Generation) -> Result<bool, WhyRefused> {
        if let Some(held) = self.jobs.get(&job)
            && held.generation > generation
        {
            return Err(WhyRefused::Stale(held.generation));
        }
        self.drop_up_to(job, generation);
        let meant = self.revoked.insert(job, generation);
        self.revoked
            .entry(job)
            .and_modify(|now| *now = (*now).max(meant.unwrap_or_default()));
        Ok(meant.is_none_or(|meant| meant < generation))
    }

    /// Forgets orders of the job up to the generation, and refuses them from now on.
    fn drop_up_to(&mut self, job: JobId, generation: Generation) {
        if self
            .jobs
            .get(&job)
            .is_some_and(|held| held.generation <= generation)
        {
            self.jobs.remove(&job);
        }
        self.steps
            .retain(|at, order| at.0 != job || order.generation > generation);
        self.end(job, generation);
    }

    fn end(&mut self, job: JobId, generation: Generation) {
        let last = self.ended.entry(job).or_default();
        *last = generation.max(*last);
        if self.ended.len() > RECALL {
            self.forget_older_half();
        }
    }

    fn forget_older_half(&mut self) {
        let mut generations: Vec<Generation> = self.ended.values().copied().collect();
        generations.sort_unstable();
        let middle = generations[generations.len() / 2];
        self.floor = self.floor.max(middle);
        self.ended.retain(|_, generation| *generation > middle);
    }
}

#[cfg(test)]
mod tests;
