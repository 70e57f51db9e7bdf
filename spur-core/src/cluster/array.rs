//! Arrays: what a submission starts, and how tasks get records of their own.

use super::{Cluster, Taken};
use crate::effect::Effects;
use crate::event::Event;
use crate::id::JobId;
use crate::job::array::{Array, ArrayPart, ArrayTask, ArrayView, MAX_ARRAY_SIZE_MAX, TaskSet};
use crate::job::spec::JobSpec;
use crate::job::state::JobState;
use crate::slurm::array;
use std::collections::BTreeMap;

impl Cluster {
    /// What the record of a new job stands for; notes the array.
    pub(super) fn new_array(
        &mut self,
        id: JobId,
        spec: &JobSpec,
    ) -> Result<Option<ArrayPart>, &'static str> {
        if spec.array.is_empty() {
            return Ok(None);
        }
        let asked = array::parse(&spec.array, MAX_ARRAY_SIZE_MAX).map_err(|_| "no array")?;
        let (min, max) = (asked.tasks.first(), asked.tasks.last());
        let array = Array {
            count: asked.tasks.len(),
            min: min.unwrap_or_default(),
            max: max.unwrap_or_default(),
            step: asked.step,
            ..Array::default()
        };
        self.arrays.insert(id, array);
        Ok(Some(ArrayPart {
            view: ArrayView {
                job: id,
                task: None,
                tasks: asked.tasks,
                throttle: asked.throttle,
            },
            full: false,
            ready: None,
        }))
    }

    /// Some of the tasks that a record stands for, not all, get another one.
    pub(super) fn on_array_split(
        &mut self,
        id: JobId,
        tasks: &TaskSet,
        new: JobId,
        fx: &mut Effects,
    ) -> Taken {
        if new.0 < self.next_job.0.max(1) {
            return Err("the job number was used before");
        }
        let job = self.jobs.get_mut(&id).ok_or("no such job")?;
        if job.state != JobState::Pending {
            return Err("the job does not wait");
        }
        let array = job.array.as_mut().ok_or("the job is no array")?;
        let rest = array.view.tasks.without(tasks);
        if array.view.task.is_some() || tasks.is_empty() || !tasks.is_subset(&array.view.tasks) {
            return Err("the record does not stand for these tasks");
        }
        if rest.is_empty() {
            return Err("no task is left for the record");
        }
        array.view.tasks = rest;
        let mut part = job.clone();
        part.id = new;
        if let Some(array) = &mut part.array {
            array.view.tasks = tasks.clone();
            array.view.settle();
        }
        self.next_job = JobId(new.0.saturating_add(1));
        self.jobs.insert(new, part);
        fx.touched_jobs.extend([id, new]);
        fx.replan = true;
        Ok(())
    }

    /// What a task's environment tells of its array.
    pub(super) fn array_task(&self, id: JobId) -> Option<ArrayTask> {
        let view = &self.jobs.get(&id)?.array.as_ref()?.view;
        let array = self.arrays.get(&view.job)?;
        Some(ArrayTask {
            job: view.job,
            task: view.task?,
            count: array.count,
            min: array.min,
            max: array.max,
            step: array.step,
        })
    }

    /// Tasks that wait in records of arrays beyond one for each record: what they will need in records.
    pub(crate) fn tasks_without_record(&self) -> u64 {
        self.index.ties.tasks_without_record()
    }
}

/// Gives the placements of a plan the records that they are for.
pub(super) struct Splits<'a> {
    cluster: &'a Cluster,
    next: u32,
    /// By record: tasks that may start, and how many wait.
    left: BTreeMap<JobId, (TaskSet, u32)>,
}

impl<'a> Splits<'a> {
    pub(super) fn of(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            next: cluster.next_job.0.max(1),
            left: BTreeMap::new(),
        }
    }

    /// The record for one more placement of this job, and the event that makes it.
    pub(super) fn next(&mut self, id: JobId) -> Option<(JobId, Option<Event>)> {
        let array = self.cluster.jobs.get(&id)?.array.as_ref();
        let Some(array) = array.filter(|array| array.view.task.is_none()) else {
            return Some((id, None));
        };
        let fresh = || (array.startable(), array.view.tasks.len());
        let (startable, waiting) = self.left.entry(id).or_insert_with(fresh);
        let task = startable.first()?;
        if *waiting == 1 {
            return Some((id, None));
        }
        startable.remove(task);
        *waiting -= 1;
        let new = JobId(self.next);
        self.next = self.next.checked_add(1)?;
        Some((new, Some(Event::TaskSplit { job: id, task, new })))
    }
}
