//! Options of `squeue` as a question to the controller, and what is left to filter here.

use crate::cli::failure::Failure;
use crate::cli::flags::Command;
use crate::cli::flags::getopt::Options;
use crate::cli::resolve::filter::{list, nodes};
use spur_core::api::{JobFilter, JobView};
use spur_core::id::{JobId, StepKind, Uid};
use spur_core::job::array::TaskSet;
use spur_core::slurm::codes::{StateFilter, job_state_list, parse_job_state};
use std::sync::Arc;

/// Nobody: a user that no job has.
const NOBODY: Uid = Uid(u32::MAX);

/// A job, one task of an array, or one component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The job's or the array's number.
    pub job: JobId,
    /// The task.
    pub task: Option<u32>,
    /// The component of the heterogeneous job with that leader.
    pub component: Option<u32>,
}

impl Named {
    /// Whether a job is it, or a component of it.
    pub fn is(&self, job: &JobView) -> bool {
        let part = job.het.filter(|part| part.leader == self.job);
        match self.component {
            None => self.job == job.id || part.is_some(),
            Some(offset) => part.is_some_and(|part| part.offset == offset),
        }
    }
}

/// What `squeue` asks for, and what it says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// For the controller.
    pub filter: JobFilter,
    /// Only these jobs and tasks; empty means all.
    pub jobs: Vec<Named>,
    /// Only these steps (`-s`); empty means all.
    pub steps: Vec<(Named, StepKind)>,
    /// Only jobs with these names, in any case.
    pub names: Vec<String>,
    /// Jobs that are completing, beside those in `filter.states`.
    pub completing: bool,
    /// The same of jobs that wait for the controller's prolog.
    pub configuring: bool,
    /// Nothing can match: only states that no job of ours has.
    pub nothing: bool,
    /// Lines for stderr.
    pub notices: Vec<String>,
}

/// Reads the options. `uid_of` looks up a user's number.
pub fn read(
    options: &Options,
    me: Uid,
    uid_of: impl Fn(&str) -> Option<Uid>,
) -> Result<Query, Failure> {
    let mut query = Query::default();
    numbers(options, &mut query)?;
    let words = |long: &str| options.value(long).map(list).unwrap_or_default();
    query.filter.partitions = words("partition");
    let asks_for_all = options.on("all") || options.on("partition") || query.asks_for_jobs();
    query.filter.visible = !asks_for_all;
    query.names = words("name");
    query.filter.nodes = nodes(options, "nodelist")?;
    for user in words("user") {
        query.filter.users.push(uid_of(&user).unwrap_or(NOBODY));
        if uid_of(&user).is_none() {
            let notice = format!("squeue: error: Invalid user: {user}\n");
            query.notices.push(notice);
        }
    }
    if options.on("me") {
        query.filter.users.push(me);
    }
    states(options, &mut query)?;
    Ok(query)
}

fn numbers(options: &Options, query: &mut Query) -> Result<(), Failure> {
    let mut jobs: Vec<String> = options.value("job").map(list).unwrap_or_default();
    let mut steps: Vec<String> = options.value("step").map(list).unwrap_or_default();
    let operands = options.operands.iter();
    let mut rest = operands.map(|operand| operand.to_string_lossy().into_owned());
    // `-j` takes its value only when attached; what follows it as a word of its own is an operand to getopt.
    let bare = |long: &str| options.on(long) && options.value(long).is_none();
    if bare("job") || (options.on("job") && !bare("step")) {
        jobs.extend(rest.next().as_deref().map(list).unwrap_or_default());
    } else if options.on("step") {
        steps.extend(rest.next().as_deref().map(list).unwrap_or_default());
    }
    let error = |why: String| Failure::error(Command::Squeue, why);
    if let Some(word) = rest.next() {
        return Err(error(format!("Unrecognized option: {word}")));
    }
    for text in jobs {
        let named = named(&text).ok_or_else(|| error(format!("Invalid job id: {text}")))?;
        query.jobs.push(named);
    }
    for text in steps {
        let named = step(&text).ok_or_else(|| error(format!("Invalid job_step id: {text}")))?;
        query.steps.push(named);
    }
    let all = query
        .jobs
        .iter()
        .chain(query.steps.iter().map(|(named, _)| named));
    query.filter.ids = all.map(|named| named.job).collect();
    query.filter.ids.sort_unstable();
    query.filter.ids.dedup();
    Ok(())
}

/// The number in front of a text, and the rest.
fn number(text: &str) -> Option<(u32, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// `12`, `12_3`, `12+1`; what follows does not count.
fn named(text: &str) -> Option<Named> {
    let (job, rest) = number(text)?;
    let behind = |mark: char| {
        let number = rest.strip_prefix(mark).and_then(number);
        number.map(|(number, _)| number)
    };
    (job > 0).then_some(Named {
        job: JobId(job),
        task: behind('_'),
        component: behind('+'),
    })
}

/// `12.0`, `12_3.batch`.
fn step(text: &str) -> Option<(Named, StepKind)> {
    let (head, step) = text.split_once('.')?;
    let kind = match step {
        "batch" => StepKind::Batch,
        number => StepKind::Numbered(number.parse().ok()?),
    };
    Some((named(head)?, kind))
}

fn states(options: &Options, query: &mut Query) -> Result<(), Failure> {
    let Some(text) = options.value("states") else {
        return Ok(());
    };
    for word in list(text) {
        match parse_job_state(&word) {
            Some(StateFilter::All) => query.filter.all_states = true,
            Some(StateFilter::State(state)) => query.filter.states.push(state),
            Some(StateFilter::Completing) => query.completing = true,
            Some(StateFilter::Configuring) => query.configuring = true,
            Some(StateFilter::Never) => {}
            None => {
                let states = job_state_list().join(",");
                let why = format!(
                    "Invalid job state specified: {word}\nValid job states include: {states}"
                );
                let mut failure = Failure::error(Command::Squeue, why);
                failure.text.push('\n');
                let known = job_state_list();
                return Err(failure.nearest(&word, known.iter().map(String::as_str)));
            }
        }
    }
    let filter = &query.filter;
    query.nothing |=
        filter.states.is_empty() && !filter.all_states && !query.completing && !query.configuring;
    Ok(())
}

impl Query {
    /// One number was given, and it must be a job's.
    pub fn is_of_one_job(&self) -> bool {
        self.jobs.len() == 1
    }

    /// Whether jobs are named by number.
    pub fn asks_for_jobs(&self) -> bool {
        !self.filter.ids.is_empty()
    }

    /// The job as far as it was asked for: of what waits of an array, perhaps only some tasks. `None` if it was not.
    pub fn part_of(&self, job: Arc<JobView>) -> Option<Arc<JobView>> {
        if self.jobs.is_empty() {
            return Some(job);
        }
        let Some(array) = &job.array else {
            let named = self
                .jobs
                .iter()
                .any(|named| named.task.is_none() && named.is(&job));
            return named.then_some(job);
        };
        let whole =
            |named: &&Named| named.task.is_none() && [job.id, array.job].contains(&named.job);
        if self.jobs.iter().any(|named| whole(&named)) {
            return Some(job);
        }
        let of_it = self.jobs.iter().filter(|named| named.job == array.job);
        let wanted: TaskSet = of_it.filter_map(|named| named.task).collect();
        if !array.has_any(&wanted) {
            return None;
        }
        if array.task.is_some() {
            return Some(job);
        }
        let mut part = JobView::clone(&job);
        if let Some(array) = &mut part.array {
            array.tasks = array.tasks.common(&wanted);
            array.throttle = 0;
            if array.tasks.len() == 1 {
                array.task = array.tasks.first();
            }
        }
        Some(Arc::new(part))
    }
}

#[cfg(test)]
mod tests;
