//! One sentence for a person.

use super::Known;
use super::amount::listed;
use crate::api::{Explanation, JobView, Release, StartBasis, Stop, Stopped};
use crate::id::NodeName;
use crate::job::state::Reason;
use crate::partition::PartitionState;
use crate::slurm::{hostlist, timespec};
use crate::time::{Millis, TimeLimit};

/// Most groups of nodes in a sentence; the table has all.
const CLAUSES_MAX: usize = 4;

/// What keeps the job waiting apart from room; empty if it is room, or if only [`sentence`] can say it (times).
pub(super) fn cause(job: &JobView, known: &Known<'_>) -> String {
    let partition = &job.spec.partition;
    let said = || match job.reason_text.as_str() {
        "" => job.reason.sentence().to_owned(),
        text => text.to_owned(),
    };
    match job.reason {
        Reason::PartitionDown | Reason::PartitionInactive => match known.partition {
            Some(known) if known.state == PartitionState::Inactive => {
                format!(
                    "partition {partition} is inactive: it takes and starts no jobs until an operator sets it up"
                )
            }
            Some(_) => {
                format!(
                    "partition {partition} is down: it starts no jobs until an operator sets it up"
                )
            }
            None => format!("partition {partition} is not configured any more"),
        },
        Reason::PartitionTimeLimit => time_limit(job, known),
        Reason::Dependency | Reason::DependencyNeverSatisfied => {
            format!("{}: {}", said(), job.dependency)
        }
        Reason::JobArrayTaskLimit => {
            let most = job.array.as_ref().map_or(0, |array| array.throttle);
            format!("its array has as many tasks running as may run at once ({most})")
        }
        Reason::None
        | Reason::Priority
        | Reason::Resources
        | Reason::BeginTime
        | Reason::ReqNodeNotAvail => String::new(),
        Reason::JobHeldUser
        | Reason::JobHeldAdmin
        | Reason::PartitionNodeLimit
        | Reason::BadConstraints
        | Reason::LaunchFailedHeld
        | Reason::NonZeroExitCode
        | Reason::TimeLimit
        | Reason::NodeDown
        | Reason::RaisedSignal
        | Reason::OutOfMemory
        | Reason::JobLaunchFailure
        | Reason::Cleaning
        | Reason::PartitionConfig
        | Reason::MaxMemPerLimit
        | Reason::Reservation
        | Reason::ReservationDeleted
        | Reason::Licenses
        | Reason::Prolog
        | Reason::DeadLine => said(),
    }
}

fn time_limit(job: &JobView, known: &Known<'_>) -> String {
    let partition = &job.spec.partition;
    let asked = job.spec.time_limit.unwrap_or(TimeLimit::Unlimited);
    let most = known
        .partition
        .map_or(TimeLimit::Unlimited, |known| known.max_time);
    format!(
        "its time limit of {} is above the {} of partition {partition}",
        timespec::limit(asked),
        timespec::limit(most)
    )
}

/// The sentence, with moments as `stamp` writes them.
pub fn sentence(why: &Explanation, stamp: &dyn Fn(Millis) -> String) -> String {
    let mut clauses: Vec<String> = Vec::new();
    if !why.cause.is_empty() {
        clauses.push(why.cause.clone());
    } else if why.reason == Reason::BeginTime {
        clauses.push(format!("it may not start before {}", stamp(why.eligible)));
    } else {
        clauses.extend(behind(why));
        clauses.push(format!("needs {}", why.need));
        clauses.extend(room(why, stamp));
        clauses.extend(network(why, stamp));
    }
    clauses.extend(start(why, stamp));
    clauses.join("; ")
}

/// Who is before it.
fn behind(why: &Explanation) -> Option<String> {
    match (why.reason, why.ahead) {
        (Reason::None, _) => Some("the planner has not looked at it yet".to_owned()),
        (_, 0) => None,
        (_, 1) => Some(format!("1 job is before it in partition {}", why.partition)),
        (_, jobs) => Some(format!(
            "{jobs} jobs are before it in partition {}",
            why.partition
        )),
    }
}

/// What it wants of the network, as long as it waits for that.
fn network(why: &Explanation, stamp: &dyn Fn(Millis) -> String) -> Option<String> {
    let (wants, until) = (why.network.as_ref()?, why.network_until?);
    Some(format!(
        "it waits until {} for {wants}, then takes any",
        stamp(until)
    ))
}

/// What nodes have and lack, and who gives what back.
fn room(why: &Explanation, stamp: &dyn Fn(Millis) -> String) -> Vec<String> {
    if why.nodes == 0 {
        return vec![format!("partition {} has no nodes", why.partition)];
    }
    let told = |stopped: &&Stopped| !matches!(stopped.by, Stop::Excluded | Stop::NotNamed);
    let mut groups: Vec<&Stopped> = why.stopped.iter().filter(told).collect();
    // What is nearest to starting the job first: free, busy, then what is out of order, then what never fits.
    groups.sort_by_key(|group| std::cmp::Reverse(group.by));
    let mut clauses: Vec<String> = groups
        .iter()
        .take(CLAUSES_MAX)
        .map(|group| nodes(group, stamp))
        .collect();
    let rest: u32 = groups
        .iter()
        .skip(CLAUSES_MAX)
        .map(|group| group.nodes)
        .sum();
    if rest > 0 {
        clauses.push(format!("{rest} more do not serve"));
    }
    clauses.extend(
        why.releases
            .iter()
            .map(|release| gives_back(release, stamp)),
    );
    clauses
}

/// `n1 and n2: 2 of 8 h200 free`.
fn nodes(group: &Stopped, stamp: &dyn Fn(Millis) -> String) -> String {
    let who = names(group);
    let are = if group.nodes == 1 { "is" } else { "are" };
    let why = match group.detail.as_str() {
        "" => String::new(),
        detail => format!(" ({detail})"),
    };
    match group.by {
        Stop::Excluded => format!("{who} {are} excluded by the job"),
        Stop::NotNamed => format!("{who} {are} not among the nodes that it names"),
        Stop::Feature => format!("{who} {are} without its features{why}"),
        Stop::TooSmall => format!("{who} {are} too small{why}"),
        Stop::LaunchFailed => format!("it could not be started on {who}"),
        Stop::Unclean => format!("its last run is not cleaned up on {who}"),
        Stop::Down => format!("{who} {are} down{why}"),
        Stop::Silent => format!(
            "{who} {} not answer",
            if group.nodes == 1 { "does" } else { "do" }
        ),
        Stop::Drained => format!("{who} {are} drained{why}"),
        Stop::Unfenced => format!("{who} {are} without a proven fence{why}"),
        Stop::Changing => {
            format!("{who} {are} waiting for jobs to end, to take over other hardware")
        }
        Stop::Resting => {
            let until = group.until.map(|until| format!("until {}", stamp(until)));
            let until = until.unwrap_or_else(|| "for a while".to_owned());
            format!("{who} {are} left alone {until}, since launches failed there{why}")
        }
        Stop::SickGpus => format!(
            "{who} {} too few GPUs in order{why}",
            if group.nodes == 1 { "has" } else { "have" }
        ),
        Stop::Busy => match group.detail.as_str() {
            "" => format!("{who} {are} busy"),
            detail => format!("{who}: {detail}"),
        },
        Stop::Shape => format!(
            "{who} {} room that it cannot use now{why}",
            if group.nodes == 1 { "has" } else { "have" }
        ),
        Stop::Nothing => format!(
            "{who} {} room now",
            if group.nodes == 1 { "has" } else { "have" }
        ),
    }
}

/// The names of a small group, else how many they are.
fn names(group: &Stopped) -> String {
    /// Names that are written out one by one.
    const FEW: usize = 3;
    let names: Vec<&str> = group.names.iter().map(NodeName::as_str).collect();
    if names.len() < group.nodes as usize {
        return format!("{} nodes", group.nodes);
    }
    if names.len() <= FEW {
        listed(&names)
    } else {
        format!("{} nodes ({})", group.nodes, hostlist::compress(&names))
    }
}

fn gives_back(release: &Release, stamp: &dyn Fn(Millis) -> String) -> String {
    let Release {
        node,
        job,
        user,
        gives,
        until,
        cleaning,
    } = release;
    let who = format!("job {job} of {user}");
    match (until, cleaning) {
        (_, true) => format!("{who} has ended and is being cleaned up on {node} ({gives})"),
        (Some(until), false) => format!(
            "{who} gives {gives} back on {node} by {} at the latest",
            stamp(*until)
        ),
        (None, false) => format!("{who} holds {gives} on {node} without a time limit"),
    }
}

/// Where devices are reserved.
fn place(nodes: &[NodeName]) -> String {
    let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!(" on {}", hostlist::compress(names)),
    }
}

/// The expected start.
fn start(why: &Explanation, stamp: &dyn Fn(Millis) -> String) -> Option<String> {
    let expected = why.expected.as_ref()?;
    match (expected.start, expected.basis) {
        (Some(at), StartBasis::Reserved) => Some(format!(
            "what it needs is reserved from {}{}",
            stamp(at),
            place(&expected.nodes)
        )),
        (None, StartBasis::Reserved) => Some(format!(
            "what it needs is kept for it{}, from jobs without a time limit too, until jobs there end that have none",
            place(&expected.nodes)
        )),
        (Some(at), StartBasis::Estimated | StartBasis::Never) => {
            Some(format!("expected to start about {}", stamp(at)))
        }
        (None, _) if matches!(why.reason, Reason::Priority | Reason::Resources) => {
            let blocked = why.blocked.clone();
            Some(blocked.unwrap_or_else(|| "nothing that is known to end lets it start".to_owned()))
        }
        (None, _) => None,
    }
}
