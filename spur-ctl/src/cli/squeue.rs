//! `squeue`.

use super::failure::Failure;
use super::flags::Command;
use super::flags::getopt::Options;
use super::link::{self, Trouble};
use super::render::format::{self, Layout};
use super::render::{View, job_columns, step_columns};
use super::resolve::filter::{self, Query};
use super::{output, process, users};
use spur_core::api::{JobView, Refusal, RefusalKind, Reply, Request};
use spur_core::id::Uid;
use spur_core::job::state::JobState;
use spur_core::job::step::StepState;
use spur_core::slurm::codes;
use std::sync::Arc;

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    if let Some(text) = help(options) {
        output::print(&text);
        return Ok(0);
    }
    let query = filter::squeue(options, Uid(process::uid()), users::uid_of)?;
    output::complain(&query.notices);
    output::repeat(Command::Squeue, options, || {
        let jobs = fetch(options, &query)?;
        let view = view(options);
        output::print(&page(options, &query, &view, jobs)?);
        Ok(())
    })
}

fn help(options: &Options) -> Option<String> {
    if options.on("helpformat") {
        return Some(format::letters_help(job_columns::COLUMNS));
    }
    if options.on("helpFormat") {
        return Some(format::names_help(job_columns::COLUMNS));
    }
    options
        .on("helpstate")
        .then(|| codes::job_state_list().join("\n") + "\n")
}

fn view(options: &Options) -> View {
    View {
        clock: process::clock(),
        users: Default::default(),
        raw_sizes: options.on("noconvert"),
    }
}

fn fetch(options: &Options, query: &Query) -> Result<Vec<Arc<JobView>>, Failure> {
    if query.nothing && query.filter.ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut wanted = query.filter.clone();
    wanted.estimates = shows_starts(options);
    // Ended jobs must come too, to tell a job that ended from one that never was.
    if !wanted.ids.is_empty() || query.completing {
        wanted.states.clear();
        wanted.all_states = true;
    }
    let failed =
        |trouble: Trouble| Failure::plain(format!("slurm_load_jobs error: {}", trouble.text()), 1);
    let reply = link::question(&Request::Jobs { filter: wanted }).map_err(failed)?;
    let Reply::Jobs(jobs) = reply else {
        return Err(failed(link::unexpected()));
    };
    if jobs.is_empty() && lone_id(query) {
        let kind = RefusalKind::InvalidJobId;
        let text = String::new();
        return Err(failed(Trouble::Refused(Refusal { kind, text })));
    }
    Ok(jobs)
}

/// Whether expected starts are shown or sorted by: only then the controller works them out.
fn shows_starts(options: &Options) -> bool {
    let names = |list: &str| {
        let words = list
            .split(',')
            .map(|word| word.split([':', '#', '.']).next());
        words.flatten().any(|word| {
            ["StartTime", "EndTime", "SchedNodes"]
                .iter()
                .any(|name| word.trim().eq_ignore_ascii_case(name))
        })
    };
    let letters = |format: &str| format.contains(['S', 'e', 'Y']) || format.contains("%all");
    let sorted = options
        .value("sort")
        .is_some_and(|sort| sort.contains(['S', 'e', 'Y']));
    sorted
        || options.on("start")
        || match output::format(options) {
            Some(output::Format::Names(list)) => names(&list) || list.eq_ignore_ascii_case("all"),
            Some(output::Format::Letters(format)) => letters(&format),
            None => false,
        }
}

/// One job asked for by number, and by nothing else.
fn lone_id(query: &Query) -> bool {
    let mut rest = query.filter.clone();
    rest.ids.clear();
    rest.states.clear();
    rest.all_states = false;
    query.filter.ids.len() == 1 && rest == spur_core::api::JobFilter::default()
}

/// What is printed, given the jobs.
fn page(
    options: &Options,
    query: &Query,
    view: &View,
    mut jobs: Vec<Arc<JobView>>,
) -> Result<String, Failure> {
    jobs.retain(|job| passes(options, query, job));
    if options.on("step") {
        return steps(options, view, &jobs);
    }
    let layout = layout(options);
    output::complain(&output::errors("squeue", &layout.errors));
    let sort = options.value("sort").unwrap_or(match options.on("start") {
        true => job_columns::SORT_START,
        false => job_columns::SORT,
    });
    let order = format::order(sort, job_columns::COLUMNS);
    let order = order.map_err(|why| Failure::error(Command::Squeue, why))?;
    jobs.sort_by(|a, b| order.compare(view, a, b).then(a.id.cmp(&b.id)));
    let mut text = output::heading(options, view, &layout.header());
    for job in &jobs {
        text.push_str(&layout.row(view, job));
        text.push('\n');
    }
    Ok(text)
}

fn layout(options: &Options) -> Layout<JobView> {
    let table = job_columns::COLUMNS;
    match output::format(options) {
        Some(output::Format::Names(list)) => Layout::names(&list, table),
        Some(output::Format::Letters(format)) => Layout::letters(&format, table),
        None if options.on("only-job-state") => Layout::letters(job_columns::STATES, table),
        None if options.on("start") => Layout::letters(job_columns::START, table),
        None if options.on("long") => Layout::letters(job_columns::LONG, table),
        None => Layout::letters(job_columns::DEFAULT, table),
    }
}

/// The filters that the controller does not know, and those that it was not asked to apply.
fn passes(options: &Options, query: &Query, job: &JobView) -> bool {
    let filter = &query.filter;
    let live = job.completing || !job.state.is_terminal();
    let asked = !filter.states.is_empty() || query.completing || query.nothing;
    let by_state = match (filter.all_states, asked) {
        (true, _) => true,
        (false, true) => {
            (query.completing && job.completing)
                || (!job.completing && filter.states.contains(&job.state))
        }
        (false, false) => live,
    };
    let listed = |long: &str, value: &str| {
        options
            .value(long)
            .is_none_or(|text| filter::list(text).iter().any(|word| word == value))
    };
    let never = options.on("licenses") || options.on("reservation");
    let starts = !options.on("start") || job.state == JobState::Pending;
    by_state && starts && listed("qos", &job.spec.qos) && !never
}

fn steps(options: &Options, view: &View, jobs: &[Arc<JobView>]) -> Result<String, Failure> {
    let table = step_columns::COLUMNS;
    let layout = match output::format(options) {
        Some(output::Format::Names(list)) => Layout::names(&list, table),
        Some(output::Format::Letters(format)) => Layout::letters(&format, table),
        None => Layout::letters(step_columns::DEFAULT, table),
    };
    output::complain(&output::errors("squeue", &layout.errors));
    let running = |job: &Arc<JobView>| {
        let steps = job
            .steps
            .iter()
            .filter(|step| step.state == StepState::Running);
        steps
            .map(|step| step_columns::Row {
                job: job.clone(),
                step: step.clone(),
            })
            .collect()
    };
    let mut rows: Vec<step_columns::Row> = jobs
        .iter()
        .flat_map(|job| -> Vec<_> { running(job) })
        .collect();
    let sort = options.value("sort").unwrap_or(step_columns::SORT);
    format::sort(&mut rows, sort, table, view)
        .map_err(|why| Failure::error(Command::Squeue, why))?;
    let mut text = output::heading(options, view, &layout.header());
    for row in &rows {
        text.push_str(&layout.row(view, row));
        text.push('\n');
    }
    Ok(text)
}
