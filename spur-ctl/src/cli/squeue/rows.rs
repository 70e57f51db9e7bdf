//! The rows of the table. Of ten thousand jobs that came as lines, only what sorts them is kept: each is read again, into one row, when
//! it is written.

use super::order::{Keys, Order};
use crate::cli::render::View;
use crate::cli::render::job_row::{self, JobRow};
use spur_core::api::{JobLines, JobView};
use spur_core::job::state::JobState;
use std::sync::Arc;

/// Jobs as the controller sent them.
pub enum Came {
    /// Whole, and only those that are wanted.
    Jobs(Vec<Arc<JobView>>),
    /// As short lines.
    Lines(Box<JobLines>),
}

/// How rows are shown.
pub struct Shape<'a> {
    /// The present.
    pub view: &'a View,
    /// Their order.
    pub order: &'a Order,
    /// One for each task of an array (`-r`).
    pub each_task: bool,
    /// No bounds on how many tasks of an array run.
    pub boundless: bool,
    /// How many bytes of a list of tasks are shown, if that was said.
    pub tasks_shown: Option<usize>,
}

/// A row: a line that came, or one of those that are kept.
#[derive(Clone, Copy)]
enum Row {
    Line(usize),
    Kept(usize),
}

/// Rows that are wanted, as they came.
#[derive(Default)]
struct Found {
    rows: Vec<Row>,
    kept: Vec<JobRow>,
    keys: Keys,
}

/// Reads lines one after another.
struct Reader<'l> {
    lines: &'l JobLines,
    row: JobRow,
    before: Option<usize>,
}

impl<'l> Reader<'l> {
    /// `None` if there is nothing to be read.
    fn new(lines: &'l JobLines, shape: &Shape<'_>) -> Option<Self> {
        Some(Self {
            lines,
            row: shape.row(Arc::new(lines.job(0)?)),
            before: Some(0),
        })
    }

    fn read(&mut self, at: usize) -> Option<&JobRow> {
        let job = Arc::make_mut(&mut self.row.job);
        let read = self.lines.read(at, self.before, job);
        self.before = Some(at);
        read.then_some(&self.row)
    }
}

impl Shape<'_> {
    fn row(&self, job: Arc<JobView>) -> JobRow {
        let mut row = JobRow::new(job);
        row.shown = self.tasks_shown.unwrap_or(row.shown);
        if self.boundless {
            row.forget_throttle();
        }
        row
    }

    /// Calls `write` with each row in order until it says that it is enough. Of lines only those that pass are rows.
    pub fn for_each(
        &self,
        came: Came,
        passes: impl Fn(&JobView) -> bool,
        mut write: impl FnMut(&JobRow) -> bool,
    ) {
        let none = JobLines::default();
        let (found, lines) = match &came {
            Came::Jobs(jobs) => (self.of_jobs(jobs), &none),
            Came::Lines(lines) => (self.of_lines(lines, passes), &**lines),
        };
        let Found {
            rows,
            mut kept,
            keys,
        } = found;
        let gone = if self.each_task {
            Vec::new()
        } else {
            job_row::combine(&mut kept)
        };
        let is_gone = |at: usize| gone.get(at).copied().unwrap_or(false);
        let mut reader = Reader::new(lines, self);
        for place in self.order.arranged(keys) {
            let more = match rows[place] {
                Row::Kept(at) if is_gone(at) => true,
                Row::Kept(at) => self.write_kept(&mut kept[at], &mut write),
                Row::Line(at) => {
                    let row = reader.as_mut().and_then(|reader| reader.read(at));
                    row.is_some_and(&mut write)
                }
            };
            if !more {
                return;
            }
        }
    }

    fn write_kept(&self, row: &mut JobRow, write: &mut impl FnMut(&JobRow) -> bool) -> bool {
        let tasks = match &row.job.array {
            Some(array) if self.each_task && row.index().is_none() => array.tasks.clone(),
            _ => return write(row),
        };
        tasks.iter().all(|task| {
            row.task = Some(task);
            write(row)
        })
    }

    fn of_jobs(&self, jobs: &[Arc<JobView>]) -> Found {
        let mut found = Found::default();
        for job in jobs {
            self.keep(&mut found, self.row(Arc::clone(job)));
        }
        found
    }

    fn of_lines(&self, lines: &JobLines, passes: impl Fn(&JobView) -> bool) -> Found {
        let mut found = Found::default();
        let Some(mut reader) = Reader::new(lines, self) else {
            return found;
        };
        for at in 0..lines.len() {
            let Some(row) = reader.read(at) else { break };
            if !passes(&row.job) {
                continue;
            }
            if stands_for_others(row) {
                let job = JobView::clone(&row.job);
                self.keep(&mut found, self.row(Arc::new(job)));
            } else {
                self.order.note(self.view, row, &mut found.keys);
                found.rows.push(Row::Line(at));
            }
        }
        found
    }

    fn keep(&self, found: &mut Found, row: JobRow) {
        self.order.note(self.view, &row, &mut found.keys);
        found.rows.push(Row::Kept(found.kept.len()));
        found.kept.push(row);
    }
}

/// Whether a row may become several, or part of another.
fn stands_for_others(row: &JobRow) -> bool {
    row.job.array.is_some() && (row.job.state == JobState::Pending || row.index().is_none())
}

#[cfg(test)]
mod tests;
