//! Why a job waits: worked out by a reader, from what is published, when somebody asks. A planning pass says only Slurm's reason and
//! one short sentence; what is missing, where, until when and from whom takes a look at every node, which is nothing for a pass
//! over a hundred thousand jobs and nothing at all for one question.
//!
//! Whatever is said here is said of amounts: GPUs of a model, CPUs, memory. Shapes (links, sockets, switches) are the planner's; a
//! node that has the amounts and is not used shows as [`Stop::Shape`].

mod advice;
mod amount;
mod blocked;
mod holders;
mod look;
mod words;

#[cfg(test)]
mod tests;

pub use super::rooms::natural;
pub use words::sentence;

use super::ask::Ask;
use crate::api::{Explanation, JobView, NodeView, StartBasis, StartEstimate, Stop, Stopped};
use crate::id::{JobId, NodeName};
use crate::job::state::{JobState, Reason};
use crate::partition::Partition;
use crate::slurm::codes;
use crate::time::Millis;
use amount::Want;
use look::{condition, free_of, look, rests_until};
use std::collections::BTreeMap;

/// Most names in one group of nodes.
const NAMES_MAX: usize = 64;

/// Most groups that differ in their detail only; the smallest of more are put together without it.
const GROUPS_MAX: usize = 12;

/// What is published, as far as an explanation needs it.
pub struct Known<'a> {
    /// Now.
    pub at: Millis,
    /// The job's partition, if it is configured.
    pub partition: Option<&'a Partition>,
    /// All nodes, in their order.
    pub nodes: &'a [&'a NodeView],
    /// A job's row.
    pub job: &'a dyn Fn(JobId) -> Option<&'a JobView>,
    /// Jobs of the same partition that are considered before it.
    pub ahead: u32,
    /// When it is expected to start, if the planner can tell.
    pub expected: Option<StartEstimate>,
    /// Whether the planner holds this node's room back for other jobs now.
    pub held_back: &'a dyn Fn(&NodeView) -> bool,
    /// Whether nodes hang on switches or are in blocks.
    pub network: bool,
}

/// Explains a job that waits; `None` for one that does not.
pub fn explain(job: &JobView, known: &Known<'_>) -> Option<Explanation> {
    if job.state != JobState::Pending {
        return None;
    }
    let ask = ask_of(job, known);
    let want = Want::of(&ask, known.partition);
    let mut found = look(job, (&ask, &want), known);
    let back = holders::returns(&want, &found, known);
    let blocked = blocked::of(&want, &found, &back);
    let network = blocked::network(job, &ask, known);
    blocked::apart(job, (&ask, &want), network.is_some(), &mut found);
    let (network, network_until) = network.unzip();
    let mut answer = Explanation {
        job: job.id,
        reason: job.reason,
        words: words_of(job),
        partition: job.spec.partition.clone(),
        need: want.text(&ask),
        cause: words::cause(job, known),
        eligible: job.eligible,
        ahead: known.ahead,
        nodes: u32::try_from(found.len()).unwrap_or(u32::MAX),
        stopped: grouped(&found),
        releases: back.releases,
        by_limits: back.enough,
        expected: expected(job, known),
        advice: Vec::new(),
        network,
        network_until,
        blocked,
    };
    answer.advice = advice::of(job, &want, &answer, &found, known);
    Some(answer)
}

/// When enough will be free for a job, whoever is before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Now, as far as amounts tell.
    Now,
    /// When every job that is in the way has used all of its limit.
    By(Millis),
    /// No known end makes enough room.
    Unknown,
}

/// What jobs that need the same have in common, as a key.
pub fn needs(job: &JobView) -> String {
    let spec = &job.spec;
    let ask = Ask::of(spec);
    let (named, not) = (&spec.nodelist, &spec.exclude);
    let until = spec.switches.as_ref().map(|_| job.eligible);
    format!(
        "{ask:?} {} {named:?} {not:?} {} {until:?}",
        spec.partition, spec.constraint
    )
}

fn ask_of<'a>(job: &'a JobView, known: &Known<'_>) -> Ask<'a> {
    let ask = Ask::of(&job.spec);
    known
        .partition
        .map_or(ask, |partition| ask.within(partition))
}

/// When there is room for a job.
pub fn room(job: &JobView, known: &Known<'_>) -> Room {
    let ask = ask_of(job, known);
    let want = Want::of(&ask, known.partition);
    let found = look(job, (&ask, &want), known);
    let ready = found.iter().filter(|(_, stop, _)| *stop == Stop::Nothing);
    if want.spreads || ready.count() >= want.nodes_min as usize {
        let until = blocked::network(job, &ask, known).map(|(_, until)| until);
        return until.map_or(Room::Now, Room::By);
    }
    let back = holders::returns(&want, &found, known);
    back.enough.map_or(Room::Unknown, Room::By)
}

/// Whether a job waits for something other than room, so that no end of another job starts it.
pub fn is_kept(reason: Reason) -> bool {
    match reason {
        Reason::None
        | Reason::Priority
        | Reason::Resources
        | Reason::BeginTime
        | Reason::Licenses
        | Reason::Prolog
        | Reason::Cleaning => false,
        Reason::JobHeldUser
        | Reason::JobHeldAdmin
        | Reason::PartitionDown
        | Reason::PartitionInactive
        | Reason::PartitionNodeLimit
        | Reason::PartitionTimeLimit
        | Reason::ReqNodeNotAvail
        | Reason::BadConstraints
        | Reason::LaunchFailedHeld
        | Reason::NonZeroExitCode
        | Reason::TimeLimit
        | Reason::NodeDown
        | Reason::RaisedSignal
        | Reason::OutOfMemory
        | Reason::JobLaunchFailure
        | Reason::PartitionConfig
        | Reason::MaxMemPerLimit
        | Reason::Dependency
        | Reason::DependencyNeverSatisfied
        | Reason::JobArrayTaskLimit
        | Reason::Reservation
        | Reason::ReservationDeleted
        | Reason::DeadLine => true,
    }
}

/// A job that is held never starts by itself, and one that waits for a time not before it.
fn expected(job: &JobView, known: &Known<'_>) -> Option<StartEstimate> {
    let bare = |start, basis| {
        Some(StartEstimate {
            start,
            basis,
            nodes: Vec::new(),
        })
    };
    if job.priority == 0 || is_kept(job.reason) {
        return bare(None, StartBasis::Never);
    }
    if known.expected.is_none() && job.reason == Reason::BeginTime && job.eligible > known.at {
        return bare(Some(job.eligible), StartBasis::Estimated);
    }
    known.expected.clone()
}

/// Slurm's words for the reason, as `squeue` shows them.
pub fn words_of(job: &JobView) -> String {
    codes::reason_with(job.reason, &job.unavailable)
}

/// Nodes that a job names and that take no jobs now: what Slurm lists behind `ReqNodeNotAvail`.
pub fn unavailable<'a>(
    job: &JobView,
    node: impl Fn(&NodeName) -> Option<&'a NodeView>,
) -> Vec<NodeName> {
    let named = job.spec.nodelist.iter();
    let named = named.filter_map(|name| NodeName::new(name).ok());
    named
        .filter(|name| node(name).is_none_or(|view| condition(view).is_some()))
        .collect()
}

/// Nodes with the same stop and detail, in the order of stops, larger groups first.
fn grouped(found: &[(&NodeView, Stop, String)]) -> Vec<Stopped> {
    let until = |stop: Stop, views: &[&NodeView]| {
        let rest = views.iter().filter_map(|view| rests_until(view));
        rest.max().filter(|_| stop == Stop::Resting)
    };
    let mut groups: BTreeMap<(Stop, &str), Vec<&NodeView>> = BTreeMap::new();
    for (view, stop, detail) in found {
        groups
            .entry((*stop, detail.as_str()))
            .or_default()
            .push(view);
    }
    let mut by_stop: BTreeMap<Stop, Vec<(&str, Vec<&NodeView>)>> = BTreeMap::new();
    for ((stop, detail), views) in groups {
        by_stop.entry(stop).or_default().push((detail, views));
    }
    let mut all = Vec::new();
    for (stop, mut groups) in by_stop {
        groups.sort_by_key(|(_, views)| std::cmp::Reverse(views.len()));
        if groups.len() > GROUPS_MAX {
            let rest = groups.split_off(GROUPS_MAX - 1);
            groups.push(("", rest.into_iter().flat_map(|(_, views)| views).collect()));
        }
        all.extend(groups.into_iter().map(|(detail, views)| {
            Stopped {
                by: stop,
                detail: detail.to_owned(),
                nodes: u32::try_from(views.len()).unwrap_or(u32::MAX),
                until: until(stop, &views),
                names: views
                    .iter()
                    .take(NAMES_MAX)
                    .map(|view| view.node.name.clone())
                    .collect(),
            }
        }));
    }
    all
}
