//! Which jobs have to do with which: records of one array, jobs that wait for others.

use crate::id::{JobId, Uid};
use crate::job::Job;
use crate::job::state::JobState;
use crate::slurm::dependency::After;
use std::collections::{BTreeMap, BTreeSet};

/// Records of one array.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Family {
    pub(crate) members: BTreeSet<JobId>,
    /// Those that wait.
    pub(crate) waiting: BTreeSet<JobId>,
    /// How many run.
    pub(crate) running: u32,
}

/// What a job is entered under.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    array: Option<(JobId, JobState)>,
    /// Tasks beyond the first that wait in it.
    more_tasks: u32,
    waits_for: Vec<JobId>,
    single: Option<(Uid, String)>,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ties {
    families: BTreeMap<JobId, Family>,
    /// Jobs that wait for a job, or for the array with that number.
    dependents: BTreeMap<JobId, BTreeSet<JobId>>,
    /// Waiting jobs with `singleton`, by user and name.
    singles: BTreeMap<(Uid, String), BTreeSet<JobId>>,
    entries: BTreeMap<JobId, Entry>,
    more_tasks: u64,
}

impl Ties {
    pub(super) fn enter(&mut self, job: &Job) {
        let waits = job.state == JobState::Pending;
        let mut entry = Entry::default();
        if let Some(array) = &job.array {
            let family = self.families.entry(array.view.job).or_default();
            family.members.insert(job.id);
            if waits {
                family.waiting.insert(job.id);
                entry.more_tasks = array.view.len().saturating_sub(1);
                self.more_tasks += u64::from(entry.more_tasks);
            }
            family.running += u32::from(job.state == JobState::Running);
            entry.array = Some((array.view.job, job.state));
        }
        for term in job.depends.terms.iter().filter(|_| waits) {
            if term.after == After::Singleton {
                let key = (job.spec.owner.uid, job.spec.name.clone());
                self.singles.entry(key.clone()).or_default().insert(job.id);
                entry.single = Some(key);
            } else {
                self.dependents.entry(term.job).or_default().insert(job.id);
                entry.waits_for.push(term.job);
            }
        }
        if entry != Entry::default() {
            self.entries.insert(job.id, entry);
        }
    }

    pub(super) fn leave(&mut self, id: JobId) {
        let Some(entry) = self.entries.remove(&id) else {
            return;
        };
        if let Some((array, state)) = entry.array
            && let Some(family) = self.families.get_mut(&array)
        {
            family.members.remove(&id);
            family.waiting.remove(&id);
            family.running -= u32::from(state == JobState::Running);
            if family.members.is_empty() {
                self.families.remove(&array);
            }
        }
        self.more_tasks -= u64::from(entry.more_tasks);
        for target in entry.waits_for {
            if let Some(dependents) = self.dependents.get_mut(&target) {
                dependents.remove(&id);
                if dependents.is_empty() {
                    self.dependents.remove(&target);
                }
            }
        }
        if let Some(key) = entry.single
            && let Some(jobs) = self.singles.get_mut(&key)
        {
            jobs.remove(&id);
            if jobs.is_empty() {
                self.singles.remove(&key);
            }
        }
    }

    /// Records of an array.
    pub(crate) fn family(&self, array: JobId) -> Option<&Family> {
        self.families.get(&array)
    }

    /// Jobs that wait for this one, or for the array with that number.
    pub(crate) fn dependents(&self, of: JobId) -> impl Iterator<Item = JobId> {
        self.dependents.get(&of).into_iter().flatten().copied()
    }

    /// Whether any job waits for its like.
    pub(crate) fn has_singles(&self) -> bool {
        !self.singles.is_empty()
    }

    /// The first waiting job with `singleton` of this user and name.
    pub(crate) fn first_single(&self, uid: Uid, name: &str) -> Option<JobId> {
        let key = (uid, name.to_owned());
        self.singles.get(&key)?.first().copied()
    }

    /// All waiting jobs with `singleton`.
    pub(crate) fn singles(&self) -> impl Iterator<Item = JobId> {
        self.singles.values().flatten().copied()
    }

    pub(crate) fn tasks_without_record(&self) -> u64 {
        self.more_tasks
    }
}
