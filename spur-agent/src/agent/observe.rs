//! What an agent finds when it starts: its journal, cgroups, pins, and the supervisors that lived on without it.

use super::{Agent, AgentError};
use crate::act;
use crate::cgroup::{Cgroup, CgroupError};
use crate::fence::node::chain;
use crate::journal::{self, Phase};
use crate::launch::{self, Supervisor, exit_record, steps_dir};
use spur_core::agent::reconcile::{JobPhase, StepPhase};
use spur_core::id::{JobId, StepKind};
use spur_core::resources::IdSet;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// How long children of a dead supervisor may take to end.
const GONE_WITHIN: Duration = Duration::from_secs(5);

impl Agent {
    /// Takes over everything that is still here, and removes what belongs to nobody.
    pub(super) fn observe(&mut self) -> Result<(), AgentError> {
        for (job, generation) in self.journal.lost().to_vec() {
            tracing::warn!(%job, %generation, "the machine was started anew; nothing of this job is left");
        }
        let known: Vec<(JobId, journal::Job)> = self
            .journal
            .jobs()
            .iter()
            .map(|(job, entry)| (*job, entry.clone()))
            .collect();
        self.end_left_programs();
        for (job, entry) in known {
            match entry.phase {
                // Nothing ran yet: the controller orders it again.
                Phase::Preparing if entry.fenced.is_none() => self.drop_unfinished(job),
                Phase::Preparing => self.take_over(job, entry),
                Phase::Ready | Phase::Ending => self.take_over(job, entry),
            }
        }
        if let Some(meter) = self.node.meter() {
            meter.taken_over();
        }
        self.remove_strangers()?;
        self.collect_pins();
        Ok(())
    }

    /// Removes what an interrupted set-up left.
    fn drop_unfinished(&mut self, job: JobId) {
        let outcome = act::end(&self.node, job, &IdSet::new()).map_err(|e| e.to_string());
        let outcome =
            outcome.and_then(|_| act::clean(&self.node, job, None).map_err(|failure| failure.why));
        match outcome {
            Ok(_) => self.journalled(|journal| journal.forget(job)),
            Err(why) => tracing::error!(%job, why, "an unfinished set-up cannot be removed"),
        }
    }

    fn take_over(&mut self, job: JobId, mut entry: journal::Job) {
        entry
            .steps
            .retain(|step, state| !self.undone((job, *step), *state));
        let generation = entry.order.generation;
        let phase = match entry.phase {
            Phase::Preparing => JobPhase::Prepared,
            Phase::Ready => JobPhase::Ready,
            Phase::Ending => JobPhase::Ending,
        };
        self.desired.remember(job, generation);
        self.observed.jobs.insert(job, (generation, phase));
        self.observed
            .shares
            .extend(entry.order.here().map(|here| (job, here.share.clone())));
        if let Some(meter) = self.node.meter() {
            meter.job_begins(&entry.order, true);
        }
        match self.node.root.job(job) {
            Ok(Some(cgroup)) => self.adopt_fences(&entry.order, &cgroup, &entry),
            Ok(None) => tracing::warn!(%job, "its cgroup is gone; it is ended"),
            Err(error) => tracing::error!(%job, %error, "its cgroup cannot be opened"),
        }
        for (step, state) in &entry.steps {
            self.take_over_step(job, *step, *state);
        }
        tracing::info!(%job, %generation, steps = entry.steps.len(), "taken over");
        if phase == JobPhase::Ending {
            self.kill(job);
        }
    }

    fn take_over_step(&mut self, job: JobId, step: StepKind, state: journal::Step) {
        let key = (job, step);
        if state.ended {
            self.observed.steps.insert(key, StepPhase::Ended);
            return;
        }
        let dir = self.step_dir(key);
        self.observed.steps.insert(key, StepPhase::Running);
        match Supervisor::adopt(&dir) {
            Ok(Some(supervisor)) => {
                self.meter_taken_over(key);
                self.watch(key, supervisor);
            }
            Ok(None) => self.step_over(key),
            Err(error) => {
                tracing::error!(%job, %step, %error, "its supervisor cannot be looked for");
                self.step_over(key);
            }
        }
    }

    /// Whether a step was written down and nothing of it ran before all was killed: the controller's order is followed anew then,
    /// in a new cgroup, since the kernel lets nobody into one that was killed.
    fn undone(&mut self, (job, step): super::StepKey, state: journal::Step) -> bool {
        let dir = self.step_dir((job, step));
        let gone = !state.ended && matches!(Supervisor::adopt(&dir), Ok(None));
        if !gone || (dir.exists() && !launch::never_began(&dir)) {
            return false;
        }
        if let Err(error) = self.remove_step_cgroup((job, step)) {
            tracing::error!(%job, %step, %error, "the cgroup of a step that did not begin cannot be removed");
            return false;
        }
        remove_step_dir(&dir);
        self.journalled(|journal| journal.step_undone(job, step));
        true
    }

    fn remove_step_cgroup(&self, (job, step): super::StepKey) -> Result<(), CgroupError> {
        let Some(group) = self.node.root.job(job)? else {
            return Ok(());
        };
        let Some(group) = Cgroup::open(group.step_path(step))? else {
            return Ok(());
        };
        group.kill()?;
        group.wait_empty(GONE_WITHIN)?;
        group.remove()
    }

    /// A running step is metered on.
    fn meter_taken_over(&self, (job, step): super::StepKey) {
        let group = self.node.root.job(job).ok().flatten();
        let group = group.and_then(|group| Cgroup::open(group.step_path(step)).ok().flatten());
        if let (Some(meter), Some(group)) = (self.node.meter(), group) {
            meter.step_begins(job, step, &group);
        }
    }

    /// Steps have their folders in memory, where that can be.
    pub(super) fn shelve(&self) {
        match launch::shelf::prepare(&steps_dir(&self.node.config.state_dir)) {
            Ok(true) => {}
            Ok(false) => tracing::info!(
                "steps of an earlier agent have their folders on the disk, so new ones do too"
            ),
            Err(error) => tracing::warn!(
                error = chain(&error),
                "steps have their folders on the disk"
            ),
        }
    }

    /// Cgroups and step folders of jobs that the journal does not know.
    fn remove_strangers(&mut self) -> Result<(), CgroupError> {
        let strangers: BTreeSet<JobId> = self
            .node
            .root
            .jobs()?
            .into_iter()
            .filter(|job| !self.observed.jobs.contains_key(job))
            .collect();
        for job in strangers {
            tracing::warn!(%job, "a job that nobody knows is killed");
            self.drop_unfinished(job);
        }
        let entries = std::fs::read_dir(steps_dir(&self.node.config.state_dir))
            .into_iter()
            .flatten();
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let job = name
                .split('.')
                .next()
                .and_then(|job| job.parse().ok())
                .map(JobId);
            if job.is_none_or(|job| !self.observed.jobs.contains_key(&job)) {
                remove_step_dir(&entry.path());
            }
        }
        Ok(())
    }

    /// Pins of jobs that are not here.
    fn collect_pins(&self) {
        let Some(fence) = self.node.fence() else {
            return;
        };
        fence.adopted_all();
        let mut wanted = BTreeSet::new();
        for (job, entry) in self.journal.jobs() {
            wanted.insert(act::holder(&entry.order, None, IdSet::new()).pin());
            let steps = entry.steps.keys();
            wanted.extend(
                steps.map(|step| act::holder(&entry.order, Some(*step), IdSet::new()).pin()),
            );
            debug_assert_eq!(*job, entry.order.job);
        }
        match fence.collect_garbage(&wanted) {
            Ok(removed) if removed.is_empty() => {}
            Ok(removed) => tracing::info!(?removed, "pins that nobody needs are removed"),
            Err(error) => tracing::error!(error = chain(&error), "old pins cannot be removed"),
        }
    }
}

/// Removes a step's folder that belongs to nobody, its supervisor first told to end.
fn remove_step_dir(dir: &Path) {
    if let Ok(Some(supervisor)) = Supervisor::adopt(dir)
        && let Err(error) = supervisor.signal(9, false)
    {
        tracing::debug!(dir = %dir.display(), %error, "a stray supervisor takes no order");
    }
    if matches!(exit_record(dir), Ok(Some(_)) | Ok(None))
        && let Err(error) = launch::remove_dir(dir)
    {
        tracing::warn!(dir = %dir.display(), %error, "a stray step's folder cannot be removed");
    }
}
