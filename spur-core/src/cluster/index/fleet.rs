//! Nodes as a planning pass reads them: a few words for each, in the order in which people count them.

use crate::cluster::takes_jobs;
use crate::id::{JobId, NodeId, NodeName};
use crate::job::Job;
use crate::job::state::JobState;
use crate::node::Node;
use crate::partition::Partition;
use crate::plan::rooms::natural;
use crate::plan::shape::{DOMAINS, Mask, Shape, mask_of};
use crate::plan::slot::Free;
use crate::plan::timeline::SOMEDAY;
use crate::resources::{IdSet, NodeShare};
use crate::time::Millis;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a job holds on a node, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// When its limit ends it; [`SOMEDAY`] if it has none, or is suspended, the epoch if it has ended and only cleaning up is left.
    pub(crate) until: Millis,
    pub(crate) job: JobId,
    pub(crate) gpus: Mask,
    pub(crate) cpus: [u16; DOMAINS],
    pub(crate) memory: u64,
}

/// A node.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    shape: ShapeId,
    /// Whether it may be given jobs at all.
    pub(crate) takes: bool,
    /// Lower ones are used first.
    pub(crate) weight: u32,
    /// Partitions that it is in, by position; those from [`MOST_PARTITIONS`] on are not told.
    pub(crate) partitions: u128,
    /// GPUs that must not be granted.
    pub(crate) sick: Mask,
    pub(crate) free: Free,
    /// What jobs hold here, by end, then number.
    pub(crate) holds: Vec<Hold>,
}

/// Partitions of which rows tell who is in them.
pub(crate) const MOST_PARTITIONS: usize = u128::BITS as usize;

/// A shape's number: of no meaning outside one index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ShapeId(usize);

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fleet {
    /// By [`NodeId`], which are dense.
    rows: Vec<Option<Row>>,
    /// In order of names.
    order: Vec<(NodeName, NodeId)>,
    shapes: Shapes,
    /// Partitions of nodes that are named by one.
    named: BTreeMap<NodeName, u128>,
    /// Partitions of all nodes.
    open: u128,
}

impl Fleet {
    /// Notes who is in which partition; before any node is set.
    pub(super) fn configure(&mut self, partitions: &[Partition]) {
        for (partition, at) in partitions.iter().zip(0..MOST_PARTITIONS) {
            match &partition.nodes {
                None => self.open |= 1 << at,
                Some(names) => {
                    for name in names {
                        *self.named.entry(name.clone()).or_default() |= 1 << at;
                    }
                }
            }
        }
    }

    /// Brings a node's row up to date.
    pub(super) fn set(&mut self, (node, weight): (&Node, u32), jobs: &BTreeMap<JobId, Job>) {
        let at = node.id.0 as usize;
        if self.rows.len() <= at {
            self.rows.resize_with(at + 1, || None);
        }
        let known = self.rows[at].as_ref().map(|row| row.shape);
        if known.is_none() {
            let place = self
                .order
                .partition_point(|(name, _)| natural(name.as_str(), node.name.as_str()).is_lt());
            self.order.insert(place, (node.name.clone(), node.id));
        }
        let shape = self.shapes.of(node, known);
        let holds = node.jobs.iter().filter_map(|job| jobs.get(job));
        let holds = holds.filter_map(|job| hold(self.shapes.get(shape), job, node.id));
        let mut holds: Vec<Hold> = holds.collect();
        holds.sort_by_key(|hold| (hold.until, hold.job));
        self.rows[at] = Some(Row {
            shape,
            takes: takes_jobs(node),
            partitions: self.open | self.named.get(&node.name).copied().unwrap_or(0),
            weight,
            sick: mask_of(&node.gpus_sick),
            free: Free::now(self.shapes.get(shape), node),
            holds,
        });
    }

    /// A node's row.
    pub(crate) fn row(&self, node: NodeId) -> Option<&Row> {
        self.rows.get(node.0 as usize)?.as_ref()
    }

    /// A node's shape.
    pub(crate) fn shape(&self, node: NodeId) -> Option<&Shape> {
        self.row(node).map(|row| self.shapes.get(row.shape))
    }

    /// The place of every node in that order.
    pub(crate) fn ranks(&self) -> BTreeMap<NodeId, usize> {
        let ids = self.order.iter().map(|(_, id)| *id);
        ids.zip(0..).collect()
    }

    /// All nodes, in order of their names as people count.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (NodeId, &Row, &Shape)> {
        self.order.iter().filter_map(|(_, id)| {
            let row = self.row(*id)?;
            Some((*id, row, self.shapes.get(row.shape)))
        })
    }
}

/// Numbers of shapes differ with history; what they stand for does not.
impl PartialEq for Fleet {
    fn eq(&self, other: &Self) -> bool {
        let same = |((a, mine, shape), (b, theirs, other)): (
            (NodeId, &Row, &Shape),
            (NodeId, &Row, &Shape),
        )| {
            a == b
                && mine.takes == theirs.takes
                && mine.partitions == theirs.partitions
                && mine.weight == theirs.weight
                && mine.sick == theirs.sick
                && mine.free == theirs.free
                && mine.holds == theirs.holds
                && shape == other
        };
        self.order == other.order && self.nodes().zip(other.nodes()).all(same)
    }
}

impl Eq for Fleet {}

/// What a job holds on a node: of its allocation or, once that has ended, what is not cleaned up.
fn hold(shape: &Shape, job: &Job, node: NodeId) -> Option<Hold> {
    let runs = job.allocation.iter().find(|share| share.node == node);
    let (share, until): (&NodeShare, Millis) = match runs {
        Some(share) if matches!(job.state, JobState::Running | JobState::Suspended) => {
            (share, job.ended.unwrap_or(SOMEDAY))
        }
        Some(_) | None => (&job.leftovers.get(&node)?.share, Millis(0)),
    };
    let all = shape.cpus_without(&IdSet::new());
    let mut cpus = shape.cpus_without(&share.cpus);
    for (rest, all) in cpus.iter_mut().zip(all) {
        *rest = all - *rest;
    }
    Some(Hold {
        until,
        job: job.id,
        gpus: mask_of(&share.gpus),
        cpus,
        memory: share.memory_mib,
    })
}

/// The shapes of all nodes, each kept once. Their number is small; one that no node has any more is kept until the index is made
/// anew.
#[derive(Clone, Debug, Default)]
struct Shapes {
    ids: BTreeMap<Arc<Shape>, usize>,
    all: Vec<Arc<Shape>>,
}

impl Shapes {
    /// The shape of a node, which had the known one before.
    fn of(&mut self, node: &Node, known: Option<ShapeId>) -> ShapeId {
        if let Some(id) = known.filter(|id| self.get(*id).is_of(&node.inventory)) {
            return id;
        }
        let shape = Arc::new(Shape::of(&node.inventory));
        let next = self.all.len();
        let id = *self.ids.entry(Arc::clone(&shape)).or_insert(next);
        if id == next {
            self.all.push(shape);
        }
        ShapeId(id)
    }

    fn get(&self, id: ShapeId) -> &Shape {
        &self.all[id.0]
    }
}
