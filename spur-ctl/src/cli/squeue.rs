//! `squeue`.

pub mod data;
pub mod order;
pub mod query;
pub mod rows;
pub mod steps;

use super::failure::Failure;
use super::flags::Command;
use super::flags::getopt::Options;
use super::link::{self, Trouble};
use super::render::data as structured;
use super::render::format::{self, Layout};
use super::render::job_row::JobRow;
use super::render::job_text::is_configuring;
use super::render::{View, job_columns, step_columns};
use super::resolve::filter;
use super::{output, process, users};
use query::Query;
use rows::{Came, Shape};
use spur_core::api::{JobFilter, JobView, Refusal, RefusalKind, Reply, Request};
use spur_core::id::{NodeName, Uid};
use spur_core::job::state::JobState;
use spur_core::slurm::codes;
use std::sync::Arc;

/// What is gathered before it goes to standard output.
const SPILL: usize = 256 << 10;

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    if let Some(text) = help(options) {
        output::print(&text);
        return Ok(0);
    }
    exclusive(options)?;
    let query = query::read(options, Uid(process::uid()), users::uid_of)?;
    let asked = structured::asked(options)?;
    nodes_exist(&query)?;
    output::complain(&query.notices);
    output::repeat(Command::Squeue, options, || {
        let passes = Passes::new(options, &query);
        if let Some(asked) = asked {
            return data::show(options, asked, &passes);
        }
        let came = fetch(options, &query)?;
        if !options.on("step") {
            return show(options, came, &passes);
        }
        let Came::Jobs(jobs) = came else {
            return Err(load_error(&link::unexpected()));
        };
        let jobs: Vec<_> = passes.wanted(jobs).collect();
        steps::show(options, &query, &view(options, jobs.is_empty())?, &jobs)
    })
}

/// Refuses names of nodes that are none. A controller that is away is told of by the question that follows.
fn nodes_exist(query: &Query) -> Result<(), Failure> {
    if query.filter.nodes.is_empty() {
        return Ok(());
    }
    let Ok(Reply::Nodes(nodes)) = link::question_once(&Request::Nodes) else {
        return Ok(());
    };
    let known = |name: &NodeName| nodes.iter().any(|view| view.node.name == *name);
    match query.filter.nodes.iter().find(|name| !known(name)) {
        Some(name) => {
            let names = nodes.iter().map(|view| view.node.name.as_str());
            let why = format!("Invalid node name {name}");
            Err(Failure::error(Command::Squeue, why).nearest(name.as_str(), names))
        }
        None => Ok(()),
    }
}

fn help(options: &Options) -> Option<String> {
    let steps = options.on("step");
    if options.on("helpformat") {
        return Some(match steps {
            true => format::letters_help(&step_columns::TABLE),
            false => format::letters_help(&job_columns::TABLE),
        });
    }
    if options.on("helpFormat") {
        return Some(match steps {
            true => format::names_help(&step_columns::TABLE),
            false => format::names_help(&job_columns::TABLE),
        });
    }
    let states = || codes::job_state_list().join("\n") + "\n";
    options.on("helpstate").then(states)
}

/// Options that do not go together.
fn exclusive(options: &Options) -> Result<(), Failure> {
    let given = |long: &str| output::on_command_line(options, long);
    let both = |a: &str, b: &str| given(a) && given(b);
    if both("format", "Format") {
        let why = "-O (--Format) is incompatible with -o (--format)";
        return Err(Failure::error(Command::Squeue, why));
    }
    let which = match () {
        () if both("long", "format") => "-o(--format) and -l(--long)",
        () if both("only-job-state", "step") => "--only-job-state and -s(--steps)",
        () => return Ok(()),
    };
    let why = format!("Options {which} are mutually exclusive. Please remove one and retry.");
    Err(Failure::fatal(Command::Squeue, why))
}

fn view(options: &Options, empty: bool) -> Result<View, Failure> {
    let mut view = View::new(process::clock());
    view.raw_sizes = options.on("noconvert");
    view.expand_patterns = options.on("expand-patterns");
    let named = matches!(output::format(options), Some(output::Format::Names(list)) if list.to_ascii_lowercase().contains("cluster"));
    if named && !empty {
        view.cluster = link::cluster_name().map_err(|trouble| load_error(&trouble))?;
    }
    Ok(view)
}

fn load_error(trouble: &Trouble) -> Failure {
    Failure::plain(format!("slurm_load_jobs error: {}", trouble.text()), 1)
}

fn fetch(options: &Options, query: &Query) -> Result<Came, Failure> {
    let Some(filter) = asked_for(query) else {
        return Ok(Came::Jobs(Vec::new()));
    };
    let question = if lines_will_do(options, query) {
        let folded = true;
        Request::JobLines { filter, folded }
    } else {
        whole(filter)
    };
    let jobs = match link::question(&question) {
        Ok(Reply::Jobs(jobs)) => jobs,
        Ok(Reply::JobLines(lines)) => return Ok(Came::Lines(lines)),
        Ok(_) => return Err(load_error(&link::unexpected())),
        Err(trouble) => return Err(load_error(&trouble)),
    };
    there_is_one(query, jobs.is_empty())?;
    Ok(Came::Jobs(jobs))
}

/// What the controller is asked for; `None` if nothing can match.
fn asked_for(query: &Query) -> Option<JobFilter> {
    if query.nothing && query.filter.ids.is_empty() {
        return None;
    }
    let mut wanted = query.filter.clone();
    if query.is_of_one_job() {
        // Whether there is such a job does not depend on the other filters.
        wanted.users.clear();
        wanted.partitions.clear();
        wanted.nodes.clear();
    }
    // Ended jobs must come too, to tell a job that ended from one that never was.
    if query.asks_for_jobs() || query.completing || query.configuring {
        wanted.states.clear();
        wanted.all_states = true;
    }
    Some(wanted)
}

/// Asks for whole jobs. Lines are in order of start, known or expected, where nothing else orders them.
fn whole(mut filter: JobFilter) -> Request {
    filter.estimates = true;
    Request::Jobs { filter }
}

/// A job that was asked for alone must be there.
fn there_is_one(query: &Query, none: bool) -> Result<(), Failure> {
    if !none || !query.is_of_one_job() {
        return Ok(());
    }
    let (kind, text) = (RefusalKind::InvalidJobId, String::new());
    Err(load_error(&Trouble::Refused(Refusal { kind, text })))
}

/// Whether all that is shown, sorted and filtered by is in the short lines: long lists come in a fraction of the time then.
fn lines_will_do(options: &Options, query: &Query) -> bool {
    let more = ["json", "yaml", "step", "start", "licenses", "reservation"];
    if more.iter().any(|long| options.on(long)) || query.asks_for_jobs() {
        return false;
    }
    let sorts = options.value("sort").unwrap_or(order::DEFAULT);
    let sorted = sorts
        .chars()
        .all(|letter| !letter.is_alphabetic() || LINE_SORTS.contains(letter));
    let shown = match output::format(options) {
        None => true,
        Some(output::Format::Names(_)) => false,
        Some(output::Format::Letters(format)) => {
            let layout = Layout::letters(&format, &job_columns::TABLE);
            !format.eq_ignore_ascii_case("%all")
                && layout.columns().all(|column| {
                    column
                        .letter
                        .is_some_and(|letter| LINE_LETTERS.contains(letter))
                })
        }
    };
    sorted && shown
}

/// Columns of which everything is in the short lines, and letters to sort by.
const LINE_LETTERS: &str = "iAFKPjuUaqtTMlLDRrNQpV";
const LINE_SORTS: &str = "iPtTpQuUjMlLDNV";

/// Prints the lines.
fn show(options: &Options, came: Came, passes: &Passes<'_>) -> Result<(), Failure> {
    let (came, empty) = match came {
        Came::Jobs(jobs) => {
            let jobs: Vec<_> = passes.wanted(jobs).collect();
            let empty = jobs.is_empty();
            (Came::Jobs(jobs), empty)
        }
        Came::Lines(lines) => (Came::Lines(lines), false),
    };
    let view = view(options, empty)?;
    let layout = layout(options);
    output::complain(&output::errors("squeue", &layout.errors));
    let order = order(options)?;
    let shape = Shape {
        view: &view,
        order: &order,
        each_task: options.on("array"),
        boundless: options.on("only-job-state") && options.value("sort").is_none(),
        tasks_shown: process::var("SLURM_BITSTR_LEN").and_then(|len| len.parse().ok()),
    };
    let mut text = output::heading(options, &view, &layout.header());
    let write = |row: &JobRow| {
        layout.write(&view, row, &mut text);
        text.push('\n');
        if text.len() >= SPILL {
            output::print(&text);
            text.clear();
        }
        !output::is_over()
    };
    shape.for_each(came, |job| passes.pass(job), write);
    output::print(&text);
    Ok(())
}

fn order(options: &Options) -> Result<order::Order, Failure> {
    let sort = match options.value("sort") {
        Some(sort) => sort,
        None if options.on("only-job-state") => return Ok(order::by_state()),
        None if options.on("start") => order::START,
        None => order::DEFAULT,
    };
    order::read(sort).map_err(|why| Failure::error(Command::Squeue, why))
}

fn layout(options: &Options) -> Layout<JobRow> {
    let table = &job_columns::TABLE;
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
pub struct Passes<'q> {
    query: &'q Query,
    accounts: Option<Vec<String>>,
    qos: Option<Vec<String>>,
    licenses: Option<Vec<String>>,
    reservation: Option<&'q str>,
    /// Only those that wait (`--start`).
    starts: bool,
    /// Not those of this user (`--notme`).
    not_of: Option<Uid>,
}

impl<'q> Passes<'q> {
    fn new(options: &'q Options, query: &'q Query) -> Self {
        let words = |long: &str| options.value(long).map(filter::list);
        Self {
            query,
            accounts: words("account"),
            qos: words("qos"),
            licenses: words("licenses"),
            reservation: options.value("reservation"),
            starts: options.on("start"),
            not_of: options.on("notme").then(|| Uid(process::uid())),
        }
    }

    /// Those that pass, as far as they were asked for.
    fn wanted(&self, jobs: Vec<Arc<JobView>>) -> impl Iterator<Item = Arc<JobView>> {
        jobs.into_iter().filter_map(|job| self.part(job))
    }

    /// The job, or the part of it that was asked for.
    fn part(&self, job: Arc<JobView>) -> Option<Arc<JobView>> {
        let passes = self.pass(&job);
        passes.then(|| self.query.part_of(job))?
    }

    fn pass(&self, job: &JobView) -> bool {
        let (query, spec, extras) = (self.query, &job.spec, job.spec.extras());
        let filter = &query.filter;
        let listed = |list: &Option<Vec<String>>, matches: &dyn Fn(&str) -> bool| {
            let mut words = list.iter().flatten();
            list.is_none() || words.any(|word| matches(word))
        };
        let licensed = |word: &str| {
            let mut own = extras.licenses.split(',');
            own.any(|one| one.split(':').next() == Some(word))
        };
        let same_name = |name: &String| name.eq_ignore_ascii_case(&spec.name);
        self.by_state(job)
            && (query.names.is_empty() || query.names.iter().any(same_name))
            && listed(&self.accounts, &|word| {
                word.eq_ignore_ascii_case(&spec.account)
            })
            && listed(&self.qos, &|word| word.eq_ignore_ascii_case(&spec.qos))
            && listed(&self.licenses, &licensed)
            && self
                .reservation
                .is_none_or(|name| name == extras.reservation)
            && self.not_of != Some(spec.owner.uid)
            && among(&filter.users, &spec.owner.uid)
            && among(&filter.partitions, &spec.partition)
            && (filter.nodes.is_empty()
                || job
                    .nodes
                    .iter()
                    .any(|node| filter.nodes.contains(&node.name)))
    }

    fn by_state(&self, job: &JobView) -> bool {
        let (query, filter) = (self.query, &self.query.filter);
        let live = job.completing
            || matches!(
                job.state,
                JobState::Pending | JobState::Running | JobState::Suspended
            );
        let asked =
            !filter.states.is_empty() || query.completing || query.configuring || query.nothing;
        match (filter.all_states, asked) {
            (true, _) => true,
            (false, true) => {
                (query.completing && job.completing)
                    || (query.configuring && is_configuring(job))
                    || (!job.completing && filter.states.contains(&job.state))
            }
            (false, false) if self.starts => job.state == JobState::Pending,
            (false, false) => live,
        }
    }
}

fn among<T: PartialEq>(list: &[T], value: &T) -> bool {
    list.is_empty() || list.contains(value)
}
