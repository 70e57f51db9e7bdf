//! `scontrol show job`.

use super::super::{ask, worded};
use super::{cluster, finish, loaded, view};
use crate::cli::failure::Failure;
use crate::cli::flags::getopt::Options;
use crate::cli::link::Trouble;
use crate::cli::render::View;
use crate::cli::render::data::{self, Asked, Document, job as structured};
use crate::cli::render::record::Record;
use crate::cli::render::show_job::{self, Details};
use crate::cli::{link, output, process};
use spur_core::api::{JobFilter, JobView, RefusalKind, Reply, Request};
use spur_core::denial::Denial;
use spur_core::id::JobId;
use spur_core::job::array::JobTarget;
use spur_core::slurm::codes;
use std::borrow::Borrow;
use std::sync::Arc;

/// The most refusals that `-d` shows for a job.
const DENIALS_SHOWN: u32 = 20;
/// What is gathered before it goes to standard output.
const SPILL: usize = 256 << 10;
/// What every failure to load jobs begins with.
const PREFIX: &str = "slurm_load_jobs error";

/// A job as named: `12`, `9_3`, `9+1`.
struct Named {
    job: JobId,
    task: Option<u32>,
    component: Option<u32>,
}

impl Named {
    /// Number 0 means every job to Slurm, and `0_3` task 3 of every array.
    fn is_every(&self) -> bool {
        self.job == JobId(0) && self.task.is_none()
    }
}

fn unknown() -> Failure {
    let text = codes::message(RefusalKind::InvalidJobId);
    Failure::plain(format!("{PREFIX}: {text}"), 1)
}

fn named(text: &str) -> Result<Named, Failure> {
    let message = codes::message(RefusalKind::InvalidJobId);
    let malformed = || Failure::plain(format!("scontrol_print_job error: {message}"), 1);
    let legal = |c: char| c.is_ascii_digit() || c == '_' || c == '+';
    if !text.chars().all(legal) {
        return Err(malformed());
    }
    let behind = |mark: char| {
        let number = text.split_once(mark).map(|(_, number)| number.parse());
        number.transpose().map_err(|_| malformed())
    };
    let (task, component) = (behind('_')?, behind('+')?);
    let job = text.split(['_', '+']).next().unwrap_or_default();
    let job = JobId(job.parse().map_err(|_| unknown())?);
    Ok(Named {
        job,
        task,
        component,
    })
}

/// All jobs, or the one named.
pub fn show(options: &Options, which: Option<&str>) -> Result<u8, Failure> {
    let wanted = which.map(named).transpose()?;
    let asked = data::asked(options)?;
    let Some(wanted) = wanted.filter(|wanted| !wanted.is_every()) else {
        return every(options, asked);
    };
    let jobs = load(&wanted)?;
    if asked.is_none() && jobs.is_empty() {
        return nothing(&wanted);
    }
    let count = jobs.len();
    present(options, asked, jobs.into_iter().map(Ok), (count, true))
}

/// All jobs, each printed before the next is read.
fn every(options: &Options, asked: Option<Asked>) -> Result<u8, Failure> {
    let filter = JobFilter {
        visible: !options.on("all"),
        ..of_all_states()
    };
    let jobs = link::jobs(&Request::Jobs { filter }).map_err(|why| worded(PREFIX, &why))?;
    if asked.is_none() && jobs.is_empty() {
        output::print("No jobs in the system\n");
        return Ok(0);
    }
    // Each has to be read to be counted.
    let count = if options.on("verbose") {
        jobs.rows().count()
    } else {
        0
    };
    present(options, asked, link::each(&jobs), (count, false))
}

fn of_all_states() -> JobFilter {
    JobFilter {
        all_states: true,
        estimates: true,
        ..JobFilter::default()
    }
}

fn present<J: Borrow<JobView>>(
    options: &Options,
    asked: Option<Asked>,
    jobs: impl Iterator<Item = Result<J, Trouble>>,
    (count, alone): (usize, bool),
) -> Result<u8, Failure> {
    let shown = match asked {
        None => {
            loaded(options, &view([]), count);
            print(options, jobs)
        }
        Some(asked) => {
            let cluster = cluster()?;
            let mut view = view([]);
            view.cluster.clone_from(&cluster);
            let mut doc = Document::begin(asked);
            let whole = structured::all(&mut doc, &view, jobs, alone);
            finish(options, doc, &cluster, whole.as_ref().err());
            whole
        }
    };
    shown.map(|()| 0).map_err(|why| worded(PREFIX, &why))
}

fn nothing(wanted: &Named) -> Result<u8, Failure> {
    let Named {
        job,
        task: Some(task),
        ..
    } = *wanted
    else {
        return Err(unknown());
    };
    let whole = Named {
        job,
        task: None,
        component: None,
    };
    if load(&whole)?.iter().all(|job| job.array.is_none()) {
        return Err(unknown());
    }
    output::print(&format!("Job {job}_{task} not found\n"));
    Ok(1)
}

fn load(wanted: &Named) -> Result<Vec<Arc<JobView>>, Failure> {
    let target = JobTarget {
        job: wanted.job,
        tasks: None,
        offset: wanted.component,
    };
    let named = wanted.job != JobId(0);
    let filter = JobFilter {
        targets: named.then_some(target).into_iter().collect(),
        ..of_all_states()
    };
    let jobs = match link::question(&Request::Jobs { filter }) {
        Ok(Reply::Jobs(jobs)) => jobs,
        Ok(_) => return Err(worded(PREFIX, &link::unexpected())),
        // What there is of a job that is not known: nothing.
        Err(trouble) if trouble.kind() == Some(RefusalKind::InvalidJobId) => Vec::new(),
        Err(trouble) => return Err(worded(PREFIX, &trouble)),
    };
    let Some(task) = wanted.task else {
        return Ok(in_order(jobs));
    };
    Ok(jobs.iter().filter_map(|job| task_of(job, task)).collect())
}

/// Of an array, what waits comes first, then its tasks, the newest first, as Slurm has it.
fn in_order(mut jobs: Vec<Arc<JobView>>) -> Vec<Arc<JobView>> {
    if jobs.iter().any(|job| job.array.is_some()) {
        jobs.sort_by_key(|job| {
            let task = job.array.as_ref().and_then(|array| array.task);
            (task.is_some(), std::cmp::Reverse(task))
        });
    }
    jobs
}

/// The record of one task, also if it is part of what waits.
fn task_of(job: &Arc<JobView>, task: u32) -> Option<Arc<JobView>> {
    let array = job.array.as_ref()?;
    match array.task {
        Some(own) => (own == task).then(|| Arc::clone(job)),
        None => {
            let mut one = JobView::clone(job);
            let array = one.array.as_mut()?;
            array.task = array.tasks.contains(task).then_some(task);
            array.task.map(|_| Arc::new(one))
        }
    }
}

fn print<J: Borrow<JobView>>(
    options: &Options,
    jobs: impl Iterator<Item = Result<J, Trouble>>,
) -> Result<(), Trouble> {
    let (details, one_line) = (options.on("details"), options.on("oneliner"));
    let view = View::new(process::clock());
    let mut records = Record::new(String::new(), one_line);
    let mut whole = Ok(());
    for job in jobs.map_while(|job| job.map_err(|trouble| whole = Err(trouble)).ok()) {
        if details {
            detailed(&mut records, job.borrow());
        } else {
            show_job::write(&mut records, &view, job.borrow(), None);
        }
        if records.text().len() >= SPILL {
            output::print(records.text());
            records.clear();
        }
        if output::is_over() {
            return Ok(());
        }
    }
    output::print(records.text());
    whole
}

fn detailed(records: &mut Record, job: &JobView) {
    let denials = if job.denials.total > 0 {
        denials(job.id)
    } else {
        Vec::new()
    };
    let view = view(denials.iter().map(|denial| denial.uid));
    show_job::write(records, &view, job, Some(&Details { denials: &denials }));
}

/// Refusals are an addition: if they cannot be had, the record is shown without them.
fn denials(job: JobId) -> Vec<Denial> {
    let question = Request::Denials {
        job: Some(job),
        limit: DENIALS_SHOWN,
        after: 0,
        alarms: false,
        wait: false,
    };
    match ask(&question, "") {
        Ok(Reply::Denials(denials)) => denials,
        Ok(_) | Err(_) => Vec::new(),
    }
}
