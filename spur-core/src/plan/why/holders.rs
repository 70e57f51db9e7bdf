//! Who holds what a job waits for, and when they give it back at the latest.

use super::amount::{Amount, Lacking, Want};
use super::{Known, free_of, rests_until};
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
    lacking: Lacking,
    holders: Vec<Holder<'a>>,
}

struct Holder<'a> {
    job: &'a JobView,
    amount: Amount,
    until: Option<Millis>,
    cleaning: bool,
}

/// The busy nodes that come free first, as many as the job lacks; where no end of those is known, first what has none. Nodes that
/// rest come free as well, and those that have enough and not as the job wants it when everything there has ended.
pub(super) fn returns<'a>(
    want: &Want<'_>,
    found: &[(&'a NodeView, Stop, String)],
    known: &Known<'a>,
) -> Returns {
    let is_kept = |view: &NodeView, stop: Stop| stop == Stop::Shape && (known.held_back)(view);
    let ready = found
        .iter()
        .filter(|(view, stop, _)| *stop == Stop::Nothing || is_kept(view, *stop))
        .count();
    let missing = (want.nodes_min as usize).saturating_sub(ready);
    let mut busy: Vec<Busy<'_>> = found
        .iter()
        .filter(|(_, stop, _)| matches!(stop, Stop::Busy | Stop::Resting | Stop::Shape))
        .filter(|(view, stop, _)| !is_kept(view, *stop))
        .map(|(view, stop, _)| comes_free(want, (view, *stop), known))
        .collect();
    // Stable: nodes that come free at the same moment stay in their order. What has no end comes last.
    busy.sort_by_key(|node| node.until.unwrap_or(Millis(u64::MAX)));
    let enough = match missing {
        0 => None,
        missing => busy.get(missing - 1).and_then(|node| node.until),
    };
    busy.truncate(missing.max(1));
    if enough.is_none() && missing > 0 {
        busy.sort_by_key(|node| node.until.is_some());
    }
    let shown = busy.iter().take(NODES_MAX);
    Returns {
        releases: shown.flat_map(|node| releases(want, node)).collect(),
        enough: enough.filter(|_| !want.spreads),
    }
}

/// Lets the jobs of a node end one by one, soonest first, until the wanted part is free.
fn comes_free<'a>(
    want: &Want<'_>,
    (view, stop): (&'a NodeView, Stop),
    known: &Known<'a>,
) -> Busy<'a> {
    let node = &view.node;
    let all = want.exclusive || stop == Stop::Shape;
    let rows = node.jobs.iter().filter_map(|id| (known.job)(*id));
    let mut holders: Vec<Holder<'a>> = rows
        .filter_map(|job| {
            let held = job.nodes.iter().find(|held| held.share.node == node.id)?;
            let runs = job.state == JobState::Running;
            let amount = Amount::of_share(node, want.model, &held.share);
            // What another partition's job gives back is none of what this one may give.
            let own = want.cap.map(|(_, name)| job.spec.partition == name);
            let allowed = own.map(|own| if own { amount.cpus } else { 0 });
            Some(Holder {
                job,
                amount: amount.capped(allowed),
                until: job.ended.filter(|_| runs),
                cleaning: !runs,
            })
        })
        .collect();
    holders.sort_by_key(|holder| match (holder.cleaning, holder.until) {
        (true, _) => Millis(0),
        (false, until) => until.unwrap_or(Millis(u64::MAX)),
    });
    let mut free = free_of(want, view, known);
    let lacking = want.lacking(&free);
    let rest = rests_until(view).unwrap_or(known.at);
    let (mut needed, mut until) = (0, Some(rest.max(known.at)));
    for holder in &holders {
        if !all && want.lacks(&free).is_none() {
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
        lacking,
        holders,
    }
}

fn releases(want: &Want<'_>, node: &Busy<'_>) -> Vec<Release> {
    let useful = node.holders.iter().filter_map(|holder| {
        Some(Release {
            node: node.view.node.name.clone(),
            job: holder.job.id,
            user: holder.job.spec.owner.user.clone(),
            gives: want.gives(&holder.amount, node.lacking)?,
            until: holder.until,
            cleaning: holder.cleaning,
        })
    });
    let mut useful: Vec<Release> = useful.collect();
    if node.until.is_none() {
        useful.sort_by_key(|release| release.until.is_some());
    }
    useful.truncate(JOBS_MAX);
    useful
}
