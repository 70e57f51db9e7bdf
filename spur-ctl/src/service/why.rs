//! Why jobs wait and when they may start: worked out by the one who asks, from the published view, so that the writer is not asked
//! and a planning pass need not touch every job.

use super::refuse;
use crate::readers::View;
use spur_core::api::{
    Caller, Explanation, JobView, NodeView, Refusal, RefusalKind, Reply, StartBasis, StartEstimate,
};
use spur_core::id::JobId;
use spur_core::job::state::{JobState, Reason};
use spur_core::partition::Partition;
use spur_core::plan::outlook::{Asked, Basis, Expected, Rank};
use spur_core::plan::why::{self, Known, Room};
use spur_core::time::Millis;
use spur_core::topology::TopologyPlugin;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Explains a job that waits: whole to its owner and to operators, to others as far as `squeue` shows it.
pub(super) fn explain(
    view: &View,
    caller: &Caller,
    job: JobId,
    at: Millis,
) -> Result<Reply, Refusal> {
    let row = view
        .job(job)
        .ok_or_else(|| refuse(RefusalKind::InvalidJobId, job.to_string()))?;
    let row = Filler::new(view, at, true).fill(row);
    let nodes = in_order(view);
    let planned = view.planned(Some(job));
    let known = Known {
        at,
        partition: partition_of(view, &row),
        nodes: &nodes,
        job: &|id| view.job(id).map(|row| &**row),
        ahead: ahead(view, &row, at),
        expected: row.expected.clone(),
        held_back: &|node| planned.contains(&node.node.id),
        network: has_network(view),
    };
    let whole = why::explain(&row, &known)
        .ok_or_else(|| refuse(RefusalKind::JobNotPending, job.to_string()))?;
    let own = caller.operator || row.spec.owner.uid == caller.uid;
    let told = if own { whole } else { outside(whole) };
    Ok(Reply::Explanation(Box::new(told)))
}

fn partition_of<'v>(view: &'v View, row: &JobView) -> Option<&'v Partition> {
    let mut all = view.partitions.iter();
    all.find(|partition| partition.name == row.spec.partition)
}

/// Whether nodes hang on switches or are in blocks.
fn has_network(view: &View) -> bool {
    view.topology.plugin != TopologyPlugin::None
}

/// What everybody may know: the reason, the place in the queue, the expected start.
fn outside(whole: Explanation) -> Explanation {
    Explanation {
        cause: "its owner and operators are told more".to_owned(),
        need: String::new(),
        stopped: Vec::new(),
        releases: Vec::new(),
        by_limits: None,
        advice: Vec::new(),
        blocked: None,
        ..whole
    }
}

/// Nodes by name, as people read them.
fn in_order(view: &View) -> Vec<&NodeView> {
    let mut nodes: Vec<&NodeView> = view.nodes.iter().map(|row| &**row).collect();
    nodes.sort_by(|a, b| why::natural(a.node.name.as_str(), b.node.name.as_str()));
    nodes
}

/// Waiting jobs of the same partition with a higher priority, or the same and earlier.
fn ahead(view: &View, job: &JobView, at: Millis) -> u32 {
    let key = |row: &JobView| (Reverse(row.priority), row.spec.nice, row.due, row.id);
    let own = key(job);
    let before = view.jobs.iter().filter(|row| {
        row.state == JobState::Pending
            && row.priority > 0
            && row.spec.partition == job.spec.partition
            && row.eligible <= at
            && key(row) < own
    });
    u32::try_from(before.count()).unwrap_or(u32::MAX)
}

/// Most different needs in one answer for which it is worked out when there is room; an estimate for more than these goes by the queue
/// alone.
const NEEDS_MAX: usize = 32;

/// Fills in rows what only the one who answers can.
pub(super) struct Filler<'v> {
    view: &'v View,
    at: Millis,
    estimates: bool,
    nodes: Vec<&'v NodeView>,
    rooms: BTreeMap<String, Room>,
    /// Of all waiting jobs, once an estimate is asked for.
    ranks: Option<BTreeMap<JobId, Rank>>,
}

fn asked(row: &JobView) -> Asked<'_> {
    Asked {
        job: row.id,
        spec: &row.spec,
        priority: row.priority,
        eligible: row.eligible,
        due: row.due,
        rank: None,
    }
}

impl<'v> Filler<'v> {
    /// With or without expected starts.
    pub(super) fn new(view: &'v View, at: Millis, estimates: bool) -> Self {
        Self {
            view,
            at,
            estimates,
            nodes: if estimates {
                in_order(view)
            } else {
                Vec::new()
            },
            rooms: BTreeMap::new(),
            ranks: None,
        }
    }

    /// The row, or one with more in it.
    pub(super) fn fill(&mut self, row: &Arc<JobView>) -> Arc<JobView> {
        if row.state != JobState::Pending {
            return Arc::clone(row);
        }
        let unavailable = if row.reason == Reason::ReqNodeNotAvail {
            why::unavailable(row, |name| self.view.node_named(name))
        } else {
            Vec::new()
        };
        let expected = if self.estimates {
            self.expected(row)
        } else {
            None
        };
        if unavailable.is_empty() && expected.is_none() {
            return Arc::clone(row);
        }
        Arc::new(JobView {
            unavailable,
            expected,
            written: row.written.shared(),
            ..JobView::clone(row)
        })
    }

    /// When a job is expected to start; `None` before the first pass, and for a job that waits for something else than room.
    fn expected(&mut self, row: &JobView) -> Option<StartEstimate> {
        let view = self.view;
        if row.priority == 0 || why::is_kept(row.reason) || view.outlook.at == Millis::default() {
            return None;
        }
        let Expected {
            start,
            basis,
            nodes,
        } = view.outlook.expected(&Asked {
            rank: self.rank(row.id),
            ..asked(row)
        });
        let (start, basis) = match (start, basis) {
            (Some(start), Basis::Estimated) => match self.room(row) {
                Room::Now => (Some(start), StartBasis::Estimated),
                Room::By(at) => (Some(start.max(at)), StartBasis::Estimated),
                Room::Unknown => (None, StartBasis::Never),
            },
            (start, Basis::Estimated) => (start, StartBasis::Estimated),
            (start, Basis::Reserved) => (start, StartBasis::Reserved),
            // What the planner counts has no room for it: nodes that rest will take jobs again.
            (start, Basis::Never) => match self.room(row) {
                Room::By(at) => (Some(at.max(row.eligible)), StartBasis::Estimated),
                Room::Now | Room::Unknown => (start, StartBasis::Never),
            },
        };
        let rows = nodes.iter().filter_map(|id| view.node(*id));
        Some(StartEstimate {
            start,
            basis,
            nodes: rows.map(|row| row.node.name.clone()).collect(),
        })
    }

    /// Where a job stands among those that the planner's summary does not tell from it.
    fn rank(&mut self, job: JobId) -> Option<Rank> {
        let view = self.view;
        let ranks = self.ranks.get_or_insert_with(|| {
            let rows = view.jobs.iter();
            let waits = |row: &&Arc<JobView>| row.state == JobState::Pending && row.priority > 0;
            view.outlook.ranks(rows.filter(waits).map(|row| asked(row)))
        });
        ranks.get(&job).copied()
    }

    /// Sums of what is free over all nodes tell nothing of a job that needs it on one: when that will be.
    fn room(&mut self, row: &JobView) -> Room {
        let needs = why::needs(row);
        if let Some(room) = self.rooms.get(&needs) {
            return *room;
        }
        if self.rooms.len() >= NEEDS_MAX {
            return Room::Now;
        }
        let view = self.view;
        let known = Known {
            at: self.at,
            partition: partition_of(view, row),
            nodes: &self.nodes,
            job: &|id| view.job(id).map(|row| &**row),
            ahead: 0,
            expected: None,
            held_back: &|_| false,
            network: has_network(view),
        };
        let room = why::room(row, &known);
        self.rooms.insert(needs, room);
        room
    }
}
