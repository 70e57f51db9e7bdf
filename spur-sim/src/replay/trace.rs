//! Recorded jobs: when they came, what they asked for, how long they ran.

use super::columns::{BadTrace, Columns, seconds};
use super::sacct;
use spur_core::slurm::timespec::calendar::Local;
use spur_core::time::{Millis, TimeLimit};
use std::collections::BTreeMap;

/// Most jobs of one trace.
pub const MOST_JOBS: usize = 10_000_000;

/// One recorded job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceJob {
    /// Line of the file, from 1.
    pub line: usize,
    /// When it was submitted.
    pub submitted: Millis,
    /// How many seconds it ran; at least 1.
    pub run_secs: u64,
    /// Its limit, if the trace says.
    pub limit: Option<TimeLimit>,
    /// Nodes; 0 where the trace does not say: as few as its GPUs need.
    pub nodes: u32,
    /// GPUs in all.
    pub gpus: u32,
    /// CPUs in all; 0 where the trace does not say.
    pub cpus: u32,
    /// Memory in all, MiB; 0 where the trace does not say.
    pub memory_mib: u64,
    /// Whose it was: a user, or what else the trace groups jobs by.
    pub user: String,
    /// Partition; empty where the trace does not say.
    pub partition: String,
    /// Name; empty where the trace does not say.
    pub name: String,
}

/// A trace, in order of submission.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The jobs.
    pub jobs: Vec<TraceJob>,
    /// Lines that are no job to replay, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
}

impl Trace {
    /// Reads either kind of trace; which one it is, the first line tells. `file` is for messages.
    pub fn read(file: &str, text: &str) -> Result<Self, BadTrace> {
        let header = text.lines().next().unwrap_or("");
        let mut trace = if header.contains('|') {
            sacct::read(&Columns::new(file, header, '|'), file, text)?
        } else {
            read_plain(&Columns::new(file, header, ','), file, text)?
        };
        if trace.jobs.is_empty() {
            return Err(BadTrace::Empty {
                file: file.to_owned(),
            });
        }
        trace.jobs.sort_by_key(|job| (job.submitted, job.line));
        Ok(trace)
    }

    pub(super) fn push(&mut self, file: &str, job: TraceJob) -> Result<(), BadTrace> {
        if self.jobs.len() >= MOST_JOBS {
            return Err(BadTrace::Long {
                file: file.to_owned(),
                line: job.line,
                most: MOST_JOBS,
            });
        }
        self.jobs.push(job);
        Ok(())
    }

    pub(super) fn leave_out(&mut self, why: &'static str) {
        *self.left_out.entry(why).or_default() += 1;
    }
}

/// `timestamp,duration,num_gpus,gpu_time,cluster`. Durations may have fractions. Jobs that did not run are left out.
fn read_plain(columns: &Columns<'_>, file: &str, text: &str) -> Result<Trace, BadTrace> {
    columns.require(&["timestamp", "duration", "num_gpus", "cluster"])?;
    let mut trace = Trace::default();
    for row in columns.rows(text) {
        let row = row?;
        let submitted = row.read("timestamp", "a time such as 2017-10-09 07:01:55", moment)?;
        let run_secs = row.read("duration", "a number of seconds", seconds)?;
        let gpus = row.read("num_gpus", "a number of GPUs", |text| {
            u32::try_from(seconds(text)?).ok()
        })?;
        let user = row.text("cluster").to_owned();
        if run_secs == 0 {
            trace.leave_out("did not run");
            continue;
        }
        let job = TraceJob {
            line: row.line,
            submitted,
            run_secs,
            gpus,
            user,
            ..TraceJob::default()
        };
        trace.push(file, job)?;
    }
    Ok(trace)
}

/// `2017-10-09 07:01:55`, with `T` or a space and perhaps a fraction of a second; or seconds since the epoch.
pub(super) fn moment(text: &str) -> Option<Millis> {
    let Some((date, time)) = text.split_once(['T', ' ']) else {
        return Some(Millis(seconds(text)?.checked_mul(1000)?));
    };
    let mut date = date.splitn(3, '-').map(|part| part.parse().ok());
    let mut next = || date.next().flatten();
    let (year, month, day) = (next()?, next()?, next()?);
    let mut time = time.trim_end_matches('Z').splitn(3, ':');
    let (hour, minute) = (time.next()?.parse().ok()?, time.next()?.parse().ok()?);
    let second = time.next()?.split('.').next()?.parse().ok()?;
    let local = Local {
        year,
        month,
        day,
        hour,
        minute,
        second,
    };
    local.moment(0)
}
