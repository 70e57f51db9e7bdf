//! `sacct`: jobs of the accounting record.

mod local;
mod meant;
mod script;

use super::failure::Failure;
use super::flags::Command;
use super::flags::getopt::Options;
use super::link::{self, Trouble};
use super::render::accounts::sheet::{self, Sheet, Style};
use super::render::accounts::{self, Context, Row, fields, rows};
use super::render::clock::Clock;
use super::render::data::{self, Asked, Document, Meta};
use super::resolve::filter;
use super::{output, process, users};
use local::Local;
use meant::Meant;
use spur_core::api::{AccountFilter, AccountedJob, Reply, Request, RunKey};
use spur_core::id::Uid;
use spur_core::manage::accounts::Accounts;
use spur_core::slurm::codes::{StateFilter, parse_job_state};
use spur_core::slurm::timespec::begin::{BadBegin, parse_past};
use spur_core::time::Millis;

/// Runs that are asked for at a time.
const PAGE: u32 = 1000;
/// Nobody: a user that no job has.
const NOBODY: Uid = Uid(u32::MAX);

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Query {
    filter: AccountFilter,
    /// What was named; a job that is named alone comes with all of its steps.
    named: Vec<Meant>,
    /// What is looked at here, and not by the controller.
    local: Local,
    /// Nothing can match.
    nothing: bool,
    notices: Vec<String>,
}

/// Runs it.
pub fn main(options: &Options) -> Result<u8, Failure> {
    if options.on("helpformat") {
        output::print(&sheet::help(fields::FIELDS.iter()));
        return Ok(0);
    }
    completion_log(options)?;
    let context = context(options)?;
    let sheet = sheet(options)?;
    let query = query(options, &context.view.clock)?;
    output::complain(&query.notices);
    if let Some(wanted) = script::wanted(options) {
        return script::print(wanted, &query);
    }
    if let Some(asked) = data::asked(options)? {
        return structured(options, &query, context, asked);
    }
    if !options.on("noheader") {
        output::print(&sheet.header());
    }
    let steps = !options.on("allocations");
    query.pages(steps, |runs| {
        let lines = runs.iter().flatten();
        let text: String = lines.map(|row| sheet.row(&context, row)).collect();
        output::print(&text);
    })?;
    Ok(0)
}

/// Slurm's words where no log of completed jobs is kept beside the record.
fn completion_log(options: &Options) -> Result<(), Failure> {
    for file in lists(options, "file") {
        if !std::fs::metadata(&file).is_ok_and(|known| known.is_file()) {
            return Err(Failure::plain(format!("{file} is not a valid file"), 1));
        }
    }
    if local::is_on(options, "completion") || local::is_on(options, "file") {
        return Err(Failure::plain("Slurm job completion is disabled", 1));
    }
    Ok(())
}

/// `--json` and `--yaml`.
fn structured(
    options: &Options,
    query: &Query,
    mut context: Context,
    asked: Asked,
) -> Result<u8, Failure> {
    let mut all = Vec::new();
    query.pages(!options.on("allocations"), |runs| all.extend(runs))?;
    let by = all
        .iter()
        .flatten()
        .filter_map(|row: &Row| row.run.job.cancelled_by);
    context.view.users = users::names(by);
    let mut doc = Document::begin(asked);
    doc.list("jobs", &all, |doc, rows| {
        accounts::data::job(doc, &context, rows)
    });
    doc.finish(&Meta::of_process(&context.cluster, words()), &[], &[]);
    Ok(0)
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::error(Command::Sacct, why)
}

/// The words of the command line, as Slurm's command would count them.
fn words() -> Vec<String> {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let named = |word: &String| word.rsplit('/').next() == Some(Command::Sacct.name());
    let own = words.skip_while(|word| !named(word)).skip(1);
    std::iter::once(Command::Sacct.name().to_owned())
        .chain(own)
        .collect()
}

fn page(filter: &AccountFilter, after: Option<RunKey>) -> Result<Vec<AccountedJob>, Failure> {
    let request = Request::Accounting {
        filter: Box::new(filter.clone()),
        after,
        limit: PAGE,
    };
    match link::question(&request) {
        Ok(Reply::Accounting(runs)) => Ok(runs),
        Ok(_) => Err(failed(link::unexpected().text())),
        Err(trouble) => Err(failed(trouble.text())),
    }
}

/// What every cell needs.
pub(super) fn context(options: &Options) -> Result<Context, Failure> {
    let cluster = match link::question(&Request::Ping) {
        Ok(Reply::Pong { cluster, .. }) => cluster,
        Ok(_) | Err(Trouble::Refused(_)) => String::new(),
        Err(trouble) => return Err(Failure::error(options.command, trouble.text())),
    };
    let asked = |long: &str| {
        let given = options.given().iter().rev();
        given
            .filter(|given| given.flag.long == long)
            .find_map(|given| given.value.clone())
    };
    let units = match asked("units") {
        None => None,
        Some(text) => {
            let unit = text.trim().to_ascii_uppercase();
            let known = unit.chars().next().filter(|unit| "KMGTP".contains(*unit));
            let bad = || {
                failed(format!(
                    "Invalid units type. Must be one of K, M, G, T or P, not {text:?}"
                ))
            };
            Some(known.filter(|_| unit.len() == 1).ok_or_else(bad)?)
        }
    };
    Ok(Context {
        view: super::render::View {
            clock: process::clock(),
            users: Default::default(),
            raw_sizes: options.on("noconvert"),
            cluster: String::new(),
            expand_patterns: false,
        },
        cluster,
        units,
        expand: local::is_on(options, "expand-patterns"),
        accounts: numbers(options),
    })
}

/// Accounts and qualities of service, where something that is shown has their numbers.
fn numbers(options: &Options) -> Accounts {
    let list = options
        .value("format")
        .unwrap_or_default()
        .to_ascii_lowercase();
    let named = ["associd", "qosraw", "all"]
        .iter()
        .any(|name| list.contains(name));
    if !named && !local::is_on(options, "json") && !local::is_on(options, "yaml") {
        return Accounts::default();
    }
    all_accounts()
}

fn all_accounts() -> Accounts {
    match link::question(&Request::Accounts) {
        Ok(Reply::Accounts(accounts)) => *accounts,
        Ok(_) | Err(_) => Accounts::default(),
    }
}

/// How lines are laid out, for the commands that share these options.
pub(super) fn style(options: &Options) -> Style {
    let given = options.given().iter();
    let delimiter = given
        .filter(|given| given.flag.long == "delimiter")
        .filter_map(|given| given.value.clone())
        .next_back();
    let delimiter = delimiter.unwrap_or_else(|| "|".to_owned());
    if options.on("parsable2") {
        Style::Parted(delimiter, false)
    } else if options.on("parsable") {
        Style::Parted(delimiter, true)
    } else {
        Style::Columns
    }
}

fn sheet(options: &Options) -> Result<Sheet, Failure> {
    let list = if options.on("long") {
        fields::LONG
    } else if options.on("brief") {
        fields::BRIEF
    } else {
        options.value("format").unwrap_or(fields::DEFAULT)
    };
    let sheet = Sheet::parse(list, fields::FIELDS, style(options)).map_err(failed)?;
    Ok(sheet.raw(!process::to_terminal()))
}

/// Values of an option that may be given several times.
pub(super) fn lists(options: &Options, long: &str) -> Vec<String> {
    let given = options.given().iter();
    let given = given.filter(|given| given.flag.named(long));
    given
        .filter_map(|given| given.value.as_deref())
        .flat_map(filter::list)
        .collect()
}

fn query(options: &Options, clock: &Clock) -> Result<Query, Failure> {
    let mut query = Query::default();
    jobs(options, &mut query)?;
    let words = |long: &str| options.value(long).map(filter::list).unwrap_or_default();
    query.filter.accounts = words("accounts");
    query.filter.partitions = words("partition");
    query.filter.names = words("name");
    query.filter.nodes = filter::nodes(options, "nodelist")?;
    query.filter.duplicates = options.on("duplicates");
    query.local = Local::read(options)?;
    let associations = lists(options, "associations");
    if !associations.is_empty() {
        query.local.charged_to(&associations, &all_accounts());
    }
    whose(options, &mut query);
    states(options, &mut query)?;
    window(options, clock, &mut query)?;
    Ok(query)
}

fn jobs(options: &Options, query: &mut Query) -> Result<(), Failure> {
    let given = options
        .given()
        .iter()
        .filter(|given| given.flag.named("jobs"));
    for text in given.filter_map(|given| given.value.as_deref()) {
        let bad =
            |word: &str| Failure::fatal(Command::Sacct, format!("Bad job/step specified: {word}"));
        query
            .named
            .extend(meant::read(text).map_err(|word| bad(&word))?);
    }
    query.filter.ids = query.named.iter().map(|meant| meant.job).collect();
    query.filter.ids.sort_unstable();
    query.filter.ids.dedup();
    if options.operands.is_empty() {
        return Ok(());
    }
    let words = options.operands.iter();
    let words: Vec<String> = words
        .map(|word| format!("\n {}", word.to_string_lossy()))
        .collect();
    Err(failed(format!("Unknown arguments:{}", words.concat())))
}

/// One's own jobs, unless users or jobs are named, or all are asked for; root asks for all.
fn whose(options: &Options, query: &mut Query) {
    let me = Uid(process::uid());
    let users = lists(options, "uid");
    for user in &users {
        match users::uid_of(user) {
            Some(uid) => query.filter.users.push(uid),
            None => {
                query.filter.users.push(NOBODY);
                query
                    .notices
                    .push(format!("sacct: error: Invalid user id: {user}"));
            }
        }
    }
    let all = options.on("allusers") || !query.filter.ids.is_empty() || me == Uid(0);
    if users.is_empty() && !all {
        query.filter.users.push(me);
    }
}

fn states(options: &Options, query: &mut Query) -> Result<(), Failure> {
    let Some(text) = options.value("state") else {
        return Ok(());
    };
    let mut all = false;
    for word in filter::list(text) {
        match parse_job_state(&word) {
            Some(StateFilter::All) => all = true,
            Some(StateFilter::State(state)) => query.filter.states.push(state),
            Some(StateFilter::Completing | StateFilter::Configuring | StateFilter::Never) => {}
            None => {
                return Err(Failure::fatal(
                    Command::Sacct,
                    format!("unrecognized job state value '{word}'"),
                ));
            }
        }
    }
    if all {
        query.filter.states.clear();
    }
    query.nothing |= !all && query.filter.states.is_empty();
    Ok(())
}

/// Slurm's window of time, which depends on what else is asked: since midnight; since ever, where jobs are named; and at this very
/// moment, where states are named alone. With states, the window ends where it begins unless its end is said.
fn window(options: &Options, clock: &Clock, query: &mut Query) -> Result<(), Failure> {
    let moment = |long: &str| {
        let Some(text) = options.value(long) else {
            return Ok(None);
        };
        match parse_past(text, clock.now, clock.utc_offset(clock.now)) {
            Ok(moment) => Ok(Some(moment)),
            Err(BadBegin::Nothing) => Ok(None),
            Err(why) => Err(Failure::plain(why, 1)),
        }
    };
    let (since, until) = (moment("starttime")?, moment("endtime")?);
    let jobs = !query.named.is_empty();
    let states = options.value("state").is_some();
    query.filter.since = match since {
        Some(since) => Some(since),
        None if jobs => None,
        None if states => Some(clock.now),
        None => Some(midnight(clock)),
    };
    query.filter.until = match until {
        Some(until) => Some(until),
        None if states => Some(since.unwrap_or(clock.now)),
        None => None,
    };
    let end = query.filter.until.unwrap_or(clock.now);
    match query.filter.since {
        Some(since) if since > end => Err(failed(format_args!(
            "Start time ({}) requested is after end time ({}).",
            clock.stamp(since),
            clock.stamp(end)
        ))),
        Some(_) | None => Ok(()),
    }
}

/// The beginning of the present day.
fn midnight(clock: &Clock) -> Millis {
    let offset = i64::from(clock.utc_offset(clock.now)) * 1000;
    let local = i64::try_from(clock.now.0)
        .unwrap_or(i64::MAX)
        .saturating_add(offset);
    let start = local - local.rem_euclid(86_400_000) - offset;
    Millis(u64::try_from(start).unwrap_or(0))
}

impl Query {
    /// Asks for page after page, and hands over the lines of each: job by job, those that are meant.
    fn pages(&self, steps: bool, mut take: impl FnMut(Vec<Vec<Row>>)) -> Result<(), Failure> {
        let mut after = None;
        while !self.nothing && !output::is_over() {
            let runs = page(&self.filter, after)?;
            let Some(last) = runs.last() else { break };
            after = Some(RunKey::of(&last.job));
            let full = runs.len() >= PAGE as usize;
            let runs = runs.into_iter().filter(|run| self.local.passes(run));
            let runs = runs.flat_map(|run| self.local.shaped(run, &self.filter));
            let lines = runs.map(|run| {
                let mut lines = rows(run, Vec::new(), steps);
                lines.retain(|row| self.named.is_empty() || self.named.iter().any(|m| m.is(row)));
                lines
            });
            take(lines.filter(|lines| !lines.is_empty()).collect());
            if !full {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
