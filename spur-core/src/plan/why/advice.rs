//! What the owner of a waiting job can do about it.

use super::amount::{Amount, Want};
use super::{Known, condition, free_of};
use crate::api::{Explanation, JobView, NodeView, Stop};
use crate::job::state::Reason;
use crate::slurm::timespec;

/// Most pieces of advice.
const MOST: usize = 4;

pub(super) fn of(
    job: &JobView,
    want: &Want<'_>,
    why: &Explanation,
    found: &[(&NodeView, Stop, String)],
    known: &Known<'_>,
) -> Vec<String> {
    let mut all: Vec<String> = by_reason(job, known).into_iter().collect();
    if matches!(
        job.reason,
        Reason::Priority | Reason::Resources | Reason::None | Reason::ReqNodeNotAvail
    ) {
        all.extend(never(want, why, found));
        all.extend(smaller(want, found, known));
        all.extend(elsewhere(job, want, known));
        all.extend(sick(found));
    }
    all.truncate(MOST);
    all
}

/// What the reason alone suggests.
fn by_reason(job: &JobView, known: &Known<'_>) -> Option<String> {
    let id = job.id;
    match job.reason {
        Reason::JobHeldUser => Some(format!("`scontrol release {id}` lets it go")),
        Reason::JobHeldAdmin => Some(format!("an operator can let it go: `scontrol release {id}`")),
        Reason::LaunchFailedHeld => Some(format!(
            "`scontrol release {id}` tries it again, on those nodes as well; if it failed on several nodes, look at its own files and limits first"
        )),
        Reason::PartitionTimeLimit => known.partition.map(|partition| {
            format!(
                "`scontrol update JobId={id} TimeLimit={}` makes it fit, or submit it to another partition",
                timespec::limit(partition.max_time)
            )
        }),
        Reason::PartitionDown
        | Reason::PartitionInactive
        | Reason::PartitionNodeLimit
        | Reason::PartitionConfig
        | Reason::MaxMemPerLimit => {
            Some(format!("`scontrol update JobId={id} Partition=NAME` moves it; `sinfo` shows the partitions"))
        }
        Reason::DependencyNeverSatisfied => Some(format!(
            "`scontrol update JobId={id} Dependency=` lets it go without; `scancel {id}` gives it up"
        )),
        Reason::BeginTime => {
            Some("submit it anew without --begin to have it start sooner".to_owned())
        }
        Reason::ReservationDeleted => Some(format!(
            "`scontrol update JobId={id} ReservationName=NAME` puts it into another; `scontrol show reservation` lists them"
        )),
        Reason::Prolog => Some("`scontrol show config` names it, as PrologSlurmctld".to_owned()),
        Reason::Licenses => Some("`scontrol show licenses` says how many there are and how many are used".to_owned()),
        Reason::Reservation => Some("`scontrol show reservation` says when it begins".to_owned()),
        Reason::ReqNodeNotAvail => Some("submit it anew without -w, or with other nodes".to_owned()),
        Reason::None
        | Reason::DeadLine
        | Reason::Dependency
        | Reason::JobArrayTaskLimit
        | Reason::Priority
        | Reason::Resources
        | Reason::BadConstraints
        | Reason::NonZeroExitCode
        | Reason::TimeLimit
        | Reason::NodeDown
        | Reason::RaisedSignal
        | Reason::OutOfMemory
        | Reason::JobLaunchFailure => None,
        Reason::Cleaning => Some(
            "`scontrol show node` says what does not end there; a machine that cannot get rid of it takes a restart".to_owned(),
        ),
    }
}

/// Nodes that could ever serve, in whatever condition they are now.
fn could_serve(stop: Stop) -> bool {
    !matches!(
        stop,
        Stop::Excluded | Stop::NotNamed | Stop::Feature | Stop::TooSmall
    )
}

/// Too few nodes could ever serve.
fn never(
    want: &Want<'_>,
    why: &Explanation,
    found: &[(&NodeView, Stop, String)],
) -> Option<String> {
    let serve = found
        .iter()
        .filter(|(_, stop, _)| could_serve(*stop))
        .count();
    if serve >= want.nodes_min as usize {
        return None;
    }
    let most = found
        .iter()
        .map(|(view, ..)| Amount::whole(&view.node, want.model));
    let most = most.max_by_key(|amount| (amount.gpus, amount.cpus))?;
    Some(format!(
        "{serve} of {} nodes of partition {} could ever serve it, and it needs {}; the largest has {} and {} CPUs: ask for less on one node",
        why.nodes,
        why.partition,
        want.nodes_min,
        want.gpus(most.gpus),
        most.cpus
    ))
}

/// A smaller request that would start at once.
fn smaller(
    want: &Want<'_>,
    found: &[(&NodeView, Stop, String)],
    known: &Known<'_>,
) -> Option<String> {
    if want.each.gpus < 2 || want.nodes_min != 1 || want.exclusive || want.spreads {
        return None;
    }
    // What is kept for others is not free to a smaller job either.
    let busy = found
        .iter()
        .filter(|(view, stop, _)| *stop == Stop::Busy && !(known.held_back)(view));
    let share = |gpus: u32, all: u64| all * u64::from(gpus) / u64::from(want.each.gpus);
    let fits = |free: &Amount| {
        let cpus = free.cpus.min(free.allowed.unwrap_or(free.cpus));
        u64::from(cpus) >= share(free.gpus, want.each.cpus.into())
            && free.memory >= share(free.gpus, want.each.memory)
    };
    let free = busy.map(|(view, ..)| (free_of(want, view, known), view));
    let (free, view) = free
        .filter(|(free, _)| free.gpus > 0 && fits(free))
        .max_by_key(|(free, _)| free.gpus)?;
    Some(format!(
        "{} {} free on {} now, if it can do with that",
        want.gpus(free.gpus),
        if free.gpus == 1 { "is" } else { "are" },
        view.node.name
    ))
}

/// Another partition that has room now.
fn elsewhere(job: &JobView, want: &Want<'_>, known: &Known<'_>) -> Option<String> {
    let own = &job.spec.partition;
    if !job.spec.nodelist.is_empty() {
        return None;
    }
    let ready = |view: &&&NodeView| {
        let node = &view.node;
        !view.partitions.contains(own)
            && condition(view).is_none()
            && (!want.exclusive || node.jobs.is_empty())
            && want.lacks(&Amount::free(node, want.model)).is_none()
    };
    let nodes: Vec<&NodeView> = known.nodes.iter().filter(ready).copied().collect();
    let partition = nodes.first()?.partitions.first()?;
    let there = nodes
        .iter()
        .filter(|view| view.partitions.contains(partition))
        .count();
    (there >= want.nodes_min as usize).then(|| {
        format!(
            "partition {partition} has {there} node{} with room now: `scontrol update JobId={} Partition={partition}`",
            if there == 1 { "" } else { "s" },
            job.id
        )
    })
}

/// GPUs out of order that would help.
fn sick(found: &[(&NodeView, Stop, String)]) -> Option<String> {
    let (view, _, detail) = found.iter().find(|(_, stop, _)| *stop == Stop::SickGpus)?;
    Some(format!(
        "{} has {detail}: operators see why in `scontrol show node {}`",
        view.node.name, view.node.name
    ))
}
