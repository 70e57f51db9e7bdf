//! From the kernel's audit ring to what the controller shows. A thread reads the ring, counts by kind and keeps the newest few
//! lines of each job and device until the loop takes them, at most a few times a second. A flood costs a bounded number of them,
//! and the totals come from the fence's own counters.

mod label;
mod of_job;
pub mod report;

use crate::agent::Input;
use crate::fence::canary;
use of_job::OfJob;
pub use of_job::{Kind, Taken, Tally};
use spur_core::id::JobId;
use spur_ebpf::{Audit, Event};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// Jobs whose refusals are counted by kind. For one more, the job with the lowest number goes: its fence still counts.
const JOBS_MAX: usize = 512;

/// The shortest time between two messages.
const PAUSE: Duration = Duration::from_millis(250);

/// How long a wait for the ring lasts before the thread looks whether it is still wanted.
const WAIT: Duration = Duration::from_secs(60);

/// Refusals that wait to be sent, and what was counted of each job.
#[derive(Clone, Debug, Default)]
pub struct Buffer(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    jobs: Mutex<BTreeMap<JobId, OfJob>>,
    filled: Notify,
}

impl Buffer {
    fn jobs(&self) -> MutexGuard<'_, BTreeMap<JobId, OfJob>> {
        self.0.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a refusal. The canary's are ours and are left out, as are those of cgroups that belong to no job.
    pub fn put(&self, event: Event) {
        let own = (event.device.major, event.device.minor) == (canary::MAJOR, canary::MINOR);
        let job = u32::try_from(event.job).map_or(JobId(0), JobId);
        if own || job == JobId(0) {
            return;
        }
        let mut jobs = self.jobs();
        let of_job = jobs.entry(job).or_default();
        of_job.put(event);
        if jobs.len() > JOBS_MAX {
            jobs.pop_first();
        }
        drop(jobs);
        self.0.filled.notify_one();
    }

    /// Takes the lines that wait, and the counts of the jobs that met something since the last time.
    pub fn take(&self) -> Vec<Taken> {
        let mut jobs = self.jobs();
        let taken = jobs
            .iter_mut()
            .filter_map(|(job, of_job)| of_job.take(*job));
        taken.collect()
    }

    /// All counts are said again: the controller may have missed some.
    pub fn say_again(&self) {
        for of_job in self.jobs().values_mut() {
            of_job.say_again();
        }
        self.0.filled.notify_one();
    }

    /// A job is over.
    pub fn forget(&self, job: JobId) {
        self.jobs().remove(&job);
    }
}

/// Reads the ring until the process ends, and tells the loop, not too often, that there is something.
pub fn watch(audit: Audit, buffer: &Buffer, inputs: mpsc::Sender<Input>) -> std::io::Result<()> {
    let into = buffer.clone();
    let mut reader = Reader(audit);
    std::thread::Builder::new()
        .name("audit".into())
        .spawn(move || reader.read_on(&into))?;
    let filled = buffer.clone();
    tokio::spawn(async move {
        loop {
            filled.0.filled.notified().await;
            if inputs.send(Input::Refusals).await.is_err() {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    });
    Ok(())
}

/// The ring's reader, which moves to its thread once and stays there.
struct Reader(Audit);

impl Reader {
    fn read_on(&mut self, into: &Buffer) {
        loop {
            if let Err(error) = self.0.poll(WAIT, |event| into.put(event)) {
                tracing::error!(%error, "the audit ring cannot be read: refusals are counted but not shown");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
