//! What the agent must not forget: the jobs and steps that it began, and reports that the controller has not acknowledged.
//!
//! An append-only file of checked records, written over when most of it is out of date. What is written survives a `kill -9` at
//! once, and a torn last record is cut off at the next start. Intents need no more than that: when the machine itself goes down,
//! nothing of a job is left to be forgotten. Reports are facts about the past and are made durable before they are sent.

pub(crate) mod file;

pub use file::JournalError;

use file::File;
use serde::{Deserialize, Serialize};
use spur_core::agent::order::{JobOrder, Report};
use spur_core::id::{Generation, JobId, StepKind};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Most reports that are kept without an acknowledgement. They are bounded by the jobs that a controller can start without ever
/// reading a report; beyond this the oldest are dropped, loudly.
pub const REPORTS_MAX: usize = 200_000;

/// How far a job's set-up or removal has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Intended: there may be a cgroup, a pin, or nothing. Once it is known whether it has a fence, it is set up and its prolog is not
    /// over.
    Preparing,
    /// Fenced, with its policy, and its prolog is over.
    Ready,
    /// Being ended.
    Ending,
}

/// A job as journalled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// What was ordered.
    pub order: Arc<JobOrder>,
    /// How far it has come.
    pub phase: Phase,
    /// Its steps here, until their ends are acknowledged.
    pub steps: BTreeMap<StepKind, Step>,
    /// Tasks that were started here: each opened the canary once.
    pub canaries: u64,
    /// Whether it was set up with a fence; `None` if that was not written down (by an older agent, or it is not set up yet).
    pub fenced: Option<bool>,
}

/// A step as journalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Tasks on this node.
    pub tasks: u32,
    /// Whether it has a fence of its own.
    pub narrow: bool,
    /// Its end was reported.
    pub ended: bool,
}

/// One record.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Record {
    /// First of each file.
    Boot { id: String, next_report: u64 },
    /// A job is to be set up.
    Job {
        order: Arc<JobOrder>,
        phase: Phase,
        #[serde(default)]
        canaries: u64,
        #[serde(default)]
        fenced: Option<bool>,
    },
    /// A job came to a phase.
    JobPhase {
        job: JobId,
        phase: Phase,
        /// When it is set up: whether it has a fence.
        #[serde(default)]
        fenced: Option<bool>,
    },
    /// A step's supervisor is to be started, or its state changed.
    Step {
        job: JobId,
        step: StepKind,
        state: Step,
    },
    /// A step's supervisor was never started after all.
    StepUndone { job: JobId, step: StepKind },
    /// Nothing of the job is left.
    JobGone { job: JobId },
    /// A fact for the controller.
    Report { number: u64, report: Report },
    /// The controller has every report up to this one.
    Acked { number: u64 },
}

/// The journal: the state that its records add up to, and the file.
#[derive(Debug)]
pub struct Journal {
    file: File,
    boot_id: String,
    jobs: BTreeMap<JobId, Job>,
    reports: BTreeMap<u64, Report>,
    next_report: u64,
    /// Jobs of an earlier boot, of which nothing can be left.
    lost: Vec<(JobId, Generation)>,
}

impl Journal {
    /// Opens `state_dir/journal`, or begins one. Records of jobs from before the machine's last boot are dropped; reports are kept.
    pub fn open(state_dir: &Path, boot_id: &str) -> Result<Self, JournalError> {
        let (file, records) = File::open(&state_dir.join("journal"))?;
        let mut journal = Self {
            file,
            boot_id: String::new(),
            jobs: BTreeMap::new(),
            reports: BTreeMap::new(),
            next_report: 1,
            lost: Vec::new(),
        };
        for record in &records {
            journal.take(record);
        }
        if journal.boot_id != boot_id {
            let gone = std::mem::take(&mut journal.jobs);
            journal.lost = gone
                .into_iter()
                .map(|(job, entry)| (job, entry.order.generation))
                .collect();
            boot_id.clone_into(&mut journal.boot_id);
        }
        journal.rewrite()?;
        Ok(journal)
    }

    /// Jobs that are not gone.
    pub fn jobs(&self) -> &BTreeMap<JobId, Job> {
        &self.jobs
    }

    /// Reports that are not acknowledged, by number.
    pub fn reports(&self) -> &BTreeMap<u64, Report> {
        &self.reports
    }

    /// Jobs that a reboot ended.
    pub fn lost(&self) -> &[(JobId, Generation)] {
        &self.lost
    }

    /// A job is about to be set up.
    pub fn begin_job(&mut self, order: &Arc<JobOrder>) -> Result<(), JournalError> {
        self.write(&Record::Job {
            order: Arc::clone(order),
            phase: Phase::Preparing,
            canaries: 0,
            fenced: None,
        })
    }

    /// A job came to a phase.
    pub fn job_phase(&mut self, job: JobId, phase: Phase) -> Result<(), JournalError> {
        self.write(&Record::JobPhase {
            job,
            phase,
            fenced: None,
        })
    }

    /// A job is set up, with a fence or without one, and its prolog is to come. An older agent, which would not run that again, drops
    /// the job and has it set up anew.
    pub fn job_prepared(&mut self, job: JobId, fenced: bool) -> Result<(), JournalError> {
        self.write(&Record::JobPhase {
            job,
            phase: Phase::Preparing,
            fenced: Some(fenced),
        })
    }

    /// A job is set up, with a fence or without one, and nothing more comes before its steps.
    pub fn job_ready(&mut self, job: JobId, fenced: bool) -> Result<(), JournalError> {
        self.write(&Record::JobPhase {
            job,
            phase: Phase::Ready,
            fenced: Some(fenced),
        })
    }

    /// A step's supervisor is about to be started, or the step's state changed.
    pub fn step(&mut self, job: JobId, step: StepKind, state: Step) -> Result<(), JournalError> {
        self.write(&Record::Step { job, step, state })
    }

    /// A step's supervisor was not started after all.
    pub fn step_undone(&mut self, job: JobId, step: StepKind) -> Result<(), JournalError> {
        self.write(&Record::StepUndone { job, step })
    }

    /// Makes a report durable and gives its number. A step's end also marks the step, `Cleaned` ends the job's place here: one
    /// record says both, so neither can be lost without the other.
    pub fn report(&mut self, report: Report) -> Result<u64, JournalError> {
        let number = self.next_report;
        self.write(&Record::Report { number, report })?;
        self.file.sync()?;
        if self.reports.len() > REPORTS_MAX {
            let dropped = self.reports.pop_first();
            tracing::error!(
                ?dropped,
                "too many reports without an acknowledgement: the oldest is dropped"
            );
        }
        Ok(number)
    }

    /// Nothing of the job is left, and the controller need not know.
    pub fn forget(&mut self, job: JobId) -> Result<(), JournalError> {
        self.write(&Record::JobGone { job })
    }

    /// The controller has every report up to this one.
    pub fn acked(&mut self, number: u64) -> Result<(), JournalError> {
        if self
            .reports
            .first_key_value()
            .is_some_and(|(first, _)| *first <= number)
        {
            self.write(&Record::Acked { number })?;
        }
        if self.file.is_mostly_old(self.live()) {
            self.rewrite()?;
        }
        Ok(())
    }

    fn write(&mut self, record: &Record) -> Result<(), JournalError> {
        self.file.append(record)?;
        self.take(record);
        Ok(())
    }

    /// Folds a record into the state.
    fn take(&mut self, record: &Record) {
        match record {
            Record::Boot { id, next_report } => {
                self.boot_id.clone_from(id);
                self.next_report = self.next_report.max(*next_report);
            }
            Record::Job {
                order,
                phase,
                canaries,
                fenced,
            } => {
                let entry = Job {
                    order: Arc::clone(order),
                    phase: *phase,
                    steps: BTreeMap::new(),
                    canaries: *canaries,
                    fenced: *fenced,
                };
                self.jobs.insert(order.job, entry);
            }
            Record::JobPhase { job, phase, fenced } => {
                if let Some(entry) = self.jobs.get_mut(job) {
                    entry.phase = *phase;
                    entry.fenced = fenced.or(entry.fenced);
                }
            }
            Record::Step { job, step, state } => {
                if let Some(entry) = self.jobs.get_mut(job)
                    && entry.steps.insert(*step, *state).is_none()
                {
                    entry.canaries += u64::from(state.tasks);
                }
            }
            Record::StepUndone { job, step } => {
                if let Some(entry) = self.jobs.get_mut(job)
                    && let Some(state) = entry.steps.remove(step)
                {
                    entry.canaries = entry.canaries.saturating_sub(u64::from(state.tasks));
                }
            }
            Record::JobGone { job } => {
                self.jobs.remove(job);
            }
            Record::Report { number, report } => {
                self.note(report);
                self.reports.insert(*number, report.clone());
                self.next_report = self.next_report.max(number + 1);
            }
            Record::Acked { number } => {
                let kept = self.reports.split_off(&(number + 1));
                for report in std::mem::replace(&mut self.reports, kept).into_values() {
                    self.settle(&report);
                }
                self.next_report = self.next_report.max(number + 1);
            }
        }
    }

    /// The job that a report is about, if it is still here with that generation.
    fn entry(&mut self, job: JobId, generation: Generation) -> Option<&mut Job> {
        self.jobs
            .get_mut(&job)
            .filter(|entry| entry.order.generation <= generation)
    }

    /// What a report says of a job or step that is still here.
    fn note(&mut self, report: &Report) {
        match report {
            Report::StepEnded {
                job,
                step,
                generation,
                ..
            } => {
                let step = self
                    .entry(*job, *generation)
                    .and_then(|entry| entry.steps.get_mut(step));
                if let Some(state) = step {
                    state.ended = true;
                }
            }
            Report::LaunchFailed { .. } | Report::ProgramFailed { .. } => {}
            Report::Cleaned { job, generation } => {
                if self.entry(*job, *generation).is_some() {
                    self.jobs.remove(job);
                }
            }
        }
    }

    /// A step whose end the controller has is not needed any more.
    fn settle(&mut self, report: &Report) {
        if let Report::StepEnded {
            job,
            step,
            generation,
            ..
        } = report
            && let Some(entry) = self.entry(*job, *generation)
        {
            entry.steps.remove(step);
        }
    }

    /// How many records would say all that is left.
    fn live(&self) -> usize {
        let steps: usize = self.jobs.values().map(|entry| entry.steps.len()).sum();
        1 + self.jobs.len() + steps + self.reports.len()
    }

    /// Begins the file anew with what is left.
    fn rewrite(&mut self) -> Result<(), JournalError> {
        let mut records = vec![Record::Boot {
            id: self.boot_id.clone(),
            next_report: self.next_report,
        }];
        let reports = self.reports.iter();
        records.extend(reports.map(|(number, report)| Record::Report {
            number: *number,
            report: report.clone(),
        }));
        for (job, entry) in &self.jobs {
            let listed: u64 = entry
                .steps
                .values()
                .map(|state| u64::from(state.tasks))
                .sum();
            records.push(Record::Job {
                order: Arc::clone(&entry.order),
                phase: entry.phase,
                canaries: entry.canaries.saturating_sub(listed),
                fenced: entry.fenced,
            });
            let steps = entry.steps.iter();
            records.extend(steps.map(|(step, state)| Record::Step {
                job: *job,
                step: *step,
                state: *state,
            }));
        }
        self.file.replace(&records)
    }
}

#[cfg(test)]
mod tests;
