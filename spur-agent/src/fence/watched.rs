//! The fences that must be up: what the watchdog compares the kernel with.

use spur_core::id::JobId;
use spur_core::resources::IdSet;
use spur_ebpf::{JobFence, Policy};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A fence that must be up.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The fenced cgroup.
    pub cgroup: PathBuf,
    /// The fence.
    pub fence: JobFence,
    /// What it grants.
    pub policy: Policy,
    /// The GPUs among that.
    pub gpus: IdSet,
}

impl Watched {
    /// A fence that is up now.
    pub fn new(cgroup: &Path, fence: &JobFence, policy: Policy, gpus: IdSet) -> Self {
        Self {
            cgroup: cgroup.to_owned(),
            fence: fence.clone(),
            policy,
            gpus,
        }
    }

    /// Its job.
    pub fn job(&self) -> JobId {
        JobId(u32::try_from(self.policy.job).unwrap_or(0))
    }
}

/// All of them, by pin.
#[derive(Debug, Default)]
pub(super) struct Wards(Mutex<BTreeMap<String, Watched>>);

impl Wards {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one, or replaces what is known of it.
    pub(super) fn add(&self, pin: &str, ward: Watched) {
        self.all().insert(pin.to_owned(), ward);
    }

    /// Forgets a job's and its steps', and gives them.
    pub(super) fn remove_job(&self, job: JobId) -> Vec<JobFence> {
        let mut all = self.all();
        let gone = all.extract_if(.., |_, ward| ward.job() == job);
        gone.map(|(_, ward)| ward.fence).collect()
    }

    /// Forgets one.
    pub(super) fn remove(&self, pin: &str) {
        self.all().remove(pin);
    }

    /// Their names.
    pub(super) fn pins(&self) -> Vec<String> {
        self.all().keys().cloned().collect()
    }

    /// Looks at one while nobody can take it off the list; `None` if it is not on it any more.
    pub(super) fn with<T>(&self, pin: &str, look: impl FnOnce(&Watched) -> T) -> Option<T> {
        self.all().get(pin).map(look)
    }

    /// A job's own and its steps'.
    pub(super) fn of_job(&self, job: JobId) -> Vec<(String, Watched)> {
        let all = self.all();
        all.iter()
            .filter(|(_, ward)| ward.job() == job)
            .map(|(pin, ward)| (pin.clone(), ward.clone()))
            .collect()
    }

    /// Every GPU that somebody holds.
    pub(super) fn gpus(&self) -> BTreeSet<u32> {
        self.all()
            .values()
            .flat_map(|ward| ward.gpus.iter().collect::<Vec<_>>())
            .collect()
    }

    /// Jobs that hold one of these GPUs.
    pub(super) fn jobs_with(&self, gpus: &BTreeSet<u32>) -> BTreeSet<JobId> {
        self.all()
            .values()
            .filter(|ward| ward.gpus.iter().any(|gpu| gpus.contains(&gpu)))
            .map(Watched::job)
            .collect()
    }
}
