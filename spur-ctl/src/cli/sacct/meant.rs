//! Jobs, tasks of arrays, components, and steps by name: `9`, `9_3`, `9_[1-3,5]`, `9+1`, `9.batch`, `9_3.0`.

use super::super::render::accounts::Row;
use spur_core::id::{JobId, StepKind};
use spur_core::job::array::{JobTarget, TaskSet};

/// What one name means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meant {
    /// The job, or the array.
    pub(super) job: JobId,
    tasks: Option<TaskSet>,
    component: Option<u32>,
    step: Step,
}

/// Which steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The job with all of them.
    All,
    /// This one alone.
    One(StepKind),
    /// One of a kind that does not exist here, as `extern`.
    Never,
}

/// Reads a list; the error is the word that is no name.
pub(super) fn read(text: &str) -> Result<Vec<Meant>, String> {
    pieces(text)
        .map(|word| one(word).ok_or_else(|| word.to_owned()))
        .collect()
}

/// The words of a list; commas in brackets part tasks.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0u32;
    let words = text.split(move |c| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    words.map(str::trim).filter(|word| !word.is_empty())
}

fn one(word: &str) -> Option<Meant> {
    let (job, step) = match word.split_once('.') {
        None => (word, Step::All),
        Some((job, "batch")) => (job, Step::One(StepKind::Batch)),
        Some((job, "extern" | "interactive")) => (job, Step::Never),
        Some((job, number)) => (job, Step::One(StepKind::Numbered(number.parse().ok()?))),
    };
    let JobTarget { job, tasks, offset } = job.parse().ok()?;
    Some(Meant {
        job,
        tasks,
        component: offset,
        step,
    })
}

impl Meant {
    /// Whether a line is of it.
    pub(super) fn is(&self, row: &Row) -> bool {
        let job = &row.run.job;
        let array = job.array.as_ref().filter(|array| array.job == self.job);
        let part = job.het.filter(|part| part.leader == self.job);
        let it = match &self.tasks {
            None => match self.component {
                Some(offset) => part.is_some_and(|part| part.offset == offset),
                None => job.id == self.job || array.is_some() || part.is_some(),
            },
            Some(tasks) => array.is_some_and(|array| array.has_any(tasks)),
        };
        let step = row.step.as_ref().map(|step| step.kind);
        it && match self.step {
            Step::All => true,
            Step::One(kind) => step == Some(kind),
            Step::Never => false,
        }
    }
}
