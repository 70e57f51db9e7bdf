//! Questions that the published view answers.

use super::counts::Counts;
use super::{Service, refuse};
use crate::readers::View;
use crate::readers::rows::Chunk;
use crate::usage::Usage;
use spur_core::api::{
    Caller, JobFilter, JobLines, JobView, LicenseView, LinesMaker, NodeView, Refusal, RefusalKind,
    Reply, Stats,
};
use spur_core::id::JobId;
use spur_core::job::licenses::Licenses;
use spur_core::job::state::{JobState, Reason};
use spur_core::manage::Setting;
use spur_core::manage::reservation::Reservation;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Service {
    /// What the configuration says.
    pub(super) fn configuration(&self, view: &View) -> Reply {
        let mut shown = self.settings.shown.clone();
        let last = view.jobs.iter().last().map_or(0, |job| job.id.0);
        shown.push(Setting {
            key: "next_job".to_owned(),
            value: last.saturating_add(1).to_string(),
        });
        Reply::Configuration(shown)
    }

    /// It lives.
    pub(super) fn pong(&self, view: &View) -> Reply {
        Reply::Pong {
            cluster: view.cluster.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: self.host.clone(),
            started: self.started,
        }
    }
}

/// One job that does not exist is an error, as in Slurm; of several, those that exist are listed.
pub(super) fn jobs(view: &View, caller: &Caller, filter: &JobFilter) -> Result<Reply, Refusal> {
    let mut filler = super::why::Filler::new(view, crate::driver::now(), filter.estimates);
    let shown_to = |row: &Arc<JobView>| shown_to(caller, &filler.fill(row));
    let hidden = hidden(view, caller, filter);
    let listed = |row: &&Arc<JobView>| !hidden.contains(&row.spec.partition.as_str());
    if filter.names_none() {
        return Ok(Reply::Jobs(
            view.jobs
                .iter()
                .filter(|row| filter.matches(row))
                .filter(listed)
                .map(shown_to)
                .collect(),
        ));
    }
    let named = named(view, filter);
    if let (true, Some(only)) = (named.is_empty(), the_only_one(filter)) {
        return Err(refuse(RefusalKind::InvalidJobId, only));
    }
    // A job that is named is listed though it has ended, unless states are asked for.
    let rest = JobFilter {
        ids: Vec::new(),
        targets: Vec::new(),
        all_states: filter.all_states || filter.states.is_empty(),
        ..filter.clone()
    };
    let shown = named.into_values().filter(|row| rest.matches(row));
    let shown = shown.filter(listed);
    Ok(Reply::Jobs(shown.map(shown_to).collect()))
}

/// Jobs as short lines; of numbers that no job has, none.
pub(super) fn lines(view: &View, caller: &Caller, filter: &JobFilter, folded: bool) -> Reply {
    let hidden = hidden(view, caller, filter);
    let meant =
        |row: &&Arc<JobView>| filter.matches(row) && !hidden.contains(&row.spec.partition.as_str());
    let mut lines = LinesMaker::new();
    if hidden.is_empty() && filter.asks_for_the_usual() {
        let chunks = view.jobs.chunks();
        chunks.for_each(|chunk| lines.append(chunk.kept(usual)));
    } else if filter.names_none() {
        let all = view.jobs.iter().filter(meant);
        all.for_each(|row| lines.push(row, None));
    } else {
        let all = named(view, filter).into_values().filter(meant);
        all.for_each(|row| lines.push(row, None));
    }
    add_outlook(view, &mut lines);
    let mut lines = lines.done();
    if folded {
        lines.fold();
    }
    Reply::JobLines(Box::new(lines))
}

/// What lists show of a chunk unless they are asked for other jobs.
fn usual(chunk: &Chunk<JobView, JobLines>) -> JobLines {
    let mut lines = LinesMaker::new();
    let usual = JobFilter::default();
    let rows = chunk.rows().filter(|row| usual.matches(row));
    rows.for_each(|row| lines.push(row, None));
    let mut lines = lines.done();
    lines.fold();
    lines
}

/// What is not in the rows themselves: reserved starts, and nodes that jobs wait for.
fn add_outlook(view: &View, lines: &mut LinesMaker) {
    for (job, reserved) in &view.outlook.reserved {
        if let (Some(row), Some(start)) = (view.job(*job), reserved.known_start()) {
            lines.expect(*job, start.max(row.eligible));
        }
    }
    let mut filler = super::why::Filler::new(view, crate::driver::now(), false);
    let waits = lines.with_reason(Reason::ReqNodeNotAvail);
    for row in waits.into_iter().filter_map(|job| view.job(job)) {
        lines.note_unavailable(&filler.fill(row));
    }
}

/// Partitions whose jobs the caller does not see: operators see all.
fn hidden<'v>(view: &'v View, caller: &Caller, filter: &JobFilter) -> Vec<&'v str> {
    if !filter.visible || caller.operator {
        return Vec::new();
    }
    let hidden = view.partitions.iter().filter(|known| known.hidden);
    hidden.map(|known| known.name.as_str()).collect()
}

/// The rows of jobs and tasks that are named by number, in order of number.
fn named<'v>(view: &'v View, filter: &JobFilter) -> BTreeMap<JobId, &'v Arc<JobView>> {
    let ids = filter.ids.iter().flat_map(|job| view.records(*job));
    let targets = filter.targets.iter().flat_map(|target| {
        let meant = |row: &&Arc<JobView>| target.means(row);
        view.records(target.job).filter(meant)
    });
    ids.chain(targets).map(|row| (row.id, row)).collect()
}

/// What is named, if it is one thing.
fn the_only_one(filter: &JobFilter) -> Option<String> {
    match (filter.ids.as_slice(), filter.targets.as_slice()) {
        ([only], []) => Some(only.to_string()),
        ([], [only]) => Some(only.to_string()),
        (_, _) => None,
    }
}

/// A row as the caller may see it: how well a job uses its GPUs is its owner's and the operators' business.
pub(super) fn shown_to(caller: &Caller, row: &Arc<JobView>) -> Arc<JobView> {
    if row.idle.is_empty() || caller.operator || row.spec.owner.uid == caller.uid {
        return Arc::clone(row);
    }
    Arc::new(JobView {
        idle: Vec::new(),
        ..JobView::clone(row)
    })
}

/// Nodes, with those marked on which devices are reserved for a waiting job.
pub(super) fn nodes(view: &View) -> Reply {
    let planned = view.planned(None);
    let now = crate::driver::now();
    let active = view
        .reservations
        .iter()
        .filter(|known| known.is_active(now));
    let active: Vec<&Reservation> = active.collect();
    let shown = |row: &Arc<NodeView>| {
        let holding = active
            .iter()
            .filter(|known| known.nodes.contains(&row.node.name));
        let planned = planned.contains(&row.node.id);
        let reservations: Vec<String> = holding.clone().map(|known| known.name.clone()).collect();
        if !planned && reservations.is_empty() {
            return Arc::clone(row);
        }
        Arc::new(NodeView {
            planned,
            reservations,
            maintenance: holding.clone().any(|known| known.has("MAINT")),
            ..NodeView::clone(row)
        })
    };
    Reply::Nodes(view.nodes.iter().map(shown).collect())
}

pub(super) fn partitions(view: &View) -> Reply {
    Reply::Partitions(view.partitions.to_vec())
}

/// Licenses, by name. Those that jobs hold and that are configured no more are left out.
pub(super) fn licenses(view: &View) -> Reply {
    let mut used = Licenses::default();
    let holds = |job: &&Arc<JobView>| matches!(job.state, JobState::Running | JobState::Suspended);
    for job in view.jobs.iter().filter(holds) {
        used.add(&job.spec.licenses());
    }
    let each = view.licenses.iter().map(|(name, total)| LicenseView {
        name: name.to_owned(),
        total,
        used: used.count(name),
    });
    Reply::Licenses(each.collect())
}

pub(super) fn topology(view: &View) -> Reply {
    Reply::Topology(view.topology.as_ref().clone())
}

pub(super) fn stats(view: &View, usage: &Usage, counts: &Counts) -> Reply {
    let mut stats = Stats {
        rss_kib: resident_kib(),
        ..view.stats.clone()
    };
    usage.count(&mut stats);
    counts.tell(&mut stats);
    Reply::Stats(stats)
}

/// Resident memory of this process.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or(0)
}
