//! A line of `squeue`: a job, or a task of an array (`-r`), or what waits of an array.

use spur_core::api::JobView;
use spur_core::job::array::SHOWN_DEFAULT;
use spur_core::job::state::JobState;
use spur_core::slurm::digits;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One line.
#[derive(Clone, Debug)]
pub struct JobRow {
    /// The job.
    pub job: Arc<JobView>,
    /// The one task of a record of several that the line is about.
    pub task: Option<u32>,
    /// Priority tier of its partition.
    pub tier: u32,
    /// Reasons of other records of the array that the line stands for too.
    pub more_reasons: String,
    /// How many bytes of a list of tasks are shown (`SLURM_BITSTR_LEN`); 0 is all.
    pub shown: usize,
}

impl JobRow {
    /// The line of a whole record.
    pub fn new(job: Arc<JobView>) -> Self {
        Self {
            job,
            task: None,
            tier: 1,
            more_reasons: String::new(),
            shown: SHOWN_DEFAULT,
        }
    }

    /// Shows no bound on how many tasks run at once.
    pub fn forget_throttle(&mut self) {
        if self
            .job
            .array
            .as_ref()
            .is_some_and(|array| array.throttle > 0)
        {
            let mut job = JobView::clone(&self.job);
            if let Some(array) = &mut job.array {
                array.throttle = 0;
            }
            self.job = Arc::new(job);
        }
    }

    /// Index of the task, if the line is about one.
    pub fn index(&self) -> Option<u32> {
        self.task.or_else(|| self.job.array.as_ref()?.task)
    }

    /// `12`, `9+1`, `9_3` or `9_[2-19%2]`.
    pub fn write_id(&self, out: &mut String) {
        match (&self.job.array, self.index()) {
            (None, _) => match self.job.het {
                None => push(out, self.job.id.0),
                Some(part) => {
                    push(out, part.leader.0);
                    out.push('+');
                    push(out, part.offset);
                }
            },
            (Some(array), Some(task)) => {
                push(out, array.job.0);
                out.push('_');
                push(out, task);
            }
            (Some(array), None) => out.push_str(&array.id_text(self.shown)),
        }
    }

    /// `3`, `2-19%2`, `N/A`.
    pub fn write_tasks(&self, out: &mut String) {
        match (&self.job.array, self.index()) {
            (None, _) => out.push_str("N/A"),
            (Some(_), Some(task)) => push(out, task),
            (Some(array), None) => out.push_str(&array.tasks_text(self.shown)),
        }
    }

    /// The number of the array, or of the job.
    pub fn array_or_job(&self) -> u32 {
        self.job
            .array
            .as_ref()
            .map_or(self.job.id.0, |array| array.job.0)
    }
}

/// Adds a number.
pub fn push(out: &mut String, number: impl Into<u64>) {
    digits::push(out, number.into());
}

/// Puts what waits of an array in records of its own back to the line of the others, as Slurm shows it. Which of the rows are shown
/// by others then is the answer.
pub fn combine(rows: &mut [JobRow]) -> Vec<bool> {
    let mut alone: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let mut heads = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        match &row.job.array {
            Some(_) if row.job.state != JobState::Pending => {}
            Some(array) if row.index().is_some() => alone.entry(array.job.0).or_default().push(at),
            Some(_) => heads.push(at),
            None => {}
        }
    }
    let mut gone = vec![false; rows.len()];
    for head in heads {
        let own = alone.get(&rows[head].array_or_job());
        for at in own.into_iter().flatten().copied() {
            if !gone[at] && joins(&rows[head], &rows[at]) {
                gone[at] = true;
                let other = rows[at].clone();
                join(&mut rows[head], &other);
            }
        }
    }
    gone
}

/// Whether a single task belongs to the line of its array.
fn joins(head: &JobRow, one: &JobRow) -> bool {
    let (a, b) = (&head.job, &one.job);
    let same = a.array.as_ref().zip(b.array.as_ref());
    same.is_some_and(|(a, b)| a.job == b.job && b.task.is_some())
        && a.spec.name == b.spec.name
        && a.spec.partition == b.spec.partition
}

fn join(head: &mut JobRow, one: &JobRow) {
    let (own, other) = (
        super::job_text::reason(&head.job),
        super::job_text::reason(&one.job),
    );
    if own != other && !head.more_reasons.contains(&other) {
        head.more_reasons.push(',');
        head.more_reasons.push_str(&other);
    }
    let mut job = JobView::clone(&head.job);
    if let (Some(array), Some(task)) = (&mut job.array, one.index()) {
        array.tasks.insert(task);
        // A list that was put together again is shown without its bound, as Slurm does.
        array.throttle = 0;
    }
    head.job = Arc::new(job);
}
