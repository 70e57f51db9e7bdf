//! Options of `squeue` and `scancel` as a filter of jobs.

use super::super::failure::Failure;
use super::super::flags::Command;
use super::super::flags::getopt::Options;
use super::hosts;
use spur_core::api::JobFilter;
use spur_core::id::{JobId, NodeName, StepKind, Uid};
use spur_core::slurm::codes::{StateFilter, job_state_list, parse_job_state};

/// Nobody: a user that no job has.
const NOBODY: Uid = Uid(u32::MAX);

/// A job as users name it: `12`, `12.3`, `12.batch`, `12_5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The job.
    pub job: JobId,
    /// A step of it.
    pub step: Option<StepKind>,
    /// Whether it names an element of a job array, of which there are none.
    pub array: bool,
}

/// Reads one name; `None` if it is none.
pub fn named(text: &str) -> Option<Named> {
    let (head, step) = text
        .split_once('.')
        .map_or((text, None), |(head, step)| (head, Some(step)));
    let (number, element) = head
        .split_once('_')
        .map_or((head, None), |(n, e)| (n, Some(e)));
    let legal = |c: char| c.is_ascii_digit() || "[],-%:*".contains(c);
    if element.is_some_and(|element| element.is_empty() || !element.chars().all(legal)) {
        return None;
    }
    let step = match step {
        None => None,
        Some("batch") => Some(StepKind::Batch),
        Some(step) => Some(StepKind::Numbered(whole(step)?)),
    };
    Some(Named {
        job: JobId(whole(number)?),
        step,
        array: element.is_some(),
    })
}

fn whole(text: &str) -> Option<u32> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

/// Elements of a comma list of jobs: a comma between brackets parts tasks.
pub fn names(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut found) = (0u32, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push(&text[from..]);
    found.retain(|name| !name.is_empty());
    found
}

/// Elements of a comma list.
pub fn list(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// What `squeue` asks for, and what it says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// For the controller.
    pub filter: JobFilter,
    /// Only jobs that are completing, or these as well as `filter.states`.
    pub completing: bool,
    /// Nothing can match: only states or elements that no job of ours has.
    pub nothing: bool,
    /// Lines for stderr.
    pub notices: Vec<String>,
}

/// Reads `squeue`'s options. `uid_of` looks up a user's number.
pub fn squeue(
    options: &Options,
    me: Uid,
    uid_of: impl Fn(&str) -> Option<Uid>,
) -> Result<Query, Failure> {
    let mut query = Query::default();
    ids(options, &mut query)?;
    let words = |long: &str| options.value(long).map(list).unwrap_or_default();
    query.filter.partitions = words("partition");
    query.filter.names = words("name");
    query.filter.accounts = words("account");
    query.filter.nodes = nodes(options, "nodelist")?;
    for user in words("user") {
        match uid_of(&user) {
            Some(uid) => query.filter.users.push(uid),
            None => {
                query.filter.users.push(NOBODY);
                query
                    .notices
                    .push(format!("squeue: error: Invalid user: {user}\n"));
            }
        }
    }
    if options.on("me") {
        query.filter.users.push(me);
    }
    states(options, &mut query)?;
    Ok(query)
}

fn ids(options: &Options, query: &mut Query) -> Result<(), Failure> {
    let mut texts: Vec<String> = options.value("job").map(list).unwrap_or_default();
    let mut rest = options
        .operands
        .iter()
        .map(|operand| operand.to_string_lossy().into_owned());
    // `-j` takes its value only when attached; what follows it as a word of its own is an operand to getopt.
    let bare = |long: &str| options.on(long) && options.value(long).is_none();
    if bare("job") || bare("step") {
        texts.extend(rest.next().as_deref().map(list).unwrap_or_default());
    }
    texts.extend(options.value("step").map(list).unwrap_or_default());
    if let Some(word) = rest.next() {
        return Err(Failure::error(
            Command::Squeue,
            format!("Unrecognized option: {word}"),
        ));
    }
    let asked = !texts.is_empty();
    for text in texts {
        match named(&text) {
            Some(Named {
                job, array: false, ..
            }) => query.filter.ids.push(job),
            Some(_) => {}
            None => {
                return Err(Failure::error(
                    Command::Squeue,
                    format!("Invalid job id: {text}"),
                ));
            }
        }
    }
    query.nothing = asked && query.filter.ids.is_empty();
    query.filter.ids.sort_unstable();
    query.filter.ids.dedup();
    Ok(())
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
            Some(StateFilter::Never) => {}
            None => {
                let states = job_state_list().join(",");
                let why = format!(
                    "Invalid job state specified: {word}\nValid job states include: {states}"
                );
                return Err(Failure::error(Command::Squeue, why));
            }
        }
    }
    let filter = &query.filter;
    query.nothing |= filter.states.is_empty() && !filter.all_states && !query.completing;
    Ok(())
}

/// Node names of a list option.
pub fn nodes(options: &Options, long: &str) -> Result<Vec<NodeName>, Failure> {
    let names = hosts(options, long)?;
    let bad = |_| Failure::error(options.command, "Invalid node name specified");
    names
        .into_iter()
        .map(|name| NodeName::new(name).map_err(bad))
        .collect()
}
