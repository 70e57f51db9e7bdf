//! Who holds what a job waits for, and when they give it back at the latest.

use super::Known;
use super::amount::{Amount, Want};
use crate::api::{JobView, NodeView, Release, Stop};
use crate::job::state::JobState;
use crate::time::Millis;

/// Most nodes of which it is said who holds them.
const NODES_MAX: usize = 3;

/// Most jobs of one node that are named.
const JOBS_MAX: usize = 4;

/// What comes back.
#[derive(Debug, Default)]
pub(super) struct Returns {
    /// From whom.
    pub(super) releases: Vec<Release>,
    /// When enough has.
    pub(super) enough: Option<Millis>,
}

/// A node that is busy, and the jobs that must end there.
struct Busy<'a> {
    until: Option<Millis>,
    view: &'a NodeView,
    holders: Vec<Holder<'a>>,
}

struct Holder<'a> {
    job: &'a JobView,
    amount: Amount,
    until: Option<Millis>,
    cleaning: bool,
}

/// The busy nodes that come free first, as many as the job lacks.
pub(super) fn returns<'a>(
    want: &Want<'_>,
    found: &[(&'a NodeView, Stop, String)],
    known: &Known<'a>,
) -> Returns {
    let ready = found
        .iter()
        .filter(|(_, stop, _)| *stop == Stop::Nothing)
        .count();
    let missing = (want.nodes_min as usize).saturating_sub(ready);
    let mut busy: Vec<Busy<'_>> = found
        .iter()
        .filter(|(_, stop, _)| *stop == Stop::Busy)
        .map(|(view, ..)| comes_free(want, view, known))
        .collect();
    // Stable: nodes that come free at the same moment stay in their order. What has no end comes last.
    busy.sort_by_key(|node| node.until.unwrap_or(Millis(u64::MAX)));
    let enough = match missing {
        0 => None,
        missing => busy.get(missing - 1).and_then(|node| node.until),
    };
    let shown = busy.iter().take(missing.clamp(1, NODES_MAX));
    Returns {
        releases: shown.flat_map(|node| releases(want, node)).collect(),
        enough: enough.filter(|_| !want.spreads),
    }
}

/// Lets the jobs of a node end one by one, soonest first, until the wanted part is free.
fn comes_free<'a>(want: &Want<'_>, view: &'a NodeView, known: &Known<'a>) -> Busy<'a> {
    let node = &view.node;
    let rows = node.jobs.iter().filter_map(|id| (known.job)(*id));
    let mut holders: Vec<Holder<'a>> = rows
        .filter_map(|job| {
            let held = job.nodes.iter().find(|held| held.share.node == node.id)?;
            let runs = job.state == JobState::Running;
            Some(Holder {
                job,
                amount: Amount::of_share(node, want.model, &held.share),
                until: job.ended.filter(|_| runs),
                cleaning: !runs,
            })
        })
        .collect();
    holders.sort_by_key(|holder| match (holder.cleaning, holder.until) {
        (true, _) => Millis(0),
        (false, until) => until.unwrap_or(Millis(u64::MAX)),
    });
    let mut free = Amount::free(node, want.model);
    let (mut needed, mut until) = (0, Some(known.at));
    for holder in &holders {
        if !want.exclusive && want.lacks(&free).is_none() {
            break;
        }
        free.add(holder.amount);
        needed += 1;
        until = match (until, holder.until) {
            (Some(so_far), Some(end)) => Some(so_far.max(end)),
            (_, _) => None,
        };
    }
    if want.lacks(&free).is_some() {
        until = None;
    }
    holders.truncate(needed);
    Busy {
        until,
        view,
        holders,
    }
}

fn releases(want: &Want<'_>, node: &Busy<'_>) -> Vec<Release> {
    let useful =
        |holder: &&Holder<'_>| want.exclusive || want.each.gpus == 0 || holder.amount.gpus > 0;
    let shown = node.holders.iter().filter(useful).take(JOBS_MAX);
    shown
        .map(|holder| Release {
            node: node.view.node.name.clone(),
            job: holder.job.id,
            user: holder.job.spec.owner.user.clone(),
            gives: want.gives(&holder.amount),
            until: holder.until,
            cleaning: holder.cleaning,
        })
        .collect()
}
