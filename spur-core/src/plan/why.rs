//! Why a job waits: worked out by a reader, from what is published, when somebody asks. A planning pass says only Slurm's reason and
//! one short sentence; what is missing, where, until when and from whom takes a look at every node, which is nothing for a pass
//! over a hundred thousand jobs and nothing at all for one question.
//!
//! Whatever is said here is said of amounts: GPUs of a model, CPUs, memory. Shapes (links, sockets, switches) are the planner's; a
//! node that has the amounts and is not used shows as [`Stop::Shape`].

mod advice;
mod amount;
mod holders;
mod words;

#[cfg(test)]
mod tests;

pub use super::rooms::natural;
pub use words::sentence;

use super::ask::Ask;
use crate::api::{Explanation, JobView, NodeView, StartBasis, StartEstimate, Stop, Stopped};
use crate::id::{JobId, NodeName};
use crate::job::state::{JobState, Reason};
use crate::node::AdminState;
use crate::partition::Partition;
use crate::slurm::codes;
use crate::slurm::constraint::{self, Constraint};
use crate::time::Millis;
use amount::{Amount, Want};
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
}

/// Explains a job that waits; `None` for one that does not.
pub fn explain(job: &JobView, known: &Known<'_>) -> Option<Explanation> {
    if job.state != JobState::Pending {
        return None;
    }
    let ask = Ask::of(&job.spec);
    let want = Want::of(&ask);
    let found = look(job, &want, known);
    let back = holders::returns(&want, &found, known);
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
    format!(
        "{ask:?} {} {named:?} {not:?} {}",
        spec.partition, spec.constraint
    )
}

/// When there is room for a job.
pub fn room(job: &JobView, known: &Known<'_>) -> Room {
    let ask = Ask::of(&job.spec);
    let want = Want::of(&ask);
    let found = look(job, &want, known);
    let ready = found
        .iter()
        .filter(|(_, stop, _)| matches!(stop, Stop::Nothing | Stop::Shape));
    if want.spreads || ready.count() >= want.nodes_min as usize {
        return Room::Now;
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
        | Reason::ReservationDeleted => true,
    }
}

/// Each node of the job's partition with the first thing that stops the job there.
fn look<'a>(
    job: &JobView,
    want: &Want<'_>,
    known: &Known<'a>,
) -> Vec<(&'a NodeView, Stop, String)> {
    // One that makes no sense was refused at submission.
    let features = constraint::parse(&job.spec.constraint).unwrap_or_default();
    let here = |view: &&NodeView| view.partitions.contains(&job.spec.partition);
    let nodes = known.nodes.iter().copied().filter(here);
    let told = |view| {
        let (stop, detail) = first_stop(job, (want, &features), view, known);
        (view, stop, detail)
    };
    nodes.map(told).collect()
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

fn first_stop(
    job: &JobView,
    (want, features): (&Want<'_>, &Constraint),
    view: &NodeView,
    known: &Known<'_>,
) -> (Stop, String) {
    if let Some(stop) = unwanted(job, view) {
        return (stop, String::new());
    }
    let has = |name: &str| view.features.iter().any(|feature| feature == name);
    if !features.matches_by(has) {
        let theirs = match view.features.as_slice() {
            [] => "has none".to_owned(),
            all => format!("has {}", all.join(",")),
        };
        return (Stop::Feature, theirs);
    }
    let node = &view.node;
    let whole = Amount::whole(node, want.model);
    if let Some(lack) = want.lacks(&whole) {
        return (Stop::TooSmall, want.has(&whole, lack));
    }
    if job.uncleaned.contains(&node.id) {
        return (Stop::Unclean, String::new());
    }
    if job.avoid.contains(&node.id) {
        return (Stop::LaunchFailed, String::new());
    }
    if let Some((stop, detail)) = condition(view) {
        return (stop, detail);
    }
    if want.lacks(&Amount::well(node, want.model)).is_some() {
        return (Stop::SickGpus, sick(view));
    }
    let free = Amount::free(node, want.model);
    if want.exclusive && !node.jobs.is_empty() {
        let jobs = node.jobs.len();
        let plural = if jobs == 1 { "" } else { "s" };
        return (Stop::Busy, format!("used by {jobs} job{plural}"));
    }
    match want.lacks(&free) {
        Some(lack) => (Stop::Busy, want.free(&free, lack)),
        None if (known.held_back)(view) => (Stop::Shape, "kept for jobs before it".to_owned()),
        None => (Stop::Nothing, String::new()),
    }
}

/// What the job itself says against a node.
fn unwanted(job: &JobView, view: &NodeView) -> Option<Stop> {
    let spec = &job.spec;
    let is = |name: &String| name == view.node.name.as_str();
    if spec.exclude.iter().any(is) {
        return Some(Stop::Excluded);
    }
    let only_named = spec.nodelist.len() >= spec.nodes_max as usize;
    (only_named && !spec.nodelist.is_empty() && !spec.nodelist.iter().any(is))
        .then_some(Stop::NotNamed)
}

/// Why a node takes no job at all.
fn condition(view: &NodeView) -> Option<(Stop, String)> {
    let node = &view.node;
    let reason = || node.reason.clone();
    if node.admin == AdminState::Down {
        return Some((Stop::Down, reason()));
    }
    if node.lost {
        return Some((Stop::Down, "it was silent for too long".to_owned()));
    }
    if !node.connected {
        return Some((Stop::Silent, String::new()));
    }
    if node.admin == AdminState::Drain {
        return Some((Stop::Drained, reason()));
    }
    if !node.has_required_fence() {
        return Some((Stop::Unfenced, node.fence_note.clone()));
    }
    if node.next_inventory.is_some() {
        return Some((Stop::Changing, String::new()));
    }
    let trouble = node.trouble.as_ref().filter(|_| node.is_resting())?;
    Some((Stop::Resting, trouble.why.clone()))
}

fn sick(view: &NodeView) -> String {
    let node = &view.node;
    let gpus = &node.gpus_sick;
    let plural = if gpus.len() == 1 { "" } else { "s" };
    match node.gpu_notes.first() {
        Some(note) if gpus.len() == 1 => format!("GPU {gpus} out of order: {}", note.why),
        Some(_) | None => format!("GPU{plural} {gpus} out of order"),
    }
}

/// Nodes with the same stop and detail, in the order of stops, larger groups first.
fn grouped(found: &[(&NodeView, Stop, String)]) -> Vec<Stopped> {
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
